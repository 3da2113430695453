// Full limits that this process knows: refused claims are tried again when a place is freed, or after a second.
import type { Place, PlaceRefusal } from "../../domain/job.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { Clock } from "../../ports/ports.ts";

export type FullLimits = {
  /** Whether a claim may be sent now: always, unless one was refused lately and no place was freed since. */
  mayTry(tenant: TenantId, place: Place): boolean;
  /** Whether one was refused lately: then waiting jobs come before those that were just enqueued. */
  isTight(tenant: TenantId, place: Place): boolean;
  /** A claim is being sent: it uses up a place that was freed. One of the next three reports its end. */
  trying(tenant: TenantId, place: Place): void;
  granted(tenant: TenantId, place: Place): void;
  /** `sentAt` is the moment at which the claim was sent: what was freed since may still be free. */
  refused(tenant: TenantId, place: Place, refusal: { readonly because: PlaceRefusal; sentAt: number }): void;
  /** Nobody knows, or the claim was refused for another reason. */
  unused(tenant: TenantId, place: Place): void;
  /** Grows with every place that is freed. */
  moment(): number;
  /** A place was freed. Says for whom that is of interest here: those of the topic, or all of the pool. */
  freed(tenant: TenantId, place: Place): { readonly topic: boolean; readonly pool: boolean };
  /** The tenant's limits were changed. */
  forget(tenant: TenantId): void;
  /** Tenants of which something that was refused may be tried again by now. */
  overdue(): readonly TenantId[];
};

type Full = {
  readonly tenant: TenantId;
  /** Claims that may be sent. */
  allowance: number;
  /** By how much a granted claim raises the allowance: only after a claim for which no place was known to be free. */
  growth: number;
  refusedAtMs: number;
  tried: boolean;
};

/** Limits of which a freed place is remembered; what is forgotten costs a second at most. */
const rememberedMax = 2_000;

/** The longest that a place stays free because its announcement was lost. */
export const retryAfterMs = 1_000;

export function createFullLimits(clock: Pick<Clock, "monotonicMs">): FullLimits {
  const limits = new Map<string, Full>();
  /** When a place of each limit was freed last, in moments. */
  const freedAt = new Map<string, number>();
  let moment = 0;

  /** What is known to be full of all that a job in this place would need. */
  function known(tenant: TenantId, place: Place): readonly Full[] {
    if (limits.size === 0) return [];
    return keysOf(tenant, place).flatMap((key) => refresh(key, limits.get(key)));
  }

  /** After a second one claim is tried; if that was a second ago and was not refused, nothing is full any more. */
  function refresh(key: string, full: Full | undefined): readonly Full[] {
    if (full === undefined) return [];
    const sinceMs = clock.monotonicMs() - full.refusedAtMs;
    if (sinceMs >= 2 * retryAfterMs) {
      limits.delete(key);
      return [];
    }
    if (sinceMs >= retryAfterMs && !full.tried) {
      full.tried = true;
      full.allowance = Math.max(1, full.allowance);
      full.growth = 2;
    }
    return [full];
  }

  return {
    mayTry: (tenant, place) => known(tenant, place).every(({ allowance }) => allowance > 0),
    isTight: (tenant, place) => known(tenant, place).length > 0,
    trying(tenant, place) {
      for (const full of known(tenant, place)) full.allowance -= 1;
    },
    granted(tenant, place) {
      for (const full of known(tenant, place)) {
        full.allowance += full.growth;
        full.growth *= 2;
      }
    },
    moment: () => moment,
    refused(tenant, place, { because, sentAt }) {
      const refusing = keyOf[because](tenant, place);
      for (const key of keysOf(tenant, place)) {
        const full = limits.get(key);
        if (full !== undefined && key !== refusing) full.allowance += 1;
      }
      const refusedAtMs = clock.monotonicMs();
      const allowance = (freedAt.get(refusing) ?? 0) > sentAt ? 1 : 0;
      limits.set(refusing, { tenant, allowance, growth: 0, refusedAtMs, tried: false });
    },
    unused(tenant, place) {
      for (const full of known(tenant, place)) full.allowance += 1;
    },
    freed(tenant, place) {
      moment += 1;
      if (freedAt.size >= rememberedMax) freedAt.clear();
      freedAt.set(keyOf.topic_full(tenant, place), moment).set(keyOf.pool_full(tenant, place), moment);
      const topic = limits.get(keyOf.topic_full(tenant, place));
      const pool = limits.get(keyOf.pool_full(tenant, place));
      for (const full of [topic, pool]) if (full !== undefined) full.allowance += 1;
      return { topic: topic !== undefined, pool: pool !== undefined };
    },
    forget(tenant) {
      for (const [key, full] of limits) if (full.tenant === tenant) limits.delete(key);
    },
    overdue() {
      const nowMs = clock.monotonicMs();
      const due = [...limits.values()].filter(({ refusedAtMs }) => nowMs - refusedAtMs >= retryAfterMs);
      return [...new Set(due.map(({ tenant }) => tenant))];
    },
  };
}

type KeyOf = (tenant: TenantId, place: Place) => string;

/** A pool that drains is like one that is full; a topic that is not the pool's is so for this pool alone. */
const keyOf: { readonly [Because in PlaceRefusal]: KeyOf } = {
  topic_full: (tenant, { topic }) => `topic ${tenant} ${topic}`,
  pool_full: (tenant, { pool }) => `pool ${tenant} ${pool}`,
  pool_draining: (tenant, { pool }) => `pool ${tenant} ${pool}`,
  pool_without_topic: (tenant, place) => `pair ${tenant} ${JSON.stringify([place.topic, place.pool])}`,
};

function keysOf(tenant: TenantId, place: Place): readonly string[] {
  return [
    keyOf.topic_full(tenant, place),
    keyOf.pool_full(tenant, place),
    keyOf.pool_without_topic(tenant, place),
  ];
}
