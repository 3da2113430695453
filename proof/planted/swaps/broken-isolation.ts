// Stores with one mistake each about tenants: what one of them does is felt by the others that the same process serves.
import type { LockName } from "../../../src/domain/lock.ts";
import type { TenantId } from "../../../src/domain/tenant.ts";
import type { Store } from "../../../src/ports/store.ts";

const everybody = "everybody" as TenantId;

/** The lock of a start has the same name for all. */
export function oneLockForAll(store: Store): Store {
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
export function oneLimitForAll(store: Store): Store {
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
      return { kind: "limit_reached", limit, active, storeTimeMs };
    },
    countActive: async (request, options) => {
      const others = await activeOfOthers(request.tenant, options);
      const counted = await store.countActive(request, options);
      return counted.kind === "counted" ? { ...counted, active: counted.active + others } : counted;
    },
  };
}

/** Keys are counted for the whole process. */
export function oneQuotaForAll(store: Store): Store {
  const quota = 30;
  const keys = new Set<string>();
  return {
    ...store,
    admit: async (request, options) => {
      const { tenant, run } = request;
      const key = run.key === undefined ? undefined : `${tenant} ${run.key.digest}`;
      if (key !== undefined && !keys.has(key) && keys.size >= quota)
        return { kind: "key_quota_reached", quota, storeTimeMs: 0 };
      if (key !== undefined) keys.add(key);
      return store.admit(request, options);
    },
  };
}

/** Two starts at a time in one process; whoever comes third is turned away. */
export function onePoolForAll(store: Store): Store {
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
