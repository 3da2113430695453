// Asking until the outcome is known: what is final at once, what is asked again, and when it stays unknown.
import { describe, expect, test } from "vitest";
import { askUntilKnown } from "../../src/control/ask-until-known.ts";
import type { RunId } from "../../src/domain/run.ts";
import type { Answer, OperationName, Unavailable, Unknown } from "../../src/ports/store.ts";
import { createWorld, isIdle, join } from "../support/simulated-ports.ts";

const limits = { callTimeoutMs: 1_000, budgetMs: 3_000 };

/** Answers in turn; the last one is repeated. Times are virtual, and so is the store's clock here. */
type Scripted<Name extends OperationName> = (nowMs: number) => { afterMs: number; answer: Answer<Name> };

function setUp() {
  const world = createWorld();
  const member = join(world, "p");
  const deadlines: number[] = [];
  const times: number[] = [];
  const ask = <Name extends OperationName>(name: Name, answers: readonly Scripted<Name>[]) =>
    world.kernel.complete(
      askUntilKnown(member.ports, name, limits, async (deadlineMs) => {
        deadlines.push(deadlineMs);
        times.push(world.kernel.nowMs());
        const scripted = answers[Math.min(times.length, answers.length) - 1];
        if (scripted === undefined) throw new Error("no answer is scripted");
        const { afterMs, answer } = scripted(world.kernel.nowMs());
        if (afterMs > 0) await member.process.clock.sleep(afterMs);
        return answer;
      }),
    );
  return { ...world, ...member, ask, deadlines, times };
}

const unknown = (afterMs: number, notAfterMs: number) => (): { afterMs: number; answer: Unknown } => ({
  afterMs,
  answer: { kind: "unknown", cause: "deadline", notAfterMs },
});
const unavailable = (): { afterMs: number; answer: Unavailable } => ({
  afterMs: 0,
  answer: { kind: "unavailable", cause: "refused" },
});
const full = (nowMs: number) => ({
  afterMs: 0,
  answer: { kind: "max_concurrent_runs_reached", limit: 1, active: 1, storeTimeMs: nowMs } as const,
});
const admitted = (nowMs: number) => ({
  afterMs: 0,
  answer: {
    kind: "admitted",
    runId: "run" as RunId,
    status: "pending",
    active: 1,
    claims: [],
    storeTimeMs: nowMs,
  } as const,
});

describe("an answer that is known", () => {
  test.each([
    { title: "a success", answer: admitted },
    { title: "a refusal", answer: full },
    { title: "unavailable", answer: unavailable },
  ])("is final at once: $title", async ({ answer }) => {
    const scenario = setUp();
    const result = await scenario.ask("admit", [answer]);
    expect(result).toEqual(answer(0).answer);
    expect(scenario.times).toEqual([0]);
    expect(scenario.deadlines).toEqual([1_000]);
    expect(scenario.metrics.total("unknown_outcomes_total")).toBe(0);
  });
});

describe("an answer that is unknown", () => {
  test("is asked again until it is known, and counted by operation", async () => {
    const scenario = setUp();
    const result = await scenario.ask("admit", [unknown(1_000, 1_000), admitted]);
    expect(result.kind).toBe("admitted");
    expect(scenario.times).toHaveLength(2);
    expect(scenario.times[1]).toBeGreaterThanOrEqual(1_001);
    expect(scenario.times[1]).toBeLessThanOrEqual(1_010);
    expect(scenario.metrics.total("unknown_outcomes_total", { operation: "admit" })).toBe(1);
    expect(await isIdle(scenario.kernel)).toBe(true);
  });

  test("stays unknown when the budget is spent, which bounds the last call too", async () => {
    const scenario = setUp();
    const lost = (nowMs: number) => unknown(scenario.deadlines.at(-1) ?? 0, nowMs + 1_000)();
    const result = await scenario.ask("admit", [lost]);
    expect(result).toMatchObject({ kind: "unknown", cause: "still unknown after 3 tries" });
    expect(scenario.deadlines.slice(0, 2)).toEqual([1_000, 1_000]);
    expect(scenario.deadlines[2]).toBeLessThan(1_000);
    expect(scenario.kernel.nowMs()).toBeLessThanOrEqual(3_000);
    expect(scenario.metrics.total("unknown_outcomes_total", { operation: "admit" })).toBe(3);
  });

  test("names the latest moment at which any of the tries can still have an effect", async () => {
    const scenario = setUp();
    const result = await scenario.ask("admit", [unknown(1_000, 9_000), unknown(1_000, 5_000)]);
    expect(result).toMatchObject({ kind: "unknown", notAfterMs: 9_000 });
  });

  test("does not become unavailable: that the second try was never sent says nothing of the first", async () => {
    const scenario = setUp();
    const result = await scenario.ask("admit", [unknown(1_000, 1_000), unavailable]);
    expect(result.kind).toBe("unknown");
    expect(scenario.kernel.nowMs()).toBeLessThan(3_000);
    expect(scenario.times.length).toBeGreaterThan(5);
  });

  test("is asked again after pauses that grow, up to 160 ms", async () => {
    const scenario = setUp();
    await scenario.ask("countActive", [unknown(0, 0)]);
    const pauses = scenario.times.slice(1).map((atMs, index) => atMs - (scenario.times[index] ?? 0));
    pauses.forEach((pauseMs, tries) => {
      expect(pauseMs).toBeLessThanOrEqual(Math.min(160, 10 * 2 ** tries));
    });
    expect(Math.max(...pauses)).toBeGreaterThan(80);
    expect(pauses.length).toBeGreaterThan(20);
    expect(pauses.length).toBeLessThan(100);
  });
});

