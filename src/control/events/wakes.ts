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
  /** This process has added an audit record. */
  audited(tenant: TenantId): void;
  /** Calls back at every audit record of this process: it may only take note. */
  watchAudited(callback: (tenant: TenantId) => void): () => void;
};

export function createWakes(): Wakes {
  const watchers = new Map<TenantId, Set<() => void>>();
  const auditWatchers = new Set<(tenant: TenantId) => void>();
  return {
    changed(tenant) {
      for (const callback of watchers.get(tenant) ?? []) callback();
    },
    watch(tenant, callback) {
      const callbacks = watchers.get(tenant) ?? new Set();
      watchers.set(tenant, callbacks.add(callback));
      return () => {
        callbacks.delete(callback);
        if (callbacks.size === 0 && watchers.get(tenant) === callbacks) watchers.delete(tenant);
      };
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
  admit: ["admitted"],
  createRun: ["admitted"],
  deliver: ["applied", "delivered"],
  commit: ["committed"],
  deleteRun: ["deleted"],
  setTenant: ["saved"],
  putDocument: ["saved"],
  removeDocument: ["removed"],
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

const unaudited: ReadonlySet<OperationName> = new Set<OperationName>(["admit", "createRun", "commit"]);
const auditedEntries: ReadonlySet<string> = new Set(["decision", "cancel", "retry"]);

/** Whether a change may have added an audit record: starts, results and commits never do. */
export function isAudited<Name extends OperationName>(name: Name, request: RequestOf<Name>): boolean {
  return "entry" in request ? auditedEntries.has(request.entry.kind) : !unaudited.has(name);
}

/** After an announcement the changes of this time share the next: about 100 a second, however many runs move. */
const gatherMs = 10;

/** Announces to the other processes which tenants this one has changed, so that their watchers need not wait for a poll. */
export type ChangeAnnouncer = {
  changed(tenant: TenantId): void;
  /** Announces what is pending, then no more. */
  close(): void;
};

export function createChangeAnnouncer(clock: Clock, bus: Bus): ChangeAnnouncer {
  const changed = new Set<TenantId>();
  let cancel = () => {};
  let state: "idle" | "gathering" | "closed" = "idle";
  const announce = () => {
    if (changed.size > 0) bus.announce("events", JSON.stringify([...changed]));
    changed.clear();
  };
  /** The first change after a silence is told at once. */
  const tell = () => {
    state = changed.size > 0 ? "gathering" : "idle";
    announce();
    if (state === "gathering") cancel = clock.timer(gatherMs, tell);
  };
  return {
    changed(tenant) {
      if (state === "closed") return;
      changed.add(tenant);
      if (state === "idle") tell();
    },
    close() {
      state = "closed";
      cancel();
      announce();
    },
  };
}

export function hearChanges(bus: Bus, wakes: Wakes): Consumer {
  return bus.listen("events", (body) => {
    for (const tenant of JSON.parse(body) as readonly TenantId[]) wakes.changed(tenant);
  });
}
