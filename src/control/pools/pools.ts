// Pools and topics as operators see and set them. Their limits are settings of the tenant, so that every claim reads them.

import { defaultPool, type PoolLimits, poolLimits, topicLimits } from "../../domain/job.ts";
import type { TenantId, TenantSettings } from "../../domain/tenant.ts";
import { ask } from "../ask-until-known.ts";
import type { Caller, Trouble, WriteTrouble } from "../caller.ts";
import type { Engine } from "../engine/engine.ts";
import type { WorkerInfo } from "../jobs/workers.ts";
import { changeSettings, readRecord } from "../tenants/tenants.ts";

export const poolFlows = {
  addPoolTopic,
  changePool,
  getPool,
  listPools,
  listTopics,
  removePool,
  removePoolTopic,
  removeTopic,
  setPool,
  setTopic,
};

export type PoolInfo = {
  readonly name: string;
  /** Absent for a pool that is known by its workers alone. */
  readonly limits?: PoolLimits;
  /** Jobs that its workers have, as far as they are counted. */
  readonly running: number;
  /** It drains, and nothing runs any more. */
  readonly isDrained: boolean;
  /** Of the workers seen lately. */
  readonly workers: readonly string[];
};

export type TopicInfo = {
  readonly name: string;
  readonly maxRunning?: number;
  readonly running: number;
  /** Ready for a worker. */
  readonly waiting: number;
  readonly workers: readonly string[];
};

type OfTenant = { readonly tenant: TenantId };
type NamedByTenant = OfTenant & { readonly name: string };
type NamedByCaller = { readonly caller: Caller; readonly name: string };

async function listPools(
  engine: Engine<"tenants" | "jobs">,
  { tenant }: OfTenant,
): Promise<{ readonly kind: "listed"; readonly pools: readonly PoolInfo[] } | Trouble> {
  const settings = await readSettings(engine, tenant);
  if (settings.kind !== "settings") return settings;
  const seen = engine.sharedWorkers.list(tenant).map(({ pool }) => pool);
  const names = [...new Set([defaultPool, ...Object.keys(settings.settings.pools ?? {}), ...seen])].sort();
  const pools = await describePools(engine, tenant, settings.settings, names);
  return "kind" in pools ? pools : { kind: "listed", pools };
}

type Pool = { readonly kind: "pool"; readonly pool: PoolInfo };

async function getPool(
  engine: Engine<"tenants" | "jobs">,
  { tenant, name }: NamedByTenant,
): Promise<Pool | { readonly kind: "pool_not_found" } | Trouble> {
  const settings = await readSettings(engine, tenant);
  if (settings.kind !== "settings") return settings;
  if (!isKnown(engine, tenant, settings.settings, name)) return { kind: "pool_not_found" };
  return poolAnswer(engine, tenant, settings.settings, name);
}

/** What a change of limits is refused for. */
type NotChanged =
  /** So many pools, topics or names that every claim would take too long. */
  | { readonly kind: "invalid_request"; readonly detail: string }
  | { readonly kind: "version_conflict" }
  | WriteTrouble;

/** Sets a pool's limits, also of one that nobody has seen yet; `draining` stays as it is. */
function setPool(
  engine: Engine<"tenants" | "jobs">,
  { caller, name, limits }: NamedByCaller & { readonly limits: Pick<PoolLimits, "maxRunning" | "topics"> },
): Promise<Pool | NotChanged> {
  return changePools(engine, caller, name, (pool) => ({
    ...limits,
    ...(pool?.draining === true ? { draining: true } : {}),
  }));
}

/** What is absent stays; undefined removes it. */
export type PoolChanges = {
  readonly maxRunning?: number | undefined;
  readonly topics?: readonly string[] | undefined;
  readonly draining?: true | undefined;
};

/** Changes a pool that is known: it has limits, workers, or is the default. */
async function changePool(
  engine: Engine<"tenants" | "jobs">,
  { caller, name, changes }: NamedByCaller & { readonly changes: PoolChanges },
): Promise<Pool | { readonly kind: "pool_not_found" } | NotChanged> {
  const settings = await readSettings(engine, caller.tenant);
  if (settings.kind !== "settings") return settings;
  if (!isKnown(engine, caller.tenant, settings.settings, name)) return { kind: "pool_not_found" };
  return changePools(engine, caller, name, (pool) => compact({ ...pool, ...changes }));
}

/** Removes its limits; workers of it may go on. */
function removePool(engine: Engine<"tenants" | "jobs">, { caller, name }: NamedByCaller) {
  return removeFrom(engine, caller, "pool_not_found", (settings) => {
    if (poolLimits(settings, name) === undefined) return undefined;
    return { pools: without(settings.pools, name) };
  });
}

