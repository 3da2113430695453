// Delays, timeouts and deadlines: exact while the process that set them lives, soon after its death, and never when cleared.
import { describe, expect, test } from "vitest";
import { createAlarms } from "../../src/control/engine/engine.ts";
import type { RunId } from "../../src/domain/run.ts";
import { createKernel } from "../../src/testing/kernel.ts";
import {
  acme,
  ann,
  ben,
  type FlowPlane,
  FlowWorld,
  only,
  type Steps,
  single,
  work,
} from "../support/flow-world.ts";

const delay = (seconds: number, more: Steps[string] = {}) => ({ type: "delay", delay_sec: seconds, ...more });

async function startedWith(plane: FlowPlane, steps: Steps, more: Steps[string] = {}): Promise<RunId> {
  await plane.save("timed", steps, more);
  return plane.start("timed");
}

/** When each step ended, after the start of the run. */
async function endedAfter(
  flow: FlowWorld,
  runId: RunId,
  steps: readonly string[],
): Promise<readonly number[]> {
  const { admittedAtMs } = await flow.header(runId);
  const records = await Promise.all(steps.map((step) => flow.step(runId, step)));
  return records.map(({ endedAtMs = Number.NaN }) => endedAtMs - admittedAtMs);
}

const timersSent = (plane: FlowPlane) =>
  plane.member
    .callsOf("deliver")
    .filter(({ request }) => "entry" in request && request.entry.kind === "timer");

describe("a delay", () => {
  test.each([0.001, 0.01, 0.25, 0.999, 1, 7.3])(
    "of %d s ends within two milliseconds of its time",
    async (seconds) => {
      const flow = new FlowWorld();
      const plane = await flow.open("p");
      const runId = await startedWith(plane, { a: delay(seconds) });
      expect(await flow.ended(runId)).toBe("succeeded");
      const [tookMs = 0] = await endedAfter(flow, runId, ["a"]);
      expect(tookMs).toBeGreaterThanOrEqual(seconds * 1_000);
      expect(tookMs).toBeLessThanOrEqual(seconds * 1_000 + 2);
    },
  );

  test("beside another one keeps its own time: neither ends, delays or replaces the other", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    const steps = { late: delay(0.9), early: delay(0.3), middle: delay(0.6), same: delay(0.6) };
    const runId = await startedWith(plane, steps);
    expect(await flow.ended(runId)).toBe("succeeded");
    const times = await endedAfter(flow, runId, ["early", "middle", "same", "late"]);
    expect(times.map((ms) => Math.floor(ms / 10) * 10)).toEqual([300, 600, 600, 900]);
    expect(timersSent(plane)).toHaveLength(4);
  });

  test("after a delay, and after a job, counts from where it began", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    const runId = await startedWith(plane, {
      a: delay(0.5),
      b: work({ depends_on: ["a"] }),
      c: delay(0.5, { depends_on: ["b"] }),
    });
    await flow.pass(2_000);
    await plane.report(single(await plane.poll()));
    expect(await flow.ended(runId)).toBe("succeeded");
    const [, , tookMs = 0] = await endedAfter(flow, runId, ["a", "b", "c"]);
    expect(tookMs).toBeGreaterThanOrEqual(2_500);
    expect(tookMs).toBeLessThan(2_510);
  });

  test("until a moment ends at that moment", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    const at = new Date(flow.world.server.timeMs() + 4_321).toISOString();
    const runId = await startedWith(plane, { a: { type: "delay", delay_until: at } });
    expect(await flow.ended(runId)).toBe("succeeded");
    const [tookMs = 0] = await endedAfter(flow, runId, ["a"]);
    expect(tookMs).toBeGreaterThanOrEqual(4_320);
    expect(tookMs).toBeLessThan(4_325);
  });
});

