// Pools and topics as operators see and set them. Their limits are settings of the tenant, so that every claim reads them.
import { defaultPool, type PoolLimits, poolLimits, topicLimits } from "../../domain/job.ts";
import type { TenantId, TenantSettings } from "../../domain/tenant.ts";
import { ask } from "../ask-until-known.ts";
import type { Trouble, WorkerInfo } from "../control-api.ts";
import type { Engine } from "../engine/engine.ts";
import type { WorkerViews } from "../jobs/workers.ts";
import { changeTenant, readRecord } from "../tenants/tenants.ts";
import type { PoolApi, PoolInfo, TopicInfo } from "./pool-api.ts";

type Desk = { readonly engine: Engine; readonly workers: WorkerViews };

/** Every claim of the tenant reads them all. */
const namesMax = 200;
const lettersMax = 65_536;

export function createPoolApi(engine: Engine, workers: WorkerViews): PoolApi {
  const desk: Desk = { engine, workers };
  return {
    async listPools(tenant) {
      const settings = await readSettings(engine, tenant);
      if (settings.kind !== "settings") return settings;
      const seen = workers.list(tenant).map(({ pool }) => pool);
      const names = [
        ...new Set([defaultPool, ...Object.keys(settings.settings.pools ?? {}), ...seen]),
      ].sort();
      const pools = await describePools(desk, tenant, settings.settings, names);
      return "kind" in pools ? pools : { kind: "listed", pools };
    },
    async getPool(tenant, name) {
      const settings = await readSettings(engine, tenant);
      if (settings.kind !== "settings") return settings;
      if (!isKnown(desk, tenant, settings.settings, name)) return { kind: "not_found" };
      return poolAnswer(desk, tenant, settings.settings, name);
    },
    setPool: (caller, name, limits) =>
      changePools(desk, caller, name, (pool) => ({
        ...limits,
        ...(pool?.draining === true ? { draining: true } : {}),
      })),
    async changePool(caller, name, changes) {
      const settings = await readSettings(engine, caller.tenant);
      if (settings.kind !== "settings") return settings;
      if (!isKnown(desk, caller.tenant, settings.settings, name)) return { kind: "not_found" };
      return changePools(desk, caller, name, (pool) => compact({ ...pool, ...changes }));
    },
    removePool: (caller, name) =>
      removeFrom(engine, caller, (settings) => {
        if (poolLimits(settings, name) === undefined) return undefined;
        return { pools: without(settings.pools, name) };
      }),
    addPoolTopic: (caller, name, topic) =>
      changePools(desk, caller, name, (pool) => ({
        ...pool,
        topics: [...new Set([...(pool?.topics ?? []), topic])],
      })),
    removePoolTopic: (caller, name, topic) =>
      removeFrom(engine, caller, (settings) => {
        const pool = poolLimits(settings, name);
        if (pool?.topics?.includes(topic) !== true) return undefined;
        const topics = pool.topics.filter((each) => each !== topic);
        return { pools: { ...settings.pools, [name]: { ...pool, topics } } };
      }),
    ...createTopicApi(desk),
  };
}

function createTopicApi(desk: Desk): Pick<PoolApi, "listTopics" | "setTopic" | "removeTopic"> {
  const { engine, workers } = desk;
  return {
    async listTopics(tenant) {
      const settings = await readSettings(engine, tenant);
      if (settings.kind !== "settings") return settings;
      const seen = workers.list(tenant).flatMap(({ topics }) => topics);
      const names = [...new Set([...Object.keys(settings.settings.topics ?? {}), ...seen])].sort();
      const topics = await describeTopics(desk, tenant, settings.settings, names);
      return "kind" in topics ? topics : { kind: "listed", topics };
    },
    async setTopic(caller, name, maxRunning) {
      const saved = await save(engine, caller, (settings) => ({
        topics: { ...settings.topics, [name]: { maxRunning } },
      }));
      if (saved.kind !== "saved") return saved;
      const topics = await describeTopics(desk, caller.tenant, saved.settings, [name]);
      if ("kind" in topics) return topics;
      return { kind: "topic", topic: topics[0] ?? { name, running: 0, waiting: 0, workers: [] } };
    },
    removeTopic: (caller, name) =>
      removeFrom(engine, caller, (settings) => {
        if (topicLimits(settings, name) === undefined) return undefined;
        return { topics: without(settings.topics, name) };
      }),
  };
}

