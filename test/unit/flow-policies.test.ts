// Policies as whole flows: shares of the runs, the platform's settings, and results measured once however often they are tried.
import { describe, expect, test } from "vitest";
import { metricNeeds } from "../../scripts/metric-needs.ts";
import type { ClaimedJob } from "../../src/control/jobs/offers.ts";
import { armOf } from "../../src/domain/policy.ts";
import type { RunId } from "../../src/domain/run.ts";
import { platformTenant, type Rollout } from "../../src/domain/tenant.ts";
import { loadConfig } from "../../src/load-config.ts";
import { metrics as metricRows } from "../../src/metrics.ts";
import {
  acme,
  ann,
  type FlowPlane,
  FlowWorld,
  type Overrides,
  only,
  sendOverBus,
  single,
  work,
} from "../support/flow-world.ts";

const retry = { "results.strategy": "retry", "results.retry.wait": "fixed" } as const;

type Scene = {
  readonly flow: FlowWorld;
  readonly plane: FlowPlane;
  readonly runId: RunId;
  readonly job: ClaimedJob;
};

async function claimedRun(overrides: Overrides = {}): Promise<Scene> {
  const flow = new FlowWorld();
  const plane = await flow.open("p", { overrides });
  await plane.save("one", { a: work() });
  const runId = await plane.start("one");
  return { flow, plane, runId, job: single(await plane.poll()) };
}

const latencies = ({ plane }: Scene) =>
  plane.metrics.observed("job_result_latency_seconds", { strategy: "retry" });

describe("a result that finds its run busy is measured once", () => {
  test("over HTTP: from its first report to the one that is taken, with all its tries", async () => {
    const scene = await claimedRun(retry);
    const { flow, plane, runId, job } = scene;
    const { release } = await flow.occupy(runId);
    const startedMs = flow.nowMs();
    expect((await plane.report(job)).kind).toBe("run_busy");
    expect(latencies(scene)).toEqual([]);
    await flow.pass(500);
    await release();
    expect(await plane.report(job)).toEqual({ kind: "accepted" });
    const seconds = (flow.nowMs() - startedMs) / 1_000;
    expect(seconds).toBeGreaterThan(3.3);
    expect(latencies(scene)).toEqual([seconds]);
    expect(plane.metrics.observed("run_lock_wait_seconds", { path: "gateway" })).toEqual([seconds]);
    expect(plane.metrics.total("run_lock_acquired_total", { path: "gateway", retries: "2+" })).toBe(1);
    expect(plane.metrics.total("run_lock_acquired_total")).toBe(1);
  });

  test("over the bus: one try that was busy and one that was not", async () => {
    const scene = await claimedRun(retry);
    const { flow, plane, runId, job } = scene;
    const { release } = await flow.occupy(runId);
    await sendOverBus(plane, job);
    await flow.pass(100);
    await release();
    expect(await flow.ended(runId)).toBe("succeeded");
    expect(latencies(scene)).toEqual([0.5]);
    expect(plane.metrics.observed("run_lock_wait_seconds", { path: "bus" })).toEqual([0.5]);
    expect(plane.metrics.total("run_lock_acquired_total", { path: "bus", retries: "1" })).toBe(1);
  });

  test("with trouble in between it is measured when it is durable", async () => {
    const scene = await claimedRun();
    const { flow, plane, job } = scene;
    plane.member.fail({ deliver: ["unavailable"] });
    expect((await plane.report(job)).kind).toBe("unavailable");
    await flow.pass(2_000);
    expect(await plane.report(job)).toEqual({ kind: "accepted" });
    expect(plane.metrics.observed("job_result_latency_seconds", { strategy: "handoff" })).toEqual([2]);
  });

  test("the same job's other result is another result", async () => {
    const scene = await claimedRun(retry);
    const { flow, plane, runId, job } = scene;
    const { release } = await flow.occupy(runId);
    expect((await plane.report(job, { of: "one" })).kind).toBe("run_busy");
    await release();
    expect(await plane.report(job, { of: "another" })).toEqual({ kind: "accepted" });
    expect(latencies(scene)).toEqual([0]);
  });
});

