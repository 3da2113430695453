// What clients do with the gateway, from the start of a run to its end: the answers that the walk over all routes cannot know.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { manyWriters } from "../support/costly-definitions.ts";
import { expectProblem } from "../support/gateway-requests.ts";
import {
  type GatewayWorld,
  guardedWorkflow,
  makeThings,
  openGatewayWorld,
  type Received,
  simpleWorkflow,
} from "../support/gateway-world.ts";

let world: GatewayWorld;

beforeAll(async () => {
  world = await openGatewayWorld({ "jobs.resultBytesMax": 1_024, "admission.tenantCacheMs": 100 });
  for (const { admin } of [world.acme, world.globex]) {
    await world.ask("POST", "/api/v1/workflows", { key: admin, body: simpleWorkflow });
    await world.ask("POST", "/api/v1/workflows", { key: admin, body: guardedWorkflow });
  }
});

afterAll(() => world.close());

const starts = "/api/v1/workflows/simple/runs";
type Headers = Readonly<Record<string, string>>;

function start(body: unknown = {}, headers: Headers = {}, path: string = starts): Promise<Received> {
  return world.ask("POST", path, { key: world.acme.operator, body, headers });
}

let polls = 0;

async function pollOne(tenant: "acme" | "globex" = "acme") {
  polls += 1;
  const body = { worker_id: "w", topics: ["work"], poll_id: `flow-${polls}`, max_jobs: 1, wait_ms: 5_000 };
  const answer = await world.ask("POST", "/api/v1/jobs/poll", { key: world[tenant].worker, body });
  const [job] = answer.json.jobs as Array<{
    job_id: string;
    run_id: string;
    claim_token: string;
    input: unknown;
  }>;
  if (job === undefined) throw new Error(answer.text);
  return job;
}

const report = (results: readonly object[], key = world.acme.worker) =>
  world.ask("POST", "/api/v1/jobs/results", { key, body: { worker_id: "w", results } });

