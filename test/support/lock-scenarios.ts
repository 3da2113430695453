// The scenarios of the lock operations: each writes all that it ever can.
import type { TenantKeys } from "../../src/adapters/redis/keys.ts";
import type { Guard, LockName, LockToken } from "../../src/domain/lock.ts";
import { call, type Harness } from "../../src/testing/conformance/harness.ts";
import type { Preparation } from "./operation-scenarios.ts";

const lock: LockName = { namespace: "public", name: "printer {1}: 50 %" };

type LockOperationName =
  | ("acquireLock" | "renewLock" | "releaseLock" | "inspectLock")
  | ("listLocks" | "breakLock");

export const lockPreparations: { readonly [Name in LockOperationName]: Preparation<Name> } = {
  /** The head of a queue takes a lock that was given back while the tenant was stopped: so nobody was handed it. */
  async acquireLock(harness, keys, remove) {
    const { token } = await harness.acquire(lock, 60_000);
    const [head] = await queue(harness);
    await harness.set({ stopped: true });
    await harness.release({ lock, token });
    await harness.set({ stopped: false });
    await remove(keys.due);
    const writes = [
      ...grantWrites(keys),
      keys.locks,
      keys.due,
      ...queueWrites(keys),
      keys.queue(lock).endings,
    ];
    return { request: askOf(harness, head), writes, kind: "acquired" };
  },
  async renewLock(harness, keys) {
    const { token } = await harness.acquire(lock, 60_000);
    const request = { tenant: harness.tenant, lock, token, ttlMs: 120_000 };
    return { request, writes: [keys.lock(lock), keys.grant(lock), keys.held], kind: "renewed" };
  },
  async releaseLock(harness, keys, remove) {
    const { token } = await heldWithQueue(harness, keys, remove);
    const writes = [
      ...grantWrites(keys),
      keys.locks,
      keys.due,
      ...queueWrites(keys),
      keys.queue(lock).endings,
    ];
    return { request: { tenant: harness.tenant, lock, token }, writes, kind: "released" };
  },
  async inspectLock(harness) {
    await harness.acquire(lock, 60_000);
    return { request: { tenant: harness.tenant, lock }, writes: [], kind: "held" };
  },
  async listLocks(harness) {
    await harness.acquire(lock, 60_000);
    return { request: { tenant: harness.tenant, after: "", limit: 10 }, writes: [], kind: "listed" };
  },
  async breakLock(harness, keys, remove) {
    const { fence } = await heldWithQueue(harness, keys, remove);
    const { endings } = keys.queue(lock);
    const writes = [
      ...grantWrites(keys),
      keys.locks,
      keys.due,
      ...queueWrites(keys),
      endings,
      keys.events,
      keys.trail,
    ];
    return { request: { ...breaking(harness), fence }, writes, kind: "broken" };
  },
};

/** The other ways that an operation can go, where they write other keys. */
export const lockVariants = {
  async "acquireLock: a free lock that was never taken"(harness, keys) {
    const writes = [...grantWrites(keys), keys.locks, keys.due];
    return { request: askOf(harness, harness.token()), writes, kind: "acquired" };
  },
  async "acquireLock: a place in the queue"(harness, keys) {
    await harness.acquire(lock, 60_000);
    return { request: askOf(harness, harness.token()), writes: queueWrites(keys), kind: "busy" };
  },
  async "releaseLock: nobody queues"(harness, keys) {
    const { token } = await harness.acquire(lock, 60_000);
    const writes = [keys.lock(lock), keys.grant(lock), keys.locks, keys.held];
    return { request: { tenant: harness.tenant, lock, token }, writes, kind: "released" };
  },
  async "releaseLock: a place in the queue"(harness, keys) {
    await harness.acquire(lock, 60_000);
    const [token] = await queue(harness);
    const writes = [...queueWrites(keys), keys.queue(lock).endings];
    return { request: { tenant: harness.tenant, lock, token }, writes, kind: "released" };
  },
  async "breakLock: nobody queues"(harness, keys) {
    const { fence } = await harness.acquire(lock, 60_000);
    const writes = [keys.lock(lock), keys.grant(lock), keys.locks, keys.held, keys.events, keys.trail];
    return { request: { ...breaking(harness), fence }, writes, kind: "broken" };
  },
} satisfies Record<
  string,
  Preparation<"acquireLock"> | Preparation<"releaseLock"> | Preparation<"breakLock">
>;

function askOf(harness: Harness, token: LockToken) {
  const { tenant } = harness;
  return { tenant, lock, token, instance: "host:1", ttlMs: 60_000, ticketMs: 30_000, owner: "a b" };
}

function breaking({ tenant }: Harness) {
  return { tenant, lock, actor: "tester", reason: "its holder hangs" };
}

/** Two places in the queue of a lock that is held. */
async function queue(harness: Harness): Promise<readonly [LockToken, LockToken]> {
  const tokens = [harness.token(), harness.token()] as const;
  for (const token of tokens) await harness.store.acquireLock(askOf(harness, token), call);
  return tokens;
}

/** The list and what is due have forgotten the lock: its next holder stands there again. */
async function heldWithQueue(
  harness: Harness,
  keys: TenantKeys,
  remove: (key: string) => Promise<unknown>,
): Promise<Guard> {
  const guard = await harness.acquire(lock, 60_000);
  await queue(harness);
  await remove(keys.locks);
  await remove(keys.due);
  return guard;
}

function grantWrites(keys: TenantKeys): readonly string[] {
  return [keys.lock(lock), keys.grant(lock), keys.fence, keys.held];
}

function queueWrites(keys: TenantKeys): readonly string[] {
  const { places, tickets, ends } = keys.queue(lock);
  return [places, tickets, ends, keys.waiting];
}
