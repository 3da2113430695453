// Time for the flows: monotonic to measure durations, wall only to show people and to notice a suspended machine.
export type Clock = {
  monotonicMs(): number;
  wallMs(): number;
  /** Resolves after `ms`, or at once when the signal is or becomes aborted; never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Calls back once after `ms` unless cancelled. */
  timer(ms: number, callback: () => void): CancelTimer;
  /** Lets other work of this process go first: between slices of work that would hold it up for long. */
  yield(): Promise<void>;
};

export type CancelTimer = () => void;
