// Work that was given up, over HTTP and on every kind of store: found, looked into, retried to its end, and purged.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { defaultStoreSettings } from "../../src/ports/store.ts";
import { expectProblem } from "../support/gateway-requests.ts";
import { acme, type GatewayWorld, openGatewayWorld, type Received } from "../support/gateway-world.ts";
import { type StoreHost, startStoreHost } from "../support/stores.ts";

const workflow = {
  id: "shaky",
  steps: {
    "first.step": {
      topic: "shaky",
      input: { order: "${input.order}" },
      retry: { max_retries: 2, initial_backoff_sec: 0.01, max_backoff_sec: 0.02 },
    },
    last: { topic: "shaky", depends_on: ["first.step"] },
  },
};

describe.each(["memory", "sqlite", "redis"] as const)("on %s", (name) => {
  let host: StoreHost;
  let world: GatewayWorld;

  beforeAll(async () => {
    host = await startStoreHost(name);
    const store = await host.open(defaultStoreSettings);
    // The host closes its stores itself.
    world = await openGatewayWorld({ "admission.tenantCacheMs": 100 }, { ...store, close: async () => {} });
    await world.ask("POST", "/api/v1/workflows", { key: world.acme.admin, body: workflow });
  });

  afterAll(async () => {
    await world?.close();
    await host?.close();
  });

  const operator = (method: string, path: string, body?: unknown): Promise<Received> =>
    world.ask(method, path, { key: world.acme.operator, ...(body === undefined ? {} : { body }) });
  const letterPath = (id: string) => `/api/v1/dlq/${encodeURIComponent(id)}`;

  let polls = 0;

  async function takeJob() {
    polls += 1;
    const body = { worker_id: "w", topics: ["shaky"], poll_id: `dlq-${polls}`, max_jobs: 1, wait_ms: 10_000 };
    const answer = await world.ask("POST", "/api/v1/jobs/poll", { key: world.acme.worker, body });
    const [job] = answer.json.jobs as Array<{
      job_id: string;
      claim_token: string;
      attempt: number;
      input: unknown;
    }>;
    if (job === undefined) throw new Error(answer.text);
    return job;
  }

  async function report(job: { job_id: string; claim_token: string }, result: object): Promise<void> {
    const { job_id, claim_token } = job;
    const body = { worker_id: "w", results: [{ job_id, claim_token, ...result }] };
    const answer = await world.ask("POST", "/api/v1/jobs/results", { key: world.acme.worker, body });
    expect(answer.json.results).toMatchObject([{ kind: "accepted" }]);
  }

  async function untilStatus(runId: string, status: string): Promise<void> {
    const endMs = performance.now() + 10_000;
    for (;;) {
      const answer = await operator("GET", `/api/v1/workflow-runs/${runId}`);
      if (answer.json.status === status) return;
      if (performance.now() > endMs) throw new Error(`still ${answer.text}`);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }

  /** A run whose worker fails until its retries are used up. */
  async function failedRun(): Promise<{ runId: string; id: string }> {
    const started = await operator("POST", "/api/v1/workflows/shaky/runs", { order: 42 });
    const runId = String(started.json.run_id);
    for (let attempt = 1; attempt <= 3; attempt += 1) {
      const job = await takeJob();
      expect(job).toMatchObject({ attempt, input: { order: 42 } });
      await report(job, { status: "failed", error: { message: `broken ${attempt}`, code: "down" } });
    }
    await untilStatus(runId, "failed");
    return { runId, id: `${runId}:first.step@3` };
  }

  test("a run whose retries are used up goes on after a retry, and ends as if nothing had happened", async () => {
    const { runId, id } = await failedRun();
    const listed = await operator("GET", "/api/v1/dlq?state=open&reason=retries_exhausted");
    expect(listed.json.items).toMatchObject([{ id, run_id: runId, step_id: "first.step", state: "open" }]);
    const shown = await operator("GET", letterPath(id));
    expect(shown.json).toMatchObject({
      id,
      job_id: id,
      reason: "retries_exhausted",
      workflow_id: "shaky",
      attempt: 3,
      failures: 3,
      topic: "shaky",
      error: { message: "broken 3", code: "down" },
      input: { order: 42 },
      run_status: "failed",
      retryable: true,
      retry_path: `${letterPath(id)}/retry`,
    });

    const retried = await operator("POST", String(shown.json.retry_path), {});
    expect(retried.json).toEqual({
      job_id: id,
      run_id: runId,
      step_id: "first.step",
      status: "retrying",
      already: false,
    });
    const job = await takeJob();
    expect(job).toMatchObject({ attempt: 4, input: { order: 42 } });
    const again = await operator("POST", `${letterPath(id)}/retry`, {});
    expect([again.status, again.json.already]).toEqual([200, true]);
    await report(job, { status: "succeeded", output: { done: true } });
    await report(await takeJob(), { status: "succeeded" });
    await untilStatus(runId, "succeeded");

    const late = await operator("POST", `${letterPath(id)}/retry`, {});
    expect([late.status, late.json.already]).toEqual([200, true]);
    await untilStatus(runId, "succeeded");
    const after = await operator("GET", letterPath(id));
    expect(after.json).toMatchObject({ state: "retried", retryable: false, run_status: "succeeded" });
    expect((await operator("GET", "/api/v1/dlq?state=open")).json.items).toEqual([]);
    expect((await operator("GET", "/api/v1/dlq/page?state=retried")).json.items).toMatchObject([{ id }]);
  });

  test("an ended run needs a slot to be opened again: without one the retry is 429 and names who has it", async () => {
    const { runId, id } = await failedRun();
    const limit = (value: number | null) =>
      world.ask("PATCH", "/api/v1/tenants/acme", {
        key: world.platform,
        body: { max_concurrent_runs: value },
      });
    await limit(1);
    const holder = String((await operator("POST", "/api/v1/workflows/shaky/runs", { order: 1 })).json.run_id);
    const refused = await operator("POST", `${letterPath(id)}/retry`, {});
    expectProblem(undefined, refused, "max_concurrent_runs_reached");
    expect(refused.json).toMatchObject({
      limit: 1,
      active: 1,
      runs: [{ run_id: holder, workflow_id: "shaky" }],
    });
    const why = await operator("GET", `/api/v1/workflow-runs/${runId}/why`);
    expect(why.json).toMatchObject({
      ended: { dead_letter: { id, state: "open" } },
      waiting_for: [{ kind: "limit", runs: [{ run_id: holder }] }],
    });
    await limit(null);
    expect((await operator("POST", `${letterPath(id)}/retry`, {})).status).toBe(200);
    await operator("POST", `/api/v1/workflow-runs/${runId}/cancel`, {});
    await operator("POST", `/api/v1/workflow-runs/${holder}/cancel`, {});
    await untilStatus(runId, "cancelled");
    await untilStatus(holder, "cancelled");
  });

  test("a letter of a run inside runs is retried with all of them: what they had done is not done again", async () => {
    const calls = (id: string) => ({ type: "subworkflow", input: { workflow_id: id } });
    const outer = {
      id: "outer",
      steps: { call: calls("middle"), end: { topic: "shaky", depends_on: ["call"] } },
    };
    const middle = {
      id: "middle",
      steps: { before: { topic: "shaky" }, call: { ...calls("inner"), depends_on: ["before"] } },
    };
    const inner = {
      id: "inner",
      steps: { paid: { topic: "shaky" }, sent: { topic: "shaky", depends_on: ["paid"] } },
    };
    for (const body of [inner, middle, outer]) {
      expect((await world.ask("POST", "/api/v1/workflows", { key: world.acme.admin, body })).status).toBe(
        201,
      );
    }
    const started = await operator("POST", "/api/v1/workflows/outer/runs", { order: 7 });
    const root = String(started.json.run_id);
    await report(await takeJob(), { status: "succeeded" });
    await report(await takeJob(), { status: "succeeded" });
    const broken = await takeJob();
    await report(broken, { status: "failed", error: { message: "no carrier" } });
    await untilStatus(root, "failed");
    const shown = await operator("GET", letterPath(broken.job_id));
    expect(shown.json).toMatchObject({ workflow_id: "inner", run_status: "failed", retryable: true });

    const retried = await operator("POST", `${letterPath(broken.job_id)}/retry`, {});
    expect(retried.json).toMatchObject({ job_id: broken.job_id, status: "retrying", already: false });
    const again = await takeJob();
    expect(again.job_id).toBe(broken.job_id.replace("@1", "@2"));
    await report(again, { status: "succeeded" });
    const last = await takeJob();
    expect(last.job_id).toBe(`${root}:end@1`);
    await report(last, { status: "succeeded" });
    await untilStatus(root, "succeeded");
    const repeated = await operator("POST", `${letterPath(broken.job_id)}/retry`, {});
    expect([repeated.status, repeated.json.already]).toEqual([200, true]);
  });

  test("a letter whose run was deleted says so, and its retry is 409", async () => {
    const { runId, id } = await failedRun();
    await world.ask("DELETE", `/api/v1/workflow-runs/${runId}`, { key: world.acme.admin });
    const shown = await operator("GET", letterPath(id));
    expect(shown.json).toMatchObject({ retryable: false, not_retryable_because: "its run is gone" });
    const refused = await operator("POST", `${letterPath(id)}/retry`, {});
    expectProblem(undefined, refused, "dead_letter_not_retryable");
    expect(refused.json.detail).toBe("its run is gone");
  });

  test("letters are removed one by one and by kind, and a viewer may do neither", async () => {
    const { id } = await failedRun();
    for (const [method, path] of [
      ["DELETE", letterPath(id)],
      ["POST", "/api/v1/dlq/purge"],
      ["POST", `${letterPath(id)}/retry`],
    ] as const) {
      const sent = { key: world.acme.viewer, ...(method === "POST" ? { body: {} } : {}) };
      expectProblem(undefined, await world.ask(method, path, sent), "forbidden");
    }
    expect((await operator("DELETE", letterPath(id))).status).toBe(204);
    expectProblem(undefined, await operator("DELETE", letterPath(id)), "dead_letter_not_found");
    const bad = await operator("POST", "/api/v1/dlq/purge", { before: "yesterday" });
    expectProblem(undefined, bad, "invalid_request");
    const none = await operator("POST", "/api/v1/dlq/purge", { before: "2026-01-01T00:00:00Z" });
    expect(none.json).toEqual({ purged: 0, more: false });
    const left = (await operator("GET", "/api/v1/dlq")).json.items as unknown[];
    expect(left.length).toBeGreaterThan(0);
    const purged = await operator("POST", "/api/v1/dlq/purge", {});
    expect(purged.json).toEqual({ purged: left.length, more: false });
    expect((await operator("GET", "/api/v1/dlq")).json.items).toEqual([]);
    const text = (await world.ask("GET", "/metrics", { key: world.platform })).text;
    expect(text).toMatch(/^interlock_dead_letters_retried_total\{reason="retries_exhausted"\} [1-9]/m);
    expect(text).toMatch(/^interlock_dead_letters_purged_total [1-9]/m);
  });

  test("a letter written by an earlier version is shown as what it is", async () => {
    const runId = "run_00_0123456789abcdef";
    const entry = { kind: "cancel", entryId: "c", actor: "ann", reason: "over" };
    const put = {
      tenant: acme,
      collection: "deadLetter",
      id: `${runId}:c`,
      changeId: "c",
      actor: "test",
    } as const;
    const { store } = world.plane.ports;
    await store.putDocument({ ...put, body: JSON.stringify(entry) }, { deadlineMs: 5_000 });
    const shown = await operator("GET", letterPath(`${runId}:c`));
    expect(shown.json).toMatchObject({
      reason: "poisoned_entry",
      run_id: runId,
      content: entry,
      retryable: false,
    });
  });
});
