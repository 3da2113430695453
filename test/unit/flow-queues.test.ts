// Starts that wait at gates, as whole flows on the memory store: who waits, who is next, and how soon a place is used again.
import { describe, expect, test } from "vitest";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import type { GateId } from "../../src/domain/gates.ts";
import type { RunId } from "../../src/domain/run.ts";
import { byCustomer, nextJob, runOf, setUp, start } from "../support/flow-queues.ts";
import { acme, ann, FlowWorld, only, single, work } from "../support/flow-world.ts";

describe("a gate by key", () => {
  test("lets one of a key begin, queues the next with its place, and hands the place on when the first ends", async () => {
    const scene = await setUp({ concurrency: [byCustomer] });
    const { flow, plane } = scene;
    const first = only(await start(scene), "admitted").runId;
    const second = only(await start(scene), "queued");
    expect(second).toMatchObject({ position: 1, gate: expect.stringMatching(/^by-key\.tickets\./) });
    expect(only(await start(scene), "queued").position).toBe(2);
    expect(only(await start(scene, { input: { customer: "c2" } }), "admitted").runId).not.toBe(first);

    const jobs = await plane.poll();
    const job = jobs.find(({ job: { runId } }) => runId === first);
    if (job === undefined) throw new Error("the first run has a job");
    await plane.report(job);
    await flow.until(async () => (await flow.status(second.runId)) === "running");
    await plane.close();
  });

  test("a run that is let through has its job at once: no sweep is waited for", async () => {
    const scene = await setUp({ concurrency: [byCustomer] }, {}, { engine: "stopped" });
    const { flow, plane } = scene;
    await start(scene);
    const second = runOf(await start(scene));
    const job = single(await plane.poll());
    const startedMs = flow.nowMs();
    await plane.report(job);
    await flow.until(async () => (await flow.status(second)) === "running");
    expect(flow.nowMs() - startedMs).toBeLessThan(100);
    await plane.close();
  });

  test("a run that finds its gate open begins as soon as one without gates, but for one commit", async () => {
    const scene = await setUp({ concurrency: [byCustomer] }, {}, { engine: "stopped" });
    const runId = only(await start(scene), "admitted").runId;
    const tookMs = await scene.flow.until(async () => (await scene.flow.status(runId)) === "running");
    expect(tookMs).toBeLessThan(100);
    expect(await scene.flow.events(runId)).toEqual(["run_created", "run_started", "step_dispatched one"]);
    await scene.plane.close();
  });

  test("a key replays its run while that waits", async () => {
    const scene = await setUp({ concurrency: [byCustomer] });
    await start(scene);
    const { runId } = only(await start(scene, { key: "order-17" }), "queued");
    expect(await start(scene, { key: "order-17" })).toMatchObject({
      kind: "replayed",
      runId,
      status: "queued",
    });
    const reused = await start(scene, { key: "order-17", input: { customer: "c2" } });
    expect(reused.kind).toBe("idempotency_key_reused");
    await scene.plane.close();
  });

  test("an input that gives no key is refused with the place of the expression, and its idempotency key stays free", async () => {
    const scene = await setUp({ concurrency: [byCustomer] });
    const refused = await start(scene, { key: "k", input: {} });
    expect(refused).toMatchObject({
      kind: "start_expression_failed",
      problems: [{ path: "concurrency[0].key" }],
    });
    expect((await start(scene, { key: "k" })).kind).toBe("admitted");
    // A key that is bound answers with its run, whatever is asked for now.
    expect((await start(scene, { key: "k", input: {} })).kind).toBe("idempotency_key_reused");
    await scene.plane.close();
  });

  test("the higher priority goes first, and a moved run before all", async () => {
    const scene = await setUp({ concurrency: [byCustomer], priority: "${has(input.vip) ? 8 : 5}" });
    const { flow, plane } = scene;
    await start(scene);
    const usual = runOf(await start(scene));
    const vip = runOf(await start(scene, { input: { customer: "c1", vip: true } }));
    const low = runOf(await start(scene, { priority: 1 }));
    const moved = await flow.finish(plane.api.moveQueued({ caller: ann, runId: low, to: "head" }));
    expect(moved.kind).toBe("moved");
    for (const expected of [low, vip, usual]) {
      await plane.report(single(await plane.poll()));
      await flow.until(async () => (await flow.status(expected)) === "running");
    }
    expect((await flow.finish(plane.api.moveQueued({ caller: ann, runId: low, to: 3 }))).kind).toBe(
      "run_not_queued",
    );
    await plane.close();
  });
});