describe("after the death of the process that set it", () => {
  test.each([0.4, 3, 20])(
    "a delay of %d s is ended by the sweep of another within a second",
    async (seconds) => {
      const flow = new FlowWorld();
      const first = await flow.open("p");
      const runId = await startedWith(first, { a: delay(seconds) });
      first.member.process.crash();
      await flow.open("q");
      expect(await flow.ended(runId)).toBe("succeeded");
      const [tookMs = 0] = await endedAfter(flow, runId, ["a"]);
      expect(tookMs).toBeGreaterThanOrEqual(seconds * 1_000);
      expect(tookMs).toBeLessThan(seconds * 1_000 + 1_000);
    },
  );

  test("a delay that came due while nobody lived is ended by the process that starts next", async () => {
    const flow = new FlowWorld();
    const first = await flow.open("p");
    const runId = await startedWith(first, { a: delay(5), b: work({ depends_on: ["a"] }) });
    first.member.process.crash();
    await flow.pass(3_600_000);
    const second = await flow.open("q");
    const waitedMs = await flow.until(async () => (await flow.step(runId, "a")).status === "succeeded");
    expect(waitedMs).toBeLessThan(1_000);
    expect(single(await second.poll()).job.step).toBe("b");
  });

  test("a retry that waits for its backoff goes on", async () => {
    const flow = new FlowWorld();
    const first = await flow.open("p", { engine: "stopped" });
    const retry = { max_retries: 1, initial_backoff_sec: 10, max_backoff_sec: 10 };
    const runId = await startedWith(first, { a: work({ retry }) });
    await first.fail(single(await first.poll()), "failed_retryable");
    await flow.pass(10);
    first.member.process.crash();
    const second = await flow.open("q");
    await flow.until(async () => (await flow.step(runId, "a")).attempt === 2, 11_500);
    await second.report(single(await second.poll()));
    expect(await flow.ended(runId)).toBe("succeeded");
  });
});

describe("with a process whose clock is wrong", () => {
  test.each([
    { title: "fast by a twentieth", clockRate: 1.05, lateMs: 600 },
    { title: "slow by a twentieth", clockRate: 0.95, lateMs: 600 },
    { title: "an hour ahead", wallOffsetMs: 3_600_000, lateMs: 5 },
    { title: "an hour behind", wallOffsetMs: -3_600_000, lateMs: 5 },
  ])(
    "$title a delay is never over early by the store's time, and little late",
    async ({ lateMs, title: _, ...clock }) => {
      const flow = new FlowWorld();
      const plane = await flow.open("p", clock);
      const runId = await startedWith(plane, { a: work(), b: delay(20, { depends_on: ["a"] }) });
      await plane.report(single(await plane.poll()));
      await flow.pass(1);
      const { wakeAtMs = 0 } = await flow.step(runId, "b");
      const begunMs = flow.world.server.timeMs();
      expect(wakeAtMs - begunMs).toBeGreaterThan(19_000);
      expect(wakeAtMs - begunMs).toBeLessThan(21_000);
      const earlierMs = await flow.until(async () => (await flow.step(runId, "b")).status === "succeeded");
      const endedMs = begunMs + earlierMs;
      expect(endedMs).toBeGreaterThanOrEqual(wakeAtMs);
      expect(endedMs).toBeLessThanOrEqual(wakeAtMs + lateMs);
    },
  );
});

describe("a timer that was cleared", () => {
  test("by the result of its step never fires", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    const runId = await startedWith(plane, {
      a: work({ timeout_sec: 5 }),
      b: work({ topic: "later" }),
    });
    await plane.report(single(await plane.poll()));
    await flow.pass(10_000);
    expect(timersSent(plane)).toEqual([]);
    expect((await flow.step(runId, "a")).status).toBe("succeeded");
    expect((await flow.events(runId)).filter((event) => event.includes("late"))).toEqual([]);
  });

  test("by a decision never fires", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    const runId = await startedWith(plane, {
      ok: { type: "approval", timeout_sec: 5 },
      b: work({ depends_on: ["ok"] }),
    });
    const decided = plane.api.decideApproval({
      caller: ben,
      approvalId: `${runId}:ok@1`,
      decision: "approved",
    });
    only(await flow.finish(decided), "decided");
    await flow.pass(10_000);
    expect(timersSent(plane)).toEqual([]);
    expect(await flow.status(runId)).toBe("running");
  });

  test("by a cancel never fires, also when another process set it", async () => {
    const flow = new FlowWorld();
    const first = await flow.open("p");
    const second = await flow.open("q");
    const runId = await startedWith(first, { a: delay(5) }, { timeout_sec: 8 });
    await flow.finish(second.api.cancelRun({ caller: ann, runId, reason: "enough" }));
    expect(await flow.ended(runId)).toBe("cancelled");
    const { version } = await flow.header(runId);
    await flow.pass(10_000);
    expect((await flow.header(runId)).version).toBe(version);
    expect(await flow.status(runId)).toBe("cancelled");
  });

  test("is not taken for that of the next attempt", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    const retry = { max_retries: 1, initial_backoff_sec: 0.1, max_backoff_sec: 0.1 };
    const runId = await startedWith(plane, { a: work({ timeout_sec: 5, retry }) });
    await flow.pass(4_800);
    await plane.fail(single(await plane.poll()), "failed_retryable");
    await flow.until(async () => (await flow.step(runId, "a")).attempt === 2);
    const second = single(await plane.poll());
    await flow.pass(4_000);
    expect(await flow.status(runId)).toBe("running");
    await plane.report(second);
    expect(await flow.ended(runId)).toBe("succeeded");
  });
});

