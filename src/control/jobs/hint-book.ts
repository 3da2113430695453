// Jobs that nobody has claimed, as far as this process has heard of them, by tenant and topic.
import type { JobHint, JobId } from "../../domain/job.ts";
import type { TenantId } from "../../domain/tenant.ts";

export type HintBook = {
  learn(tenant: TenantId, hint: JobHint): void;
  forget(tenant: TenantId, hint: JobHint): void;
  of(tenant: TenantId, topic: string): readonly JobHint[];
  count(tenant: TenantId, topic: string): number;
};

export function createHintBook(hintsMax: number): HintBook {
  const hints = new Map<string, Map<JobId, JobHint>>();
  let total = 0;
  const keyOf = (tenant: TenantId, topic: string) => `${tenant} ${topic}`;
  return {
    learn(tenant, hint) {
      const key = keyOf(tenant, hint.topic);
      const waiting = hints.get(key) ?? new Map<JobId, JobHint>();
      // When full it is not remembered: the store lists it to the next poll, and the sweep names it again.
      if (waiting.has(hint.jobId) || total >= hintsMax) return;
      waiting.set(hint.jobId, hint);
      total += 1;
      hints.set(key, waiting);
    },
    forget(tenant, { jobId, topic }) {
      const key = keyOf(tenant, topic);
      const waiting = hints.get(key);
      if (waiting?.delete(jobId) !== true) return;
      total -= 1;
      if (waiting.size === 0) hints.delete(key);
    },
    of: (tenant, topic) => [...(hints.get(keyOf(tenant, topic))?.values() ?? [])],
    count: (tenant, topic) => hints.get(keyOf(tenant, topic))?.size ?? 0,
  };
}
