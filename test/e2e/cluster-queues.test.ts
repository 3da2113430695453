// Runs that wait at a gate on Redis and NATS: two gateways and two engines, while one of each is killed, and customers that share.
import { afterEach, expect, onTestFailed, test } from "vitest";
import { type Client, createClient, type Worker, worker } from "../../src/sdk/index.ts";
import { type Cluster, startCluster } from "../support/cluster.ts";
import { expectFairShares, expectOnceEach, startCrowd, unequalCustomers } from "../support/crowd.ts";

let cluster: Cluster | undefined;
const crew: Worker[] = [];
afterEach(async () => {
  await Promise.all(crew.splice(0).map((each) => each.stop({ graceMs: 1_000 })));
  await cluster?.stop();
  cluster = undefined;
});

const settings = { JOBS_LEASE_MS: "2000", LOCK_RUN_HANDOFF_TTL_MS: "1000" };
const limit = 10;
const gate = { gate: "by-workflow.crowd", limit };

async function open(): Promise<Cluster & { readonly clients: readonly [Client, Client] }> {
  cluster = await startCluster({ gateways: 2, engines: 2, settings });
  const { gateways, keys, report } = cluster;
  onTestFailed(() => console.log(report()));
  const clients = gateways.map(({ url }) => createClient({ url, apiKey: keys.admin }));
  return Object.assign(cluster, { clients: clients as unknown as readonly [Client, Client] });
}

/** One at each gateway. `done` counts what they have worked on. */
function startWorkers({ gateways, keys }: Cluster): { done: number } {
  const seen = { done: 0 };
  const handler = () => {
    seen.done += 1;
  };
  for (const { url } of gateways)
    crew.push(worker({ url, apiKey: keys.worker, concurrency: 10, topics: { crowd: handler } }));
  return seen;
}

test("a thousand starts at a limit of ten run once each, whoever is killed meanwhile, and nothing waits at the end", async () => {
  const { clients, gateways, engines, ...rest } = await open();
  const [first, second] = clients;
  await first.workflows.save({
    id: "crowd",
    concurrency: [{ max: limit, at_limit: "queue" }],
    steps: { one: { topic: "crowd" } },
  });
  const statuses: string[] = [];
  const inputs = Array.from({ length: 1_000 }, (_, number) => ({ number }));
  const crowd = { workflow: "crowd", inputs, width: 100 };
  const runs = await startCrowd(clients, crowd, (status) => statuses.push(status));
  expect(statuses.filter((status) => status === "queued")).toHaveLength(inputs.length - limit);
  const seen = startWorkers({ ...rest, gateways, engines });
  await expect.poll(() => seen.done, { timeout: 60_000 }).toBeGreaterThan(200);
  await gateways[1]?.kill();
  await expect.poll(() => seen.done, { timeout: 60_000 }).toBeGreaterThan(500);
  await engines[0]?.kill();
  await gateways[1]?.startAgain();
  for (const run of runs)
    expect((await first.runs.wait(run, { timeoutMs: 60_000 })).status).toBe("succeeded");
  const again = await second.runs.start("crowd", { number: 7 }, { idempotencyKey: "start-7" });
  expect(again).toMatchObject({ run_id: runs[7], replayed: true });
  await expectOnceEach(first, runs, gate);
}, 180_000);

test("one customer sends 900 and nine others 10 each: each of these is through before the large one's hundredth", async () => {
  const { clients, ...rest } = await open();
  const [first] = clients;
  await first.workflows.save({
    id: "crowd",
    concurrency: [{ max: limit, at_limit: "queue" }],
    fairness: { key: "${input.customer}" },
    steps: { one: { topic: "crowd" } },
  });
  const inputs = unequalCustomers.map((customer) => ({ customer }));
  const runs = await startCrowd([first], { workflow: "crowd", inputs, width: 50 });
  startWorkers(rest);
  for (const run of runs)
    expect((await first.runs.wait(run, { timeoutMs: 60_000 })).status).toBe("succeeded");
  expectFairShares(await expectOnceEach(first, runs, gate), runs);
}, 180_000);