test("a gate that rejects names itself and its holders", async () => {
  const scene = await setUp({ concurrency: [{ max: 1 }] });
  const first = only(await start(scene), "admitted").runId;
  expect(await start(scene)).toMatchObject({
    kind: "max_concurrent_runs_reached",
    gate: "by-workflow.tickets",
    limit: 1,
    active: 1,
    runs: [{ run_id: first }],
  });
  await scene.plane.close();
});

test("a queue that is full refuses, naming its gate", async () => {
  const scene = await setUp({ concurrency: [byCustomer], queue: { max: 2 } });
  for (const kind of ["admitted", "queued", "queued"]) expect((await start(scene)).kind).toBe(kind);
  expect(await start(scene)).toMatchObject({
    kind: "queue_full",
    limit: 2,
    gate: expect.stringMatching(/^by-key/),
  });
  await scene.plane.close();
});

test("a tenant that queues lets plain workflows wait for its slots", async () => {
  const scene = await setUp({}, { maxConcurrentRuns: 1, atLimit: "queue" });
  const { flow, plane } = scene;
  await start(scene);
  const second = only(await start(scene), "queued");
  expect(second).toMatchObject({ gate: "tenant" });
  await plane.report(await nextJob(scene));
  expect((await nextJob(scene)).job.runId).toBe(second.runId);
  expect(await flow.status(second.runId)).toBe("running");
  await plane.close();
});

test("two workflows with the same named gates in opposite orders do not wait for each other", async () => {
  const flow = new FlowWorld();
  await flow.tenant({ gates: { crm: { max: 1 }, mail: { max: 1 } } });
  const plane = await flow.open("p");
  const gates = ["crm", "mail"].map((name) => ({ name, at_limit: "queue" }));
  await plane.save("forth", { one: work() }, { concurrency: gates });
  await plane.save("back", { one: work() }, { concurrency: gates.toReversed() });
  const runs: RunId[] = [];
  for (const workflow of ["forth", "back", "back", "forth"])
    runs.push(runOf(await start({ flow, plane }, { workflow })));
  for (const runId of runs) {
    await plane.report(await nextJob({ flow, plane }));
    expect(await flow.ended(runId)).toBe("succeeded");
  }
  await plane.close();
});

describe("a queued run ends", () => {
  test("when its deadline passes, and says so", async () => {
    const scene = await setUp({ concurrency: [byCustomer], queue: { deadline_sec: 10 } });
    const { flow, plane } = scene;
    await start(scene);
    const second = runOf(await start(scene));
    expect(await flow.ended(second)).toBe("timed_out");
    expect(await flow.header(second)).toMatchObject({ endReason: "queue_deadline_passed" });
    const why = only(await flow.finish(plane.api.explainRun({ tenant: acme, runId: second })), "explained");
    expect(why.explanation.summary).toMatch(/timed_out .*until its deadline and never began/);
    expect(plane.metrics.total("queue_deadlines_total")).toBe(1);
    await plane.close();
  });

  test("by a cancel, at once, and the next comes forward", async () => {
    const scene = await setUp({ concurrency: [byCustomer] }, {}, { engine: "stopped" });
    const { flow, plane } = scene;
    await start(scene);
    const [second, third] = [runOf(await start(scene)), runOf(await start(scene))];
    const cancelled = await flow.finish(
      plane.api.cancelRun({ caller: ann, runId: second, reason: "not needed" }),
    );
    expect(cancelled.kind).toBe("cancelling");
    expect(await flow.status(second)).toBe("cancelled");
    const gate = (await flow.header(third)).gates?.gates[0]?.gate as GateId;
    const shown = only(await flow.finish(plane.api.inspectGate({ tenant: acme, gate, limit: 10 })), "gate");
    expect(shown.queue.map(({ runId }) => runId)).toEqual([third]);
    expect(plane.metrics.total("runs_ended_total", { status: "cancelled" })).toBe(1);
    await plane.close();
  });

  test("when a newer one replaces it", async () => {
    const scene = await setUp({ concurrency: [{ max: 1, at_limit: "replace_queued" }] });
    await start(scene);
    const older = runOf(await start(scene));
    const newer = runOf(await start(scene));
    expect(await scene.flow.header(older)).toMatchObject({
      status: "cancelled",
      endReason: `superseded_by ${newer}`,
    });
    expect(await scene.flow.status(newer)).toBe("queued");
    await scene.plane.close();
  });
});

