// Clients of a tenant whose runs nothing but a cancel ends: they start, cancel, read and change the limit, in each other's way.
import { setTimeout as sleep } from "node:timers/promises";
import type { SeededRandom } from "../src/testing/seeded-random.ts";
import type { Asker, Outcome } from "./asking.ts";
import { createGatewayClient, type GatewayClient } from "./gateways.ts";
import type { Tenant } from "./tenants.ts";
import { gatesOf, idleWorkflow } from "./workflows.ts";

export type Lane = {
  readonly asker: Asker;
  readonly urls: readonly string[];
  readonly random: SeededRandom;
  /** When the load ends. */
  readonly signal: AbortSignal;
  /** Clients rest so many times as long as usual. */
  readonly restFactor: number;
};

/** A client's rest between two requests; the end of the load ends it. */
export async function pause(
  { signal, restFactor }: Pick<Lane, "signal" | "restFactor">,
  ms: number,
): Promise<void> {
  await sleep(ms * restFactor, undefined, { signal }).catch(() => undefined);
}

/** What a later start may repeat, and what the end reads. */
export type KeyedStart = {
  readonly tenant: Tenant;
  readonly workflow: string;
  readonly key: string;
  /** Its input; two starts of the same key and input are the same request. */
  readonly order: number;
  /** Where the workflow has gates of each customer. */
  readonly customer?: string;
};

/** What clients have learnt of runs and keys. */
export type Knowledge = {
  /** By run id: whose it is. */
  readonly runs: Map<string, Tenant>;
  /** Of every key that was sent, the first start, by its name. */
  readonly keys: Map<string, KeyedStart>;
  /** By the same name: the run that clients were told of. */
  readonly runOfKey: Map<string, string>;
};

export function nameOf({ tenant, key }: KeyedStart): string {
  return `${tenant.id} ${key}`;
}

export function noteKey({ keys }: Knowledge, start: KeyedStart): void {
  const name = nameOf(start);
  if (!keys.has(name)) keys.set(name, start);
}

const clients = 3;

/** Resolves when `signal` is aborted and every client has its last answer. */
export async function useLedger(
  lane: Lane,
  knowledge: Knowledge,
  tenant: Tenant,
  platform: string,
): Promise<void> {
  const shared: Shared = { active: [], unsettled: [], settled: [], started: 0 };
  const each = async (_: unknown, number: number) => {
    const name = `${tenant.id}.${number + 1}`;
    const random = lane.random.stream(name);
    const own = createGatewayClient(lane.urls, tenant.admin, number);
    const operator = createGatewayClient(lane.urls, platform, number);
    const client = new LedgerClient({
      lane: { ...lane, random },
      knowledge,
      tenant,
      name,
      own,
      operator,
      shared,
    });
    while (!lane.signal.aborted) {
      await client.act();
      await pause(lane, random.integer(40, 200));
    }
  };
  await Promise.all(Array.from({ length: clients }, each));
}

type Shared = {
  /** Runs that were started and are not known to be cancelled. */
  readonly active: string[];
  /** Starts of which it is not known whether they happened. */
  readonly unsettled: KeyedStart[];
  /** Some that are known, to be repeated. */
  readonly settled: KeyedStart[];
  started: number;
};

type Setting = {
  readonly lane: Lane;
  readonly knowledge: Knowledge;
  readonly tenant: Tenant;
  readonly name: string;
  readonly own: GatewayClient;
  readonly operator: GatewayClient;
  readonly shared: Shared;
};

class LedgerClient {
  readonly #with: Setting;

  constructor(setting: Setting) {
    this.#with = setting;
  }

  async act(): Promise<void> {
    const { lane, shared } = this.#with;
    const { random } = lane;
    const drawn = random.fraction();
    // As soon as possible: what is open makes the history hard to decide.
    const unsettled = shared.unsettled.shift();
    if (unsettled !== undefined) await this.#start(unsettled);
    else if (drawn < 0.05) await this.#setLimit(random.integer(1, 4));
    else if (drawn < 0.25 && shared.active.length > 0) await this.#get(random.pick(shared.active));
    else if (drawn < 0.55 && shared.active.length > 0) await this.#cancel(this.#takeActive());
    else if (drawn < 0.62 && shared.settled.length > 0) await this.#repeat(random.pick(shared.settled));
    else await this.#start(this.#newStart());
  }

