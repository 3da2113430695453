// Seed 001: results that meet a busy run under the strategy `retry`: how long they wait, who waits with them, and how it ends.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createEngine } from "../../src/control/engine/engine.ts";
import type { ClaimedJob } from "../../src/control/jobs/offers.ts";
import { writeResult } from "../../src/control/jobs/read-result.ts";
import { deliverResult } from "../../src/control/jobs/report-result.ts";
import type { ClaimToken } from "../../src/domain/job.ts";
import type { RunId } from "../../src/domain/run.ts";
import { loadConfig } from "../../src/load-config.ts";
import {
  ann,
  type FlowPlane,
  FlowWorld,
  type Overrides,
  only,
  sendOverBus,
  single,
  work,
  workerCaller,
} from "../support/flow-world.ts";

// Fixed, so that a green change stays green.
fc.configureGlobal({ seed: 1 });

const retry = { "results.strategy": "retry", "results.retry.wait": "fixed" } as const;

type Scene = {
  readonly flow: FlowWorld;
  readonly plane: FlowPlane;
  readonly runId: RunId;
  readonly job: ClaimedJob;
};

/** A run of one step whose job has been claimed. */
async function claimedRun(overrides: Overrides = retry): Promise<Scene> {
  const flow = new FlowWorld();
  const plane = await flow.open("p", { overrides: { ...retry, ...overrides } });
  await plane.save("one", { a: work() });
  const runId = await plane.start("one");
  return { flow, plane, runId, job: single(await plane.poll()) };
}

const deliveriesOf = ({ plane }: Scene) => plane.member.callsOf("deliver").map(({ atMs }) => atMs);
const gaps = (times: readonly number[]) => times.slice(1).map((atMs, index) => atMs - (times[index] ?? 0));

describe("the answer to a result that meets a busy run", () => {
  const draws = fc.oneof(
    fc.constantFrom(0, 2 ** -53, 0.5, 1 - 2 ** -53),
    fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
  );

  /** What the bus path answers when this fraction is drawn. */
  async function delayFor(overrides: Overrides, fraction: number): Promise<number> {
    const scene = await claimedRun();
    await scene.flow.occupy(scene.runId);
    const { ports } = scene.plane.member;
    const random = { token: () => ports.random.token(), fraction: () => fraction };
    const { config } = loadConfig({ overrides: { ...retry, ...overrides } });
    const engine = createEngine({ ...ports, random }, scene.plane.bus, config);
    const { jobId } = scene.job.job;
    const report = { jobId, token: scene.job.token, outcome: "succeeded" } as const;
    const arrival = { path: "bus", deliveries: 1, ageMs: 0 } as const;
    const answer = await scene.flow.finish(
      deliverResult(engine, { caller: workerCaller, ...report }, arrival),
    );
    return only(answer, "run_busy").retryAfterMs;
  }

  test("is exactly 500 ms when fixed, whatever fraction is drawn", async () => {
    await fc.assert(
      fc.asyncProperty(draws, async (fraction) => {
        expect(await delayFor({}, fraction)).toBe(500);
      }),
      { numRuns: 20 },
    );
  });

  test("is 350 to 650 ms when jittered, and both ends are reached", async () => {
    const jitter = { "results.retry.wait": "jitter" } as const;
    expect(await delayFor(jitter, 0)).toBe(350);
    expect(await delayFor(jitter, 0.5)).toBe(500);
    expect(await delayFor(jitter, 1 - 2 ** -53)).toBeCloseTo(650, 6);
    await fc.assert(
      fc.asyncProperty(draws, async (fraction) => {
        const delayMs = await delayFor(jitter, fraction);
        expect(delayMs).toBeGreaterThanOrEqual(350);
        expect(delayMs).toBeLessThanOrEqual(650);
      }),
      { numRuns: 20 },
    );
  });

  test("jittered by a fraction of 0 is the same as fixed", async () => {
    await fc.assert(
      fc.asyncProperty(draws, async (fraction) => {
        const none = { "results.retry.wait": "jitter", "results.retry.jitterFraction": 0 } as const;
        expect(await delayFor(none, fraction)).toBe(500);
      }),
      { numRuns: 20 },
    );
  });

  test("keeps its base and its fraction whatever they are set to", async () => {
    const settings = fc.record({
      baseMs: fc.integer({ min: 1, max: 60_000 }),
      jitterFraction: fc.double({ min: 0, max: 0.5, noNaN: true }),
    });
    await fc.assert(
      fc.asyncProperty(settings, draws, async ({ baseMs, jitterFraction }, fraction) => {
        const overrides = {
          "results.retry.wait": "jitter",
          "results.retry.baseMs": baseMs,
          "results.retry.jitterFraction": jitterFraction,
        } as const;
        const delayMs = await delayFor(overrides, fraction);
        expect(delayMs).toBeGreaterThanOrEqual(baseMs * (1 - jitterFraction) - 1e-6);
        expect(delayMs).toBeLessThanOrEqual(baseMs * (1 + jitterFraction) + 1e-6);
      }),
      { numRuns: 20 },
    );
  });
});