type NamedTopic = NamedByCaller & { readonly topic: string };

/** From the first topic on the pool gets no others. */
function addPoolTopic(
  engine: Engine<"tenants" | "jobs">,
  { caller, name, topic }: NamedTopic,
): Promise<Pool | NotChanged> {
  return changePools(engine, caller, name, (pool) => ({
    ...pool,
    topics: [...new Set([...(pool?.topics ?? []), topic])],
  }));
}

/** Without its last one the pool gets no jobs; `changePool` lifts the restriction. */
function removePoolTopic(engine: Engine<"tenants" | "jobs">, { caller, name, topic }: NamedTopic) {
  return removeFrom(engine, caller, "pool_not_found", (settings) => {
    const pool = poolLimits(settings, name);
    if (pool?.topics?.includes(topic) !== true) return undefined;
    const topics = pool.topics.filter((each) => each !== topic);
    return { pools: { ...settings.pools, [name]: { ...pool, topics } } };
  });
}

async function listTopics(
  engine: Engine<"tenants" | "jobs">,
  { tenant }: OfTenant,
): Promise<{ readonly kind: "listed"; readonly topics: readonly TopicInfo[] } | Trouble> {
  const settings = await readSettings(engine, tenant);
  if (settings.kind !== "settings") return settings;
  const seen = engine.sharedWorkers.list(tenant).flatMap(({ topics }) => topics);
  const names = [...new Set([...Object.keys(settings.settings.topics ?? {}), ...seen])].sort();
  const topics = await describeTopics(engine, tenant, settings.settings, names);
  return "kind" in topics ? topics : { kind: "listed", topics };
}

async function setTopic(
  engine: Engine<"tenants" | "jobs">,
  { caller, name, maxRunning }: NamedByCaller & { readonly maxRunning: number },
): Promise<{ readonly kind: "topic"; readonly topic: TopicInfo } | NotChanged> {
  const saved = await save(engine, caller, (settings) => ({
    topics: { ...settings.topics, [name]: { maxRunning } },
  }));
  if (saved.kind !== "saved") return saved;
  const topics = await describeTopics(engine, caller.tenant, saved.settings, [name]);
  if ("kind" in topics) return topics;
  return { kind: "topic", topic: topics[0] ?? { name, running: 0, waiting: 0, workers: [] } };
}

function removeTopic(engine: Engine<"tenants" | "jobs">, { caller, name }: NamedByCaller) {
  return removeFrom(engine, caller, "topic_not_found", (settings) => {
    if (topicLimits(settings, name) === undefined) return undefined;
    return { topics: without(settings.topics, name) };
  });
}

/** Every claim of the tenant reads them all. */
const namesMax = 200;
const lettersMax = 65_536;

/** Undefined removes all of them. */
type Change = {
  readonly topics?: TenantSettings["topics"] | undefined;
  readonly pools?: TenantSettings["pools"] | undefined;
};

async function changePools(
  engine: Engine<"tenants" | "jobs">,
  caller: Caller,
  name: string,
  decide: (pool: PoolLimits | undefined) => PoolLimits,
): Promise<Pool | NotChanged> {
  const saved = await save(engine, caller, (settings) => ({
    pools: { ...settings.pools, [name]: decide(poolLimits(settings, name)) },
  }));
  if (saved.kind !== "saved") return saved;
  return poolAnswer(engine, caller.tenant, saved.settings, name);
}

/** Refused before anything is written; what was changed meanwhile by others is decided anew. */
async function save(
  engine: Engine<"tenants" | "jobs">,
  caller: Caller,
  decide: (settings: TenantSettings) => Change,
) {
  const { tenant } = caller;
  const current = await readSettings(engine, tenant);
  if (current.kind !== "settings") return current;
  const detail = tooMany({ ...current.settings, ...decide(current.settings) });
  if (detail !== undefined) return { kind: "invalid_request", detail } as const;
  const answer = await changeSettings(engine, { by: caller, tenant }, decide);
  if (answer.kind === "saved") return { kind: "saved", settings: answer.record.settings } as const;
  return answer.kind === "version_conflict" ? ({ kind: "version_conflict" } as const) : answer;
}

/** `decide` gives nothing when there is nothing to remove. */
async function removeFrom<Missing extends "pool_not_found" | "topic_not_found">(
  engine: Engine<"tenants" | "jobs">,
  caller: Caller,
  missing: Missing,
  decide: (settings: TenantSettings) => Change | undefined,
): Promise<
  | { readonly kind: "removed" }
  | { readonly kind: Missing }
  | { readonly kind: "version_conflict" }
  | WriteTrouble
