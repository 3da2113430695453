// Starts that wait at gates, as whole flows on the memory store: who waits, who is next, and how soon a place is used again.
import { describe, expect, test } from "vitest";
import type { StartAnswer } from "../../src/control/admission/start-run.ts";
import type { ClaimedJob } from "../../src/control/jobs/offers.ts";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import { fingerprintOf } from "../../src/domain/fingerprint.ts";
import type { GateId } from "../../src/domain/gates.ts";
import type { RunId } from "../../src/domain/run.ts";
import type { TenantSettings } from "../../src/domain/tenant.ts";
import {
  acme,
  ann,
  type FlowPlane,
  FlowWorld,
  only,
  type PlaneOptions,
  single,
  work,
} from "../support/flow-world.ts";

const byCustomer = { key: "${input.customer}", max: 1, at_limit: "queue" };
type Header = { readonly [name: string]: JsonValue };

async function setUp(header: Header, settings: TenantSettings = {}, options: PlaneOptions = {}) {
  const flow = new FlowWorld();
  await flow.tenant(settings);
  const plane = await flow.open("p", options);
  await plane.save("tickets", { one: work() }, header);
  return { flow, plane };
}

type Asked = {
  readonly input?: JsonValue;
  readonly key?: string;
  readonly priority?: number;
  readonly workflow?: string;
};

function start({ flow, plane }: { readonly flow: FlowWorld; readonly plane: FlowPlane }, asked: Asked = {}) {
  const { input = { customer: "c1" }, key, priority, workflow = "tickets" } = asked;
  const named =
    key === undefined
      ? {}
      : {
          key: {
            text: key,
            fingerprint: fingerprintOf({ method: "POST", path: workflow, query: {}, body: input }),
          },
        };
  const request = { caller: ann, workflow, input, ...named, ...(priority === undefined ? {} : { priority }) };
  return flow.finish(plane.api.startWorkflow(request)) as Promise<StartAnswer>;
}

const runOf = (answer: StartAnswer): RunId => {
  if (answer.kind !== "queued" && answer.kind !== "admitted") throw new Error(JSON.stringify(answer));
  return answer.runId;
};

/** The only job there is, once it is there. */
async function nextJob({ flow, plane }: { flow: FlowWorld; plane: FlowPlane }): Promise<ClaimedJob> {
  return single(await flow.finish(plane.poll({ waitMs: 5_000 })));
}

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
  expect(second.gate).toBe("tenant");
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

describe("an operator", () => {
  test("who raises the tenant's limit lets those through that wait, within a sweep", async () => {
    const scene = await setUp({}, { maxConcurrentRuns: 1, atLimit: "queue" });
    const { flow, plane } = scene;
    const runs: RunId[] = [];
    for (let index = 0; index < 20; index += 1) runs.push(runOf(await start(scene)));
    await flow.tenant({ maxConcurrentRuns: 20, atLimit: "queue" });
    const running = async () =>
      (await Promise.all(runs.map((runId) => flow.status(runId)))).every((status) => status === "running");
    expect(await flow.until(running)).toBeLessThan(1_500);
    await plane.close();
  });

  test("who saves a workflow with a larger max lets those through that wait", async () => {
    const scene = await setUp({ concurrency: [{ max: 1, at_limit: "queue" }] });
    const { flow, plane } = scene;
    await start(scene);
    const second = runOf(await start(scene));
    await plane.save("tickets", { one: work() }, { concurrency: [{ max: 2, at_limit: "queue" }] });
    expect(await flow.until(async () => (await flow.status(second)) === "running")).toBeLessThan(1_500);
    await plane.close();
  });

  test("who stops the tenant freezes its queues, and lets them go on", async () => {
    const scene = await setUp({ concurrency: [byCustomer] });
    const { flow, plane } = scene;
    const first = runOf(await start(scene));
    const second = runOf(await start(scene));
    await flow.tenant({ stopped: true });
    await flow.finish(plane.api.cancelRun({ caller: ann, runId: first, reason: "stopped" }));
    await flow.ended(first);
    await flow.pass(3_000);
    expect(await flow.status(second)).toBe("queued");
    const why = only(await flow.finish(plane.api.explainRun({ tenant: acme, runId: second })), "explained");
    expect(why.explanation.summary).toContain("The tenant is stopped");
    await flow.tenant({});
    await flow.until(async () => (await flow.status(second)) === "running", 2_000);
    await plane.close();
  });

  test("who asks why sees the gate, the place, who is ahead, who holds the places and what to type", async () => {
    const scene = await setUp({ concurrency: [byCustomer] });
    const { flow, plane } = scene;
    const first = runOf(await start(scene));
    const second = runOf(await start(scene));
    const third = runOf(await start(scene));
    const { explanation } = only(
      await flow.finish(plane.api.explainRun({ tenant: acme, runId: third })),
      "explained",
    );
    expect(explanation.waiting_for).toMatchObject([
      {
        ...{ kind: "queued", limit: 1, active: 1, waiting: 2, position: 2 },
        ahead: [{ run_id: second }],
        holders: [{ run_id: first }],
        what_to_do: expect.stringContaining(`interlock queue move ${third} --head`),
      },
    ]);
    expect(explanation.summary).toMatch(
      /^The run waits at position 2 at the gate by-key\..*has 1 of 1 places taken: when is not known\.$/,
    );
    const shown = only(await flow.finish(plane.api.getRun({ tenant: acme, runId: third })), "run");
    expect(shown.run.position).toBe(2);
    await plane.close();
  });

  test("is told when, once runs have ended lately", async () => {
    const scene = await setUp({ concurrency: [byCustomer] });
    const { flow, plane } = scene;
    for (let index = 0; index < 5; index += 1) await start(scene);
    for (let index = 0; index < 3; index += 1) {
      await flow.pass(2_000);
      await plane.report(await nextJob(scene));
    }
    const last = runOf(await start(scene));
    const { explanation } = only(
      await flow.finish(plane.api.explainRun({ tenant: acme, runId: last })),
      "explained",
    );
    expect(explanation.waiting_for[0]).toHaveProperty("expected_at");
    await plane.close();
  });
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

test("removing a tenant ends what waits in it", async () => {
  const flow = new FlowWorld();
  const plane = await flow.open("p");
  await flow.finish(plane.api.createTenant({ actor: "root", tenant: acme, settings: {} }));
  await plane.save("tickets", { one: work() }, { concurrency: [byCustomer] });
  const first = runOf(await start({ flow, plane }));
  const runs: RunId[] = [];
  for (let index = 0; index < 12; index += 1) runs.push(runOf(await start({ flow, plane })));
  const remove = () => flow.finish(plane.api.removeTenant({ actor: "root", tenant: acme }));
  expect(await remove()).toEqual({ kind: "tenant_active", active: 1 });
  // Nobody is let through in a tenant that is stopped, so that its last active run can end.
  await flow.finish(plane.api.changeTenant({ actor: "root", tenant: acme, changes: { stopped: true } }));
  await flow.finish(plane.api.cancelRun({ caller: ann, runId: first, reason: "over" }));
  await flow.ended(first);
  expect(await remove()).toEqual({ kind: "removed" });
  for (const runId of runs)
    expect(await flow.header(runId)).toMatchObject({
      status: "cancelled",
      endReason: "the tenant is removed",
    });
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
        message: expect.stringContaining('gates of "tickets" do not count'),
      },
    ],
  });
  await scene.plane.close();
});