describe("over HTTP a busy run", () => {
  test("is waited for 3 s, asked about every 100 ms, and then answered with the delay", async () => {
    const scene = await claimedRun();
    const { flow, plane, runId, job } = scene;
    await flow.occupy(runId);
    const startedMs = flow.nowMs();
    expect(await plane.report(job)).toEqual({ kind: "run_busy", retryAfterMs: 500 });
    const waitedMs = flow.nowMs() - startedMs;
    expect(waitedMs).toBeGreaterThan(3_000 - 130);
    expect(waitedMs).toBeLessThanOrEqual(3_000);
    const tries = gaps(deliveriesOf(scene));
    expect(tries.length).toBeGreaterThanOrEqual(23);
    for (const gapMs of tries) {
      expect(gapMs).toBeGreaterThanOrEqual(69);
      expect(gapMs).toBeLessThanOrEqual(131);
    }
    expect(plane.member.lines.map(({ message }) => message)).toContain("run lock busy");
    expect(plane.metrics.total("lock_busy_retries_total", { path: "gateway", policy: "fixed" })).toBe(1);
    const delays = (policy: string) =>
      plane.metrics.observed("lock_busy_retry_delay_seconds", { lock: "run", policy });
    expect(delays("fixed")).toEqual([0.5]);
    expect(plane.metrics.total("lock_busy_retries_total", { path: "gateway", policy: "jitter" })).toBe(
      tries.length,
    );
    expect(delays("jitter")).toHaveLength(tries.length);
    for (const seconds of delays("jitter")) expect(Math.abs(seconds - 0.1)).toBeLessThan(0.031);
  });

  test("that is given back meanwhile takes the result, without a retry of the worker", async () => {
    const { flow, plane, runId, job } = await claimedRun();
    const { release } = await flow.occupy(runId);
    flow.kernel.after(1_000, () => void release());
    expect(await plane.report(job)).toEqual({ kind: "accepted" });
    expect(await flow.ended(runId)).toBe("succeeded");
    const polls = plane.metrics.total("lock_busy_retries_total", { path: "gateway", policy: "jitter" });
    expect(polls).toBeGreaterThanOrEqual(8);
    expect(plane.metrics.total("lock_busy_retries_total")).toBe(polls);
    expect(plane.metrics.total("run_lock_acquired_total", { path: "gateway", retries: "2+" })).toBe(1);
    const [waited] = plane.metrics.observed("run_lock_wait_seconds", { path: "gateway" });
    expect(waited).toBeGreaterThanOrEqual(1);
    expect(waited).toBeLessThan(1.2);
  });
});

