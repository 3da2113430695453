// Asking why a run does not move, through the whole control plane on a memory store with virtual time.
import { describe, expect, test } from "vitest";
import type { RunId } from "../../src/domain/run.ts";
import type { Explanation } from "../../src/domain/why/explanation.ts";
import {
  acme,
  ann,
  type FlowPlane,
  FlowWorld,
  only,
  pollOf,
  type Steps,
  single,
  work,
} from "../support/flow-world.ts";

async function scene(steps: Steps, overrides = {}) {
  const flow = new FlowWorld();
  const plane = await flow.open("p", { overrides });
  await plane.save("w", steps);
  return { flow, plane };
}

async function why(flow: FlowWorld, plane: FlowPlane, runId: RunId): Promise<Explanation> {
  const answer = await flow.finish(plane.api.explainRun({ tenant: acme, runId }));
  return only(answer, "explained").explanation;
}

describe("a job that nobody takes", () => {
  test("has no worker for its topic, and the topic that was meant is named", async () => {
    const { flow, plane } = await scene({ a: work({ topic: "wrok" }) });
    await plane.poll();
    const runId = await plane.start("w");
    const explained = await why(flow, plane, runId);
    expect(explained).toMatchObject({
      run_id: runId,
      status: "running",
      open_steps: 1,
      not_shown: 0,
      unanswered: [],
      waiting_for: [
        {
          kind: "job_unclaimed",
          because: "no_worker_for_topic",
          similar_topics: ["work"],
          job_id: `${runId}:a@1`,
        },
      ],
    });
  });

  test("is forgotten to have had a worker two minutes after it was seen", async () => {
    const { flow, plane } = await scene({ a: work({ meta: { requires: ["gpu"] } }) });
    await plane.poll();
    const runId = await plane.start("w");
    expect((await why(flow, plane, runId)).waiting_for[0]).toMatchObject({ because: "capability_missing" });
    await flow.pass(121_000);
    expect((await why(flow, plane, runId)).waiting_for[0]).toMatchObject({
      because: "no_worker_for_topic",
      republished: expect.any(Number),
    });
  });

  test("asks for a capability and a label that the worker does not offer", async () => {
    const { flow, plane } = await scene({
      a: work({ meta: { requires: ["gpu", "ocr"] }, route_labels: { zone: "eu" } }),
    });
    await plane.poll({ capabilities: ["ocr"], labels: { zone: "us" } });
    const runId = await plane.start("w");
    const [item] = (await why(flow, plane, runId)).waiting_for;
    expect(item).toMatchObject({
      because: "capability_missing",
      missing_capabilities: ["gpu"],
      missing_labels: { zone: "eu" },
      workers: [{ worker_id: "w" }],
    });
  });

  test("waits because its only worker is busy: with what is told", async () => {
    const { flow, plane } = await scene({ a: work() });
    const first = await plane.start("w");
    single(await plane.poll({ places: 1 }));
    const second = await plane.start("w");
    const [item] = (await why(flow, plane, second)).waiting_for;
    expect(item).toMatchObject({
      because: "workers_full",
      workers: [{ worker_id: "w", running: 1, jobs: [`${first}:a@1`] }],
    });
  });

  test("is being offered while a worker with a free place waits", async () => {
    const { flow, plane } = await scene({ a: work() });
    plane.member.fail({ claimJobs: "request_lost" });
    const runId = await plane.start("w");
    const poll = plane.api.pollJobs(pollOf({ waitMs: 30_000, worker: "w-2", places: 4 }));
    const [item] = (await why(flow, plane, runId)).waiting_for;
    expect(item).toMatchObject({
      kind: "job_unclaimed",
      because: "being_offered",
      workers: [{ worker_id: "w-2", free_places: 3 }],
    });
    plane.member.fail({});
    expect(only(await flow.finish(poll), "jobs").jobs.length).toBeLessThanOrEqual(1);
  });

  test("belongs to a stopped tenant", async () => {
    const { flow, plane } = await scene({ a: work() });
    const runId = await plane.start("w");
    await flow.tenant({ stopped: true });
    expect((await why(flow, plane, runId)).waiting_for).toMatchObject([
      { kind: "tenant_stopped" },
      { kind: "job_unclaimed", because: "tenant_stopped" },
    ]);
  });
});