describe("the timeout of a workflow", () => {
  test("ends the run at its time: jobs are called off, approvals closed, its slot is free", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    await flow.tenant({ maxConcurrentRuns: 1 });
    const steps = { a: work(), ok: { type: "approval" }, wait: delay(3_600) };
    const runId = await startedWith(plane, steps, { timeout_sec: 30 });
    const job = single(await plane.poll());
    expect(await flow.ended(runId)).toBe("timed_out");
    const header = await flow.header(runId);
    expect((header.endedAtMs ?? 0) - header.admittedAtMs).toBeLessThanOrEqual(30_002);
    expect((await flow.job(job.job.jobId)).state).toBe("voided");
    expect(await plane.report(job)).toEqual({ kind: "run_ended" });
    const decided = plane.api.decideApproval({
      caller: ben,
      approvalId: `${runId}:ok@1`,
      decision: "approved",
    });
    expect(["run_ended", "approval_already_decided"]).toContain((await flow.finish(decided)).kind);
    await plane.start("timed");
  });

  test("ends the run soon after its time when the process that started it is gone", async () => {
    const flow = new FlowWorld();
    const first = await flow.open("p");
    const runId = await startedWith(first, { a: work() }, { timeout_sec: 10 });
    first.member.process.crash();
    await flow.open("q");
    expect(await flow.ended(runId)).toBe("timed_out");
    const header = await flow.header(runId);
    expect((header.endedAtMs ?? 0) - header.admittedAtMs).toBeLessThan(11_000);
  });

  test("that a run did not need never fires", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    const runId = await startedWith(plane, { a: work() }, { timeout_sec: 10 });
    await plane.report(single(await plane.poll()));
    await flow.pass(20_000);
    expect(await flow.status(runId)).toBe("succeeded");
    expect(timersSent(plane)).toEqual([]);
  });
});

test("a timer whose delivery fails is not lost: the sweep brings it", async () => {
  const flow = new FlowWorld();
  const plane = await flow.open("p");
  const runId = await startedWith(plane, { a: delay(2) });
  plane.member.fail({ deliver: "unavailable" });
  expect(await flow.ended(runId)).toBe("succeeded");
  const [tookMs = 0] = await endedAfter(flow, runId, ["a"]);
  expect(tookMs).toBeLessThan(3_000);
});

test("two processes that both know of a timer end its step once", async () => {
  const flow = new FlowWorld({ travelMsMax: 3 });
  const planes = [await flow.open("p"), await flow.open("q"), await flow.open("r")];
  const runId = await startedWith(planes[0] as FlowPlane, {
    a: delay(1),
    b: work({ depends_on: ["a"] }),
  });
  await flow.until(async () => (await flow.step(runId, "b")).status === "running");
  await flow.pass(5_000);
  const events = await flow.events(runId);
  expect(events.filter((event) => event === "step_delay_completed a")).toHaveLength(1);
  expect(events.filter((event) => event === "step_dispatched b")).toHaveLength(1);
});

describe("an alarm", () => {
  const target = { tenant: acme, runId: "run_00_x" as RunId, timerId: "delay/a@1" };

  test("beyond what a timer of the platform can wait is left to the sweep", async () => {
    const kernel = createKernel(1);
    const rung: string[] = [];
    const alarms = createAlarms(kernel.process("p").clock, ({ timerId }) => rung.push(timerId));
    alarms.set(target, 30 * 86_400_000);
    expect((await kernel.run({})).kind).toBe("idle");
    expect(rung).toEqual([]);
  });

  test("set again rings once, at its new time", async () => {
    const kernel = createKernel(1);
    const rung: number[] = [];
    const alarms = createAlarms(kernel.process("p").clock, () => rung.push(kernel.nowMs()));
    alarms.set(target, 100);
    alarms.set(target, 300);
    alarms.set({ ...target, timerId: "delay/b@1" }, 200);
    await kernel.run({});
    expect(rung).toEqual([201, 301]);
  });
});