describe("over the bus a busy run", () => {
  test("is tried once a delivery, which the bus repeats after exactly 500 ms", async () => {
    const scene = await claimedRun();
    const { flow, plane, runId, job } = scene;
    const { release } = await flow.occupy(runId);
    await sendOverBus(plane, job);
    await flow.pass(2_100);
    expect(gaps(deliveriesOf(scene))).toEqual([500, 500, 500, 500]);
    await release();
    expect(await flow.ended(runId)).toBe("succeeded");
    expect(plane.metrics.total("lock_busy_retries_total", { path: "bus", policy: "fixed" })).toBe(5);
    await flow.pass(5_000);
    expect(deliveriesOf(scene)).toHaveLength(6);
  });

  test("is repeated after 350 to 650 ms when jittered, each time anew", async () => {
    const scene = await claimedRun({ "results.retry.wait": "jitter" });
    await scene.flow.occupy(scene.runId);
    await sendOverBus(scene.plane, scene.job);
    await scene.flow.pass(20_000);
    const waits = gaps(deliveriesOf(scene));
    expect(waits.length).toBeGreaterThan(30);
    for (const waitMs of waits) {
      expect(waitMs).toBeGreaterThanOrEqual(350);
      expect(waitMs).toBeLessThanOrEqual(650);
    }
    expect(new Set(waits).size).toBeGreaterThan(20);
  });

  test("by the tenant's own wait, which wins over that of the process", async () => {
    const scene = await claimedRun({ "results.retry.wait": "jitter", "results.strategy": "handoff" });
    await scene.flow.tenant({ resultsStrategy: "retry", resultsWait: "fixed" });
    await scene.flow.pass(4_000);
    await scene.flow.occupy(scene.runId);
    await sendOverBus(scene.plane, scene.job);
    await scene.flow.pass(1_600);
    expect(gaps(deliveriesOf(scene))).toEqual([500, 500, 500]);
  });

  test("trouble with the store is retried after a second, not after the delay of a busy run", async () => {
    const scene = await claimedRun({ "results.retry.baseMs": 77 });
    scene.plane.member.fail({ deliver: ["unavailable", "unavailable"] });
    await sendOverBus(scene.plane, scene.job);
    expect(await scene.flow.ended(scene.runId)).toBe("succeeded");
    expect(gaps(deliveriesOf(scene))).toEqual([1_000, 1_000]);
    expect(scene.plane.metrics.total("lock_busy_retries_total")).toBe(0);
    expect(scene.plane.metrics.observed("lock_busy_retry_delay_seconds")).toEqual([]);
  });
});

describe("after 100 deliveries", () => {
  /** Longer than the hundred deliveries take, so that the claim is not lost meanwhile. */
  const patient = { "jobs.leaseMs": 600_000, "sweep.everyMs": 10_000 };

  test("a result is in the dead letters, and is delivered no more", async () => {
    const scene = await claimedRun(patient);
    const { flow, plane, runId, job } = scene;
    const { release } = await flow.occupy(runId);
    await sendOverBus(plane, job, { found: 42 });
    await flow.until(() => plane.metrics.total("dead_letters_total") === 1, 120_000);
    expect(deliveriesOf(scene)).toHaveLength(100);
    const [letter, ...others] = await flow.letters();
    expect(others).toEqual([]);
    expect(letter?.id).toBe(job.job.jobId);
    expect(letter?.body).toMatchObject({ reason: "deliveries_exhausted" });
    expect(JSON.stringify(letter?.body)).toContain("found");
    await release();
    await flow.pass(10_000);
    expect(deliveriesOf(scene)).toHaveLength(100);
    expect((await flow.job(job.job.jobId)).state).toBe("claimed");
  });

  test("a result whose dead letter cannot be written stays on the bus until it can", async () => {
    const scene = await claimedRun({ ...patient, "results.deliveriesMax": 3 });
    const { flow, plane, job } = scene;
    await flow.occupy(scene.runId);
    plane.member.fail({ putDocument: (nth) => (nth <= 3 ? "unavailable" : "ok") });
    await sendOverBus(plane, job);
    await flow.until(() =>
      plane.member.callsOf("putDocument").some(({ answer }) => answer === "unavailable"),
    );
    expect(await flow.letters()).toEqual([]);
    await flow.until(async () => (await flow.letters()).length === 1);
    expect(deliveriesOf(scene)).toHaveLength(3);
  });

  test("the letter goes to the result's own tenant, also when its name looks like the beginning of another's", async () => {
    const { flow, plane, job } = await claimedRun({ ...patient, "results.deliveriesMax": 1 });
    const tenant = "acme.run_away" as typeof workerCaller.tenant;
    // A result that nobody can read has only its subject to say whose it is.
    await plane.bus.publish("results", { subject: `${tenant}/${job.job.jobId}`, body: "no JSON" });
    await flow.until(() => plane.metrics.total("dead_letters_total") === 1);
    expect(await flow.letters()).toEqual([]);
    const theirs = { tenant, collection: "deadLetter", after: "", limit: 10 } as const;
    const listed = await flow.world.store.listDocuments(theirs, { deadlineMs: 100 });
    expect(only(listed, "listed").documents.map(({ id }) => id)).toEqual([job.job.jobId]);
  });
});

