// What the metrics say of locks and jobs: every renewal, release, claim and result once, beside what went wrong with them.
import { describe, expect, test } from "vitest";
import type { MemoryMetrics } from "../../src/adapters/memory-metrics.ts";
import type { LockToken } from "../../src/domain/lock.ts";
import { metrics as metricRows } from "../../src/metrics.ts";
import { type FlowPlane, FlowWorld, sideBySide, single, work } from "../support/flow-world.ts";
import {
  hold,
  jobTerms,
  overtake,
  runTarget,
  runTerms,
  setUp,
  workUntilStopped,
} from "../support/lease-scenarios.ts";
import { acme, acquired, lockWorld, report } from "../support/public-locks.ts";

function renewals(metrics: MemoryMetrics, lock: string) {
  const total = (outcome: string) => metrics.total("lock_renewals_total", { lock, outcome });
  return { renewed: total("renewed"), not_owned: total("not_owned"), unknown: total("unknown") };
}

function releases(metrics: MemoryMetrics, lock: string) {
  const total = (outcome: string) => metrics.total("lock_releases_total", { lock, outcome });
  return { released: total("released"), not_owned: total("not_owned"), unknown: total("unknown") };
}

describe("renewals and releases of a lease", () => {
  test("that go well are counted as such", async () => {
    const scenario = setUp();
    await hold(scenario, jobTerms, () => scenario.process.clock.sleep(46_000));
    expect(renewals(scenario.metrics, "job")).toEqual({ renewed: 3, not_owned: 0, unknown: 0 });
    expect(releases(scenario.metrics, "job")).toEqual({ released: 1, not_owned: 0, unknown: 0 });
  });

  test.each(["request_lost", "reply_lost", "unavailable"] as const)(
    "without an answer (%s) are counted as unknown, never as refused",
    async (fate) => {
      const scenario = setUp({ failing: { renewLock: fate, releaseLock: fate } });
      await hold(scenario, runTerms("low"), () => scenario.process.clock.sleep(17_500), {
        target: runTarget,
      });
      expect(renewals(scenario.metrics, "run")).toEqual({ renewed: 0, not_owned: 0, unknown: 2 });
      expect(releases(scenario.metrics, "run")).toEqual({ released: 0, not_owned: 0, unknown: 1 });
      expect(scenario.metrics.total("lock_renewal_failed_total", { lock: "run", policy: "continue" })).toBe(
        2,
      );
      expect(scenario.metrics.total("lock_not_owned_total")).toBe(0);
    },
  );

  test("that are refused are counted once each, and a lease that was abandoned gives nothing back", async () => {
    const scenario = setUp();
    scenario.kernel.after(20_000, () => void overtake(scenario));
    await hold(scenario, jobTerms, workUntilStopped(scenario));
    expect(renewals(scenario.metrics, "job")).toEqual({ renewed: 1, not_owned: 1, unknown: 0 });
    expect(scenario.metrics.total("lock_not_owned_total", { lock: "job", operation: "renew" })).toBe(1);
    expect(releases(scenario.metrics, "job")).toEqual({ released: 0, not_owned: 0, unknown: 0 });
  });
});

describe("renewals and releases of public locks", () => {
  test("are counted beside those of the processes", async () => {
    const world = lockWorld();
    const p = world.process("p");
    const lock = acquired(await world.kernel.complete(p.acquire({ ttlMs: 60_000 })));
    const renew = (token: LockToken) =>
      world.kernel.complete(p.api.renewLock({ tenant: acme, resource: report, token, ttlMs: 60_000 }));
    const stranger = "somebody-else-0000" as LockToken;
    for (const token of [lock.token, lock.token, stranger]) await renew(token);
    for (const token of [stranger, lock.token]) await world.kernel.complete(p.release(token));
    expect(renewals(p.metrics, "public")).toEqual({ renewed: 2, not_owned: 1, unknown: 0 });
    expect(releases(p.metrics, "public")).toEqual({ released: 1, not_owned: 1, unknown: 0 });
  });
});

describe("jobs", () => {
  const reported = ({ metrics }: FlowPlane) =>
    Object.fromEntries(
      metricRows.jobs_reported_total.values.outcome.map((outcome) => [
        outcome,
        metrics.total("jobs_reported_total", { outcome }),
      ]),
    );

  test("are counted when a worker gets them, whether it waited for them or they for it", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    await plane.save("two", { a: work(), b: work({ depends_on: ["a"] }) });
    const waiting = plane.poll({ places: 1, waitMs: 10_000 });
    await plane.start("two");
    const first = single(await waiting);
    expect(plane.metrics.total("jobs_claimed_total")).toBe(1);
    expect(plane.metrics.total("jobs_published_total")).toBe(0);
    await plane.report(first);
    const second = single(await plane.poll({ places: 1, waitMs: 10_000 }));
    expect(plane.metrics.total("jobs_claimed_total")).toBe(2);
    expect(plane.metrics.total("jobs_published_total", { cause: "commit" })).toBe(1);
    await plane.report(second);
    expect(reported(plane)).toEqual({ succeeded: 2, failed: 0, failed_retryable: 0, handed_back: 0 });
  });

  test.each(["handoff", "retry"] as const)(
    "are reported once each under %s, by outcome: not when they are sent again, and not when they are refused",
    async (strategy) => {
      const flow = new FlowWorld();
      const plane = await flow.open("p", { overrides: { "results.strategy": strategy } });
      await plane.save("wide", sideBySide(4));
      await plane.start("wide");
      const jobs = await plane.poll({ places: 4, waitMs: 10_000 });
      const [one, two, three, four] = jobs;
      if (one === undefined || two === undefined || three === undefined || four === undefined)
        throw new Error(`${jobs.length} jobs`);
      const answers = [
        await plane.report(one),
        await plane.report(one),
        await plane.report(one, { another: "result" }),
        await plane.report({ ...two, token: "x".repeat(32) as typeof two.token }),
        await plane.handBack(two),
        await plane.fail(three, "failed_retryable"),
      ];
      expect(answers.map(({ kind }) => kind)).toEqual([
        "accepted",
        "accepted",
        "duplicate",
        "stale_claim",
        "accepted",
        "accepted",
      ]);
      const applied = () => plane.metrics.total("inbox_entries_total", { kind: "result", fate: "applied" });
      await flow.until(() => applied() === 3);
      expect(reported(plane)).toEqual({ succeeded: 1, failed: 0, failed_retryable: 1, handed_back: 1 });
      const refused = (fate: string) => plane.metrics.total("inbox_entries_total", { kind: "result", fate });
      expect([refused("duplicate"), refused("stale_claim")]).toEqual([1, 1]);
    },
  );
});
