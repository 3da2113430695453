// Full limits and rates that this process knows: refused claims are tried again when a place is freed, when their rate lets
// them pass, or after a second.
import type { Place, PlaceRefusal } from "../../domain/job.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { CancelTimer, Clock } from "../../ports/ports.ts";

export type FullLimits = {
  /** Whether a claim may be sent now: always, unless one was refused lately and no place was freed since. */
  mayTry(tenant: TenantId, place: Place): boolean;
  /** Whether one was refused lately: then waiting jobs come before those that were just enqueued. */
  isTight(tenant: TenantId, place: Place): boolean;
  /** A claim is being sent: it uses up a place that was freed. One of the next three reports its end. */
  trying(tenant: TenantId, place: Place): void;
  granted(tenant: TenantId, place: Place): void;
  /** `sentAt` is the moment at which the claim was sent: what was freed since may still be free. */
  /** For a rate: how long until the next is to be tried. */
  refused(tenant: TenantId, place: Place, refusal: Refusal): number | undefined;
  /** Nobody knows, or the claim was refused for another reason. */
  unused(tenant: TenantId, place: Place): void;
  /** Grows with every place that is freed. */
  moment(): number;
  /** A place was freed. Says for whom that is of interest here: those of the topic, or all of the pool. */
  freed(tenant: TenantId, place: Place): { readonly topic: boolean; readonly pool: boolean };
  /** The tenant's limits were changed. */
  forget(tenant: TenantId): void;
  /** A rate of the topic has refused a claim lately: each that it grants lets the next be tried. */
  isRated(tenant: TenantId, topic: string): boolean;
  /** Until when nothing of the topic passes its rate, as far as is known here. */
  rateWaitMs(tenant: TenantId, topic: string): number | undefined;
  /** Tenants of which something that was refused may be tried again by now. */
  overdue(): readonly TenantId[];
};

type Refusal = {
  readonly because: PlaceRefusal;
  readonly sentAt: number;
  /** Of a rate: it would pass then. */
  readonly againInMs?: number;
};

type Full = {
  readonly tenant: TenantId;
  /** Claims that may be sent. */
  allowance: number;
  /** By how much a granted claim raises the allowance: only after a claim for which no place was known to be free. */
  growth: number;
  /** From then on a claim is tried. */
  readonly retryAtMs: number;
  /** The growth from then on. */
  readonly pace: number;
  tried: boolean;
  /** Refusals of a rate one right after the other: it is the turn of a job that this process does not try. */
  readonly soon: number;
};

/** A place that was free although nobody said so may be one of many. */
const placePace = 2;
/** A refusal that says to come again so soon is one of a series if it is repeated; then the pauses grow up to the longest. */
const soonMs = 2;
const soonAllowed = 4;
const soonPauseMsMax = 50;
/** After a pause several may pass a rate; while it is in use each refusal tells of one. */
const ratePace = 1;

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

  /** At its time one claim is tried; if that was a second ago and was not refused, nothing is full any more. */
  function refresh(key: string, full: Full | undefined): readonly Full[] {
    if (full === undefined) return [];
    const lateMs = clock.monotonicMs() - full.retryAtMs;
    if (lateMs >= retryAfterMs) {
      limits.delete(key);
      return [];
    }
    if (lateMs >= 0 && !full.tried) {
      full.tried = true;
      full.allowance = Math.max(1, full.allowance);
      full.growth = full.pace;
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
    refused(tenant, place, { because, sentAt, againInMs }) {
      const refusing = keyOf[because](tenant, place);
      for (const key of keysOf(tenant, place)) {
        const full = limits.get(key);
        if (full !== undefined && key !== refusing) full.allowance += 1;
      }
      const nowMs = clock.monotonicMs();
      const allowance = (freedAt.get(refusing) ?? 0) > sentAt ? 1 : 0;
      const kept = { tenant, allowance, growth: 0, tried: false };
      if (because !== "topic_rate") {
        limits.set(refusing, { ...kept, retryAtMs: nowMs + retryAfterMs, pace: placePace, soon: 0 });
        return undefined;
      }
      const next = nextOfRate(limits.get(refusing), nowMs, againInMs ?? retryAfterMs);
      limits.set(refusing, { ...kept, ...next, pace: ratePace });
      return next.retryAtMs - nowMs;
    },
    unused(tenant, place) {
      for (const full of known(tenant, place)) full.allowance += 1;
    },
    freed(tenant, place) {
      moment += 1;
      if (freedAt.size >= rememberedMax) freedAt.clear();
      const topic = keyOf.topic_full(tenant, place);
      const pool = keyOf.pool_full(tenant, place);
      const rate = keyOf.topic_rate(tenant, place);
      for (const key of [topic, pool, rate]) {
        freedAt.set(key, moment);
        const full = limits.get(key);
        if (full !== undefined) full.allowance += 1;
      }
      return { topic: limits.has(topic) || limits.has(rate), pool: limits.has(pool) };
    },
    forget(tenant) {
      for (const [key, full] of limits) if (full.tenant === tenant) limits.delete(key);
    },
    isRated: (tenant, topic) => limits.has(rateKey(tenant, topic)),
    rateWaitMs: (tenant, topic) => waitOf(limits.get(rateKey(tenant, topic)), clock.monotonicMs()),
    overdue() {
      const nowMs = clock.monotonicMs();
      const due = [...limits.values()].filter(({ retryAtMs }) => nowMs >= retryAtMs);
      return [...new Set(due.map(({ tenant }) => tenant))];
    },
  };
}