  #newStart(): KeyedStart {
    const { tenant, shared } = this.#with;
    shared.started += 1;
    return { tenant, workflow: idleWorkflow.id, key: `key-${shared.started}`, order: shared.started };
  }

  #takeActive(): string {
    const { lane, shared } = this.#with;
    const [taken] = shared.active.splice(lane.random.integer(0, shared.active.length - 1), 1);
    return taken as string;
  }

  /** Now and then as another request with the same key. */
  async #repeat(start: KeyedStart): Promise<void> {
    const isOther = this.#with.lane.random.chance(0.3);
    await this.#start(isOther ? { ...start, order: -start.order } : start);
  }

  async #start(start: KeyedStart): Promise<void> {
    const { knowledge, own, shared } = this.#with;
    noteKey(knowledge, start);
    const outcome = await askStart(this.#with.lane.asker, this.#with.name, own, start);
    if (outcome.kind === "unknown") shared.unsettled.push(start);
    if (outcome.kind !== "ok") return;
    const { run_id, replayed } = outcome.value;
    if (!knowledge.runs.has(run_id)) {
      knowledge.runs.set(run_id, start.tenant);
      knowledge.runOfKey.set(nameOf(start), run_id);
      shared.active.push(run_id);
    }
    if (!replayed) shared.settled.push(start);
    if (shared.settled.length > 20) shared.settled.shift();
  }

  async #cancel(runId: string): Promise<void> {
    const { lane, name, own, shared, tenant } = this.#with;
    const outcome = await askCancel(lane.asker, name, own, { tenant: tenant.id, runId });
    if (outcome.kind !== "ok" && !["run_ended", "run_not_found"].includes(outcome.code))
      shared.active.push(runId);
  }

  async #get(runId: string): Promise<void> {
    const { lane, name, own, tenant } = this.#with;
    await askGet(lane.asker, name, own, { tenant: tenant.id, runId });
  }

  async #setLimit(limit: number): Promise<void> {
    const { lane, name, operator, tenant } = this.#with;
    const outcome = await lane.asker.ask({
      client: name,
      operation: { operation: "set_limit", tenant: tenant.id, limit },
      send: () =>
        operator
          .client()
          .call("changeTenant", { params: { id: tenant.id }, body: { max_concurrent_runs: limit } }),
      answerOf: () => ({ kind: "done" }),
    });
    operator.learn(outcome);
  }
}

type OfRun = { readonly tenant: string; readonly runId: string };
type Started = { readonly run_id: string; readonly replayed: boolean };

export async function askStart(
  asker: Asker,
  client: string,
  gateway: GatewayClient,
  { tenant, workflow, key, order, customer = "" }: KeyedStart,
): Promise<Outcome<Started>> {
  const gates = gatesOf(workflow, customer);
  const outcome = await asker.ask({
    client,
    operation: {
      ...{ operation: "start", tenant: tenant.id, workflow, key },
      fingerprint: `${workflow} ${order} ${customer}`.trim(),
      ...(gates === undefined ? {} : { gates }),
    },
    send: () =>
      gateway
        .client()
        .runs.start(workflow, customer === "" ? { order } : { order, customer }, { idempotencyKey: key }),
    answerOf: ({ run_id, replayed }) => ({ kind: "run", runId: run_id, replayed }),
  });
  gateway.learn(outcome);
  return outcome;
}

export async function askCancel(
  asker: Asker,
  client: string,
  gateway: GatewayClient,
  { tenant, runId }: OfRun,
): Promise<Outcome<void>> {
  const outcome = await asker.ask({
    client,
    operation: { operation: "cancel", tenant, runId },
    send: () => gateway.client().runs.cancel(runId),
    answerOf: () => ({ kind: "done" }),
    refusalOf: ({ run_status: status }) =>
      typeof status === "string" ? { kind: "status", status } : undefined,
  });
  gateway.learn(outcome);
  return outcome;
}

export async function askGet(
  asker: Asker,
  client: string,
  gateway: GatewayClient,
  { tenant, runId }: OfRun,
): Promise<Outcome<{ readonly status: string }>> {
  const outcome = await asker.ask({
    client,
    operation: { operation: "get", tenant, runId },
    send: () => gateway.client().runs.get(runId),
    answerOf: ({ status }) => ({ kind: "status", status }),
  });
  gateway.learn(outcome);
  return outcome;
}