describe("a refusal after an unknown try", () => {
  test("that the first try could still turn into an effect is asked again right after that try's time", async () => {
    const scenario = setUp();
    const result = await scenario.ask("admit", [unknown(5, 1_000), full]);
    expect(result.kind).toBe("max_concurrent_runs_reached");
    expect(scenario.times).toHaveLength(3);
    expect(scenario.times[1]).toBeLessThan(20);
    expect(scenario.times[2]).toBe(1_001);
  });

  test("is not believed at the very last millisecond in which the first try may land", async () => {
    const scenario = setUp();
    const late = (storeTimeMs: number) => () => ({ ...full(0), answer: { ...full(storeTimeMs).answer } });
    const result = await scenario.ask("admit", [unknown(5, 1_000), late(1_000), admitted]);
    expect(result.kind).toBe("admitted");
  });

  test("is believed one millisecond later", async () => {
    const scenario = setUp();
    const late = () => ({ afterMs: 0, answer: full(1_001).answer });
    const result = await scenario.ask("admit", [unknown(5, 1_000), late, admitted]);
    expect(result.kind).toBe("max_concurrent_runs_reached");
    expect(scenario.times).toHaveLength(2);
  });

  test("stays unknown when the first try's time lies beyond the budget", async () => {
    const scenario = setUp();
    const result = await scenario.ask("admit", [unknown(5, 60_000), full]);
    expect(result).toMatchObject({ kind: "unknown", notAfterMs: 60_000 });
    expect(scenario.kernel.nowMs()).toBeLessThan(100);
  });

  test("that no earlier try can change is final at once", async () => {
    const scenario = setUp();
    const stale = (nowMs: number) => ({
      afterMs: 0,
      answer: { kind: "stale_fence", storeTimeMs: nowMs } as const,
    });
    const result = await scenario.ask("reserve", [unknown(5, 1_000), stale]);
    expect(result.kind).toBe("stale_fence");
    expect(scenario.kernel.nowMs()).toBeLessThan(20);
  });

  test.each([
    { name: "createRun", kind: "stale_fence" },
    { name: "releaseLock", kind: "not_owned" },
    { name: "cancelReservation", kind: "kept" },
    { name: "commit", kind: "stale_fence" },
    { name: "commit", kind: "stale_version" },
    { name: "commit", kind: "not_found" },
  ] as const)("is final at once: $kind of $name", async ({ name, kind }) => {
    const scenario = setUp();
    const refused = () => ({
      afterMs: 0,
      answer: { kind, storeTimeMs: 0 } as unknown as Answer<OperationName>,
    });
    const result = await scenario.ask<OperationName>(name, [unknown(5, 1_000), refused]);
    expect(result.kind).toBe(kind);
    expect(scenario.times).toHaveLength(2);
  });

  test.each([
    { name: "admit", kind: "tenant_stopped" },
    { name: "admit", kind: "idempotency_key_in_flight" },
    { name: "admit", kind: "version_conflict" },
    { name: "createRun", kind: "max_concurrent_runs_reached" },
    { name: "createRun", kind: "tenant_stopped" },
    { name: "reserve", kind: "idempotency_key_in_flight" },
  ] as const)("is open until the first try's time: $kind of $name", async ({ name, kind }) => {
    const scenario = setUp();
    const refused = (storeTimeMs: number) => ({
      afterMs: 0,
      answer: { kind, storeTimeMs } as unknown as Answer<OperationName>,
    });
    const result = await scenario.ask<OperationName>(name, [unknown(5, 1_000), refused]);
    expect(result.kind).toBe(kind);
    expect(scenario.times.at(-1)).toBe(1_001);
  });
});
