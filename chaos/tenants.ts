// The tenants of a chaos run: some whose workers do the work, one whose runs wait at gates, some whose runs only a cancel ends, and one for locks.

import { setTimeout as sleep } from "node:timers/promises";
import { type Body, createClient } from "../src/sdk/index.ts";
import { outcomeOf } from "./asking.ts";
import { allWorkflows, idleWorkflow, queuedWorkflows, sharedGate } from "./workflows.ts";

export type Tenant = {
  readonly id: string;
  readonly admin: string;
  readonly worker: string;
  /** Runs at once, to begin with. */
  readonly limit: number;
};

export type Tenants = {
  readonly platform: string;
  readonly work: readonly Tenant[];
  /** One whose runs wait at gates of their workflows, and never for the tenant's own. */
  readonly queued: Tenant;
  readonly locks: Tenant;
  /** Made while the run goes on: each is used for a while, so that its history stays short enough to be decided. */
  makeLedger(number: number): Promise<Tenant>;
  /** One whose limit nobody reaches. */
  makeRoomy(): Promise<Tenant>;
  /** All that were made so far. */
  all(): readonly Tenant[];
};

type Setup = { readonly urls: readonly string[]; readonly platform: string; readonly workTenants: number };

const workLimit = 6;
const ledgerLimit = 3;
const roomyLimit = 100_000;

export async function createTenants({ urls, platform, workTenants }: Setup): Promise<Tenants> {
  const made: Tenant[] = [];
  const make = async (id: string, limit: number, workflows: readonly object[], settings: Settings = {}) => {
    const tenant = await makeTenant({ urls, platform }, { id, limit, workflows, settings });
    made.push(tenant);
    return tenant;
  };
  const names = Array.from({ length: workTenants }, (_, index) => `work-${index + 1}`);
  // Every other one has results that wait while their run is busy.
  const strategies = [{}, { results_strategy: "retry" }] as const;
  const work = await Promise.all(
    names.map((id, index) => make(id, workLimit, allWorkflows, strategies[index % 2])),
  );
  const gates = { [sharedGate.name]: { max: sharedGate.max } };
  const queued = await make("queued", roomyLimit, Object.values(queuedWorkflows), { gates });
  const locks = await make("locks", 1, []);
  return {
    platform,
    work,
    queued,
    locks,
    makeLedger: (number) => make(`ledger-${number}`, ledgerLimit, [idleWorkflow]),
    makeRoomy: () => make("roomy", roomyLimit, [idleWorkflow]),
    all: () => made,
  };
}

type Settings = Pick<Body<"createTenant">, "results_strategy" | "gates">;

type NewTenant = {
  readonly id: string;
  readonly limit: number;
  readonly workflows: readonly object[];
  readonly settings: Settings;
};

async function makeTenant(
  { urls, platform }: Omit<Setup, "workTenants">,
  { id, limit, workflows, settings }: NewTenant,
): Promise<Tenant> {
  const done = untilDone(urls);
  await done(
    platform,
    (client) => client.call("createTenant", { body: { id, max_concurrent_runs: limit, ...settings } }),
    "tenant_exists",
  );
  const keyOf = async (role: "admin" | "worker") => {
    const body = { tenant: id, role, name: role };
    return (await done(platform, (client) => client.call("createKey", { body })))?.key ?? "";
  };
  const [admin, worker] = [await keyOf("admin"), await keyOf("worker")];
  for (const workflow of workflows) {
    await done(admin, (client) => client.call("saveWorkflow", { body: workflow as Record<string, never> }));
  }
  return { id, admin, worker, limit };
}

/** Asks one gateway after the other until one has done it; a code may say that it was done before. */
function untilDone(urls: readonly string[]) {
  return async <Value>(
    apiKey: string,
    send: (client: ReturnType<typeof createClient>) => Promise<Value>,
    doneCode?: string,
  ): Promise<Value | undefined> => {
    for (let tries = 0; tries < 100; tries += 1) {
      const url = urls[tries % urls.length];
      const client = createClient({ url, apiKey, timeoutMs: 3_000, retry: { attemptsMax: 1 } });
      const outcome = await outcomeOf(() => send(client));
      if (outcome.kind === "ok") return outcome.value;
      if (outcome.code === doneCode) return undefined;
      if (outcome.kind === "fail" && outcome.problem?.retryable === false)
        throw new Error(outcome.problem.detail);
      await sleep(200);
    }
    throw new Error("a tenant could not be made in 100 tries");
  };
}
