// Rates and budgets over HTTP: refusals with their times, settings, usage in results and heartbeats, and what is shown of them.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createClient, worker } from "../../src/sdk/index.ts";
import { type GatewayWorld, openGatewayWorld } from "../support/gateway-world.ts";

let world: GatewayWorld;
beforeAll(async () => {
  world = await openGatewayWorld();
});
afterAll(() => world.close());

type More = { readonly body?: unknown; readonly headers?: Readonly<Record<string, string>> };
const admin = (method: string, path: string, more: More = {}) =>
  world.ask(method, `/api/v1/${path}`, { key: world.acme.admin, ...more });
const asWorker = (path: string, body: unknown) =>
  world.ask("POST", `/api/v1/jobs/${path}`, { key: world.acme.worker, body });
const change = (body: unknown) => world.ask("PATCH", "/api/v1/tenants/acme", { key: world.platform, body });

async function save(id: string, header: object, step: object = {}): Promise<void> {
  const body = { id, ...header, steps: { one: { topic: id, ...step } } };
  const saved = await admin("POST", "workflows", { body });
  expect(saved.status, saved.text).toBe(201);
}

const start = (id: string, input: object = {}, headers: Readonly<Record<string, string>> = {}) =>
  admin("POST", `workflows/${id}/runs`, { body: input, headers });

type Claimed = { readonly job_id: string; readonly claim_token: string };

async function claim(topic: string, waitMs = 5_000): Promise<readonly Claimed[]> {
  const body = { worker_id: "w", topics: [topic], poll_id: crypto.randomUUID(), wait_ms: waitMs };
  return (await asWorker("poll", body)).json.jobs as readonly Claimed[];
}

async function only(topic: string): Promise<Claimed> {
  const [job, ...others] = await claim(topic);
  if (job === undefined || others.length > 0) throw new Error(`${others.length} jobs more than one`);
  return job;
}

async function report({ job_id, claim_token }: Claimed, more: object) {
  const results = [{ job_id, claim_token, status: "succeeded", output: {}, ...more }];
  const { json } = await asWorker("results", { worker_id: "w", results });
  return (json.results as ReadonlyArray<{ readonly [name: string]: unknown }>)[0];
}

describe("a rate of starts", () => {
  test("refuses with an exact time and the rate's name, and shows what is left of it", async () => {
    await save("rated", { rate: [{ limit: 6, per_sec: 3, burst: 2 }] });
    const first = await start("rated");
    expect([first.status, first.headers.get("ratelimit-policy")]).toEqual([200, '"start_rate";q=6;w=3']);
    expect(first.headers.get("ratelimit")).toMatch(/^"start_rate";r=1;t=1$/);
    await start("rated");
    const refused = await start("rated", {}, { "idempotency-key": "too-soon" });
    expect([refused.status, refused.json]).toMatchObject([
      429,
      { code: "start_rate_exceeded", rate: "start.workflow.rated~3000", retryable: true },
    ]);
    const waitMs = Number(refused.json.retry_after_ms);
    expect(waitMs).toBeGreaterThan(0);
    expect(waitMs).toBeLessThanOrEqual(500);
    expect(refused.headers.get("retry-after")).toBe("1");
    expect(refused.headers.get("ratelimit")).toBe('"start_rate";r=0;t=1');
    await new Promise((resolve) => setTimeout(resolve, waitMs));
    expect((await start("rated", {}, { "idempotency-key": "too-soon" })).status).toBe(200);
  });

  test("with queue answers 202 with the rate and the time, and the run begins by itself", async () => {
    await save("patient", { rate: [{ limit: 1, per_sec: 1, at_limit: "queue" }] });
    await start("patient");
    const waits = await start("patient");
    expect([waits.status, waits.json]).toEqual([
      202,
      {
        run_id: expect.any(String),
        ...{ status: "queued", rate: "start.workflow.patient~1000", position: expect.any(Number) },
        ...{ starts_at: expect.any(String), deadline_at: expect.any(String) },
      },
    ]);
    const runId = String(waits.json.run_id);
    const shown = await admin("GET", `workflow-runs/${runId}`);
    expect(shown.json).toMatchObject({
      status: "queued",
      queue: { rate: "start.workflow.patient~1000", starts_at: waits.json.starts_at },
    });
    const why = await admin("GET", `workflow-runs/${runId}/why`);
    expect(why.json.waiting_for).toMatchObject([{ kind: "start_rate", starts_at: waits.json.starts_at }]);
    const jobs = [...(await claim("patient")), ...(await claim("patient"))];
    expect(jobs.map(({ job_id }) => job_id)).toContain(`${runId}:one@1`);
  });
});