function waitOf(full: Full | undefined, nowMs: number): number | undefined {
  return full !== undefined && full.retryAtMs > nowMs ? full.retryAtMs - nowMs : undefined;
}

function nextOfRate(before: Full | undefined, nowMs: number, againInMs: number) {
  const soon = againInMs <= soonMs ? (before?.soon ?? 0) + 1 : 0;
  const pauseMs = soon > soonAllowed ? Math.min(soonPauseMsMax, 2 ** (soon - soonAllowed)) : 0;
  const askedAtMs = nowMs + Math.max(pauseMs, againInMs);
  // Of claims that were refused together the one that passes first counts.
  const isLater = before !== undefined && before.retryAtMs > nowMs && before.retryAtMs < askedAtMs;
  return { retryAtMs: isLater ? before.retryAtMs : askedAtMs, soon };
}

/** Whatever the pool. */
function rateKey(tenant: TenantId, topic: string): string {
  return `rate ${tenant} ${topic}`;
}

type KeyOf = (tenant: TenantId, place: Place) => string;

/** A pool that drains is like one that is full; a topic that is not the pool's is so for this pool alone. */
const keyOf: { readonly [Because in PlaceRefusal]: KeyOf } = {
  topic_full: (tenant, { topic }) => `topic ${tenant} ${topic}`,
  pool_full: (tenant, { pool }) => `pool ${tenant} ${pool}`,
  pool_draining: (tenant, { pool }) => `pool ${tenant} ${pool}`,
  topic_rate: (tenant, { topic }) => rateKey(tenant, topic),
  pool_without_topic: (tenant, place) => `pair ${tenant} ${JSON.stringify([place.topic, place.pool])}`,
};

function keysOf(tenant: TenantId, place: Place): readonly string[] {
  return [
    keyOf.topic_full(tenant, place),
    keyOf.topic_rate(tenant, place),
    keyOf.pool_full(tenant, place),
    keyOf.pool_without_topic(tenant, place),
  ];
}

/** Wakes the claims of a topic at the moment at which its rate lets them pass: the next look, a second later, would waste its units. */
export type RateAlarms = {
  /** A claim was refused, and would pass then. */
  set(tenant: TenantId, topic: string, againInMs: number): void;
  close(): void;
};

/** Beyond it claims are tried with those of full limits, up to a second late. */
const alarmsMax = 10_000;

export function createRateAlarms(clock: Clock, ring: (tenant: TenantId, topic: string) => void): RateAlarms {
  const alarms = new Map<string, { readonly atMs: number; readonly cancel: CancelTimer }>();
  let isClosed = false;
  return {
    set(tenant, topic, againInMs) {
      const key = `${tenant} ${topic}`;
      const atMs = clock.monotonicMs() + againInMs;
      const before = alarms.get(key);
      if (isClosed || (before !== undefined && before.atMs <= atMs)) return;
      if (before === undefined && alarms.size >= alarmsMax) return;
      before?.cancel();
      const cancel = clock.timer(againInMs, () => {
        alarms.delete(key);
        ring(tenant, topic);
      });
      alarms.set(key, { atMs, cancel });
    },
    close() {
      isClosed = true;
      for (const { cancel } of alarms.values()) cancel();
      alarms.clear();
    },
  };
}
