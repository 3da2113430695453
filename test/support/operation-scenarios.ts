// Every operation in the state in which it writes all the Redis keys it ever can, with those keys named.
import { createKeys, type TenantKeys } from "../../src/adapters/redis/keys.ts";
import type { Guard, LockName } from "../../src/domain/lock.ts";
import { admissionLock } from "../../src/domain/lock.ts";
import { executeOn, type OperationName, operationNames, type RequestOf } from "../../src/ports/store.ts";
import { call, type Harness, key } from "../../src/testing/conformance/harness.ts";

export type Scenario<Name extends OperationName = OperationName> = {
  readonly name: Name;
  readonly request: RequestOf<Name>;
  /** Empty for an operation that only reads. */
  readonly writes: readonly string[];
  /** The outcome when nothing goes wrong. */
  readonly kind: string;
};

export const prefix = "interlock";

/** Puts the harness' tenant into the state that the operation needs. */
export async function prepareScenario(
  name: OperationName,
  harness: Harness,
  remove: RemoveKey,
): Promise<Scenario> {
  const keys = createKeys(prefix).forTenant(harness.tenant);
  const prepared = await preparations[name](harness, keys, remove);
  return { name, ...prepared };
}

/** Removes a key behind the store's back: a lock is then as if it had expired, without waiting. */
export type RemoveKey = (key: string) => Promise<unknown>;

/** Performs the scenario's operation; the one place where its name and its request are put together. */
export function performScenario(harness: Harness, scenario: Scenario, options = call) {
  return executeOn(harness.store)(scenario.name, scenario.request, options);
}

/** Operations that change something, for tests that count effects. */
export const writingOperations: readonly OperationName[] = operationNames.filter(
  (name) => !/^(get|inspect|count|load|list|read)/.test(name),
);

type Preparation<Name extends OperationName> = (
  harness: Harness,
  keys: TenantKeys,
  remove: RemoveKey,
) => Promise<Omit<Scenario<Name>, "name">>;

const lock: LockName = { namespace: "public", name: "printer {1}: 50 %" };

const preparations: { readonly [Name in OperationName]: Preparation<Name> } = {
  async acquireLock(harness, keys) {
    const { tenant } = harness;
    const request = { tenant, lock, token: harness.token(), instance: "host:1", ttlMs: 60_000 };
    return { request, writes: [keys.lock(lock), keys.grant(lock), keys.fence], kind: "acquired" };
  },
  async renewLock(harness, keys) {
    const { token } = await harness.acquire(lock, 60_000);
    const request = { tenant: harness.tenant, lock, token, ttlMs: 120_000 };
    return { request, writes: [keys.lock(lock), keys.grant(lock)], kind: "renewed" };
  },
  async releaseLock(harness, keys) {
    const { token } = await harness.acquire(lock, 60_000);
    const request = { tenant: harness.tenant, lock, token };
    return { request, writes: [keys.lock(lock), keys.grant(lock)], kind: "released" };
  },
  async inspectLock(harness) {
    await harness.acquire(lock, 60_000);
    return { request: { tenant: harness.tenant, lock }, writes: [], kind: "held" };
  },
  async getTenant(harness) {
    await harness.set({ maxConcurrentRuns: 3 });
    return { request: { tenant: harness.tenant }, writes: [], kind: "tenant" };
  },
  async setTenant(harness, keys) {
    await harness.set({ maxConcurrentRuns: 3 });
    const settings = { maxConcurrentRuns: 4, stopped: false };
    const request = {
      tenant: harness.tenant,
      settings,
      expectedVersion: 1,
      changeId: "second",
      actor: "tester",
    };
    return { request, writes: [keys.tenant, keys.events], kind: "saved" };
  },
  async admit(harness, keys) {
    await harness.set({ maxConcurrentRuns: 3 });
    await harness.admit();
    const run = harness.newRun({ key: key("k") });
    const writes = [keys.run(run.runId), keys.active, keys.events, keys.reservation(key("k").digest)];
    return { request: { tenant: harness.tenant, run }, writes, kind: "admitted" };
  },
  async reserve(harness, keys, remove) {
    const guard = await expiredGuard(harness, admissionLock, () => remove(keys.admissionLock));
    const { runId } = harness.newRun();
    const writes = [keys.lock(admissionLock), keys.grant(admissionLock), keys.reservation(key("k").digest)];
    return { request: { tenant: harness.tenant, guard, runId, key: key("k") }, writes, kind: "reserved" };
  },
  async cancelReservation(harness, keys, remove) {
    const { guard, run } = await reserved(harness, () => remove(keys.admissionLock));
    const { digest } = key("k");
    const request = { tenant: harness.tenant, digest, runId: run.runId, token: guard.token };
    return { request, writes: [keys.reservation(digest)], kind: "cancelled" };
  },
  async countActive(harness) {
    await harness.admit();
    return { request: { tenant: harness.tenant }, writes: [], kind: "counted" };
  },
  async createRun(harness, keys, remove) {
    const { guard, run } = await reserved(harness, () => remove(keys.admissionLock));
    const writes = [
      ...[keys.run(run.runId), keys.active, keys.events, keys.reservation(key("k").digest)],
      ...[keys.lock(guard.lock), keys.grant(guard.lock)],
    ];
    return { request: { tenant: harness.tenant, guard, run }, writes, kind: "created" };
  },
  async loadRun(harness) {
    return { request: { tenant: harness.tenant, runId: await harness.admit() }, writes: [], kind: "run" };
  },
  async endRun(harness, keys, remove) {
    const runId = await harness.admit(harness.newRun({ key: key("k") }));
    const name: LockName = { namespace: "run", name: runId };
    const guard = await expiredGuard(harness, name, () => remove(keys.lock(name)));
    const request = { tenant: harness.tenant, guard, runId, status: "succeeded" as const, actor: "tester" };
    const writes = [
      ...[keys.run(runId), keys.active, keys.events, keys.reservation(key("k").digest)],
      ...[keys.lock(guard.lock), keys.grant(guard.lock)],
    ];
    return { request: { ...request, keyRetentionMs: 60_000 }, writes, kind: "ended" };
  },
  async listActive(harness) {
    await harness.admit();
    return { request: { tenant: harness.tenant, limit: 10 }, writes: [], kind: "listed" };
  },
  async inspectReservation(harness) {
    await harness.admit(harness.newRun({ key: key("k") }));
    return { request: { tenant: harness.tenant, digest: key("k").digest }, writes: [], kind: "bound" };
  },
  async readEvents(harness) {
    await harness.admit();
    return { request: { tenant: harness.tenant, after: 0, limit: 10 }, writes: [], kind: "events" };
  },
};

/** Under `continue` a guarded write takes an expired lock again: the lock and its grant are then among the writes. */
async function expiredGuard(
  harness: Harness,
  name: LockName,
  expire: () => Promise<unknown>,
): Promise<Guard> {
  const guard = await harness.acquire(name, 60_000);
  await expire();
  return { ...guard, policy: "continue" };
}

async function reserved(harness: Harness, expire: () => Promise<unknown>) {
  const guard = await harness.acquire(admissionLock, 60_000);
  const run = harness.newRun({ key: key("k") });
  await harness.store.reserve({ tenant: harness.tenant, guard, runId: run.runId, key: key("k") }, call);
  await expire();
  return { guard: { ...guard, policy: "continue" } as const, run };
}