> {
  const current = await readSettings(engine, caller.tenant);
  if (current.kind !== "settings") return current;
  if (decide(current.settings) === undefined) return { kind: missing };
  const owner = { by: caller, tenant: caller.tenant };
  const answer = await changeSettings(engine, owner, (now) => decide(now) ?? {});
  if (answer.kind === "saved") return { kind: "removed" };
  return answer.kind === "version_conflict" ? { kind: "version_conflict" } : answer;
}

function tooMany({ topics = {}, pools = {} }: Change): string | undefined {
  const ofPools = Object.values(pools).map(({ topics: own = [] }) => own.length);
  if (Object.keys(topics).length > namesMax) return `a tenant may limit ${namesMax} topics`;
  if (Object.keys(pools).length > namesMax) return `a tenant may have limits for ${namesMax} pools`;
  if (ofPools.some((amount) => amount > namesMax)) return `a pool may be restricted to ${namesMax} topics`;
  const letters = JSON.stringify([topics, pools]).length;
  return letters > lettersMax ? "the names of all limited topics and pools are too long together" : undefined;
}

function without<Value>(named: Readonly<Record<string, Value>> = {}, name: string) {
  const left = Object.entries(named).filter(([each]) => each !== name);
  return left.length === 0 ? undefined : (Object.fromEntries(left) as Readonly<Record<string, Value>>);
}

function compact(limits: { readonly [Name in keyof PoolLimits]: PoolLimits[Name] | undefined }): PoolLimits {
  return Object.fromEntries(Object.entries(limits).filter(([, value]) => value !== undefined)) as PoolLimits;
}

/** A name that nobody has set, seen or is the default is most likely mistyped. */
function isKnown(
  engine: Engine<"tenants" | "jobs">,
  tenant: TenantId,
  settings: TenantSettings,
  name: string,
): boolean {
  if (name === defaultPool || poolLimits(settings, name) !== undefined) return true;
  return engine.sharedWorkers.list(tenant).some(({ pool }) => pool === name);
}

async function readSettings(
  engine: Engine<"tenants" | "jobs">,
  tenant: TenantId,
): Promise<{ readonly kind: "settings"; readonly settings: TenantSettings } | Trouble> {
  const answer = await readRecord(engine, tenant);
  return answer.kind === "tenant" ? { kind: "settings", settings: answer.record.settings } : answer;
}

async function poolAnswer(
  engine: Engine<"tenants" | "jobs">,
  tenant: TenantId,
  settings: TenantSettings,
  name: string,
): Promise<Pool | Trouble> {
  const pools = await describePools(engine, tenant, settings, [name]);
  if ("kind" in pools) return pools;
  const [pool = { name, running: 0, isDrained: false, workers: [] }] = pools;
  return { kind: "pool", pool };
}

async function describePools(
  engine: Engine<"tenants" | "jobs">,
  tenant: TenantId,
  settings: TenantSettings,
  names: readonly string[],
): Promise<readonly PoolInfo[] | Trouble> {
  const counted = await count(engine, tenant, { topics: [], pools: names });
  if (counted.kind !== "counted") return counted;
  const seen = engine.sharedWorkers.list(tenant);
  return counted.pools.map(({ pool: name, running }) => {
    const limits = poolLimits(settings, name);
    const own = seen.filter(({ pool }) => pool === name);
    // What ran before anybody counted is known from the workers until its next heartbeat.
    const isIdle = running === 0 && own.every((worker) => worker.running === 0);
    return {
      ...{ name, running, workers: namesOf(own), isDrained: limits?.draining === true && isIdle },
      ...(limits === undefined ? {} : { limits }),
    };
  });
}

async function describeTopics(
  engine: Engine<"tenants" | "jobs">,
  tenant: TenantId,
  settings: TenantSettings,
  names: readonly string[],
): Promise<readonly TopicInfo[] | Trouble> {
  const counted = await count(engine, tenant, { topics: names, pools: [] });
  if (counted.kind !== "counted") return counted;
  const seen = engine.sharedWorkers.list(tenant);
  return counted.topics.map(({ topic: name, running, waiting }) => {
    const limits = topicLimits(settings, name);
    const own = seen.filter(({ topics }) => topics.includes(name));
    return { name, running, waiting, workers: namesOf(own), ...limits };
  });
}

function namesOf(workers: readonly WorkerInfo[]): readonly string[] {
  return workers.map(({ worker }) => worker).sort();
}

async function count(
  engine: Engine<"tenants" | "jobs">,
  tenant: TenantId,
  names: { readonly topics: readonly string[]; readonly pools: readonly string[] },
) {
  const answer = await ask(engine, "countJobs", { tenant, ...names });
  return answer.kind === "counted" ? answer : { kind: answer.kind, cause: answer.cause };
}