describe("a run", () => {
  test("that a worker works on names the worker, its lease and its progress", async () => {
    const { flow, plane } = await scene({ a: work({ timeout_sec: 60 }) });
    const runId = await plane.start("w");
    const job = single(await plane.poll({ leaseMs: 20_000 }));
    await flow.pass(5_000);
    const beat = { jobId: job.job.jobId, token: job.token, progress: { done: 3 } };
    await flow.finish(plane.api.heartbeat({ caller: ann, worker: "w", beats: [beat] }));
    const explained = await why(flow, plane, runId);
    expect(explained.waiting_for).toMatchObject([
      { kind: "job_running", worker_id: "w", progress: { done: 3 }, deadline_at: expect.any(String) },
    ]);
    expect(JSON.stringify(explained)).not.toContain(job.token);
  });

  test("that waits for a person says who may decide, and since when", async () => {
    const { flow, plane } = await scene({ ok: { type: "approval", separate_duties: true, timeout_sec: 90 } });
    const runId = await plane.start("w");
    await flow.pass(10_000);
    const explained = await why(flow, plane, runId);
    expect(explained.status).toBe("waiting");
    expect(explained.waiting_for).toMatchObject([
      {
        kind: "approval",
        step_id: "ok",
        may_decide: expect.stringContaining("not ann"),
        expires_at: expect.any(String),
      },
    ]);
  });

  test("that waits for a retry says why it failed", async () => {
    const { flow, plane } = await scene({
      a: work({ retry: { max_retries: 2, initial_backoff_sec: 100, max_backoff_sec: 100 } }),
    });
    const runId = await plane.start("w");
    await plane.fail(single(await plane.poll()), "failed_retryable");
    await flow.pass(10);
    expect((await why(flow, plane, runId)).waiting_for).toMatchObject([
      { kind: "timer", timer: "retry", failures: 1, attempts: 1, last_error: { message: "it broke" } },
    ]);
  });

  test("that waits for a delay says until when", async () => {
    const { flow, plane } = await scene({ later: { type: "delay", delay_sec: 3_600 } });
    const runId = await plane.start("w");
    expect((await why(flow, plane, runId)).waiting_for).toMatchObject([
      { kind: "timer", timer: "delay", step_id: "later" },
    ]);
  });

  test("whose result waits for another owner names that owner", async () => {
    const { flow, plane } = await scene({ a: work() });
    const runId = await plane.start("w");
    const job = single(await plane.poll());
    const { release } = await flow.occupy(runId);
    await plane.report(job);
    await flow.pass(10);
    expect((await why(flow, plane, runId)).waiting_for[0]).toMatchObject({
      kind: "run_lock",
      entries: [{ kind: "result", about: job.job.jobId }],
      holder: { instance: "other", expires_in_ms: expect.any(Number) },
    });
    await release();
    expect(await flow.ended(runId)).toBe("succeeded");
  });

  test("that waits for the run of a subworkflow leads to it", async () => {
    const { flow, plane } = await scene({ a: work() });
    await plane.save("outer", { sub: { type: "subworkflow", input: { workflow_id: "w" } } });
    const runId = await plane.start("outer");
    await flow.until(async () => (await flow.step(runId, "sub")).childRunId !== undefined);
    await flow.pass(1_000);
    const [item] = (await why(flow, plane, runId)).waiting_for;
    expect(item).toMatchObject({ kind: "child_run", step_id: "sub", run_status: "running" });
    const child = item?.kind === "child_run" ? (item.run_id as RunId) : runId;
    expect((await why(flow, plane, child)).waiting_for).toMatchObject([
      { kind: "job_unclaimed", step_id: "a" },
    ]);
  });

  test("that works through a list counts its items and shows some that are open", async () => {
    const { flow, plane } = await scene({ each: work({ for_each: "input.items", max_parallel: 40 }) });
    const runId = await plane.start("w", { items: Array.from({ length: 300 }, (_, index) => index) });
    await flow.until(async () => ((await flow.step(runId, "each")).children?.open ?? 0) === 40);
    const done = await plane.poll({ places: 5 });
    for (const job of done) await plane.report(job);
    await flow.until(async () => ((await flow.step(runId, "each")).children?.met ?? 0) === 5);
    await flow.pass(1_000);
    const explained = await why(flow, plane, runId);
    expect(explained.waiting_for.at(-1)).toMatchObject({
      kind: "children",
      total: 300,
      open: 40,
      succeeded: 5,
    });
    const items = explained.waiting_for.filter(({ kind }) => kind === "job_unclaimed");
    expect(items.length).toBeGreaterThan(10);
    expect(items.every((item) => "step_id" in item && /^each\[\d+\]$/.test(item.step_id))).toBe(true);
    expect(explained.open_steps).toBe(41);
    expect(explained.not_shown + explained.waiting_for.length).toBe(41);
  });

  test("that runs steps side by side shows them and what waits for them", async () => {
    const { flow, plane } = await scene({
      both: { type: "parallel", input: { steps: ["one", "two"] } },
      one: work(),
      two: { type: "approval" },
    });
    const runId = await plane.start("w");
    await flow.pass(1_000);
    const kinds = (await why(flow, plane, runId)).waiting_for.map(({ kind }) => kind);
    expect(kinds).toEqual(["job_unclaimed", "approval", "children"]);
  });

  test("with a thousand open jobs is explained by a few reads, and the approval among them is found", async () => {
    const steps = Object.fromEntries(
      Array.from({ length: 900 }, (_, index) => [`s${index}`, work({ topic: `t${index % 3}` })]),
    );
    const { flow, plane } = await scene({ ...steps, ok: { type: "approval" } });
    const runId = await plane.start("w");
    await flow.pass(2_000);
    const before = plane.member.calls.length;
    const explained = await why(flow, plane, runId);
    expect(plane.member.calls.length - before).toBeLessThan(40);
    expect(explained.waiting_for.some(({ kind }) => kind === "approval")).toBe(true);
    expect(explained.waiting_for.length).toBeLessThanOrEqual(24);
    expect(explained).toMatchObject({ open_steps: 901 });
    expect(explained.not_shown + explained.waiting_for.length).toBe(901);
  });

  test("that is not there, or is another tenant's, is not found", async () => {
    const { flow, plane } = await scene({ a: work() });
    const runId = await plane.start("w");
    const missing = "run_01_0123456789abcdef" as RunId;
    expect((await flow.finish(plane.api.explainRun({ tenant: acme, runId: missing }))).kind).toBe(
      "run_not_found",
    );
    expect((await flow.finish(plane.api.explainRun({ tenant: "globex" as typeof acme, runId }))).kind).toBe(
      "run_not_found",
    );
  });
});

