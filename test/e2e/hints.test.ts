// Jobs of one gateway whose workers wait at another, and jobs that nobody waits for: what goes over NATS, and how late they are.
import { afterEach, expect, onTestFailed, test } from "vitest";
import { freePort } from "../../src/drills/servers/start-servers.ts";
import { type Cluster, startCluster } from "../support/cluster.ts";
import { createHttpClient, type HttpClient } from "../support/http-client.ts";

let cluster: Cluster | undefined;
afterEach(async () => {
  await cluster?.stop();
  cluster = undefined;
});

/** Two gateways on one Redis and one NATS server, which says how many messages clients have sent it. */
async function start() {
  const monitorPort = await freePort();
  const started = await startCluster({
    gateways: 2,
    engines: 1,
    natsConfig: `http: "127.0.0.1:${monitorPort}"`,
  });
  cluster = started;
  onTestFailed(() => console.log(started.report().slice(-20_000)));
  const at = (index: number, key: string) => createHttpClient(() => started.gateways[index]?.url ?? "", key);
  const client = at(0, started.keys.admin);
  const saved = await client.post("/workflows", { id: "one", steps: { only: { topic: "burst" } } });
  expect(saved.status).toBe(201);
  return {
    client,
    kill: async () => started.gateways[0]?.kill(),
    elsewhere: at(1, started.keys.worker),
    watching: at(1, started.keys.admin),
    async messagesSent() {
      const response = await fetch(`http://127.0.0.1:${monitorPort}/varz`);
      return ((await response.json()) as { readonly in_msgs: number }).in_msgs;
    },
  };
}

async function startRuns(client: HttpClient, amount: number): Promise<void> {
  let left = amount;
  const lane = async () => {
    while (left > 0) {
      left -= 1;
      expect((await client.post("/workflows/one/runs", {})).status).toBeLessThan(300);
    }
  };
  await Promise.all(Array.from({ length: 25 }, lane));
}

test("of a burst of 200 starts at one gateway each reaches one of 200 workers that wait at the other, within seconds", async () => {
  const { client, elsewhere, watching } = await start();
  type Polled = { readonly jobs: ReadonlyArray<{ readonly job_id: string }> };
  let lastAtMs = 0;
  const polls = Array.from({ length: 200 }, async (_, index) => {
    const request = { worker_id: `w${index}`, poll_id: "1", topics: ["burst"], max_jobs: 1, wait_ms: 25_000 };
    const reply = await elsewhere.post<Polled>("/jobs/poll", request);
    lastAtMs = performance.now();
    return reply.body.jobs.map(({ job_id }) => job_id);
  });
  const waiting = async () =>
    (await watching.get<{ items: readonly unknown[] }>("/workers")).body.items.length;
  await expect.poll(waiting, { timeout: 15_000 }).toBe(200);
  await startRuns(client, 200);
  const startedMs = performance.now();
  const claimed = (await Promise.all(polls)).flat();
  expect(new Set(claimed).size).toBe(200);
  // The sweep names a job after 30 s, and the polls end after 25.
  expect(lastAtMs - startedMs).toBeLessThan(5_000);
});

test("a thousand starts of a topic that nobody polls are a few dozen messages, and a worker that comes later gets their jobs", async () => {
  const { client, elsewhere, messagesSent } = await start();
  await startRuns(client, 50);
  const before = await messagesSent();
  await startRuns(client, 1_000);
  // Acknowledgements of two gateways, heartbeats and announcements are among them.
  expect((await messagesSent()) - before).toBeLessThan(300);
  const request = { worker_id: "late", poll_id: "1", topics: ["burst"], max_jobs: 10, wait_ms: 5_000 };
  const polled = await elsewhere.post<{ jobs: readonly unknown[] }>("/jobs/poll", request);
  expect(polled.body.jobs).toHaveLength(10);
});

test("jobs whose hints were held when their gateway was killed are found by the next polls at the other, each once", async () => {
  const { client, elsewhere, kill } = await start();
  type Polled = { readonly jobs: ReadonlyArray<{ readonly job_id: string; readonly run_id: string }> };
  const claimed: Array<Polled["jobs"][number]> = [];
  let isOver = false;
  const workers = Array.from({ length: 10 }, async (_, index) => {
    for (let poll = 1; !isOver; poll += 1) {
      const request = { worker_id: `w${index}`, poll_id: `${poll}`, topics: ["burst"], max_jobs: 20 };
      claimed.push(...(await elsewhere.post<Polled>("/jobs/poll", { ...request, wait_ms: 1_000 })).body.jobs);
    }
  });
  const answered = new Set<string>();
  const lanes = Array.from({ length: 25 }, async () => {
    try {
      for (;;) {
        const { status, body } = await client.post<{ readonly run_id: string }>("/workflows/one/runs", {});
        if (status < 300) answered.add(body.run_id);
        // The first hint of a group leaves at once, what follows within 10 ms waits: there is always something held.
        if (answered.size === 60) void kill();
      }
    } catch {
      // The gateway is gone.
    }
  });
  await Promise.all(lanes);
  const unclaimed = () => {
    const runs = new Set(claimed.map(({ run_id }) => run_id));
    return [...answered].filter((run) => !runs.has(run)).length;
  };
  // The sweep would name them after 30 s.
  await expect.poll(unclaimed, { timeout: 10_000 }).toBe(0);
  isOver = true;
  await Promise.all(workers);
  expect(answered.size).toBeGreaterThanOrEqual(60);
  expect(new Set(claimed.map(({ job_id }) => job_id)).size).toBe(claimed.length);
});