describe("a hot run", () => {
  test("with more busy results than may be in hand does not hold up the results of others", async () => {
    const { flow, plane, runId, job } = await claimedRun({
      "jobs.leaseMs": 600_000,
      "sweep.everyMs": 10_000,
    });
    await flow.occupy(runId);
    const cold: RunId[] = [];
    for (let index = 0; index < 10; index += 1) cold.push(await plane.start("one"));
    const jobs = await plane.poll();
    const report = { jobId: job.job.jobId, token: job.token, outcome: "succeeded", output: 1 } as const;
    const message = { subject: `acme/${report.jobId}`, body: writeResult(report) };
    for (let index = 0; index < 2_500; index += 1) await plane.bus.publish("results", message);
    await flow.until(() => plane.metrics.total("lock_busy_retries_total") >= 2_500);
    const startedMs = flow.nowMs();
    for (const one of jobs) await sendOverBus(plane, one);
    for (const other of cold) expect(await flow.ended(other)).toBe("succeeded");
    expect(flow.nowMs() - startedMs).toBeLessThan(50);
    expect(await flow.status(runId)).toBe("running");
  });
});

describe("a result that nobody can use any more", () => {
  /** Published, delivered, and never delivered again; counted by why it was refused. */
  async function expectAcknowledgedOnce(scene: Scene, fate: string): Promise<void> {
    const before = deliveriesOf(scene).length;
    await sendOverBus(scene.plane, scene.job);
    await scene.flow.pass(3_000);
    expect(deliveriesOf(scene).length - before).toBe(1);
    expect(scene.plane.metrics.total("inbox_entries_total", { kind: "result", fate })).toBe(1);
    expect(scene.plane.metrics.total("lock_busy_retries_total")).toBe(0);
    expect(await scene.flow.letters()).toEqual([]);
  }

  test("because its run has ended is acknowledged at once and counted", async () => {
    const scene = await claimedRun();
    await scene.flow.finish(scene.plane.api.cancelRun({ caller: ann, runId: scene.runId, reason: "enough" }));
    expect(await scene.flow.ended(scene.runId)).toBe("cancelled");
    await expectAcknowledgedOnce(scene, "run_ended");
  });

  test("because its run was deleted is acknowledged at once and counted", async () => {
    const scene = await claimedRun();
    only(await scene.flow.finish(scene.plane.api.deleteRun({ caller: ann, runId: scene.runId })), "deleted");
    await expectAcknowledgedOnce(scene, "run_not_found");
  });

  test("because a newer attempt has begun is acknowledged at once and counted", async () => {
    const scene = await claimedRun({ "jobs.leaseMs": 1_000 });
    await scene.flow.until(async () => (await scene.flow.step(scene.runId, "a")).attempt === 2);
    await expectAcknowledgedOnce(scene, "stale_claim");
    expect(await scene.flow.status(scene.runId)).toBe("running");
  });

  test("is acknowledged at once although its run is busy: it is never taken for one that has to wait", async () => {
    const scene = await claimedRun({ "jobs.leaseMs": 1_000 });
    await scene.flow.until(async () => (await scene.flow.step(scene.runId, "a")).attempt === 2);
    await scene.flow.occupy(scene.runId);
    await expectAcknowledgedOnce(scene, "stale_claim");
  });

  test("a thousand of them do not hold up the result of a live run", async () => {
    const scene = await claimedRun({ "sweep.everyMs": 10_000 });
    const { flow, plane } = scene;
    const { jobId } = scene.job.job;
    const token = "not the claim" as ClaimToken;
    const message = {
      subject: `acme/${jobId}`,
      body: writeResult({ jobId, token, outcome: "succeeded" }),
    };
    const startedMs = flow.nowMs();
    for (let index = 0; index < 1_000; index += 1) await plane.bus.publish("results", message);
    await sendOverBus(plane, scene.job);
    expect(await flow.ended(scene.runId)).toBe("succeeded");
    expect(flow.nowMs() - startedMs).toBeLessThan(50);
    await flow.pass(2_000);
    const refused = ["stale_claim", "run_ended"].map((fate) =>
      plane.metrics.total("inbox_entries_total", { kind: "result", fate }),
    );
    expect((refused[0] ?? 0) + (refused[1] ?? 0)).toBe(1_000);
    expect(deliveriesOf(scene)).toHaveLength(1_001);
  });
});