describe("an ended run", () => {
  test("that failed names the step, the worker's error and the letter that can be retried", async () => {
    const { flow, plane } = await scene({ a: work() });
    const runId = await plane.start("w");
    await plane.fail(single(await plane.poll()), "failed_retryable");
    expect(await flow.ended(runId)).toBe("failed");
    const explained = await why(flow, plane, runId);
    expect(explained).toMatchObject({
      status: "failed",
      waiting_for: [],
      ended: {
        step_id: "a",
        error: { message: "it broke" },
        dead_letter: { id: `${runId}:a@1`, state: "open" },
      },
    });
    expect(explained.summary).toContain("it broke");
  });

  test("whose retry needs a slot that is not free names the runs that hold them", async () => {
    const { flow, plane } = await scene({ a: work() });
    const failed = await plane.start("w");
    await plane.fail(single(await plane.poll()), "failed_retryable");
    await flow.ended(failed);
    await flow.tenant({ maxConcurrentRuns: 1 });
    const holder = await plane.start("w");
    expect((await why(flow, plane, failed)).waiting_for).toMatchObject([
      { kind: "limit", limit: 1, active: 1, runs: [{ run_id: holder, workflow_id: "w" }] },
    ]);
  });

  test("says so when the store does not name them", async () => {
    const { flow, plane } = await scene({ a: work() });
    const failed = await plane.start("w");
    await plane.fail(single(await plane.poll()), "failed_retryable");
    await flow.ended(failed);
    await flow.tenant({ maxConcurrentRuns: 1 });
    await plane.start("w");
    plane.member.fail({ listActive: "unavailable" });
    expect(await why(flow, plane, failed)).toMatchObject({
      waiting_for: [{ kind: "limit", limit: 1, runs: [] }],
      unanswered: ["the runs that hold the slots"],
    });
  });

  test("that succeeded waits for nothing", async () => {
    const { flow, plane } = await scene({ a: work() });
    const runId = await plane.start("w");
    await plane.report(single(await plane.poll()));
    await flow.ended(runId);
    expect(await why(flow, plane, runId)).toMatchObject({
      status: "succeeded",
      waiting_for: [],
      unanswered: [],
    });
  });
});

