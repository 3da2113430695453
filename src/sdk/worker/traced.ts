// The trace that requests about jobs belong to: one for the request, where all its jobs have the same.
import type { ClaimedJob } from "./job.ts";

type Traced = { readonly claim: Pick<ClaimedJob, "traceparent"> };

/** The header's value; undefined for jobs without one, and where they differ. */
export function commonTraceparent(jobs: readonly Traced[]): string | undefined {
  const first = jobs[0]?.claim.traceparent;
  return jobs.every(({ claim }) => claim.traceparent === first) ? first : undefined;
}

export function traceHeaders(traceparent: string | undefined) {
  return traceparent === undefined ? {} : { headers: { traceparent } };
}
