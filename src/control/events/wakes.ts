// Tells whoever watches a tenant that this process has just changed something of it, so that nobody has to wait for a poll.
import { isEventful } from "../../domain/document.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { Answer, OperationName, OutcomeOf, RequestOf } from "../../ports/store.ts";

export type Wakes = {
  /** A hint: what is not told here is found by polling, and what is told twice costs one read. */
  changed(tenant: TenantId): void;
  /** Calls back at every change until the returned function is called. */
  watch(tenant: TenantId, callback: () => void): () => void;
  /** The same for every tenant. It stands in the way of every change: the callback may only take note. */
  watchAll(callback: (tenant: TenantId) => void): () => void;
};

export function createWakes(): Wakes {
  const watchers = new Map<TenantId, Set<() => void>>();
  const watchersOfAll = new Set<(tenant: TenantId) => void>();
  return {
    changed(tenant) {
      for (const callback of watchersOfAll) callback(tenant);
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
    watchAll(callback) {
      watchersOfAll.add(callback);
      return () => void watchersOfAll.delete(callback);
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
