// The span of a job that a worker is given: what the worker does becomes a child of it.
import type { TenantId } from "../../domain/tenant.ts";
import type { Ports } from "../../ports/ports.ts";
import type { ClaimedJob } from "../control-api.ts";

/** The same job while nobody records spans. A poll that is repeated gets the same batch, with the same spans. */
export function traceClaim(
  { tracer }: Pick<Ports, "tracer">,
  tenant: TenantId,
  claimed: ClaimedJob,
): ClaimedJob {
  const { runId, step, attempt, topic, traceparent, createdAtMs, claim } = claimed.job;
  const span = tracer.startSpan(`job ${topic}`, "producer", traceparent);
  if (span === undefined) return claimed;
  // Both by the store's clock.
  const waitedMs = Math.max(0, (claim?.claimedAtMs ?? createdAtMs) - createdAtMs);
  span.note({ tenant, run: runId, step, attempt, topic, waitedMs });
  span.end();
  return { ...claimed, traceparent: span.traceparent };
}

/** What the worker receives: the span of this claim, or what came with the run. */
export function traceparentOf({ traceparent, job }: ClaimedJob): string | undefined {
  return traceparent ?? job.traceparent;
}
