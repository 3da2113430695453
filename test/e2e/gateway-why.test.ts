// Asking a real server why a run does not move, and a refused start who holds the slots.
import { afterAll, beforeAll, expect, test } from "vitest";
import { explanation, slotHolder } from "../../src/api/explanation-schemas.ts";
import { expectProblem } from "../support/gateway-requests.ts";
import { type GatewayWorld, openGatewayWorld, type Received } from "../support/gateway-world.ts";

let world: GatewayWorld;

const workflows = [
  { id: "typo", steps: { a: { topic: "reveiw" } } },
  {
    id: "picky",
    steps: { a: { topic: "picky", meta: { requires: ["gpu"] }, route_labels: { zone: "eu" } } },
  },
  { id: "busy", steps: { a: { topic: "busy" } } },
  { id: "ask", steps: { ok: { type: "approval", separate_duties: true } } },
  { id: "later", steps: { rest: { type: "delay", delay_sec: 3_600 } } },
  { id: "again", steps: { a: { topic: "again", retry: { max_retries: 1, initial_backoff_sec: 600 } } } },
];

beforeAll(async () => {
  world = await openGatewayWorld({ "admission.tenantCacheMs": 100 });
  for (const body of workflows) {
    const saved = await world.ask("POST", "/api/v1/workflows", { key: world.acme.admin, body });
    expect(saved.status, saved.text).toBe(201);
  }
});

afterAll(() => world.close());

async function start(workflow: string): Promise<string> {
  const path = `/api/v1/workflows/${workflow}/runs`;
  const answer = await world.ask("POST", path, { key: world.acme.operator, body: {} });
  expect(answer.status, answer.text).toBe(200);
  return String(answer.json.run_id);
}

let polls = 0;

async function poll(more: object) {
  polls += 1;
  const body = { worker_id: "w", poll_id: `why-${polls}`, max_jobs: 1, wait_ms: 0, ...more };
  const answer = await world.ask("POST", "/api/v1/jobs/poll", { key: world.acme.worker, body });
  expect(answer.status, answer.text).toBe(200);
  return answer.json.jobs as Array<{ job_id: string; claim_token: string }>;
}

/** Asked by a viewer; whatever it says must fit the contract. */
async function why(runId: string): Promise<Received["json"]> {
  const path = `/api/v1/workflow-runs/${runId}/why`;
  const answer = await world.ask("GET", path, { key: world.acme.viewer });
  expect(answer.status, answer.text).toBe(200);
  expect(explanation.parse(answer.json)).toEqual(answer.json);
  return answer.json;
}

test("nobody works on its topic, and the one that was meant is named", async () => {
  await poll({ topics: ["review"] });
  const runId = await start("typo");
  expect(await why(runId)).toMatchObject({
    run_id: runId,
    status: "running",
    waiting_for: [{ kind: "job_unclaimed", because: "no_worker_for_topic", similar_topics: ["review"] }],
  });
});

test("its workers lack a capability and a label", async () => {
  await poll({ topics: ["picky"], worker_id: "plain", capabilities: ["ocr"], labels: { zone: "us" } });
  expect(await why(await start("picky"))).toMatchObject({
    waiting_for: [
      {
        because: "capability_missing",
        missing_capabilities: ["gpu"],
        missing_labels: { zone: "eu" },
        workers: [{ worker_id: "plain" }],
      },
    ],
  });
});

test("its worker has all hands full, and the run that keeps it busy says who works on it", async () => {
  const first = await start("busy");
  const [job] = await poll({ topics: ["busy"], worker_id: "only", wait_ms: 5_000 });
  const second = await start("busy");
  expect(await why(second)).toMatchObject({
    waiting_for: [
      { because: "workers_full", workers: [{ worker_id: "only", running: 1, jobs: [job?.job_id] }] },
    ],
  });
  expect(await why(first)).toMatchObject({
    waiting_for: [{ kind: "job_running", worker_id: "only", job_id: job?.job_id }],
  });
  const workers = await world.ask("GET", "/api/v1/workers", { key: world.acme.viewer });
  expect(workers.json.items).toContainEqual(
    expect.objectContaining({ worker_id: "only", jobs: [job?.job_id], running: 1 }),
  );
});

