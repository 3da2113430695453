// One question to the dispatch check: bounded in time, and whatever is no answer is trouble, never a verdict.
import {
  type DispatchAnswer,
  type DispatchJob,
  readDispatchAnswer,
  shortened,
} from "../../domain/dispatch.ts";
import type { DispatchCheck } from "../../ports/ports.ts";
import type { Engine } from "../engine/engine.ts";

type CheckAnswer =
  | { readonly kind: "answered"; readonly answer: DispatchAnswer }
  | { readonly kind: "trouble"; readonly cause: string };

/** Throws the reason of the signal when that is aborted: then nobody may use an answer any more. */
export async function askCheck(
  { ports, config }: Engine,
  check: DispatchCheck,
  job: DispatchJob,
  signal: AbortSignal,
): Promise<CheckAnswer> {
  const { clock, metrics } = ports;
  const timeoutMs = config["dispatch.checkTimeoutMs"];
  const late = new AbortController();
  const cancel = clock.timer(timeoutMs, () => late.abort(new Error(`no answer within ${timeoutMs} ms`)));
  const startedMs = clock.monotonicMs();
  const answer = await answerOf(check, job, AbortSignal.any([signal, late.signal]));
  cancel();
  metrics.observe("dispatch_check_seconds", {}, (clock.monotonicMs() - startedMs) / 1000);
  const verdict = signal.aborted
    ? "abandoned"
    : answer.kind === "answered"
      ? answer.answer.verdict
      : "failed";
  metrics.count("dispatch_checks_total", { verdict });
  signal.throwIfAborted();
  return answer;
}

/** A check that pays no heed to its signal is left behind. */
async function answerOf(check: DispatchCheck, job: DispatchJob, signal: AbortSignal): Promise<CheckAnswer> {
  let stop = () => {};
  try {
    signal.throwIfAborted();
    const aborted = new Promise<never>((_, reject) => {
      stop = () => reject(signal.reason);
      signal.addEventListener("abort", stop);
    });
    const answer = readDispatchAnswer(await Promise.race([aborted, check(job, { signal })]));
    return answer === undefined
      ? { kind: "trouble", cause: "its answer is none of allow, deny and hold" }
      : { kind: "answered", answer };
  } catch (error) {
    return { kind: "trouble", cause: shortened(error instanceof Error ? error.message : String(error)) };
  } finally {
    signal.removeEventListener("abort", stop);
  }
}
