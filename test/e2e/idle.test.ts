// Processes with nothing to do: how much they ask of Redis, and how late what a killed one had set is found by the others.
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, onTestFailed, test } from "vitest";
import type { RedisServer } from "../../src/drills/servers/start-servers.ts";
import { type Cluster, type ServerProcess, startCluster } from "../support/cluster.ts";
import { makeTenants } from "../support/cluster-load.ts";
import { createHttpClient, type HttpClient } from "../support/http-client.ts";

let cluster: Cluster | undefined;
afterEach(async () => {
  await cluster?.stop();
  cluster = undefined;
});

async function start(shape: Parameters<typeof startCluster>[0]): Promise<Cluster> {
  const started = await startCluster(shape);
  cluster = started;
  onTestFailed(() => console.log(started.report().slice(-20_000)));
  return started;
}

describe("an idle process", () => {
  /** A process looks for audit records without a hash within 2 s of its start, and adds the hashes within 2 s of that. */
  const quietSecondsMin = 4;
  const settledWithinMs = 30_000;
  const countedMs = 10_000;
  const perSecondMax = 5;

  test("sends Redis at most five commands a second, everything included", async () => {
    const { redis } = await start({ gateways: 1, engines: 2 });
    const [counts] = await Promise.all(redis.map(commandsByClient));
    expect(counts?.size).toBe(3);
    for (const count of counts?.values() ?? []) expect(count).toBeLessThanOrEqual(perSecond(perSecondMax));
  });

  test("sends each server of a Cluster at most five commands a second", async () => {
    const { redis } = await start({ gateways: 1, engines: 1, store: "redis cluster" });
    for (const counts of await Promise.all(redis.map(commandsByClient))) {
      // The connections of the Cluster's servers to each other are not among them.
      expect(counts.size).toBe(2);
      for (const count of counts.values()) expect(count).toBeLessThanOrEqual(perSecond(perSecondMax));
    }
  });

  const perSecond = (amount: number) => (amount * countedMs) / 1_000;

  /** What clients have sent, by their address; what scripts call is a part of what was sent. */
  async function commandsByClient({ url }: RedisServer): Promise<ReadonlyMap<string, number>> {
    const { hostname, port } = new URL(url);
    const socket = connect(Number(port), hostname);
    let text = "";
    socket.on("data", (chunk) => {
      text += String(chunk);
    });
    socket.write("MONITOR\r\n");
    const countFor = async (ms: number) => {
      text = "";
      await sleep(ms);
      return countByClient(text);
    };
    try {
      let quietSeconds = 0;
      const settled = async () => {
        quietSeconds = isQuiet(await countFor(1_000)) ? quietSeconds + 1 : 0;
        return quietSeconds;
      };
      await expect.poll(settled, { timeout: settledWithinMs }).toBe(quietSecondsMin);
      return await countFor(countedMs);
    } finally {
      socket.destroy();
    }
  }

  /** Nobody has sent more within a second than an idle process may. */
  const isQuiet = (counts: ReadonlyMap<string, number>) =>
    counts.size > 0 && [...counts.values()].every((count) => count <= perSecondMax);

  function countByClient(text: string): ReadonlyMap<string, number> {
    const counts = new Map<string, number>();
    for (const [, client = ""] of text.matchAll(/^\+\d+\.\d+ \[\d+ ([^\]]+)\]/gm)) {
      if (client !== "lua") counts.set(client, (counts.get(client) ?? 0) + 1);
    }
    return counts;
  }
});

describe("after the SIGKILL of the process that had set it", () => {
  const lateMsMax = 1_000;
  const tenantCount = 8;
  const leaseMs = 3_000;
  const workflow = {
    id: "waiting",
    steps: { pause: { type: "delay", delay_sec: 3 }, after: { topic: "after", depends_on: ["pause"] } },
  };
  const claimed = { id: "claimed", steps: { work: { topic: "claimed" } } };

  test("a timer fires and a claim is lost less than a second late, on Redis", () =>
    measure({ gateways: 2, engines: 2 }));

  test("a timer fires and a claim is lost less than a second late, on a Redis Cluster", () =>
    measure({ gateways: 2, engines: 2, store: "redis cluster" }));

  /** The first gateway starts the runs and hands out the claims: it has the alarms. An engine dies with it. */
  async function measure(shape: Parameters<typeof startCluster>[0]): Promise<void> {
    const started = await start({ ...shape, settings: { JOBS_LEASE_MS: String(leaseMs) } });
    const [dying, staying] = started.gateways as readonly [ServerProcess, ServerProcess];
    const tenants = await makeTenants(started, { count: tenantCount, runsAtOnce: 10 });
    const late = tenants.map(async (tenant) => {
      const here = createHttpClient(() => dying.url, tenant.admin);
      const there = createHttpClient(() => staying.url, tenant.admin);
      const worker = createHttpClient(() => dying.url, tenant.worker);
      for (const each of [workflow, claimed]) expect((await here.post("/workflows", each)).status).toBe(201);
      const [timerRun, claimRun] = [await begin(here, "waiting"), await begin(here, "claimed")];
      const poll = { worker_id: "w", topics: ["claimed"], poll_id: "1", wait_ms: 5_000, lease_ms: leaseMs };
      const polled = await worker.post<{ jobs: Array<{ job_id: string }> }>("/jobs/poll", poll);
      const job = `/jobs/${encodeURIComponent(polled.body.jobs[0]?.job_id ?? "none")}`;
      const { body } = await there.get<{ claim_expires_at: string }>(job);
      return async () => {
        const timerAtMs = await timeOf(there, timerRun, "step_delay_completed");
        const startedAtMs = await timeOf(there, timerRun, "step_delay_started");
        const lostAtMs = await timeOf(there, claimRun, "step_claim_lost");
        return [timerAtMs - startedAtMs - 3_000, lostAtMs - Date.parse(body.claim_expires_at)];
      };
    });
    const readers = await Promise.all(late);
    await Promise.all([dying.kill(), started.engines[0]?.kill()]);
    const measured = (await Promise.all(readers.map((read) => read()))).flat();
    console.log(`late by ${measured.map(Math.round).sort((left, right) => left - right)} ms`);
    expect(measured).toHaveLength(2 * tenantCount);
    for (const lateMs of measured) {
      expect(lateMs).toBeGreaterThanOrEqual(0);
      expect(lateMs).toBeLessThan(lateMsMax);
    }
  }

  async function begin(client: HttpClient, id: string): Promise<string> {
    const reply = await client.post<{ run_id: string }>(`/workflows/${id}/runs`, {});
    expect(reply.status).toBeLessThan(300);
    return reply.body.run_id;
  }

  /** By the store's clock, as the run's timeline has it. */
  async function timeOf(client: HttpClient, runId: string, type: string): Promise<number> {
    type Row = { readonly type: string; readonly at: string };
    let row: Row | undefined;
    const read = async () => {
      const reply = await client.get<{ items: readonly Row[] }>(`/workflow-runs/${runId}/timeline?limit=200`);
      row = reply.body?.items.find((each) => each.type === type);
      return row;
    };
    await expect.poll(read, { timeout: 15_000, interval: 100 }).toBeDefined();
    return Date.parse(row?.at ?? "");
  }
});