/** Runs of both sides of the rollout. */
async function runsOfBothSides(flow: FlowWorld, plane: FlowPlane, rollout: Rollout) {
  const jobs = new Map<string, ClaimedJob>();
  for (let tries = 0; tries < 50 && jobs.size < 2; tries += 1) {
    const runId = await plane.start("one");
    const job = single(await plane.poll());
    jobs.set(armOf(rollout, runId), job);
    await flow.pass(1);
  }
  const [canary, control] = [jobs.get("canary"), jobs.get("control")];
  if (canary === undefined || control === undefined) throw new Error("one side only");
  return { canary, control };
}

describe("a rollout", () => {
  const rollout: Rollout = { id: "half", percent: 50, policies: { "results.strategy": "retry" } };

  async function bothSides(settings: "tenant" | "platform") {
    const flow = new FlowWorld();
    await flow.tenant({ rollout }, settings === "tenant" ? acme : platformTenant);
    const plane = await flow.open("p");
    await plane.save("one", { a: work() });
    const sides = await runsOfBothSides(flow, plane, rollout);
    for (const { job } of [sides.canary, sides.control]) await flow.occupy(job.runId);
    return { flow, plane, ...sides };
  }

  test.each(["tenant", "platform"] as const)(
    "of the %s changes its share of the runs and no other",
    async (whose) => {
      const { plane, canary, control } = await bothSides(whose);
      expect((await plane.report(canary)).kind).toBe("run_busy");
      expect((await plane.report(control)).kind).toBe("accepted");
    },
  );

  test("that is taken back is gone within 5 s, though nobody tells", async () => {
    const { flow, plane, canary } = await bothSides("tenant");
    expect((await plane.report(canary)).kind).toBe("run_busy");
    await flow.tenant({});
    await flow.pass(5_000);
    expect((await plane.report(canary)).kind).toBe("accepted");
  });
});

describe("the platform's settings", () => {
  test("hold for tenants that say nothing else", async () => {
    const flow = new FlowWorld();
    await flow.tenant({ admissionStrategy: "lock" }, platformTenant);
    const plane = await flow.open("p");
    await plane.save("one", { a: work() });
    await plane.start("one");
    expect(plane.metrics.total("admission_decisions_total", { strategy: "lock" })).toBe(1);
    await flow.tenant({ admissionStrategy: "atomic" });
    await flow.pass(5_000);
    await plane.start("one");
    expect(plane.metrics.total("admission_decisions_total", { strategy: "atomic" })).toBe(1);
  });

  test("that cannot be read refuse no start, and are not waited for again and again", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p", { engine: "stopped" });
    await plane.save("one", { a: work() });
    const ofPlatform = () =>
      plane.member
        .callsOf("getTenant")
        .filter(({ request }) => (request as { tenant: string }).tenant === "platform");
    plane.member.fail({ getTenant: (nth) => (nth === 1 ? "ok" : "unavailable") });
    const startedMs = flow.nowMs();
    await plane.start("one");
    await plane.start("one");
    await plane.start("one");
    expect(ofPlatform()).not.toHaveLength(0);
    const asked = ofPlatform().length;
    await plane.start("one");
    expect(ofPlatform()).toHaveLength(asked);
    expect(flow.nowMs() - startedMs).toBeLessThan(5_000);
  });

  test("are read at most once in 4 s, whatever is started", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p", { engine: "stopped" });
    await plane.save("one", { a: work() });
    for (let index = 0; index < 20; index += 1) await plane.start("one");
    const asked = plane.member
      .callsOf("getTenant")
      .map(({ request }) => (request as { tenant: string }).tenant);
    expect(asked.filter((tenant) => tenant === "platform")).toHaveLength(1);
  });
});

