// One simulated process: its clock, its randomness and everything that can happen to it (pause, crash, a jump of its clock).
import type { CancelTimer, Clock } from "../ports/ports.ts";
import type { Due, Gate, Kernel } from "./kernel.ts";
import type { SeededRandom } from "./seeded-random.ts";

export type SimulatedProcess = {
  readonly name: string;
  readonly clock: Clock;
  readonly random: SeededRandom;
  state(): ProcessState;
  /** Something arrives from outside, as an event of its own: after a pause when paused, never when crashed. */
  deliver(delayMs: number, callback: () => void): CancelTimer;
  /** Stops as by SIGSTOP. What comes due meanwhile happens after the pause, in seeded order: work may run before timers. */
  pause(ms: number): void;
  /** Ends as by SIGKILL: its pending promises never settle, so that no cleanup runs that a real crash would not run. */
  crash(): void;
  /** Sets the wall clock forward, or back when negative; the monotonic clock does not notice. */
  jumpWall(ms: number): void;
};

type ProcessState = "running" | "paused" | "crashed";

export type ProcessOptions = {
  /** How fast both clocks go: 1.05 gains 5 %. */
  readonly clockRate?: number;
  /** How far the wall clock is off at the start. */
  readonly wallOffsetMs?: number;
};

export function startProcess(kernel: Kernel, name: string, options: ProcessOptions): SimulatedProcess {
  return new KernelProcess(kernel, name, options);
}

/** Where every simulation begins: 2026-01-01, 00:00 UTC. */
export const wallEpochMs = 1_767_225_600_000;

class KernelProcess implements SimulatedProcess {
  readonly name: string;
  readonly clock: Clock;
  readonly random: SeededRandom;
  readonly #kernel: Kernel;
  readonly #startedMs: number;
  readonly #clockRate: number;
  #wallOffsetMs: number;
  #crashed = false;
  #pausedUntilMs = 0;
  /** What came due during the pause. */
  #backlog: Due[] = [];
  /** One for all events: two closures for each were 4 % of all memory. */
  readonly #gate: Gate = (due) => this.#arrive(due);

  constructor(kernel: Kernel, name: string, options: ProcessOptions) {
    this.name = name;
    this.random = kernel.random.stream(name);
    this.#kernel = kernel;
    this.#startedMs = kernel.nowMs();
    this.#clockRate = options.clockRate ?? 1;
    this.#wallOffsetMs = options.wallOffsetMs ?? 0;
    this.clock = {
      monotonicMs: () => this.#monotonicMs(),
      wallMs: () => Math.floor(wallEpochMs + this.#startedMs + this.#wallOffsetMs + this.#monotonicMs()),
      sleep: (ms, signal) => this.#sleep(ms, signal),
      timer: (ms, callback) => this.#timer(ms, callback),
      yield: () => new Promise((resolve) => void this.deliver(0, resolve)),
    };
  }

  state(): ProcessState {
    if (this.#crashed) return "crashed";
    return this.#kernel.nowMs() < this.#pausedUntilMs ? "paused" : "running";
  }

  deliver(delayMs: number, callback: () => void): CancelTimer {
    return this.#kernel.after(delayMs, callback, this.#gate);
  }

  pause(ms: number): void {
    const untilMs = this.#kernel.nowMs() + ms;
    if (this.#crashed || untilMs <= this.#pausedUntilMs) return;
    this.#kernel.note(this.name, "paused for", ms);
    this.#pausedUntilMs = untilMs;
    this.#kernel.after(ms, () => this.#resume());
  }

  crash(): void {
    if (this.#crashed) return;
    this.#kernel.note(this.name, "crashed");
    this.#crashed = true;
    this.#backlog = [];
  }

  jumpWall(ms: number): void {
    this.#kernel.note(this.name, "wall clock jumped by", ms);
    this.#wallOffsetMs += ms;
  }

  /** Each waiting event becomes one of its own at this moment: the kernel's tiebreak is the seeded order. */
  #resume(): void {
    if (this.state() !== "running") return;
    this.#kernel.note(this.name, "resumed with", this.#backlog.length);
    const backlog = this.#backlog;
    this.#backlog = [];
    for (const due of backlog) this.#kernel.after(0, () => this.#arrive(due));
  }

  #arrive(due: Due): void {
    if (this.#crashed) return;
    if (this.state() === "paused") this.#backlog.push(due);
    else due.callback();
  }

  #monotonicMs(): number {
    return (this.#kernel.nowMs() - this.#startedMs) * this.#clockRate;
  }

  /** Whole milliseconds and at least one, as Node's timers: a timer may be a fraction early, and 0 is not at once. */
  #timer(ms: number, callback: () => void): CancelTimer {
    return this.deliver(Math.max(1, Math.trunc(ms)) / this.#clockRate, callback);
  }

  #sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve) => {
      if (this.#crashed) return;
      if (signal === undefined) {
        this.#timer(ms, resolve);
        return;
      }
      if (signal.aborted) {
        resolve();
        return;
      }
      const finish = () => {
        cancel();
        signal.removeEventListener("abort", aborted);
        resolve();
      };
      // A signal may be aborted by another process; this one notices when it runs.
      const aborted = () => {
        if (this.state() === "running") finish();
        else this.deliver(0, finish);
      };
      const cancel = this.#timer(ms, finish);
      signal.addEventListener("abort", aborted);
    });
  }
}