test("a person has to decide, who is not the one that asked; the path leads to what is shown", async () => {
  const explained = await why(await start("ask"));
  const [item] = explained.waiting_for as Array<{ kind: string; may_decide: string; path: string }>;
  expect(item).toMatchObject({ kind: "approval", may_decide: expect.stringContaining("but not") });
  const shown = await world.ask("GET", item?.path ?? "", { key: world.acme.viewer });
  expect(shown.json.state).toBe("pending");
});

test("it is a matter of time, of a delay or of a retry", async () => {
  expect(await why(await start("later"))).toMatchObject({
    status: "waiting",
    waiting_for: [{ kind: "timer", timer: "delay", step_id: "rest" }],
  });
  const runId = await start("again");
  const [{ job_id, claim_token } = { job_id: "", claim_token: "" }] = await poll({
    topics: ["again"],
    wait_ms: 5_000,
  });
  const results = [{ job_id, claim_token, status: "failed", error: { message: "no luck" } }];
  await world.ask("POST", "/api/v1/jobs/results", {
    key: world.acme.worker,
    body: { worker_id: "w", results },
  });
  const endMs = performance.now() + 5_000;
  for (;;) {
    const explained = await why(runId);
    const [item] = explained.waiting_for as Array<{ kind: string }>;
    if (item?.kind === "timer") {
      expect(item).toMatchObject({ timer: "retry", failures: 1, last_error: { message: "no luck" } });
      return;
    }
    if (performance.now() > endMs) throw new Error(JSON.stringify(explained));
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
});

test("it is over: how and since when is told, and nothing waits", async () => {
  const runId = await start("ask");
  await world.ask("POST", `/api/v1/workflow-runs/${runId}/cancel`, { key: world.acme.operator, body: {} });
  const endMs = performance.now() + 5_000;
  for (;;) {
    const explained = await why(runId);
    if (explained.status === "cancelled") {
      expect(explained).toMatchObject({ waiting_for: [], ended: { status: "cancelled" } });
      return;
    }
    if (performance.now() > endMs) throw new Error(JSON.stringify(explained));
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
});

test("a tenant that is stopped is the first thing said", async () => {
  const runId = await start("typo");
  const stop = (stopped: boolean) =>
    world.ask("PATCH", "/api/v1/tenants/acme", { key: world.platform, body: { stopped } });
  await stop(true);
  const explained = await why(runId);
  await stop(false);
  expect(explained.waiting_for).toMatchObject([{ kind: "tenant_stopped" }, { because: "tenant_stopped" }]);
});

test("a store that does not answer is 503, and nothing worse", async () => {
  const runId = await start("later");
  world.setStore("unavailable");
  try {
    const path = `/api/v1/workflow-runs/${runId}/why`;
    expectProblem(undefined, await world.ask("GET", path, { key: world.acme.viewer }), "store_unavailable");
  } finally {
    world.setStore("answering");
  }
});

test("a start that is refused at the limit names the runs that hold the slots, oldest first, ten at most", async () => {
  const key = world.globex.operator;
  await world.ask("POST", "/api/v1/workflows", { key: world.globex.admin, body: workflows[3] });
  const held: string[] = [];
  for (let index = 0; index < 12; index += 1) {
    const answer = await world.ask("POST", "/api/v1/workflows/ask/runs", { key, body: {} });
    held.push(String(answer.json.run_id));
  }
  await world.ask("PATCH", "/api/v1/tenants/globex", {
    key: world.platform,
    body: { max_concurrent_runs: 12 },
  });
  const refused = await world.ask("POST", "/api/v1/workflows/ask/runs", { key, body: {} });
  expectProblem(undefined, refused, "max_concurrent_runs_reached");
  expect(refused.json).toMatchObject({ limit: 12, active: 12 });
  expect(refused.headers.get("ratelimit")).toContain("r=0");
  const runs = refused.json.runs as Array<{ run_id: string; workflow_id: string; path: string }>;
  expect(runs).toHaveLength(10);
  for (const run of runs) expect(slotHolder.parse(run)).toEqual(run);
  expect(new Set(runs.map(({ run_id }) => run_id)).size).toBe(10);
  for (const { run_id } of runs) expect(held).toContain(run_id);
  expect(runs[0]?.workflow_id).toBe("ask");
  const followed = await world.ask("GET", runs[0]?.path ?? "", { key: world.globex.viewer });
  expect(followed.json).toMatchObject({ run_id: runs[0]?.run_id, waiting_for: [{ kind: "approval" }] });
});
