// Wakes those who watch a tenant when it changes, in this process and, by an announcement, in the others.
import { isEventful, type TenantId } from "../../domain/tenant.ts";
import type { Bus, Consumer } from "../../ports/bus.ts";
import type { Clock } from "../../ports/ports.ts";
import type { Answer, OperationName, OutcomeOf, RequestOf } from "../../ports/store.ts";

export type Wakes = {
  /** A hint: a change that is missed here is found by polling, and one that is announced twice costs one read. */
  changed(tenant: TenantId): void;
  /** Calls back at every change until the returned function is called. */
  watch(tenant: TenantId, callback: () => void): () => void;
  /** Whether anything is watched here. */
  isWatched(): boolean;
  /** Calls back when the first begins to watch. */
  whenWatched(callback: () => void): () => void;
  /** This process has added an audit record. */
  audited(tenant: TenantId): void;
  /** Calls back at every audit record of this process: it may only take note. */
  watchAudited(callback: (tenant: TenantId) => void): () => void;
};

export function createWakes(): Wakes {
  const watchers = new Map<TenantId, Set<() => void>>();
  const auditWatchers = new Set<(tenant: TenantId) => void>();
  const beginnings = new Set<() => void>();
  return {
    changed(tenant) {
      for (const callback of watchers.get(tenant) ?? []) callback();
    },
    watch(tenant, callback) {
      const callbacks = watchers.get(tenant) ?? new Set();
      const isFirst = watchers.size === 0;
      watchers.set(tenant, callbacks.add(callback));
      if (isFirst) for (const begin of beginnings) begin();
      return () => {
        callbacks.delete(callback);
        if (callbacks.size === 0 && watchers.get(tenant) === callbacks) watchers.delete(tenant);
      };
    },
    isWatched: () => watchers.size > 0,
    whenWatched(callback) {
      beginnings.add(callback);
      return () => void beginnings.delete(callback);
    },
    audited(tenant) {
      for (const callback of auditWatchers) callback(tenant);
    },
    watchAudited(callback) {
      auditWatchers.add(callback);
      return () => void auditWatchers.delete(callback);
    },
  };
}

/** The outcomes that may have added an event row. Looked at where all calls of a process pass, so that no flow can forget it. */
const changing: { readonly [Name in OperationName]?: ReadonlyArray<OutcomeOf<Name>["kind"]> } = {
  admit: ["admitted", "queued"],
  createRun: ["admitted"],
  deliver: ["applied", "delivered"],
  commit: ["committed"],
  deleteRun: ["deleted"],
  setTenant: ["saved"],
  putDocument: ["saved"],
  removeDocument: ["removed"],
  handOn: ["handed_on"],
  moveQueued: ["moved"],
  breakLock: ["broken"],
  dropTrail: ["dropped"],
};

export function isChange<Name extends OperationName>(
  name: Name,
  request: RequestOf<Name>,
  answer: Answer<Name>,
): boolean {
  const kinds: readonly string[] | undefined = changing[name];
  if (kinds?.includes(answer.kind) !== true) return false;
  return !("collection" in request) || isEventful(request.collection);
}

const unaudited: ReadonlySet<OperationName> = new Set<OperationName>([
  "admit",
  "createRun",
  "commit",
  "handOn",
]);
const auditedEntries: ReadonlySet<string> = new Set(["decision", "cancel", "retry"]);

/** Whether a change may have added an audit record: starts, results and commits never do. */
export function isAudited<Name extends OperationName>(name: Name, request: RequestOf<Name>): boolean {
  return "entry" in request ? auditedEntries.has(request.entry.kind) : !unaudited.has(name);
}

/**
 * After an announcement the changes of this time share the next: about 100 a second, however many runs move. While no other process
 * is known to watch anything it is one a second: two gateways that announced to each other what nobody watched had 3 times the messages
 * of one.
 */
const gatherMs = { watched: 10, unwatched: 1_000 };

/** Of one announcement, about 50 KB: the bus carries no messages of any length. */
const tenantsMax = 1_000;

/** Announces to the other processes which tenants this one has changed, so that their watchers need not wait for a poll. */
export type ChangeAnnouncer = {
  changed(tenant: TenantId): void;
  /** Another process watches. */
  watched(): void;
  /** Announces what is pending, then no more. */
  close(): void;
};

export function createChangeAnnouncer(clock: Clock, bus: Bus): ChangeAnnouncer {
  const changed = new Set<TenantId>();
  let cancel = () => {};
  let state: "idle" | "gathering" | "closed" = "idle";
  let watchedAtMs = Number.NEGATIVE_INFINITY;
  const isWatched = () => clock.monotonicMs() - watchedAtMs < watchedKeepMs;
  const announce = () => {
    if (changed.size > 0) bus.announce("events", JSON.stringify([...changed]));
    changed.clear();
  };
  /** The first change after a silence is announced at once. */
  const tell = () => {
    cancel();
    state = changed.size > 0 ? "gathering" : "idle";
    announce();
    if (state === "gathering")
      cancel = clock.timer(isWatched() ? gatherMs.watched : gatherMs.unwatched, tell);
  };
  return {
    changed(tenant) {
      if (state === "closed") return;
      changed.add(tenant);
      if (state === "idle" || changed.size >= tenantsMax) tell();
    },
    watched() {
      const wasWatched = isWatched();
      watchedAtMs = clock.monotonicMs();
      if (!wasWatched && state === "gathering") tell();
    },
    close() {
      state = "closed";
      cancel();
      announce();
    },
  };
}

const watchedEveryMs = 5_000;

/** Counts for three intervals: one that is lost makes nobody late. */
const watchedKeepMs = 3 * watchedEveryMs;

/** Announces to the other processes that changes are watched here: when the first begins, and again and again. */
export function announceWatched(clock: Clock, bus: Bus, wakes: Wakes): Consumer {
  const stopped = new AbortController();
  let announcedAtMs = Number.NEGATIVE_INFINITY;
  const announce = () => {
    announcedAtMs = clock.monotonicMs();
    bus.announce("watched", "{}");
  };
  const unwatch = wakes.whenWatched(() => {
    if (clock.monotonicMs() - announcedAtMs >= watchedEveryMs) announce();
  });
  const announcing = (async () => {
    while (!stopped.signal.aborted) {
      await clock.sleep(watchedEveryMs, stopped.signal);
      if (wakes.isWatched()) announce();
    }
  })();
  return {
    async stop() {
      unwatch();
      stopped.abort();
      await announcing;
    },
  };
}

export function hearWatched(bus: Bus, announcer: ChangeAnnouncer): Consumer {
  return bus.listen("watched", () => announcer.watched());
}

export function hearChanges(bus: Bus, wakes: Wakes): Consumer {
  return bus.listen("events", (body) => {
    for (const tenant of JSON.parse(body) as readonly TenantId[]) wakes.changed(tenant);
  });
}