test("cancel_in_progress asks the active run to cancel, and the newest takes its place without a sweep", async () => {
  const scene = await setUp(
    { concurrency: [{ max: 1, at_limit: "cancel_in_progress" }] },
    {},
    { engine: "stopped" },
  );
  const { flow } = scene;
  const first = runOf(await start(scene));
  await flow.until(async () => (await flow.status(first)) === "running");
  const second = runOf(await start(scene));
  await flow.until(async () => (await flow.status(second)) === "running");
  expect(await flow.status(first)).toBe("cancelled");
  await scene.plane.close();
});

test("gates that workflows share must be set in the tenant before a workflow names them", async () => {
  const flow = new FlowWorld();
  const plane = await flow.open("p");
  const definition = { id: "w", concurrency: [{ name: "crm" }], steps: { one: work() } } as JsonValue;
  const save = () => flow.finish(plane.api.saveWorkflow({ caller: ann, definition }));
  expect(await save()).toMatchObject({
    kind: "workflow_invalid",
    problems: [
      {
        path: "concurrency[0].name",
        message: expect.stringContaining("interlock tenants set acme --gate crm=10"),
      },
    ],
  });
  expect((await flow.finish(plane.api.validateWorkflow({ tenant: acme, definition }))).kind).toBe(
    "workflow_invalid",
  );
  await flow.tenant({ gates: { crm: { max: 1 } } });
  expect((await save()).kind).toBe("saved");
  await plane.close();
});

test("a run with gates is admitted in one operation, whatever the strategy of its tenant is", async () => {
  const scene = await setUp({ concurrency: [byCustomer] }, { admissionStrategy: "lock" });
  await start(scene);
  expect((await start(scene)).kind).toBe("queued");
  expect(scene.plane.member.callsOf("createRun")).toHaveLength(0);
  await scene.plane.close();
});

test("a rerun waits like any start, with the priority that it asks for", async () => {
  const scene = await setUp({ concurrency: [byCustomer] });
  const { flow, plane } = scene;
  const first = runOf(await start(scene));
  await plane.report(await nextJob(scene));
  await flow.ended(first);
  await start(scene);
  const again = { caller: ann, runId: first, fromStep: "one", priority: 9 };
  const queued = only(await flow.finish(plane.api.rerunRun(again)), "queued");
  expect((await flow.header(queued.runId)).gates).toMatchObject({ priority: 9, held: 0 });
  await plane.report(await nextJob(scene));
  await flow.until(async () => (await flow.status(queued.runId)) === "running");
  await plane.close();
});

test("the workflow's timeout counts from when the run begins", async () => {
  const scene = await setUp({ concurrency: [byCustomer], timeout_sec: 60 });
  const { flow, plane } = scene;
  await start(scene);
  const second = runOf(await start(scene));
  await flow.pass(50_000);
  await plane.report(single(await plane.poll()));
  await flow.until(async () => (await flow.status(second)) === "running");
  await flow.pass(50_000);
  expect(await flow.status(second)).toBe("running");
  expect(await flow.ended(second)).toBe("timed_out");
  await plane.close();
});

test("gauges tell how many wait and how long the next one has waited, and go back to 0", async () => {
  const scene = await setUp({ concurrency: [byCustomer] });
  const { flow, plane } = scene;
  const first = runOf(await start(scene));
  const second = runOf(await start(scene));
  await flow.pass(21_000);
  expect(plane.metrics.total("queued_runs", { tenant: acme })).toBe(1);
  expect(plane.metrics.total("queue_head_age_seconds", { tenant: acme })).toBeGreaterThan(15);
  for (const runId of [second, first])
    await flow.finish(plane.api.cancelRun({ caller: ann, runId, reason: "over" }));
  await flow.pass(11_000);
  expect(plane.metrics.total("queued_runs", { tenant: acme })).toBe(0);
  expect(plane.metrics.total("queue_head_age_seconds", { tenant: acme })).toBe(0);
  await plane.close();
});

test("a definition that runs a workflow with gates as a step is warned that they do not count there", async () => {
  const scene = await setUp({ concurrency: [byCustomer] });
  const steps = { run: { type: "subworkflow", input: { workflow_id: "tickets" } } };
  const checking = scene.plane.api.validateWorkflow({ tenant: acme, definition: { id: "above", steps } });
  expect(await scene.flow.finish(checking)).toMatchObject({
    kind: "valid",
    warnings: [
      {
        path: "steps.run.input.workflow_id",
        message: expect.stringContaining('gates, rates and budgets of "tickets" do not count'),
      },
    ],
  });
  await scene.plane.close();
});
