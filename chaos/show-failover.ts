// What a failover loses, shown: the same cut and the same death of a primary under starts, once at each level of durability.
import { setTimeout as sleep } from "node:timers/promises";
import { type Client, createClient } from "../src/sdk/index.ts";
import { outcomeOf } from "./asking.ts";
import { mendRedis } from "./server-faults.ts";
import { type Durability, type System, startSystem } from "./system.ts";
import type { Tenant } from "./tenants.ts";
import { idleWorkflow } from "./workflows.ts";

type Lost = {
  readonly acknowledged: number;
  readonly lost: number;
  readonly unknown: number;
  readonly refused: number;
};

const topology = { gateways: 2, engines: 1, schedulers: 0, workers: 0, workTenants: 0 };
const starters = 6;
const healthyMs = 2_000;
const cutOffMs = 2_000;

/** The exit code: 1 when `replicated` lost something, and when `process` did not, since then nothing was shown. */
export async function showFailover(seed: number, say: (line: string) => void): Promise<number> {
  say(
    "A primary is cut off from its replica, takes starts for 2 s more, dies, and its replica takes its place.\n",
  );
  const row = (...cells: string[]) =>
    cells.map((cell, index) => (index === 0 ? cell.padEnd(12) : cell.padStart(14))).join("");
  say(row("durability", "acknowledged", "of them lost", "told unknown", "told refused"));
  const results = new Map<Durability, Lost>();
  for (const durability of ["process", "replicated"] as const) {
    const result = await loseBy(durability, seed);
    results.set(durability, result);
    const { acknowledged, lost, unknown, refused } = result;
    say(row(durability, ...[acknowledged, lost, unknown, refused].map(String)));
  }
  say(
    "\nINTERLOCK_STORE_DURABILITY=replicated (with min-replicas-to-write 1 on the servers) removes the loss.",
  );
  const isShown = (results.get("process")?.lost ?? 0) > 0;
  return isShown && results.get("replicated")?.lost === 0 ? 0 : 1;
}

async function loseBy(durability: Durability, seed: number): Promise<Lost> {
  const system = await startSystem({ seed, durability, guard: "fences", ...topology });
  try {
    const tenant = await system.tenants.makeRoomy();
    const load = startRuns(system, tenant);
    await sleep(healthyMs);
    const primary = await system.redis.namedMaster();
    await system.redis.cutReplication();
    await sleep(cutOffMs);
    const { runIds, unknown, refused } = await load.stop();
    await primary.kill();
    await system.redis.untilReplaced(primary);
    await primary.restart();
    await mendRedis(system);
    const lost = await countMissing(clientOf(system, tenant), runIds);
    return { acknowledged: runIds.length, lost, unknown, refused };
  } finally {
    await system.stop();
  }
}

function clientOf({ urls }: System, tenant: Tenant, number = 0): Client {
  const url = urls[number % urls.length];
  return createClient({ url, apiKey: tenant.admin, timeoutMs: 3_000, retry: { attemptsMax: 1 } });
}

function startRuns(system: System, tenant: Tenant) {
  const runIds: string[] = [];
  const counts = { unknown: 0, refused: 0 };
  let isGoing = true;
  const lane = async (_: unknown, number: number) => {
    const client = clientOf(system, tenant, number);
    for (let order = 1; isGoing; order += 1) {
      const options = { idempotencyKey: `${number}-${order}` };
      const outcome = await outcomeOf(() => client.runs.start(idleWorkflow.id, { order }, options));
      if (outcome.kind === "ok") runIds.push(outcome.value.run_id);
      else counts[outcome.kind === "unknown" ? "unknown" : "refused"] += 1;
      await sleep(outcome.kind === "ok" ? 10 : 50);
    }
  };
  const lanes = Promise.all(Array.from({ length: starters }, lane));
  return {
    async stop() {
      isGoing = false;
      await lanes;
      return { runIds, ...counts };
    },
  };
}

const triesMax = 200;

async function countMissing(client: Client, runIds: readonly string[]): Promise<number> {
  let missing = 0;
  for (const runId of runIds) {
    for (let tries = 1; ; tries += 1) {
      const outcome = await outcomeOf(() => client.runs.get(runId));
      if (outcome.kind === "ok") break;
      if (outcome.code === "run_not_found") {
        missing += 1;
        break;
      }
      if (tries === triesMax) throw new Error(`a run cannot be read after the failover: ${outcome.code}`);
      await sleep(100);
    }
  }
  return missing;
}
