// Pools, limits and draining over HTTP, and how a burst of jobs spreads over workers of a real server.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type GatewayWorld, openGatewayWorld, type Received } from "../support/gateway-world.ts";

let world: GatewayWorld;
beforeAll(async () => {
  world = await openGatewayWorld();
});
afterAll(() => world.close());

const admin = (method: string, path: string, body?: unknown) =>
  world.ask(method, `/api/v1/${path}`, { key: world.acme.admin, ...(body === undefined ? {} : { body }) });

let polls = 0;
const poll = (worker: string, more: object = {}): Promise<Received> => {
  polls += 1;
  return world.ask("POST", "/api/v1/jobs/poll", {
    key: world.acme.worker,
    body: {
      worker_id: worker,
      topics: ["work"],
      poll_id: `p-${polls}`,
      max_jobs: 50,
      wait_ms: 5_000,
      ...more,
    },
  });
};

type Job = { readonly job_id: string; readonly claim_token: string };
const jobsOf = ({ json }: Received) => json.jobs as readonly Job[];

async function report(jobs: readonly Job[]): Promise<void> {
  const results = jobs.map(({ job_id, claim_token }) => ({
    ...{ job_id, claim_token, status: "succeeded", output: {} },
  }));
  const body = { worker_id: "w", results };
  const answer = await world.ask("POST", "/api/v1/jobs/results", { key: world.acme.worker, body });
  for (const result of answer.json.results as ReadonlyArray<{ kind: string }>)
    expect(result.kind).toBe("accepted");
}

/** A run of so many jobs that are enqueued at once. */
async function burst(amount: number, topic = "work"): Promise<void> {
  const items = JSON.stringify(Array.from({ length: amount }, (_, index) => index));
  const steps = { each: { type: "worker", topic, for_each: items, max_parallel: amount } };
  const id = `burst-${topic}-${amount}`;
  expect((await admin("POST", "workflows", { id, steps })).status).toBe(201);
  expect((await admin("POST", `workflows/${id}/runs`, {})).status).toBe(200);
}

