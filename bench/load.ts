// Two ways to put load on something: all at once, and a fixed number always under way.
import { setMaxListeners } from "node:events";

export type Timed<Answer> = { readonly answer: Answer; readonly ms: number };

export type Burst<Answer> = {
  readonly answers: readonly Timed<Answer>[];
  /** The part of the burst during which this process was computing, not waiting: near 1 it was the bottleneck itself. */
  readonly loopBusyShare: number;
};

/** Every time counts from the one moment at which all are fired: a request does not wait less for being called later. */
export async function burst<Request, Answer>(
  requests: readonly Request[],
  send: (request: Request) => Promise<Answer>,
): Promise<Burst<Answer>> {
  const before = performance.eventLoopUtilization();
  const startMs = performance.now();
  const answers = await Promise.all(
    requests.map(async (request) => {
      const answer = await send(request);
      return { answer, ms: performance.now() - startMs };
    }),
  );
  return { answers, loopBusyShare: performance.eventLoopUtilization(before).utilization };
}

export type ClosedLoop = { readonly inFlight: number; readonly durationMs: number };

/**
 * Successes per second. `send` says whether it succeeded. Its signal is aborted when time is up; what succeeds after that
 * does not count.
 */
export async function closedLoop(
  { inFlight, durationMs }: ClosedLoop,
  send: (signal: AbortSignal) => Promise<"succeeded" | "failed">,
): Promise<number> {
  const over = new AbortController();
  // Everyone under way listens to the same signal.
  setMaxListeners(0, over.signal);
  const startMs = performance.now();
  let successes = 0;
  const repeat = async () => {
    while (!over.signal.aborted) {
      const outcome = await send(over.signal);
      if (performance.now() - startMs >= durationMs) over.abort();
      else if (outcome === "succeeded") successes += 1;
    }
  };
  // The timer is for senders that wait long: without it, the first one to notice the end may come late.
  const timer = setTimeout(() => over.abort(), durationMs);
  await Promise.all(Array.from({ length: inFlight }, repeat));
  clearTimeout(timer);
  return (successes / durationMs) * 1000;
}
