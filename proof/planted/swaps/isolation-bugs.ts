// Known mistakes that only show when a tenant's day is compared with itself: beside a flood, or with clocks that jump.

import type { LockName } from "../../../src/domain/lock.ts";
import type { TenantId } from "../../../src/domain/tenant.ts";
import type { Store } from "../../../src/ports/store.ts";
import type { Swap } from "../planted-bug.ts";
import { readingTheWallClock } from "./broken-clocks.ts";

const everybody = "everybody" as TenantId;

/** The lock of a start has the same name for all. */
function oneLockForAll(store: Store): Store {
  const isShared = ({ namespace }: LockName) => namespace === "admission";
  return {
    ...store,
    acquireLock: async (request, options) => {
      if (!isShared(request.lock)) return store.acquireLock(request, options);
      const shared = await store.acquireLock({ ...request, tenant: everybody }, options);
      if (shared.kind !== "acquired") return shared;
      const own = await store.acquireLock(request, options);
      if (own.kind !== "acquired") await store.releaseLock({ ...request, tenant: everybody }, options);
      return own;
    },
    releaseLock: async (request, options) => {
      if (isShared(request.lock)) await store.releaseLock({ ...request, tenant: everybody }, options);
      return store.releaseLock(request, options);
    },
  };
}

/** The limit of a tenant is compared with the runs of all whom this process serves. */
function oneLimitForAll(store: Store): Store {
  const served = new Set<TenantId>();
  /** A start that was sent once is decided by the store. */
  const sent = new Set<string>();
  const activeOfOthers = async (tenant: TenantId, options: Parameters<Store["countActive"]>[1]) => {
    served.add(tenant);
    let sum = 0;
    for (const other of served) {
      if (other === tenant) continue;
      const counted = await store.countActive({ tenant: other }, options);
      if (counted.kind === "counted") sum += counted.active;
    }
    return sum;
  };
  return {
    ...store,
    admit: async (request, options) => {
      const { tenant, run } = request;
      if (sent.has(run.runId)) return store.admit(request, options);
      const others = await activeOfOthers(tenant, options);
      const counted = await store.countActive({ tenant }, options);
      if (counted.kind !== "counted") return counted;
      const { active, limit, storeTimeMs } = counted;
      if (limit === undefined || active + others < limit) {
        sent.add(run.runId);
        return store.admit(request, options);
      }
      return { kind: "max_concurrent_runs_reached", limit, active, storeTimeMs };
    },
    countActive: async (request, options) => {
      const others = await activeOfOthers(request.tenant, options);
      const counted = await store.countActive(request, options);
      return counted.kind === "counted" ? { ...counted, active: counted.active + others } : counted;
    },
  };
}

/** Keys are counted for the whole process. */
function oneQuotaForAll(store: Store): Store {
  const quota = 30;
  const keys = new Set<string>();
  return {
    ...store,
    admit: async (request, options) => {
      const { tenant, run } = request;
      const key = run.key === undefined ? undefined : `${tenant} ${run.key.digest}`;
      if (key !== undefined && !keys.has(key) && keys.size >= quota)
        return { kind: "idempotency_quota_reached", quota, storeTimeMs: 0 };
      if (key !== undefined) keys.add(key);
      return store.admit(request, options);
    },
  };
}

/** Two starts at a time in one process; a third is turned away. */
function onePoolForAll(store: Store): Store {
  const placesMax = 2;
  let taken = 0;
  const pooled = async <Value>(work: () => Promise<Value>) => {
    if (taken >= placesMax) return { kind: "unavailable", cause: "too many starts at once" } as const;
    taken += 1;
    try {
      return await work();
    } finally {
      taken -= 1;
    }
  };
  return {
    ...store,
    admit: (request, options) => pooled(() => store.admit(request, options)),
    createRun: (request, options) => pooled(() => store.createRun(request, options)),
  };
}

export const swappedIsolation: Readonly<Record<string, Swap>> = {
  one_lock_for_all: {
    what: "starts of all tenants wait for the same lock",
    caughtBy: ["INV-5"],
    compares: "flood",
    wrapStore: oneLockForAll,
  },
  one_limit_for_all: {
    what: "the limit of a tenant counts the runs of others",
    caughtBy: ["INV-5"],
    compares: "flood",
    wrapStore: oneLimitForAll,
  },
  one_quota_for_all: {
    what: "the quota of keys is one for all tenants",
    caughtBy: ["INV-5"],
    compares: "flood",
    wrapStore: oneQuotaForAll,
  },
  one_pool_for_all: {
    what: "a process has places for two starts, whose ever they are",
    caughtBy: ["INV-5"],
    compares: "flood",
    wrapStore: onePoolForAll,
  },
  deadlines_by_wall_clock: {
    what: "every deadline is measured by the wall clock, which may be set back",
    caughtBy: ["INV-16"],
    compares: "wall_clocks",
    wrapPorts: readingTheWallClock,
  },
};
