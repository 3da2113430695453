// Locks of agents' own resources, one call at a time; `withLock` is what most programs want.
import type { Caller } from "../caller.ts";
import type { Body, Common, Query, Success } from "../contract.ts";
import { type Listing, listing } from "../pages.ts";
import { apart } from "./care.ts";

type Listed = Success<"listLocks">;
export type HeldLock = Exclude<Listed, { items: unknown }>;
export type AnyLock = Success<"listAllLocks">["items"][number];

export type Locks = {
  /** Waits for up to `wait_ms`; a lock that is busy is refused with `lock_unavailable`, which names its holder. */
  acquire(lock: Body<"acquireLock">, options?: Common): Promise<Success<"acquireLock">>;
  renew(lock: Body<"renewLock">, options?: Common): Promise<Success<"renewLock">>;
  release(lock: Body<"releaseLock">, options?: Common): Promise<Success<"releaseLock">>;
  get(resource: string, options?: Common): Promise<HeldLock>;
  list(options?: Common & { readonly limit?: number | undefined }): Listing<HeldLock>;
  /** Of all kinds, for admins. */
  all(options?: Common & Omit<Query<"listAllLocks">, "cursor">): Listing<AnyLock>;
  /** Takes a lock from its holder: the last resort. */
  break(lock: Body<"breakLock">, options?: Common): Promise<Success<"breakLock">>;
};

export function locksOf(caller: Caller): Locks {
  return {
    acquire: (body, options) => caller.call("acquireLock", { body, ...options }),
    renew: (body, options) => caller.call("renewLock", { body, ...options }),
    release: (body, options) => caller.call("releaseLock", { body, ...options }),
    get: async (resource, options) =>
      (await caller.call("listLocks", { query: { resource }, ...options })) as HeldLock,
    list(options) {
      const { query, ...rest } = apart(options);
      return listing(async (cursor) => {
        const asked = { ...(query.limit === undefined ? {} : { limit: query.limit }), ...after(cursor) };
        return (await caller.call("listLocks", { query: asked, ...rest })) as Exclude<Listed, HeldLock>;
      });
    },
    all(options) {
      const { query, ...rest } = apart(options);
      return listing((cursor) =>
        caller.call("listAllLocks", { query: { ...query, ...after(cursor) }, ...rest }),
      );
    },
    break: (body, options) => caller.call("breakLock", { body, ...options }),
  };
}

function after(cursor: string | undefined) {
  return cursor === undefined ? {} : { cursor };
}