/** Waits until so many workers have been seen. */
async function untilWaiting(amount: number): Promise<void> {
  const endMs = performance.now() + 5_000;
  for (;;) {
    const { json } = await admin("GET", "workers");
    if ((json.items as unknown[]).length >= amount) return;
    if (performance.now() > endMs) throw new Error("the polls were not seen");
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

describe("a burst of 100 jobs", () => {
  const workers = ["w0", "w1", "w2", "w3", "w4"];

  /** Every worker has 50 places and asks again at once, as workers do, until all jobs are in somebody's hands. */
  async function takeAll(held: Map<string, Job[]>, total: number, putUp: () => Promise<void>): Promise<void> {
    const amount = () => [...held.values()].flat().length;
    const work = workers.map(async (worker) => {
      const own = held.get(worker) ?? [];
      held.set(worker, own);
      while (amount() < total) {
        own.push(...jobsOf(await poll(worker, { max_jobs: 50 - own.length, wait_ms: 500 })));
      }
    });
    await untilWaiting(workers.length);
    await putUp();
    await Promise.all(work);
  }

  const share = (held: Map<string, Job[]>) => workers.map((worker) => held.get(worker)?.length ?? 0);

  test("spreads evenly over 5 workers that wait", async () => {
    const held = new Map<string, Job[]>();
    await takeAll(held, 100, () => burst(100));
    for (const amount of share(held))
      expect(Math.abs(amount - 20), String(share(held))).toBeLessThanOrEqual(3);
    await report([...held.values()].flat());
  });

  test("fills up those that have fewer: all have equally many in the end", async () => {
    await burst(10);
    const held = new Map([["w0", [...jobsOf(await poll("w0", { max_jobs: 10 }))]]]);
    expect(share(held)).toEqual([10, 0, 0, 0, 0]);
    await takeAll(held, 100, () => burst(90));
    for (const amount of share(held))
      expect(Math.abs(amount - 20), String(share(held))).toBeLessThanOrEqual(3);
    await report([...held.values()].flat());
  });
});

describe("a pool", () => {
  test("is made by PUT, changed by PATCH, and gone by DELETE", async () => {
    expect((await admin("GET", "pools/gpu")).status).toBe(404);
    const made = await admin("PUT", "pools/gpu", { max_running: 2, topics: ["train"] });
    const pool = { name: "gpu", running: 0, draining: false, drained: false, workers: [] };
    expect(made.json).toEqual({ ...pool, max_running: 2, topics: ["train"] });
    expect((await admin("PUT", "pools/gpu/topics/infer")).json).toMatchObject({ topics: ["train", "infer"] });
    expect((await admin("DELETE", "pools/gpu/topics/train")).status).toBe(204);
    expect((await admin("DELETE", "pools/gpu/topics/train")).json).toMatchObject({ code: "pool_not_found" });
    expect((await admin("PATCH", "pools/gpu", { max_running: null })).json).toEqual({
      ...pool,
      topics: ["infer"],
    });
    expect((await admin("PATCH", "pools/gpu", { topics: null })).json).toEqual(pool);
    const listed = await world.ask("GET", "/api/v1/pools", { key: world.acme.viewer });
    expect((listed.json.items as Array<{ name: string }>).map(({ name }) => name)).toEqual([
      "default",
      "gpu",
    ]);
    expect((await admin("DELETE", "pools/gpu")).status).toBe(204);
    expect((await admin("DELETE", "pools/gpu")).status).toBe(404);
  });

  test("drains: a worker that waits is told so, what runs goes on, and then it has drained", async () => {
    await burst(2, "deploy");
    const [running] = jobsOf(await poll("blue-1", { topics: ["deploy"], pool: "blue", max_jobs: 1 }));
    expect((await admin("GET", "pools/blue")).json).toMatchObject({ running: 1, workers: ["blue-1"] });
    const waiting = poll("blue-2", { topics: ["none"], pool: "blue" });
    await untilWaiting(1);
    const drained = await admin("POST", "pools/blue/drain");
    expect(drained.json).toMatchObject({ draining: true, drained: false, running: 1 });
    expect((await waiting).json).toEqual({ jobs: [], draining: true });
    const startedMs = performance.now();
    expect((await poll("blue-1", { topics: ["deploy"], pool: "blue" })).json).toEqual({
      jobs: [],
      draining: true,
    });
    expect(performance.now() - startedMs).toBeLessThan(3_000);
    await report([running as Job]);
    expect((await admin("GET", "pools/blue")).json).toMatchObject({
      draining: true,
      drained: true,
      running: 0,
    });
    expect((await admin("POST", "pools/blue/drain", { draining: false })).json).toMatchObject({
      draining: false,
    });
    expect(jobsOf(await poll("blue-1", { topics: ["deploy"], pool: "blue" }))).toHaveLength(1);
  });

  test("that nobody knows is not drained by a slip of the pen", async () => {
    expect((await admin("POST", "pools/bleu/drain")).json).toMatchObject({ code: "pool_not_found" });
  });

  test("too many of them, or too long a list, are refused and change nothing", async () => {
    const topics = Array.from({ length: 201 }, (_, index) => `t${index}`);
    expect((await admin("PUT", "pools/long", { topics })).status).toBe(400);
    expect((await admin("PUT", "pools/long", { max_running: -1 })).status).toBe(400);
    expect((await admin("PUT", "pools/long", { topics: ["a b"] })).status).toBe(400);
    expect((await admin("GET", "pools/long")).status).toBe(404);
    for (let index = 0; index < 200; index += 1) {
      await world.plane.api.setTopic({
        caller: { tenant: world.globex.admin.key.tenant, actor: "t" },
        name: `t${index}`,
        maxRunning: 1,
      });
    }
    const beyond = await world.ask("PUT", "/api/v1/topics/t200", {
      key: world.globex.admin,
      body: { max_running: 1 },
    });
    expect(beyond.json).toMatchObject({
      code: "invalid_request",
      detail: expect.stringContaining("200 topics"),
    });
  });
});

describe("a topic's limit", () => {
  test("counts what runs, shows what waits, says why, and gives the place to the next as soon as it is free", async () => {
    const set = await admin("PUT", "topics/scan", { max_running: 1 });
    expect(set.json).toEqual({ name: "scan", max_running: 1, running: 0, waiting: 0, workers: [] });
    await burst(3, "scan");
    const [first] = jobsOf(await poll("s1", { topics: ["scan"] }));
    const next = poll("s2", { topics: ["scan"] });
    const { json } = await admin("GET", "topics");
    const scan = (json.items as Array<{ name: string }>).find(({ name }) => name === "scan");
    expect(scan).toMatchObject({ max_running: 1, running: 1, waiting: 2 });
    const runs = await admin("GET", "workflow-runs?workflow_id=burst-scan-3");
    const [{ run_id = "" } = {}] = runs.json.items as Array<{ run_id?: string }>;
    const why = await admin("GET", `workflow-runs/${run_id}/why`);
    expect(why.json.waiting_for).toContainEqual(
      expect.objectContaining({ because: "topic_full", places: { running: 1, max: 1 } }),
    );
    const startedMs = performance.now();
    await report([first as Job]);
    const second = jobsOf(await next);
    expect(second).toHaveLength(1);
    expect(performance.now() - startedMs).toBeLessThan(900);
    expect((await admin("DELETE", "topics/scan")).status).toBe(204);
    expect((await admin("DELETE", "topics/scan")).json).toMatchObject({ code: "topic_not_found" });
    expect(jobsOf(await poll("s3", { topics: ["scan"] }))).toHaveLength(1);
    await report(second);
  });
});

test("two changes at the same time are both kept", async () => {
  const names = ["a1", "a2", "a3", "a4"];
  const answers = await Promise.all(names.map((name) => admin("PUT", `topics/${name}`, { max_running: 7 })));
  for (const answer of answers) expect(answer.status).toBe(200);
  const { json } = await admin("GET", "topics");
  const kept = (json.items as Array<{ name: string }>).map(({ name }) => name);
  expect(kept).toEqual(expect.arrayContaining(names));
});

test("a worker shows its pool", async () => {
  const done = poll("shown", { topics: ["quiet"], pool: "blue-green", wait_ms: 0 });
  expect((await done).json).toEqual({ jobs: [] });
  const { json } = await admin("GET", "workers");
  expect(json.items).toContainEqual(expect.objectContaining({ worker_id: "shown", pool: "blue-green" }));
});
