// Rates as arithmetic, and what no answer of a store shows of their levels: when they are forgotten, and a clock that was set back.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createMemoryStore, MemoryRecords } from "../../src/adapters/memory-store.ts";
import { operations, perform } from "../../src/adapters/operations/perform.ts";
import {
  drainedAtMs,
  isAhead,
  keyedRateId,
  levelAt,
  levelSettled,
  levelWith,
  type Rate,
  remaining,
  tenantRateId,
  topicRateId,
  unitOfRate,
  waitMs,
  wholeUnits,
  workflowRateId,
} from "../../src/domain/rates.ts";
import type { RunId } from "../../src/domain/run.ts";
import { partitionOf } from "../../src/domain/tenant.ts";
import type { NewRun } from "../../src/ports/admission-operations.ts";
import type { OperationName, RequestOf } from "../../src/ports/store.ts";
import { perHour, ratedRun } from "../../src/testing/conformance/budget-steps.ts";
import { edgeSettings } from "../../src/testing/conformance/edge.ts";
import { Harness, only } from "../../src/testing/conformance/harness.ts";
import { jobOf } from "../../src/testing/conformance/run-steps.ts";
import { SetClock } from "../support/set-clock.ts";

const rates = fc.record({
  limit: fc.integer({ min: 1, max: 1_000 }),
  perMs: fc.integer({ min: 1, max: 100_000 }),
  burst: fc.integer({ min: 1, max: 1_000 }),
});

/** Takes units as they come, each as soon as it may; gives when. */
function passes(rate: Rate, arrivals: ReadonlyArray<{ readonly afterMs: number; readonly units: number }>) {
  let [level, atMs] = [0, 0];
  return arrivals.map(({ afterMs, units }) => {
    const now = atMs + afterMs;
    level = levelAt(rate, { level, atMs }, now);
    const waits = waitMs(rate, level, units);
    expect(waitMs(rate, levelAt(rate, { level, atMs: now }, now + waits), units)).toBe(0);
    if (waits > 0)
      expect(waitMs(rate, levelAt(rate, { level, atMs: now }, now + waits - 1), units)).toBeGreaterThan(0);
    atMs = now + waits;
    level = levelWith(rate, levelAt(rate, { level, atMs: now }, atMs), units);
    return { atMs, units };
  });
}

const arrivals = fc.array(
  fc.record({ afterMs: fc.integer({ min: 0, max: 50_000 }), units: fc.integer({ min: 1, max: 20 }) }),
  { minLength: 1, maxLength: 60 },
);

describe("levels", () => {
  test("in no stretch of time more units pass than the burst and what drains meanwhile, and the wait is exact", () => {
    fc.assert(
      fc.property(rates, arrivals, (rate, coming) => {
        const passed = passes(rate, coming);
        for (const [index, first] of passed.entries()) {
          let units = 0;
          for (const { atMs, units: more } of passed.slice(index)) {
            units += more;
            const drains = ((atMs - first.atMs) * rate.limit) / rate.perMs;
            const largest = Math.max(...coming.map((each) => each.units));
            expect(units).toBeLessThanOrEqual(Math.max(rate.burst, largest) + drains + 1e-9);
          }
        }
      }),
    );
  });

  test("a steady stream at the limit is never refused, though its milliseconds are rounded", () => {
    const rate = { limit: 3, perMs: 1_000, burst: 2 };
    let level = 0;
    for (let index = 0; index < 1_000; index += 1) {
      const atMs = Math.ceil((index * 1_000) / 3);
      const before = Math.ceil(((index - 1) * 1_000) / 3);
      level = levelAt(rate, { level, atMs: Math.max(0, before) }, atMs);
      expect(waitMs(rate, level, 1)).toBe(0);
      level = levelWith(rate, level, 1);
    }
  });

  test("100,000 a minute do not round to nothing, and a day of a thousand million is kept within what a number holds", () => {
    const fast = { limit: 100_000, perMs: 60_000, burst: 1 };
    expect(waitMs(fast, levelWith(fast, 0, 1), 1)).toBe(1);
    const slow = { limit: 1, perMs: 86_400_000, burst: 1 };
    expect(Number.isSafeInteger(levelWith(slow, 0, 1_000_000_000))).toBe(true);
    expect(drainedAtMs(slow, levelWith(slow, 0, 1), 5)).toBe(86_400_005);
  });

  test("a clock that was set back drains nothing, and is noticed", () => {
    const rate = { limit: 1, perMs: 10, burst: 1 };
    expect(levelAt(rate, { level: 10, atMs: 100 }, 99)).toBe(10);
    expect(isAhead({ level: 10, atMs: 100 }, 99)).toBe(true);
    expect(isAhead({ level: 10, atMs: 100 }, 100)).toBe(false);
    expect(isAhead(undefined, 100)).toBe(false);
  });

  test("what is left is whole units, and nothing below zero", () => {
    const rate = { limit: 1, perMs: 10, burst: 3 };
    expect([0, 1, 10, 11, 30, 45].map((level) => remaining(rate, level))).toEqual([3, 2, 2, 1, 0, 0]);
  });

  test("a refund is what was not used, as far as it is this claim's and has not drained", () => {
    const rate = { limit: 10, perMs: 1_000, burst: 10, rate: tenantRateId(1_000) };
    const taken = { ...rate, units: 6, level: 6_000, atMs: 0 };
    // All of it, half of it, more than is still there, and nothing once it has drained.
    expect(levelSettled(taken, 6_000, 0, 0)).toBe(0);
    expect(levelSettled(taken, 6_000, 3, 0)).toBe(3_000);
    expect(levelSettled(taken, 10_000, 0, 400)).toBe(8_000);
    expect(levelSettled(taken, 9_000, 0, 600)).toBe(9_000);
    expect(levelSettled(taken, 1_000, 0, 0)).toBe(0);
    expect(levelSettled(taken, 2_000, 9, 600)).toBe(5_000);
  });

  test("an amount counts in whole units, rounded up, a thousand million at the most", () => {
    expect([0, 1, 1_000_000, 1_000_001, 2 ** 53 - 1].map(wholeUnits)).toEqual([0, 1, 1, 2, 1_000_000_000]);
  });

  test("the ids of rates name what they count, and the scale of their levels", () => {
    expect(tenantRateId(60_000)).toBe("start.tenant~60000");
    expect(workflowRateId("a.b", 60_000)).toBe("start.workflow.a.b~60000");
    expect(keyedRateId("a.b", "0123", "ff", 1_000)).toBe("start.key.a.b.0123.ff~1000");
    const rate = { limit: 1, perMs: 1_000, burst: 1 };
    expect(topicRateId("a~b", rate)).toBe("topic.a~b~-~1000");
    expect(unitOfRate(topicRateId("a~b", { ...rate, unit: "tokens" }))).toBe("tokens");
  });
});

