// Runs that wait at a gate on Redis and NATS, with two gateways and two engines, while one of each is killed.
import { afterEach, expect, onTestFailed, test } from "vitest";
import { type Client, createClient, type Worker, worker } from "../../src/sdk/index.ts";
import { type Cluster, startCluster } from "../support/cluster.ts";

let cluster: Cluster | undefined;
const crew: Worker[] = [];
afterEach(async () => {
  await Promise.all(crew.splice(0).map((each) => each.stop({ graceMs: 1_000 })));
  await cluster?.stop();
  cluster = undefined;
});

const settings = { JOBS_LEASE_MS: "2000", LOCK_RUN_HANDOFF_TTL_MS: "1000" };
const limit = 10;

test("three hundred starts at a limit of ten run once each, whoever is killed meanwhile, and nothing waits at the end", async () => {
  cluster = await startCluster({ gateways: 2, engines: 2, settings });
  const { gateways, engines, keys, report } = cluster;
  onTestFailed(() => console.log(report()));
  const clients = gateways.map(({ url }) => createClient({ url, apiKey: keys.admin }));
  const [first, second] = clients as [Client, Client];
  await first.workflows.save({
    id: "crowd",
    concurrency: [{ max: limit, at_limit: "queue" }],
    steps: { one: { topic: "crowd" } },
  });
  const starts = await Promise.all(
    Array.from({ length: 300 }, (_, number) =>
      clients[number % 2]?.runs.start("crowd", { number }, { idempotencyKey: `start-${number}` }),
    ),
  );
  const runs = starts.map((started) => started?.run_id ?? "");
  expect(starts.filter((started) => started?.status === "queued")).toHaveLength(300 - limit);
  let done = 0;
  for (const { url } of gateways) {
    const handler = () => {
      done += 1;
    };
    crew.push(worker({ url, apiKey: keys.worker, concurrency: 10, topics: { crowd: handler } }));
  }
  await expect.poll(() => done, { timeout: 60_000 }).toBeGreaterThan(60);
  await gateways[1]?.kill();
  await expect.poll(() => done, { timeout: 60_000 }).toBeGreaterThan(120);
  await engines[0]?.kill();
  await gateways[1]?.startAgain();
  for (const run of runs)
    expect((await first.runs.wait(run, { timeoutMs: 60_000 })).status).toBe("succeeded");
  const again = await second.runs.start("crowd", { number: 7 }, { idempotencyKey: "start-7" });
  expect(again).toMatchObject({ run_id: runs[7], replayed: true });

  expect(new Set(runs)).toHaveLength(300);
  expect(await mostActive(first, new Set(runs))).toBe(limit);
  expect((await first.queues.list().take(10)).map(({ gate }) => gate)).toEqual([]);
  await expect(first.queues.show("by-workflow.crowd")).resolves.toMatchObject({
    active: 0,
    waiting: 0,
    limit,
  });
}, 180_000);

/** As the recorded history has it. */
async function mostActive(client: Client, runs: ReadonlySet<string>): Promise<number> {
  const active = new Set<string>();
  let most = 0;
  for (let query: { from?: "start"; cursor?: string } = { from: "start" }; ; ) {
    const page = await client.events.page({ ...query, limit: 500 });
    for (const { type, run_id = "" } of page.items) {
      if (!runs.has(run_id)) continue;
      if (type === "run_admitted") active.add(run_id);
      if (type === "run_ended") active.delete(run_id);
      most = Math.max(most, active.size);
    }
    if (!page.has_more) return most;
    query = { cursor: page.next_cursor };
  }
}
