// Jobs that wait for a worker, as far as this process knows: remembered by tenant, topic and what they require, in bounds.
import type { JobHint, JobId } from "../../domain/job.ts";
import type { TenantId } from "../../domain/tenant.ts";

/** Jobs of one topic with the same requirements: a worker that can do one can do them all. */
export type HintGroup = {
  readonly requires: string | undefined;
  readonly size: number;
  /** Oldest first; thousands may wait, so they are looked at one by one. */
  readonly hints: Iterable<JobHint>;
};

/** Jobs that nobody has claimed, as far as this process knows, by tenant, topic and what they require of a worker. */
type HintBook = {
  learn(tenant: TenantId, hint: JobHint): void;
  /** A job that was taken from here and still waits: its turn comes before that of all others. */
  putBack(tenant: TenantId, hint: JobHint): void;
  forget(tenant: TenantId, hint: JobHint): void;
  has(tenant: TenantId, hint: JobHint): boolean;
  /** The group whose oldest job waits longest comes first. */
  groups(tenant: TenantId, topic: string): readonly HintGroup[];
};

/** Those put back, and the others. */
type Waiting = { readonly back: Map<JobId, JobHint>; readonly line: Map<JobId, JobHint> };
type Topic = Map<string | undefined, Waiting>;

export function createHintBook(hintsMax: number): HintBook {
  const topics = new Map<string, Topic>();
  let total = 0;
  const keyOf = (tenant: TenantId, topic: string) => `${tenant} ${topic}`;

  /** Forgets the topic known longest: the store lists its jobs to the next poll, and the sweep names them again. */
  function forgetAnother(key: string): boolean {
    for (const [other, groups] of topics) {
      if (other === key) continue;
      for (const waiting of groups.values()) total -= sizeOf(waiting);
      topics.delete(other);
      return true;
    }
    return false;
  }

  function add(tenant: TenantId, hint: JobHint, where: keyof Waiting): void {
    const key = keyOf(tenant, hint.topic);
    const groups: Topic = topics.get(key) ?? new Map();
    const waiting = groups.get(hint.requires) ?? { back: new Map(), line: new Map() };
    if (waiting.back.has(hint.jobId)) return;
    if (waiting.line.has(hint.jobId)) {
      // Learnt again while it was claimed: behind younger ones, which a rate lets wait for it.
      if (where === "back" && waiting.line.delete(hint.jobId)) waiting.back.set(hint.jobId, hint);
      return;
    }
    // Nobody's backlog may keep the jobs of others from their workers: another topic gives way.
    if (total >= hintsMax && !forgetAnother(key)) return;
    total += 1;
    waiting[where].set(hint.jobId, hint);
    topics.set(key, groups.set(hint.requires, waiting));
  }

  return {
    learn: (tenant, hint) => add(tenant, hint, "line"),
    putBack: (tenant, hint) => add(tenant, hint, "back"),
    forget(tenant, { jobId, topic, requires }) {
      const key = keyOf(tenant, topic);
      const groups = topics.get(key);
      const waiting = groups?.get(requires);
      if (groups === undefined || waiting === undefined) return;
      if (!waiting.back.delete(jobId) && !waiting.line.delete(jobId)) return;
      total -= 1;
      if (sizeOf(waiting) === 0) groups.delete(requires);
      if (groups.size === 0) topics.delete(key);
    },
    has(tenant, { jobId, topic, requires }) {
      const waiting = topics.get(keyOf(tenant, topic))?.get(requires);
      return waiting !== undefined && (waiting.back.has(jobId) || waiting.line.has(jobId));
    },
    groups(tenant, topic) {
      const groups = [...(topics.get(keyOf(tenant, topic)) ?? [])].map(([requires, waiting]) => {
        const hints = oldestFirst(waiting);
        const [oldest] = oldestFirst(waiting);
        return { requires, size: sizeOf(waiting), hints, sinceMs: oldest?.createdAtMs ?? 0 };
      });
      return groups.sort((left, right) => left.sinceMs - right.sinceMs);
    },
  };
}

function sizeOf({ back, line }: Waiting): number {
  return back.size + line.size;
}

function* oldestFirst({ back, line }: Waiting): Iterable<JobHint> {
  yield* back.values();
  yield* line.values();
}