describe("the admission strategy", () => {
  const rollout: Rollout = {
    id: "atomic for half",
    percent: 50,
    policies: { "admission.strategy": "atomic" },
  };

  test("of a rollout is the run's, whatever the tenant's record says", async () => {
    const flow = new FlowWorld();
    await flow.tenant({ admissionStrategy: "lock", rollout });
    const plane = await flow.open("p");
    await plane.save("one", { a: work() });
    const runs: RunId[] = [];
    for (let index = 0; index < 20; index += 1) runs.push(await plane.start("one"));
    const taken = runs.filter((runId) => armOf(rollout, runId) === "canary").length;
    expect(taken).toBeGreaterThan(0);
    expect(taken).toBeLessThan(20);
    expect(plane.metrics.total("admission_decisions_total", { strategy: "atomic" })).toBe(taken);
    expect(plane.metrics.total("admission_decisions_total", { strategy: "lock" })).toBe(20 - taken);
  });

  test("that an operator sets for all acts within the time that settings are remembered", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    await plane.save("one", { a: work() });
    await plane.start("one");
    await flow.tenant({ admissionStrategy: "lock" });
    await flow.pass(loadConfig().config["admission.tenantCacheMs"]);
    await plane.start("one");
    expect(plane.metrics.total("admission_decisions_total", { strategy: "lock" })).toBe(1);
  });
});

describe("the renewal policy", () => {
  const overrides = { ...retry, "store.callTimeoutMs": 60_000 } as const;
  const lost = ["request_lost", "request_lost", "request_lost", "request_lost"] as const;

  async function failedRenewals(renewalPolicy: "fence" | "continue", risk: "high" | "standard" | "low") {
    const flow = new FlowWorld();
    await flow.tenant({ renewalPolicy });
    const plane = await flow.open("p", { overrides, engine: "stopped" });
    await plane.save("one", { a: work() }, { risk });
    await plane.start("one");
    const job = single(await plane.poll({ leaseMs: 600_000 }));
    plane.member.fail({ loadRun: [{ requestAfterMs: 28_000 }], renewLock: lost });
    only(await plane.report(job), "accepted");
    await flow.pass(30_000);
    return {
      fenced: plane.metrics.total("lock_abandoned_total", { lock: "run" }),
      committed: plane.member.callsOf("commit").length,
    };
  }

  test("fence stops low-risk work, too", async () => {
    expect(await failedRenewals("fence", "low")).toEqual({ fenced: 1, committed: 0 });
  });

  test("continue lets standard work go on, and never work of high risk", async () => {
    expect(await failedRenewals("continue", "standard")).toEqual({ fenced: 0, committed: 1 });
    expect(await failedRenewals("continue", "high")).toEqual({ fenced: 1, committed: 0 });
  });
});