describe("settings of a tenant", () => {
  test("rates and budgets are set, shown, changed by name and removed with null", async () => {
    const budget = { unit: "usd", amount: 12.5, per: "day", at_limit: "reject" };
    const rate = { limit: 100_000, per_sec: 60, burst: 2_000, unit: "tokens" };
    const set = await change({
      start_rate: { limit: 30, per_sec: 60 },
      topic_rates: { llm: [rate, { limit: 5, per_sec: 1 }], mail: [{ limit: 1, per_sec: 1 }] },
      budgets: { daily: budget, weekly: { unit: "usd", amount: 50, per: "week" } },
    });
    expect([set.status, set.json]).toMatchObject([
      200,
      {
        start_rate: { limit: 30, per_sec: 60, burst: 1, at_limit: "reject" },
        topic_rates: { llm: [rate, { limit: 5, per_sec: 1, burst: 1 }], mail: [{ limit: 1 }] },
        budgets: { daily: budget, weekly: { amount: 50, at_limit: "hold" } },
      },
    ]);
    const changed = await change({ topic_rates: { mail: null }, budgets: { daily: null }, start_rate: null });
    expect(Object.keys(changed.json.topic_rates as object)).toEqual(["llm"]);
    expect(Object.keys(changed.json.budgets as object)).toEqual(["weekly"]);
    expect(changed.json.start_rate).toBeUndefined();
    const removed = await change({ topic_rates: null, budgets: null });
    expect([removed.json.topic_rates, removed.json.budgets]).toEqual([undefined, undefined]);
  });

  test.each<readonly [string, object, string]>([
    ["a limit of 0", { start_rate: { limit: 0, per_sec: 1 } }, "start_rate.limit"],
    [
      "two rates of one span",
      { topic_rates: { llm: [1, 2].map((limit) => ({ limit, per_sec: 1 })) } },
      "topic_rates.llm",
    ],
    [
      "a negative amount",
      { budgets: { daily: { unit: "usd", amount: -1, per: "day" } } },
      "budgets.daily.amount",
    ],
    [
      "seven decimals",
      { budgets: { daily: { unit: "usd", amount: 0.0000001, per: "day" } } },
      "budgets.daily.amount",
    ],
    [
      "an unknown period",
      { budgets: { daily: { unit: "usd", amount: 1, per: "year" } } },
      "budgets.daily.per",
    ],
    [
      "a unit of every object",
      { budgets: { d: { unit: "constructor", amount: 1, per: "day" } } },
      "budgets.d.unit",
    ],
  ])("%s is refused with its place", async (_what, body, place) => {
    const refused = await change(body);
    expect(refused.status).toBe(400);
    expect(refused.text).toContain(place);
  });
});

describe("budgets", () => {
  test("hold a job, settle what results and heartbeats say, and are listed", async () => {
    await save(
      "metered",
      { budgets: [{ name: "daily", unit: "usd", amount: 1, per: "day" }] },
      { estimate: { usd: 0.6 } },
    );
    await start("metered");
    await start("metered");
    const first = await only("metered");
    expect(await claim("metered", 0)).toEqual([]);
    const beats = [
      { job_id: first.job_id, claim_token: first.claim_token, usage: { usd: 0.7, calls: "many" } },
    ];
    const beat = await asWorker("heartbeat", { worker_id: "w", jobs: beats });
    expect(beat.json.jobs).toMatchObject([{ kind: "extended", stop: false, refused_usage: ["calls"] }]);
    const listed = await admin("GET", "budgets");
    expect(listed.json.items).toMatchObject([
      {
        ...{ budget: "workflow.metered.daily~usd~day.-", name: "daily", unit: "usd", per: "day" },
        ...{ workflow_id: "metered", amount: 1, spent: 0, reserved: 0.7, percent: 0, held_jobs: 1 },
      },
    ]);
    const answer = await report(first, { usage: { usd: 0.25, tokens: -5 } });
    expect(answer).toEqual({ job_id: first.job_id, kind: "accepted", refused_usage: ["tokens"] });
    expect((await admin("GET", "budgets")).json.items).toMatchObject([{ spent: 0.25, percent: 25 }]);
    const second = await only("metered");
    await report(second, { usage: "nothing that can be read" });
    const client = createClient({ url: world.url, apiKey: world.acme.viewer.text });
    // Without a word that counts, the estimate does.
    expect(await client.budgets.list().take(10)).toMatchObject([{ spent: 0.85, reserved: 0, held_jobs: 0 }]);
    const { text } = await world.ask("GET", "/metrics", { key: world.metrics });
    expect(text).toMatch(/interlock_usage_refused_total 3\b/);
  });

  test("that are used up refuse starts until their next period", async () => {
    const budgets = [{ name: "tiny", unit: "usd", amount: 0.5, per: "hour", at_limit: "reject" }];
    await save("spent", { budgets });
    await start("spent");
    await report(await only("spent"), { usage: { usd: 0.5 } });
    const refused = await start("spent");
    expect([refused.status, refused.json]).toMatchObject([
      429,
      { code: "budget_exhausted", budget: "workflow.spent.tiny~usd~hour.-", retryable: true },
    ]);
    const resetsInS = (Date.parse(String(refused.json.resets_at)) - Date.now()) / 1_000;
    expect(Math.abs(Number(refused.headers.get("retry-after")) - resetsInS)).toBeLessThan(3);
    const events = await admin("GET", "events?from=start&limit=500");
    expect(JSON.stringify(events.json.items)).toContain('"percent":100');
  });

  test("fail the step that they do not pay for, and a worker of the SDK tells what its jobs have used", async () => {
    const budgets = [{ name: "strict", unit: "usd", amount: 0.3, per: "day", at_limit: "stop" }];
    await save("strict", { budgets });
    const client = createClient({ url: world.url, apiKey: world.acme.admin.text });
    const working = worker({
      ...{ url: world.url, apiKey: world.acme.worker.text },
      topics: {
        strict: (job) => {
          expect(() => job.used({ usd: -1 })).toThrow(RangeError);
          job.used({ usd: 0.1 });
          job.used({ usd: 0.2 });
          return {};
        },
      },
    });
    const first = await client.runs.start("strict", {});
    expect((await client.runs.wait(first.run_id, { timeoutMs: 10_000 })).status).toBe("succeeded");
    const second = await client.runs.start("strict", {});
    const ended = await client.runs.wait(second.run_id, { timeoutMs: 10_000 });
    expect([ended.status, ended.error]).toMatchObject([
      "failed",
      { code: "budget_exhausted", step_id: "one" },
    ]);
    await working.stop();
    const [strict] = (await client.budgets.list().take(10)).filter(({ name }) => name === "strict");
    expect(strict).toMatchObject({ spent: 0.3, percent: 100 });
  });
});