/** Undefined removes all of them. */
type Change = {
  readonly topics?: TenantSettings["topics"] | undefined;
  readonly pools?: TenantSettings["pools"] | undefined;
};
type Caller = Parameters<PoolApi["setPool"]>[0];

async function changePools(
  desk: Desk,
  caller: Caller,
  name: string,
  decide: (pool: PoolLimits | undefined) => PoolLimits,
) {
  const saved = await save(desk.engine, caller, (settings) => ({
    pools: { ...settings.pools, [name]: decide(poolLimits(settings, name)) },
  }));
  if (saved.kind !== "saved") return saved;
  return poolAnswer(desk, caller.tenant, saved.settings, name);
}

/** Refused before anything is written; what was changed meanwhile by others is decided anew. */
async function save(engine: Engine, caller: Caller, decide: (settings: TenantSettings) => Change) {
  const { tenant } = caller;
  const current = await readSettings(engine, tenant);
  if (current.kind !== "settings") return current;
  const detail = tooMany({ ...current.settings, ...decide(current.settings) });
  if (detail !== undefined) return { kind: "too_many", detail } as const;
  const answer = await changeTenant(engine, caller, tenant, decide);
  if (answer.kind === "saved") return { kind: "saved", settings: answer.record.settings } as const;
  return answer.kind === "version_conflict" ? ({ kind: "version_conflict" } as const) : answer;
}

/** `decide` gives nothing when there is nothing to remove. */
async function removeFrom(
  engine: Engine,
  caller: Caller,
  decide: (settings: TenantSettings) => Change | undefined,
) {
  const current = await readSettings(engine, caller.tenant);
  if (current.kind !== "settings") return current;
  if (decide(current.settings) === undefined) return { kind: "not_found" } as const;
  const answer = await changeTenant(engine, caller, caller.tenant, (now) => decide(now) ?? {});
  if (answer.kind === "saved") return { kind: "removed" } as const;
  return answer.kind === "version_conflict" ? ({ kind: "version_conflict" } as const) : answer;
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
function isKnown({ workers }: Desk, tenant: TenantId, settings: TenantSettings, name: string): boolean {
  if (name === defaultPool || poolLimits(settings, name) !== undefined) return true;
  return workers.list(tenant).some(({ pool }) => pool === name);
}

async function readSettings(
  engine: Engine,
  tenant: TenantId,
): Promise<{ readonly kind: "settings"; readonly settings: TenantSettings } | Trouble> {
  const answer = await readRecord(engine, tenant);
  return answer.kind === "tenant" ? { kind: "settings", settings: answer.record.settings } : answer;
}

async function poolAnswer(desk: Desk, tenant: TenantId, settings: TenantSettings, name: string) {
  const pools = await describePools(desk, tenant, settings, [name]);
  if ("kind" in pools) return pools;
  const [pool] = pools;
  return pool === undefined ? ({ kind: "not_found" } as const) : ({ kind: "pool", pool } as const);
}

async function describePools(
  { engine, workers }: Desk,
  tenant: TenantId,
  settings: TenantSettings,
  names: readonly string[],
): Promise<readonly PoolInfo[] | Trouble> {
  const counted = await count(engine, tenant, { topics: [], pools: names });
  if (counted.kind !== "counted") return counted;
  const seen = workers.list(tenant);
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
  { engine, workers }: Desk,
  tenant: TenantId,
  settings: TenantSettings,
  names: readonly string[],
): Promise<readonly TopicInfo[] | Trouble> {
  const counted = await count(engine, tenant, { topics: names, pools: [] });
  if (counted.kind !== "counted") return counted;
  const seen = workers.list(tenant);
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
  engine: Engine,
  tenant: TenantId,
  names: { readonly topics: readonly string[]; readonly pools: readonly string[] },
) {
  const answer = await ask(engine, "countJobs", { tenant, ...names });
  return answer.kind === "counted" ? answer : { kind: answer.kind, cause: answer.cause };
}
