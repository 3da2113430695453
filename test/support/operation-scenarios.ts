// Every operation in the state in which it writes all the Redis keys it ever can, with those keys named.
import { createKeys, type TenantKeys } from "../../src/adapters/redis/keys.ts";
import { admissionLock } from "../../src/domain/lock.ts";
import { executeOn, type OperationName, operationNames, type RequestOf } from "../../src/ports/store.ts";
import { call, type Harness, key } from "../../src/testing/conformance/harness.ts";
import { gatePreparations, gateVariants } from "./gate-scenarios.ts";
import { heldVariants } from "./held-scenarios.ts";
import { limitVariants, listLedgers } from "./limit-scenarios.ts";
import { lockPreparations, lockVariants } from "./lock-scenarios.ts";
import { countJobs, placeVariants } from "./place-scenarios.ts";
import { runPreparations, runVariants } from "./run-scenarios.ts";

export type Scenario<Name extends OperationName = OperationName> = {
  readonly name: Name;
  readonly request: RequestOf<Name>;
  /** Empty for an operation that only reads. */
  readonly writes: readonly string[];
  /** Keys removed whatever they hold: a wrong type there is no error. */
  readonly removes?: readonly string[];
  /** The outcome when nothing goes wrong. */
  readonly kind: string;
};

export const prefix = "interlock";

const variants = {
  ...runVariants,
  ...lockVariants,
  ...placeVariants,
  ...heldVariants,
  ...gateVariants,
  ...limitVariants,
};

/** An operation, or one of its variants: `<operation>: <what is different>`. */
export type ScenarioName = OperationName | keyof typeof variants;

export const scenarioNames = [
  ...operationNames,
  ...Object.keys(variants),
] as unknown as readonly ScenarioName[];

/** Puts the harness' tenant into the state that the operation needs. */
export async function prepareScenario(
  scenario: ScenarioName,
  harness: Harness,
  remove: RemoveKey,
): Promise<Scenario> {
  const keys = createKeys(prefix).forTenant(harness.tenant);
  const name = scenario.split(":")[0] as OperationName;
  const prepare = Object.hasOwn(variants, scenario)
    ? variants[scenario as keyof typeof variants]
    : preparations[name];
  return { name, ...(await prepare(harness, keys, remove)) };
}

/** Removes a key behind the store's back: a lock is then as if it had expired, without waiting. */
export type RemoveKey = (key: string) => Promise<unknown>;

/** Performs the scenario's operation; the one place where its name and its request are put together. */
export function performScenario(harness: Harness, scenario: Scenario, options = call) {
  return executeOn(harness.store)(scenario.name, scenario.request, options);
}

const reads = /^(get|inspect|count|load|list|read|find)/;

/** Operations that change something, for tests that count effects. */
export const writingOperations: readonly OperationName[] = operationNames.filter((name) => !reads.test(name));

export const writingScenarios: readonly ScenarioName[] = scenarioNames.filter((name) => !reads.test(name));

export type Preparation<Name extends OperationName> = (
  harness: Harness,
  keys: TenantKeys,
  remove: RemoveKey,
) => Promise<Omit<Scenario<Name>, "name">>;

const preparations: { readonly [Name in OperationName]: Preparation<Name> } = {
  ...runPreparations,
  ...lockPreparations,
  ...gatePreparations,
  countJobs,
  listLedgers,
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
    return { request, writes: [keys.tenant, keys.events, keys.trail], kind: "saved" };
  },
  async reserve(harness, keys, remove) {
    const removes = await fillQuota(harness, keys);
    // Twice this is less than the time until the tenant is proved: the proof is moved to the reservation's end.
    const ttlMs = 10_000;
    const guard = { ...(await harness.acquire(admissionLock, ttlMs)), policy: "continue" } as const;
    await remove(keys.admissionLock);
    const { runId } = harness.newRun();
    const writes = [
      ...[keys.lock(admissionLock), keys.grant(admissionLock), keys.reservation(key("k").digest)],
      ...[keys.keyed, keys.due],
    ];
    const request = { tenant: harness.tenant, guard, runId, key: key("k") };
    return { request, writes, removes, kind: "reserved" };
  },
  async cancelReservation(harness, keys, remove) {
    const { guard, run } = await reserved(harness, () => remove(keys.admissionLock));
    const { digest } = key("k");
    const request = { tenant: harness.tenant, digest, runId: run.runId, token: guard.token };
    return { request, writes: [keys.reservation(digest), keys.keyed], kind: "cancelled" };
  },
  async countActive(harness) {
    await harness.admit();
    return { request: { tenant: harness.tenant }, writes: [], kind: "counted" };
  },
  async countUsage(harness) {
    await harness.admit();
    await harness.acquire({ namespace: "public", name: "printer" }, 60_000);
    return { request: { tenant: harness.tenant }, writes: [], kind: "counted" };
  },
  async createRun(harness, keys, remove) {
    const { guard, run } = await reserved(harness, () => remove(keys.admissionLock));
    const writes = [
      ...[keys.run(run.runId), keys.runs, keys.active, keys.events],
      ...[keys.reservation(key("k").digest), keys.keyed, keys.due],
      ...[keys.lock(guard.lock), keys.grant(guard.lock)],
    ];
    return { request: { tenant: harness.tenant, guard, run }, writes, kind: "admitted" };
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
  async dropTrail(harness, keys) {
    await harness.set({ maxConcurrentRuns: 3 });
    const request = { tenant: harness.tenant, below: 2, actor: "tester" };
    return { request, writes: [keys.events, keys.trail], kind: "dropped" };
  },
};

/** Under `continue` a guarded write takes an expired lock again: the lock and its grant are then among the writes. */
async function reserved(harness: Harness, expire: () => Promise<unknown>) {
  const guard = await harness.acquire(admissionLock, 60_000);
  const run = harness.newRun({ key: key("k") });
  await harness.store.reserve({ tenant: harness.tenant, guard, runId: run.runId, key: key("k") }, call);
  await expire();
  return { guard: { ...guard, policy: "continue" } as const, run };
}

/** With a store that keeps two keys of a tenant the next one takes the place of the first of these, which is given. */
async function fillQuota(harness: Harness, keys: TenantKeys): Promise<readonly string[]> {
  for (const text of ["first", "second"])
    await harness.end(await harness.admit(harness.newRun({ key: key(text) })));
  return [keys.reservation(key("first").digest)];
}
