// The dispatch check as a port: a function of an embedding program, or an HTTP service behind one.
import type { DispatchAnswer, DispatchJob } from "../domain/dispatch.ts";

/**
 * Says whether workers may have a job of high risk. It may take its time: it is asked by one process at a time, under the job's
 * lock. The signal is aborted when its time is up or the lock is lost: what it says then counts no more. Whatever it throws is
 * trouble, never a verdict: the job stays held and the check is asked again.
 */
export type DispatchCheck = (
  job: DispatchJob,
  options: { readonly signal: AbortSignal },
) => Promise<DispatchAnswer>;