describe("setting policies", () => {
  async function open() {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    await flow.finish(plane.api.createTenant({ actor: "root", tenant: acme, settings: {} }));
    return { flow, plane, api: plane.api };
  }

  test("for a share makes a rollout; another percentage keeps it, other policies replace it, 100 sets them for all", async () => {
    const { flow, api } = await open();
    const policies = { "results.strategy": "retry" } as const;
    const rollOut = async (percent: number, what: Rollout["policies"] = policies) =>
      only(
        await flow.finish(api.rollOut({ actor: "root", tenant: acme, policies: what, percent })),
        "policies",
      ).view;
    const first = (await rollOut(10)).own?.rollout;
    expect(first).toMatchObject({ percent: 10, policies });
    expect((await rollOut(25)).own?.rollout).toEqual({ ...first, percent: 25 });
    expect((await rollOut(25, { "results.wait": "fixed" })).own?.rollout?.id).not.toBe(first?.id);
    const done = await rollOut(100);
    expect(done.own).toEqual({ policies });
    expect(done.effective["results.strategy"]).toEqual({ value: "retry", source: "tenant" });
  });

  test("is taken back by one call, and cleared by name", async () => {
    const { flow, api } = await open();
    await flow.finish(api.setPolicies({ actor: "root", tenant: acme, changes: { "results.wait": "fixed" } }));
    await flow.finish(
      api.rollOut({ actor: "root", tenant: acme, policies: { "results.strategy": "retry" }, percent: 10 }),
    );
    const back = only(await flow.finish(api.removeRollout({ actor: "root", tenant: acme })), "policies").view;
    expect(back.own).toEqual({ policies: { "results.wait": "fixed" } });
    expect((await flow.finish(api.removeRollout({ actor: "root", tenant: acme }))).kind).toBe(
      "rollout_not_found",
    );
    const cleared = await flow.finish(
      api.setPolicies({ actor: "root", tenant: acme, changes: { "results.wait": undefined } }),
    );
    expect(only(cleared, "policies").view.own).toEqual({ policies: {} });
    expect(
      (await flow.finish(api.setPolicies({ actor: "root", tenant: "nobody" as typeof acme, changes: {} })))
        .kind,
    ).toBe("tenant_not_found");
  });

  test("for the platform holds for every tenant", async () => {
    const { flow, plane, api } = await open();
    await flow.finish(
      api.setPolicies({ actor: "root", tenant: undefined, changes: { "admission.strategy": "lock" } }),
    );
    const shown = only(await flow.finish(api.getPolicies({ tenant: acme })), "policies").view;
    expect(shown.effective["admission.strategy"]).toEqual({ value: "lock", source: "platform" });
    await plane.save("one", { a: work() });
    await flow.finish(api.startWorkflow({ caller: ann, workflow: "one", input: {} }));
    expect(plane.metrics.total("admission_decisions_total", { strategy: "lock" })).toBe(1);
  });
});

describe("series that need other settings than the defaults", () => {
  /** A start, a result for a busy run, and an approval that two people decide at once. */
  async function used(overrides: Overrides) {
    const scene = await claimedRun(overrides);
    const { flow, plane, runId, job } = scene;
    const { release } = await flow.occupy(runId);
    await plane.report(job);
    await release();
    await plane.report(job);
    await plane.save("asks", { ok: { type: "approval", input: {} } });
    const asking = await plane.start("asks");
    const approvalId = `${asking}:ok@1`;
    await flow.finish(plane.api.decideApproval({ caller: ann, approvalId, decision: "approved" }));
    return plane.metrics;
  }

  const movedIn = (metrics: FlowPlane["metrics"]) =>
    Object.entries(metricNeeds).flatMap(([name, needs]) => {
      if (metricRows[name as keyof typeof metricNeeds].kind === "gauge") return [];
      const series = metricRows[name as keyof typeof metricNeeds].kind === "histogram" ? "observed" : "total";
      const count = (labels: object) =>
        series === "total"
          ? metrics.total(name as "run_lock_acquired_total", labels)
          : metrics.observed(name as "run_lock_wait_seconds", labels).length;
      if ("length" in needs) return count({}) > 0 ? [name] : [];
      const idle = Object.entries(needs.values).filter(([, settings]) => settings.length > 0);
      return idle.flatMap(([value]) => (count({ [needs.label]: value }) > 0 ? [`${name} ${value}`] : []));
    });

  test("stand still with the defaults", async () => {
    expect(movedIn(await used({}))).toEqual([]);
  });

  test.each([
    [{ "admission.strategy": "lock" }, ["admission_lock_wait_seconds", "lock_acquire_seconds admission"]],
    [
      retry,
      [
        ...["lock_busy_retries_total gateway", "lock_busy_retry_delay_seconds run"],
        ...["run_lock_wait_seconds", "run_lock_acquired_total"],
      ],
    ],
    [{ "approvals.strategy": "lock" }, ["lock_acquire_seconds approval"]],
  ] as const)("move with %j", async (overrides, expected) => {
    expect(movedIn(await used(overrides))).toEqual(expected);
  });
});