function openWorld() {
  const clock = new SetClock();
  const records = new MemoryRecords();
  const harness = new Harness(createMemoryStore({ clock, settings: edgeSettings, records }), clock, "rates");
  const { tenant } = harness;
  /** At any time, also before that of the last call. */
  function at<Name extends OperationName>(atMs: number, name: Name, request: RequestOf<Name>) {
    const context = { records, nowUs: atMs * 1_000, settings: edgeSettings };
    return perform(operations, context, { name, request, notAfterMs: Number.MAX_SAFE_INTEGER });
  }
  const start = (atMs: number, run: NewRun) => at(atMs, "admit", { tenant, run }).kind;
  const sweep = (atMs: number) => at(atMs, "sweep", { partition: partitionOf(tenant) });
  const levels = () => [...records.all("rateLevel")].map(({ value }) => value.level);
  return { harness, tenant, at, start, sweep, levels, records };
}

const dayMs = 86_400_000;

describe("levels in a store", () => {
  test("a level is forgotten when it is drained, though it was raised after its visit was planned", () => {
    const { harness, start, sweep, levels, records } = openWorld();
    const run = () => ratedRun(harness, [perHour(10, { perMs: 1_000 })]);
    expect(start(dayMs, run())).toBe("admitted");
    expect(start(dayMs + 50, run())).toBe("admitted");
    expect(levels()).toEqual([1_500]);
    sweep(dayMs + 100);
    sweep(dayMs + 199);
    expect(levels()).toEqual([1_500]);
    sweep(dayMs + 700);
    expect(levels()).toEqual([]);
    expect([...records.all("due")].filter(({ member }) => member.includes(" level "))).toEqual([]);
  });

  test("a step back of a day blocks for no longer than the level itself, also when only refusals come", () => {
    const { harness, start } = openWorld();
    const run = () => ratedRun(harness, [perHour(10, { perMs: 1_000, burst: 1 })]);
    expect(start(2 * dayMs, run())).toBe("admitted");
    expect(start(dayMs, run())).toBe("start_rate_exceeded");
    expect(start(dayMs + 99, run())).toBe("start_rate_exceeded");
    expect(start(dayMs + 100, run())).toBe("admitted");
  });

  test("after a step back a level has one visit, at its new time", () => {
    const { harness, start, sweep, levels } = openWorld();
    const run = () => ratedRun(harness, [perHour(10, { perMs: 1_000, burst: 5 })]);
    expect(start(2 * dayMs, run())).toBe("admitted");
    expect(start(dayMs, run())).toBe("admitted");
    sweep(dayMs + 199);
    expect(levels()).toEqual([2_000]);
    sweep(dayMs + 700);
    expect(levels()).toEqual([]);
  });

  test("a step back takes the turn from a claim that was refused before", () => {
    const { harness, tenant, at } = openWorld();
    const settings = { topicRates: { shell: [{ limit: 10, perMs: 1_000, burst: 1 }] } };
    const change = { expectedVersion: 0, changeId: "rates", actor: "tester" };
    at(2 * dayMs, "setTenant", { tenant, settings, ...change });
    const claim = (atMs: number, jobId: ReturnType<typeof jobOf>["jobId"]) => {
      const claims = [{ jobId, terms: harness.claim() }];
      const { answers } = only(at(atMs, "claimJobs", { tenant, claims }), "judged");
      return answers[0]?.kind;
    };
    const enqueue = (atMs: number) => {
      const runId = harness.runId() as RunId;
      const job = jobOf(runId);
      at(atMs, "admit", { tenant, run: harness.newRun({ runId, change: { jobs: [job] } }) });
      return job.jobId;
    };
    const [first, oldest, young] = [enqueue(2 * dayMs), enqueue(2 * dayMs + 1), enqueue(2 * dayMs + 2)];
    expect(claim(2 * dayMs + 3, first)).toBe("claimed");
    expect(claim(2 * dayMs + 3, oldest)).toBe("refused");
    expect(claim(dayMs, young)).toBe("refused");
    expect(claim(dayMs + 100, young)).toBe("claimed");
  });
});
