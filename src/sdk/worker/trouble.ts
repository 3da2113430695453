// Reports the errors of a worker that have no caller to be thrown to.
import type { Runtime } from "../runtime.ts";
import type { ResultEnd } from "./results.ts";

export type WorkerTrouble =
  /** Another attempt does the work, or will: this one was silent for too long. */
  | { readonly kind: "claim_lost"; readonly jobId: string }
  /** The run was cancelled or goes on without the step. */
  | { readonly kind: "not_wanted"; readonly jobId: string }
  /** The attempt was reported as failed. */
  | { readonly kind: "handler_failed"; readonly jobId: string; readonly error: unknown }
  /** The server has another attempt's result, or wants none. */
  | { readonly kind: "result_refused"; readonly jobId: string; readonly because: string }
  /** No answer until long after the claim had run out. */
  | { readonly kind: "result_given_up"; readonly jobId: string; readonly error: unknown }
  /** A poll or a heartbeat failed; it is repeated. */
  | { readonly kind: "server_unreachable"; readonly error: unknown }
  /** The worker's pool is being drained: no jobs until that ends. */
  | { readonly kind: "draining" }
  | { readonly kind: "not_draining" };

export function troubleOf(end: Exclude<ResultEnd, { kind: "accepted" }>, jobId: string): WorkerTrouble {
  return end.kind === "refused"
    ? { kind: "result_refused", jobId, because: end.because }
    : { kind: "result_given_up", jobId, error: end.error };
}

/** Between two warnings that the server does not answer. */
const quietMs = 30_000;

export function reporterOf(
  runtime: Runtime,
  onTrouble: ((trouble: WorkerTrouble) => void) | undefined,
): (trouble: WorkerTrouble) => void {
  if (onTrouble !== undefined) return onTrouble;
  let quietUntilMs = Number.NEGATIVE_INFINITY;
  return (trouble) => {
    if (trouble.kind === "server_unreachable") {
      const { monotonicMs } = runtime.now();
      if (monotonicMs < quietUntilMs) return;
      quietUntilMs = monotonicMs + quietMs;
    }
    const text = textOf(trouble);
    if (text !== undefined) runtime.warn(text);
  };
}

function textOf(trouble: WorkerTrouble): string | undefined {
  switch (trouble.kind) {
    case "claim_lost":
      return `job ${trouble.jobId}: the claim was lost, another attempt does the work`;
    case "handler_failed":
      return `job ${trouble.jobId}: the handler failed: ${String(trouble.error)}`;
    case "result_refused":
      return `job ${trouble.jobId}: the result was refused: ${trouble.because}`;
    case "result_given_up":
      return `job ${trouble.jobId}: the result could not be reported: ${String(trouble.error)}`;
    case "server_unreachable":
      return `the server does not answer: ${String(trouble.error)}`;
    case "not_wanted":
    case "draining":
    case "not_draining":
      return undefined;
  }
}
