// Two of everything: 300 runs on two gateways, two engines, two schedulers and two workers, one Redis and one NATS. In the
// middle of it one process of each kind is killed with -9. Every run ends, once.
//
//   npx tsx examples/07-scale-out/main.ts
//
// It needs redis-server (7 or later) and nats-server (2.9 or later): from the PATH, or fetched into the checkout by
// `node scripts/with-setup.mjs --servers -- true`. It stops everything that it has started, also after Ctrl-C or a failure.
import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "interlock/sdk";
import { type Started, startScript } from "../support/processes.ts";
import { fetchOver } from "./fetch-over.ts";
import { startNats, startRedis } from "./servers.ts";

const runCount = 300;
const killAfter = 100;

const redis = await startRedis();
const nats = await startNats();
console.log(`redis-server is process ${redis.pid}, nats-server ${nats.pid}`);

// The same program with other settings: which store, which bus, and what this process does.
const env = {
  INTERLOCK_STORE: "redis",
  INTERLOCK_REDIS_URLS: redis.url,
  INTERLOCK_BUS: "nats",
  INTERLOCK_NATS_URLS: nats.url,
};
async function serve(roles: string, number: number): Promise<Started & { readonly url: string }> {
  const started = await startScript("src/cli/interlock.ts", {
    name: `${roles}-${number}`,
    args: ["serve", "--roles", roles, "--port", "0"],
    env,
    readyWhen: /^\{"url"/,
  });
  console.log(`${started.name} is process ${started.pid}`);
  return { ...started, url: (JSON.parse(started.ready) as { readonly url: string }).url };
}

// The first gateway on an empty store makes the keys, and shows them once.
const gateway1 = await serve("gateway", 1);
const { keys } = JSON.parse(gateway1.ready) as { readonly keys: { readonly [role: string]: string } };
const [gateway2, engine1, engine2, scheduler1, scheduler2] = await Promise.all([
  serve("gateway", 2),
  serve("engine", 1),
  serve("engine", 2),
  serve("scheduler", 1),
  serve("scheduler", 2),
]);
const gateways = [gateway1.url, gateway2.url];

async function startWorker(number: number): Promise<Started> {
  const started = await startScript("examples/07-scale-out/worker.ts", {
    name: `worker-${number}`,
    args: [`worker-${number}`, ...gateways],
    env: { INTERLOCK_API_KEY: keys.worker ?? "" },
    readyWhen: /waits for jobs/,
  });
  console.log(`${started.name} is process ${started.pid}`);
  return started;
}
const [worker1, worker2] = await Promise.all([startWorker(1), startWorker(2)]);

const client = createClient({ url: gateway1.url, apiKey: keys.admin, fetch: fetchOver(gateways) });
await client.workflows.save({
  id: "report",
  steps: {
    research: { topic: "report.step" },
    write: { topic: "report.step", depends_on: ["research"] },
    publish: { topic: "report.step", depends_on: ["write"] },
  },
});

// Twenty callers at once, each starts a run, waits for its end, and starts the next. The key makes a repeated start safe.
const ended: Array<{ readonly runId: string; readonly status: string; readonly ms: number }> = [];
let next = 0;
async function callRuns(): Promise<void> {
  while (next < runCount) {
    next += 1;
    const number = next;
    const startedAt = performance.now();
    const { run_id } = await client.runs.start("report", { number }, { idempotencyKey: `report-${number}` });
    const { status } = await client.runs.wait(run_id, { timeoutMs: 60_000 });
    ended.push({ runId: run_id, status, ms: performance.now() - startedAt });
  }
}

async function killOneOfEach(): Promise<void> {
  while (ended.length < killAfter) await sleep(5);
  const victims = [gateway1, engine1, scheduler1, worker1];
  await Promise.all(victims.map((victim) => victim.kill()));
  console.log(`after ${ended.length} runs: ${victims.map(({ name }) => name).join(", ")} killed`);
}

await Promise.all([killOneOfEach(), ...Array.from({ length: 20 }, callRuns)]);

// The store says the same as the callers: one run for each key, and all of them done.
const stored = new Map<string, string>();
let givenAgain = 0;
for await (const { run_id, status } of client.runs.list({ limit: 100 })) stored.set(run_id, status);
for (const runId of stored.keys()) {
  const { steps } = await client.runs.get(runId);
  givenAgain += Object.values(steps).reduce((sum, { attempts }) => sum + attempts - 1, 0);
}
const succeeded = [...stored.values()].filter((status) => status === "succeeded").length;
const longest = Math.max(...ended.map(({ ms }) => ms));

console.log(`${ended.length} starts, ${stored.size} runs, ${succeeded} succeeded`);
console.log(`${givenAgain} jobs of the killed worker were given to the other one`);
console.log(`the longest run took ${(longest / 1_000).toFixed(1)} s`);
if (ended.length !== runCount || stored.size !== runCount || succeeded !== runCount) process.exitCode = 1;

await worker2.stop();
await Promise.all([gateway2, engine2, scheduler2].map((process) => process.stop()));
await Promise.all([redis.stop(), nats.stop()]);
console.log("everything is stopped");