describe("a store that answers only in part", () => {
  test("leaves an explanation that says what is missing", async () => {
    const { flow, plane } = await scene({ a: work(), ok: { type: "approval" } });
    const runId = await plane.start("w");
    plane.member.fail({ getJob: "request_lost", getApproval: "unavailable", inspectLock: "unavailable" });
    const explained = await why(flow, plane, runId);
    expect(explained.unanswered).toEqual([
      "who holds the run",
      "the job of step a",
      "the approval of step ok",
    ]);
    expect(explained).toMatchObject({ status: "running", open_steps: 2, waiting_for: [] });
  });

  test("is trouble when it does not even know the run", async () => {
    const { flow, plane } = await scene({ a: work() });
    const runId = await plane.start("w");
    plane.member.fail({ loadRun: "request_lost" });
    expect((await flow.finish(plane.api.explainRun({ tenant: acme, runId }))).kind).toBe("unknown");
  });
});

describe("a start that is refused at the limit", () => {
  async function full() {
    const { flow, plane } = await scene({ a: work() });
    await flow.tenant({ maxConcurrentRuns: 2 });
    const holders = [await plane.start("w")];
    await flow.pass(5);
    holders.push(await plane.start("w"));
    const refused = () => plane.api.startWorkflow({ caller: ann, workflow: "w", input: {} });
    return { flow, plane, holders, refused };
  }

  test("names the runs that hold the slots, oldest first", async () => {
    const { flow, holders, refused } = await full();
    const answer = only(await flow.finish(refused()), "max_concurrent_runs_reached");
    expect(answer).toMatchObject({ limit: 2, active: 2 });
    expect(answer.runs?.map(({ run_id }) => run_id)).toEqual(holders);
  });

  test("costs one read however many are refused within a quarter of a second", async () => {
    const { flow, plane, refused } = await full();
    const answers = await flow.finish(Promise.all(Array.from({ length: 50 }, refused)));
    expect(answers.map((answer) => only(answer, "max_concurrent_runs_reached").runs?.length)).toEqual(
      Array(50).fill(2),
    );
    expect(plane.member.callsOf("listActive")).toHaveLength(1);
    await flow.pass(251);
    await flow.finish(refused());
    expect(plane.member.callsOf("listActive")).toHaveLength(2);
  });

  test.each(["unavailable", "request_lost"] as const)(
    "is refused all the same when their names are %s, and soon",
    async (fate) => {
      const { flow, plane, refused } = await full();
      plane.member.fail({ listActive: fate });
      const startedMs = flow.nowMs();
      const answer = only(await flow.finish(refused()), "max_concurrent_runs_reached");
      expect(answer).toMatchObject({ limit: 2, active: 2 });
      expect(answer).not.toHaveProperty("runs");
      expect(flow.nowMs() - startedMs).toBeLessThanOrEqual(250);
    },
  );
});
