// All results at once over the bus of an instance inside, and every try of each as the store sees it.
import type { OperationName, RequestOf } from "../../ports/store.ts";
import { runtime } from "../../sdk/runtime.ts";
import { type ClaimedRun, publish } from "../locks/claimed-run.ts";
import type { Inside } from "../target/target.ts";
import { emptyTries, type Reporting, type Tries } from "./tries.ts";

/** Resolves when the run has ended, or the time is over. */
export async function reportOverBus(
  inside: Inside,
  { results }: ClaimedRun,
  { tenant, withinMs, signal }: Reporting,
): Promise<Tries> {
  const startedMs = runtime.now().monotonicMs;
  const nowMs = () => runtime.now().monotonicMs - startedMs;
  const tries = emptyTries(results.map(({ jobId }) => jobId));
  const lockWaitsMs: number[] = [];
  const ended = new AbortController();
  let endedMs: number | undefined;
  const unwatchStore = inside.watchStore({
    sent: (name, request) => void tries.get(jobOf(name, request))?.sentMs.push(nowMs()),
    answered(name, request, answer) {
      const result = tries.get(jobOf(name, request));
      if (result === undefined) return;
      if (answer.kind === "run_busy") result.busyMs.push(nowMs());
      else if (answer.kind === "delivered" || answer.kind === "applied") result.durableMs ??= nowMs();
    },
  });
  const unwatchMetrics = inside.watchMetrics({
    count(name) {
      if (name !== "runs_ended_total") return;
      endedMs = nowMs();
      ended.abort();
    },
    observe(name, _labels, value) {
      if (name === "run_lock_wait_seconds") lockWaitsMs.push(value * 1_000);
    },
  });
  try {
    await Promise.all(results.map((result) => publish(inside, tenant, result)));
    await runtime.sleep(withinMs, AbortSignal.any([ended.signal, signal]));
    signal.throwIfAborted();
  } finally {
    unwatchStore();
    unwatchMetrics();
  }
  return { results: tries, endedMs, lockWaitsMs };
}

/** Empty when the call brings no result. */
function jobOf<Name extends OperationName>(name: Name, request: RequestOf<Name>): string {
  if (name !== "deliver") return "";
  const { entry } = request as RequestOf<"deliver">;
  return entry.kind === "result" ? entry.jobId : "";
}
