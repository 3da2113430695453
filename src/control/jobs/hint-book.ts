// Jobs that nobody has claimed, as far as this process has heard of them, by tenant, topic and what they ask of a worker.
import type { JobHint, JobId } from "../../domain/job.ts";
import type { TenantId } from "../../domain/tenant.ts";

/** Jobs of one topic that ask for the same: whoever can do one can do them all. */
export type HintGroup = {
  readonly requires: string | undefined;
  readonly size: number;
  /** Oldest first; thousands may wait, so they are looked at one by one. */
  readonly hints: Iterable<JobHint>;
};

export type HintBook = {
  learn(tenant: TenantId, hint: JobHint): void;
  forget(tenant: TenantId, hint: JobHint): void;
  /** The group whose oldest job waits longest comes first. */
  groups(tenant: TenantId, topic: string): readonly HintGroup[];
};

type Topic = Map<string | undefined, Map<JobId, JobHint>>;

export function createHintBook(hintsMax: number): HintBook {
  const topics = new Map<string, Topic>();
  let total = 0;
  const keyOf = (tenant: TenantId, topic: string) => `${tenant} ${topic}`;

  /** Forgets the topic known longest: the store lists its jobs to the next poll, and the sweep names them again. */
  function forgetAnother(key: string): boolean {
    for (const [other, groups] of topics) {
      if (other === key) continue;
      for (const waiting of groups.values()) total -= waiting.size;
      topics.delete(other);
      return true;
    }
    return false;
  }

  return {
    learn(tenant, hint) {
      const key = keyOf(tenant, hint.topic);
      const groups: Topic = topics.get(key) ?? new Map();
      const waiting = groups.get(hint.requires) ?? new Map<JobId, JobHint>();
      if (waiting.has(hint.jobId)) return;
      // Nobody's backlog may keep the jobs of others from their workers: another topic gives way.
      if (total >= hintsMax && !forgetAnother(key)) return;
      total += 1;
      topics.set(key, groups.set(hint.requires, waiting.set(hint.jobId, hint)));
    },
    forget(tenant, { jobId, topic, requires }) {
      const key = keyOf(tenant, topic);
      const groups = topics.get(key);
      const waiting = groups?.get(requires);
      if (groups === undefined || waiting?.delete(jobId) !== true) return;
      total -= 1;
      if (waiting.size === 0) groups.delete(requires);
      if (groups.size === 0) topics.delete(key);
    },
    groups(tenant, topic) {
      const groups = [...(topics.get(keyOf(tenant, topic)) ?? [])].map(([requires, waiting]) => {
        const [oldest] = waiting.values();
        const sinceMs = oldest?.createdAtMs ?? 0;
        return { requires, size: waiting.size, hints: waiting.values(), sinceMs };
      });
      return groups.sort((left, right) => left.sinceMs - right.sinceMs);
    },
  };
}
