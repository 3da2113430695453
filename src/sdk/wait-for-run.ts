// Waits for the end of a run: by its event stream, or by polling where streams do not get through.
import type { Line } from "./call.ts";
import type { Caller } from "./caller.ts";
import { InterlockApiError, InterlockConnectionError } from "./client-errors.ts";
import type { Success } from "./contract.ts";
import { followRun } from "./follow.ts";

export type Run = Success<"getRun">;

export type WaitOptions = {
  /** Rejects with a `WaitTimeout` after this long; without it the wait has no end of its own. */
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
};

/** The run goes on; only the wait is over. */
export class WaitTimeout extends Error {
  readonly runId: string;
  /** As it was last seen, if it was. */
  readonly run: Run | undefined;

  constructor(runId: string, run: Run | undefined, timeoutMs: number) {
    const state = run === undefined ? "has not been seen" : `is ${run.status}`;
    super(`run ${runId} ${state} after ${timeoutMs} ms of waiting; "why" tells what it waits for`);
    this.name = "WaitTimeout";
    this.runId = runId;
    this.run = run;
  }
}

const endings = ["succeeded", "failed", "denied", "cancelled", "timed_out"] as const;

export function hasEnded(run: { readonly status: string }): boolean {
  return (endings as readonly string[]).includes(run.status);
}

export async function waitForRun(
  line: Line,
  caller: Caller,
  runId: string,
  { timeoutMs, signal }: WaitOptions = {},
): Promise<Run> {
  const { runtime } = line.connection;
  const late = new AbortController();
  const cancelTimer = timeoutMs === undefined ? () => {} : runtime.timer(timeoutMs, () => late.abort());
  const stop = signal === undefined ? late.signal : AbortSignal.any([signal, late.signal]);
  const seen: { run?: Run } = {};
  try {
    return await untilEnded(line, caller, { runId, signal: stop, seen });
  } catch (error) {
    signal?.throwIfAborted();
    if (late.signal.aborted) throw new WaitTimeout(runId, seen.run, timeoutMs ?? 0);
    throw error;
  } finally {
    cancelTimer();
  }
}

type Wait = { readonly runId: string; readonly signal: AbortSignal; readonly seen: { run?: Run } };

const firstPauseMs = 250;
const pauseMsMax = 5_000;

/** Looks first: most runs that are waited for twice have ended. Then after every end of the stream, whyever it ended. */
async function untilEnded(line: Line, caller: Caller, wait: Wait): Promise<Run> {
  const { runtime } = line.connection;
  const { runId, signal, seen } = wait;
  for (let looks = 0; ; looks += 1) {
    seen.run = await caller.call("getRun", { params: { id: runId }, signal });
    if (hasEnded(seen.run)) return seen.run;
    if (looks > 0) {
      const pauseMs = Math.min(pauseMsMax, firstPauseMs * 2 ** Math.min(looks - 1, 10));
      await runtime.sleep(pauseMs * (0.5 + runtime.fraction() / 2), signal);
      signal.throwIfAborted();
    }
    await followToEnd(line, wait);
  }
}

/** However quiet the stream is, the run is looked at this often: something between may hold events back. */
const lookEveryMs = 30_000;

/** Returns early where streams do not get through: too many of them, or a proxy between that does not let them pass. */
async function followToEnd(line: Line, { runId, signal }: Wait): Promise<void> {
  const enough = new AbortController();
  const cancelTimer = line.connection.runtime.timer(lookEveryMs, () => enough.abort());
  try {
    const stop = AbortSignal.any([signal, enough.signal]);
    for await (const event of followRun(line, runId, { signal: stop, retry: { attemptsMax: 1 } })) void event;
  } catch (error) {
    signal.throwIfAborted();
    if (enough.signal.aborted || error instanceof InterlockConnectionError) return;
    if (error instanceof InterlockApiError && error.retryable) return;
    throw error;
  } finally {
    cancelTimer();
  }
}