async function untilStatus(runId: string, status: string, key = world.acme.viewer): Promise<Received> {
  const endMs = performance.now() + 10_000;
  for (;;) {
    const answer = await world.ask("GET", `/api/v1/workflow-runs/${runId}`, { key });
    if (answer.json.status === status) return answer;
    if (performance.now() > endMs) throw new Error(`still ${answer.text}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

describe("a start", () => {
  test("with the same key and request is one run, however the key is sent", async () => {
    const first = await start({ n: 1 }, { "idempotency-key": "same" });
    expect(first.headers.get("idempotent-replayed")).toBeNull();
    for (const headers of [
      { "idempotency-key": "same" },
      { "idempotency-key": '"same"' },
      { "x-idempotency-key": "same" },
      { "idempotency-key": "same", "x-idempotency-key": "same" },
    ]) {
      const again = await start({ n: 1 }, headers);
      expect(again.status).toBe(200);
      expect(again.json.run_id).toBe(first.json.run_id);
      expect(again.headers.get("idempotent-replayed")).toBe("true");
    }
    const spelt = await start(
      { n: 1 },
      { "idempotency-key": "same" },
      "/api/v1/workflows/s%69mple/runs?org_id=acme",
    );
    expect(spelt.json.run_id).toBe(first.json.run_id);
    const found = await world.ask("GET", "/api/v1/idempotency-keys/same", { key: world.acme.viewer });
    expect(found.json).toMatchObject({ state: "bound", run_id: first.json.run_id });
  });

  test("with the same key and another request is 422 and tells nothing of the first", async () => {
    const first = await start({ secret: "canary-input" }, { "idempotency-key": "other" });
    for (const [body, path] of [
      [{ secret: "x" }, starts],
      [{ secret: "canary-input" }, "/api/v1/workflows/guarded/runs"],
      [{ secret: "canary-input" }, `${starts}?team_id=t`],
    ] as const) {
      const answer = await start(body, { "idempotency-key": "other" }, path);
      expectProblem(undefined, answer, "idempotency_key_reused");
      expect(answer.text).not.toContain("canary-input");
      expect(answer.text).not.toContain(String(first.json.run_id));
    }
  });

  test("with the key of another tenant is a run of its own", async () => {
    const ours = await start({}, { "idempotency-key": "shared" });
    const sent = { key: world.globex.operator, body: {}, headers: { "idempotency-key": "shared" } };
    const theirs = await world.ask("POST", starts, sent);
    expect(theirs.status).toBe(200);
    expect(theirs.headers.get("idempotent-replayed")).toBeNull();
    expect(theirs.json.run_id).not.toBe(ours.json.run_id);
  });

  test.each([
    [{ "idempotency-key": "" }],
    [{ "idempotency-key": '""' }],
    [{ "idempotency-key": "two words" }],
    [{ "idempotency-key": '"open' }],
    [{ "idempotency-key": "x".repeat(256) }],
    [{ "idempotency-key": "caf\u00e9" }],
    [{ "idempotency-key": "one", "x-idempotency-key": "two" }],
  ])("with the key %j is refused", async (headers) => {
    expectProblem(undefined, await start({}, headers as unknown as Headers), "invalid_request");
  });

  test("that only pretends says what would happen, and any other way to ask for that is refused", async () => {
    expect((await start({}, {}, `${starts}?dry_run=true`)).json).toMatchObject({ dry_run: true });
    expect((await start({}, {}, `${starts}?dry_run=false&utm_source=proxy`)).status).toBe(200);
    expectProblem(undefined, await start({}, {}, `${starts}?dry_run=maybe`), "invalid_request");
  });

  test("without a body has an empty input", async () => {
    const answer = await world.ask("POST", starts, { key: world.acme.operator });
    expect(answer.status).toBe(200);
    const run = await world.ask("GET", `/api/v1/workflow-runs/${answer.json.run_id}`, {
      key: world.acme.viewer,
    });
    expect(run.json.input).toEqual({});
  });

  test("keeps names that are words of the language as plain data", async () => {
    const input = { constructor: { prototype: 1 }, toString: "x", hasOwnProperty: null };
    const answer = await start(input);
    const run = await world.ask("GET", `/api/v1/workflow-runs/${answer.json.run_id}`, {
      key: world.acme.viewer,
    });
    expect(run.json.input).toEqual(input);
  });

  test("at the limit is 429 with the limit told, while a replay is answered", async () => {
    const own = await openGatewayWorld({ "admission.tenantCacheMs": 100 });
    try {
      await makeThings(own);
      const limit = { key: own.platform, body: { max_concurrent_runs: 4 } };
      expect((await own.ask("PATCH", "/api/v1/tenants/acme", limit)).json).toMatchObject({ active_runs: 4 });
      const sent = { key: own.acme.operator, body: {} };
      const refused = await own.ask("POST", starts, sent);
      expectProblem(undefined, refused, "max_concurrent_runs_reached");
      expect(refused.json).toMatchObject({ limit: 4, active: 4, error: "max concurrent runs reached" });
      expect(refused.headers.get("ratelimit-policy")).toBe(
        '"max_concurrent_runs";q=4;qu="concurrent-requests"',
      );
      expect(refused.headers.get("ratelimit")).toMatch(/^"max_concurrent_runs";r=0;t=\d+$/);
      const replay = { ...sent, body: { customer: "c-1" }, headers: { "idempotency-key": "bound-key" } };
      expect((await own.ask("POST", starts, replay)).status).toBe(200);
    } finally {
      await own.close();
    }
  });
});

describe("a worker", () => {
  test("takes a run to its end, and its timeline tells how", async () => {
    const started = await start({ amount: 3 });
    let job = await pollOne();
    while (job.run_id !== started.json.run_id) job = await pollOne();
    expect(job.input).toEqual({ amount: 3 });
    const beat = {
      worker_id: "w",
      jobs: [{ job_id: job.job_id, claim_token: job.claim_token, progress: 0.5 }],
    };
    const kept = await world.ask("POST", "/api/v1/jobs/heartbeat", { key: world.acme.worker, body: beat });
    expect(kept.json.jobs).toMatchObject([{ kind: "extended", stop: false }]);
    const shown = await world.ask("GET", `/api/v1/jobs/${job.job_id}`, { key: world.acme.viewer });
    expect(shown.json).toMatchObject({ state: "claimed", worker_id: "w", progress: 0.5 });
    expect(shown.text).not.toContain(job.claim_token);
    const done = await report([{ ...claim(job), status: "succeeded", output: { paid: true } }]);
    expect(done.json.results).toEqual([{ job_id: job.job_id, kind: "accepted" }]);
    const run = await untilStatus(job.run_id, "succeeded");
    expect(run.json.steps).toMatchObject({ one: { status: "succeeded", output: { paid: true } } });
    const path = `/api/v1/workflow-runs/${job.run_id}/timeline`;
    const first = await world.ask("GET", `${path}?limit=1`, { key: world.acme.viewer });
    const cursor = String(first.json.next_cursor);
    const rest = await world.ask("GET", `${path}?cursor=${cursor}`, { key: world.acme.viewer });
    const types = [first, rest].flatMap(({ json }) =>
      (json.items as Array<{ type: string }>).map(({ type }) => type),
    );
    expect(types).toContain("run_started");
    expect(types.at(-1)).toBe("run_completed");
    expect(rest.json.next_cursor).toBeNull();
    const foreign = await world.ask("GET", `${path}?cursor=${cursor}`, { key: world.globex.viewer });
    expectProblem(undefined, foreign, ["run_not_found", "invalid_request"]);
  });

  test("hears of every result by itself: too large, not its own, unknown, misspelt", async () => {
    await start({});
    const job = await pollOne();
    const answer = await report([
      { ...claim(job), status: "succeeded", output: "x".repeat(1_100) },
      { job_id: job.job_id, claim_token: "0123456789abcdef0123456789abcdef", status: "succeeded" },
      { job_id: job.job_id.replace(/@1$/, "@9"), claim_token: job.claim_token, status: "succeeded" },
      { job_id: "nonsense", claim_token: "x", status: "failed" },
    ]);
    expect(answer.status).toBe(200);
    expect(answer.json.results).toMatchObject([
      { kind: "refused", because: "payload_too_large" },
      { kind: "refused", because: "stale_claim" },
      { kind: "refused" },
      { kind: "refused", because: "run_not_found" },
    ]);
    const stolen = await report([{ ...claim(job), status: "succeeded" }], world.globex.worker);
    expect(stolen.json.results).toMatchObject([{ kind: "refused" }]);
    const failed = await report([
      { ...claim(job), status: "failed", retryable: false, error: { message: "no money", code: "poor" } },
    ]);
    expect(failed.json.results).toMatchObject([{ kind: "accepted" }]);
    const run = await untilStatus(job.run_id, "failed");
    expect(run.json.steps).toMatchObject({ one: { error: { message: "no money", code: "poor" } } });
  });

  test("hands a job back: the next attempt is another's at once, and nothing has failed", async () => {
    await start({});
    const job = await pollOne();
    const back = { ...claim(job), status: "handed_back" };
    expect((await report([back])).json.results).toEqual([{ job_id: job.job_id, kind: "accepted" }]);
    const again = await report([back, { ...claim(job), status: "succeeded" }]);
    expect(again.json.results).toMatchObject([
      { kind: "accepted" },
      { kind: "duplicate", applied: false, because: "reported_otherwise" },
    ]);
    expect(again.json.results).not.toMatchObject([{ applied: false }, {}]);
    const next = await pollOne();
    expect(next.job_id).toBe(job.job_id.replace(/@1$/, "@2"));
    await report([{ ...claim(next), status: "succeeded", output: 7 }]);
    const run = await untilStatus(job.run_id, "succeeded");
    expect(run.json).toMatchObject({ steps: { one: { attempts: 2, hand_backs: 1, output: 7 } } });
    expect(run.text).not.toMatch(/"failures"|"lost_claims"/);
    const path = `/api/v1/workflow-runs/${job.run_id}/timeline`;
    const { json } = await world.ask("GET", path, { key: world.acme.viewer });
    const row = { type: "step_handed_back", step: "one", attempt: 1, worker: "w", hand_backs: 1 };
    expect(json.items).toContainEqual(expect.objectContaining(row));
    expectProblem(undefined, await report([{ ...claim(next), status: "returned" }]), ["invalid_request"]);
  });

  test("that is silent about a job it does not have learns that it is lost", async () => {
    const jobs = [{ job_id: "nonsense", claim_token: "x" }];
    const body = { worker_id: "w", jobs };
    const answer = await world.ask("POST", "/api/v1/jobs/heartbeat", { key: world.acme.worker, body });
    expect(answer.json.jobs).toEqual([{ job_id: "nonsense", kind: "lost" }]);
  });
});

const claim = ({ job_id, claim_token }: { job_id: string; claim_token: string }) => ({ job_id, claim_token });

describe("a run", () => {
  test("is cancelled by its own workflow's path alone, and cancelling again changes nothing", async () => {
    const { json } = await world.ask("POST", "/api/v1/workflows/guarded/runs", {
      key: world.acme.operator,
      body: {},
    });
    const cancel = (path: string) => world.ask("POST", path, { key: world.acme.operator });
    expectProblem(
      undefined,
      await cancel(`/api/v1/workflows/simple/runs/${json.run_id}/cancel`),
      "run_not_found",
    );
    expect((await cancel(`/api/v1/workflows/guarded/runs/${json.run_id}/cancel`)).status).toBe(204);
    await untilStatus(String(json.run_id), "cancelled");
    expect((await cancel(`/api/v1/workflow-runs/${json.run_id}/cancel`)).status).toBe(204);
  });

  test("that has ended otherwise cannot be cancelled any more, and can be deleted once", async () => {
    await start({});
    const job = await pollOne();
    await report([{ ...claim(job), status: "succeeded" }]);
    await untilStatus(job.run_id, "succeeded");
    const path = `/api/v1/workflow-runs/${job.run_id}`;
    const cancelled = await world.ask("POST", `${path}/cancel`, { key: world.acme.operator });
    expectProblem(undefined, cancelled, "run_ended");
    expect(cancelled.json.run_status).toBe("succeeded");
    expect((await world.ask("DELETE", path, { key: world.acme.admin })).status).toBe(204);
    expectProblem(undefined, await world.ask("DELETE", path, { key: world.acme.admin }), "run_not_found");
  });

  test("stands once in the pages of the list, whatever their size, and only in its own tenant's", async () => {
    for (let index = 0; index < 5; index += 1) {
      await world.ask("POST", starts, { key: world.globex.operator, body: { index } });
    }
    const pages = async (limit: number) => {
      const ids: unknown[] = [];
      for (let cursor = ""; ; ) {
        const path = `/api/v1/workflow-runs?limit=${limit}${cursor === "" ? "" : `&cursor=${cursor}`}`;
        const { json } = await world.ask("GET", path, { key: world.globex.viewer });
        ids.push(...(json.items as Array<{ id: string }>).map(({ id }) => id));
        if (json.next_cursor === null) return ids;
        cursor = String(json.next_cursor);
        const foreign = await world.ask("GET", path.replace(/&cursor=.*|$/, `&cursor=${cursor}`), {
          key: world.acme.viewer,
        });
        expectProblem(undefined, foreign, "invalid_request");
      }
    };
    const all = await pages(500);
    expect(new Set(all).size).toBe(all.length);
    expect(all.length).toBeGreaterThanOrEqual(5);
    for (const limit of [1, 2, 3]) expect(await pages(limit)).toEqual(all);
  });
});

describe("an approval", () => {
  async function pending(): Promise<{ job_id: string; hash: string; run_id: string }> {
    const { json } = await world.ask("POST", "/api/v1/workflows/guarded/runs", {
      key: world.acme.operator,
      body: {},
    });
    const list = await world.ask("GET", "/api/v1/approvals?state=pending&limit=500", {
      key: world.acme.viewer,
    });
    const items = list.json.items as Array<{ job_id: string; hash: string; run_id: string }>;
    const found = items.find(({ run_id }) => run_id === json.run_id);
    if (found === undefined) throw new Error(list.text);
    return found;
  }

  const decide = (id: string, verb: string, body: object = {}, key = world.acme.admin) =>
    world.ask("POST", `/api/v1/approvals/${id}/${verb}`, { key, body });

  test("is of what was shown: another hash is refused, the first decision stands, a repeat is harmless", async () => {
    const { job_id, hash, run_id } = await pending();
    const context = await world.ask("GET", `/api/v1/approvals/${job_id}/context`, { key: world.acme.viewer });
    expect(context.json).toMatchObject({ job_id, hash, state: "pending" });
    expectProblem(undefined, await decide(job_id, "approve", { hash: "0".repeat(64) }), "approval_changed");
    const first = await decide(job_id, "approve", { hash, reason: "looked at it" });
    expect(first.json).toMatchObject({ state: "approved", reason: "looked at it" });
    expect((await decide(job_id, "approve", { hash })).json).toMatchObject({ state: "approved" });
    const other = await decide(job_id, "reject", { hash });
    expectProblem(undefined, other, ["approval_already_decided"]);
    expect(other.json.approval).toMatchObject({ state: "approved" });
    expect(run_id).toBe(context.json.run_id);
  });

  test("is not for workers, platforms or viewers, and with separate duties not for the person who asked", async () => {
    const { job_id } = await pending();
    for (const key of [world.acme.worker, world.acme.viewer, world.platform]) {
      expectProblem(undefined, await decide(job_id, "approve", {}, key), "forbidden");
    }
    const separate = { key: world.platform, body: { separate_duties: true } };
    await world.ask("PATCH", "/api/v1/tenants/acme", separate);
    let { job_id: guarded } = await pending();
    const endMs = performance.now() + 5_000;
    for (;;) {
      const list = await world.ask("GET", `/api/v1/approvals/${guarded}/context`, { key: world.acme.viewer });
      if (list.json.separate_duties === true || performance.now() > endMs) break;
      guarded = (await pending()).job_id;
    }
    expectProblem(undefined, await decide(guarded, "approve", {}, world.acme.operator), "self_approval");
    expect((await decide(guarded, "reject", {}, world.acme.admin)).json).toMatchObject({ state: "rejected" });
  });
});

test("a definition with faults is refused with the place of each", async () => {
  const body = {
    id: "bad",
    name: "Bad",
    steps: { one: { type: "worker", topic: "t", depends_on: ["two"] } },
  };
  const answer = await world.ask("POST", "/api/v1/workflows", { key: world.acme.admin, body });
  expectProblem(undefined, answer, "workflow_invalid");
  expect(answer.json.problems).toMatchObject([{ path: expect.stringContaining("depends_on") }]);
});

test("a definition that takes too much work to read is 422, saved or validated, and names what costs most", async () => {
  for (const path of ["/api/v1/workflows", "/api/v1/workflows/validate"]) {
    const answer = await world.ask("POST", path, { key: world.acme.admin, body: manyWriters(500) });
    expectProblem(undefined, answer, "workflow_too_costly");
    expect(answer.json.problems).toMatchObject([{ path: "steps", message: expect.stringContaining("ctx") }]);
  }
});

test("input that does not fit the workflow's schema is refused with the place of each fault", async () => {
  const input_schema = { type: "object", required: ["amount"], properties: { amount: { type: "number" } } };
  const body = { ...simpleWorkflow, id: "typed", input_schema };
  expect((await world.ask("POST", "/api/v1/workflows", { key: world.acme.admin, body })).status).toBe(201);
  const answer = await start({ amount: "three" }, {}, "/api/v1/workflows/typed/runs");
  expectProblem(undefined, answer, "input_invalid");
  expect(answer.json.problems).toMatchObject([{ path: expect.stringContaining("amount") }]);
});
