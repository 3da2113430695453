// Starts whose outcome is not known at once: asked again until it is, never guessed, and answered as unknown when it lasts.
import { describe, expect, test } from "vitest";
import { bareStart } from "../../proof/simulation/bare-run.ts";
import { makeRunId } from "../../src/domain/run.ts";
import {
  acme,
  byLock,
  keyState,
  lockState,
  runIdOf,
  runsOf,
  setTenant,
  setUp,
  slotsAndOpenRuns,
  statusOf,
} from "../support/admission-scenarios.ts";
import type { RecordedCall } from "../support/simulated-ports.ts";

const key = "k";
const runIdsAsked = (calls: readonly RecordedCall[]) =>
  calls.map(({ request }) => (request as { run: { runId: string } }).run.runId);

describe("an admission without an answer", () => {
  test("is asked again under the same run id, and found when it had its effect", async () => {
    const scenario = setUp({ failing: { admit: ["reply_lost"] } });
    const answer = await scenario.kernel.complete(scenario.start({ key }));
    expect(answer.kind).toBe("admitted");
    expect(runsOf(scenario)).toEqual([runIdOf(answer)]);
    const asked = runIdsAsked(scenario.callsOf("admit"));
    expect(asked).toEqual([runIdOf(answer), runIdOf(answer)]);
    expect(scenario.metrics.total("unknown_outcomes_total", { operation: "admit" })).toBe(1);
  });

  test("is asked again and decided when it had no effect", async () => {
    const scenario = setUp({ failing: { admit: ["request_lost", "request_lost"] } });
    const answer = await scenario.kernel.complete(scenario.start({ key }));
    expect(answer.kind).toBe("admitted");
    expect(runsOf(scenario)).toEqual([runIdOf(answer)]);
    expect(scenario.callsOf("admit")).toHaveLength(3);
  });

  test("is admitted when found admitted, although the tenant is at its limit by now", async () => {
    const scenario = setUp({ failing: { admit: ["reply_lost"] } });
    await setTenant(scenario, { maxConcurrentRuns: 1 });
    const answer = await scenario.kernel.complete(scenario.start({ key }));
    expect(answer.kind).toBe("admitted");
    expect(slotsAndOpenRuns(scenario).slots).toHaveLength(1);
  });

  test("is told as unknown, with the run that may exist, when no answer comes within the budget", async () => {
    for (const fate of ["reply_lost", "request_lost"] as const) {
      const scenario = setUp({ failing: { admit: fate } });
      const answer = await scenario.kernel.complete(scenario.start({ key }));
      expect(answer).toMatchObject({
        kind: "outcome_unknown",
      });
      expect(statusOf(answer)).toBe(503);
      expect(answer.kind).toBe("outcome_unknown");
      expect(scenario.kernel.nowMs()).toBeLessThanOrEqual(3_000);
      expect(new Set(runIdsAsked(scenario.callsOf("admit")))).toEqual(new Set([runIdOf(answer)]));
      scenario.fail({});
      const again = await scenario.kernel.complete(scenario.start({ key }));
      expect(again.kind).toBe(fate === "reply_lost" ? "replayed" : "admitted");
      expect(runsOf(scenario)).toEqual([runIdOf(again)]);
      if (fate === "reply_lost") expect(runIdOf(again)).toBe(runIdOf(answer));
    }
  });

  test("stays unknown when the store becomes unavailable afterwards: that says nothing about the first try", async () => {
    const scenario = setUp({ failing: { admit: (nth) => (nth === 1 ? "reply_lost" : "unavailable") } });
    const answer = await scenario.kernel.complete(scenario.start({ key }));
    expect(answer.kind).toBe("outcome_unknown");
    expect(runsOf(scenario)).toEqual([runIdOf(answer)]);
  });

  test("is unavailable when it was never sent, which is definite", async () => {
    const scenario = setUp({ failing: { admit: "unavailable" } });
    const answer = await scenario.kernel.complete(scenario.start({ key }));
    expect(answer).toMatchObject({ kind: "concurrency_gate_unavailable", cause: "connection refused" });
    expect(statusOf(answer)).toBe(503);
    expect(scenario.callsOf("admit")).toHaveLength(1);
    expect(runsOf(scenario)).toEqual([]);
  });
});

describe("a refusal while an earlier try may still arrive", () => {
  /** The first try is on its way for 500 ms after the caller was cut off from it; the second finds the tenant full. */
  const delayed = { requestAfterMs: 500, resetAfterMs: 1 } as const;

  test("is not believed: when the slot is freed and the first try lands, the run is told as admitted", async () => {
    const scenario = setUp();
    const { kernel } = scenario;
    await setTenant(scenario, { maxConcurrentRuns: 1 });
    const blocking = await kernel.complete(scenario.start());
    scenario.fail({ admit: [delayed] });
    const startedMs = kernel.nowMs();
    const started = scenario.start({ key });
    await kernel.run({ untilMs: startedMs + 300 });
    expect(scenario.callsOf("admit").map((call) => call.answer)).toEqual([
      "admitted",
      "unknown",
      "max_concurrent_runs_reached",
    ]);
    await kernel.complete(scenario.end(runIdOf(blocking)));
    const answer = await kernel.complete(started);
    expect(answer.kind).toBe("admitted");
    expect(slotsAndOpenRuns(scenario).slots).toEqual([`acme ${runIdOf(answer)}`]);
    expect(kernel.nowMs() - startedMs).toBeGreaterThan(1_000);
    expect(kernel.nowMs() - startedMs).toBeLessThan(1_010);
  });

  test("is believed once the first try can no longer have an effect", async () => {
    const scenario = setUp();
    const { kernel } = scenario;
    await setTenant(scenario, { maxConcurrentRuns: 1 });
    await kernel.complete(scenario.start());
    scenario.fail({ admit: [delayed] });
    const startedMs = kernel.nowMs();
    const answer = await kernel.complete(scenario.start({ key }));
    expect(answer.kind).toBe("max_concurrent_runs_reached");
    expect(kernel.nowMs() - startedMs).toBeGreaterThan(1_000);
    await kernel.run({});
    expect(runsOf(scenario)).toHaveLength(1);
    expect(await keyState(scenario, key)).toBe("idempotency_key_unbound");
  });

  test("a try that arrives after its time has no effect, although a slot is free by then", async () => {
    const scenario = setUp();
    const { kernel } = scenario;
    await setTenant(scenario, { maxConcurrentRuns: 1 });
    const blocking = await kernel.complete(scenario.start());
    scenario.fail({ admit: [{ requestAfterMs: 1_500, resetAfterMs: 1 }] });
    const answer = await kernel.complete(scenario.start({ key }));
    expect(answer.kind).toBe("max_concurrent_runs_reached");
    await kernel.complete(scenario.end(runIdOf(blocking)));
    await kernel.run({});
    expect(slotsAndOpenRuns(scenario).slots).toEqual([]);
  });

  test("is not believed under the lock either: createRun is asked again until it is certain", async () => {
    // While the first try is on its way somebody else takes the slot, and frees it again before it lands.
    const run = { ...bareStart, runId: makeRunId(acme, "somebodyelse"), actor: "a" };
    const scenario = setUp({
      overrides: byLock,
      failing: { createRun: [delayed] },
      onSend: (call) => {
        if (call.name === "createRun") void scenario.store.admit({ tenant: acme, run }, { deadlineMs: 1 });
      },
    });
    const { kernel } = scenario;
    await setTenant(scenario, { maxConcurrentRuns: 1 });
    const started = scenario.start({ key });
    await kernel.run({ untilMs: 300 });
    const answers = scenario.callsOf("createRun").map((call) => call.answer);
    expect(answers).toEqual(["unknown", "max_concurrent_runs_reached"]);
    expect(await kernel.complete(scenario.end(run.runId))).toBe("ended");
    const answer = await kernel.complete(started);
    expect(answer.kind).toBe("admitted");
    expect(slotsAndOpenRuns(scenario).slots).toEqual([`acme ${runIdOf(answer)}`]);
    expect(await keyState(scenario, key)).toBe("bound");
    expect(scenario.callsOf("cancelReservation")).toEqual([]);
  });
});

describe("the pipeline under the lock", () => {
  test.each(["acquireLock", "reserve", "countActive", "createRun", "releaseLock"] as const)(
    "one lost answer of %s changes nothing but the time it takes",
    async (operation) => {
      for (const fate of ["reply_lost", "request_lost"] as const) {
        const scenario = setUp({ overrides: byLock, failing: { [operation]: [fate] } });
        await setTenant(scenario, { maxConcurrentRuns: 1 });
        const answer = await scenario.kernel.complete(scenario.start({ key }));
        expect(answer.kind).toBe("admitted");
        expect(runsOf(scenario)).toEqual([runIdOf(answer)]);
        expect(await keyState(scenario, key)).toBe("bound");
        expect(await lockState(scenario)).toBe("free");
        expect(scenario.callsOf(operation)).toHaveLength(2);
        expect(scenario.metrics.total("unknown_outcomes_total", { operation })).toBe(1);
      }
    },
  );

  test("a reservation that stays unknown is definite for the caller: no run was asked for", async () => {
    for (const fate of ["reply_lost", "request_lost"] as const) {
      const scenario = setUp({ overrides: byLock, failing: { reserve: fate } });
      const answer = await scenario.kernel.complete(scenario.start({ key }));
      expect(answer.kind).toBe("concurrency_gate_unavailable");
      expect(scenario.callsOf("createRun")).toEqual([]);
      expect(await lockState(scenario)).toBe("free");
      scenario.fail({});
      expect((await scenario.kernel.complete(scenario.start({ key }))).kind).toBe("admitted");
    }
  });

  test("a count that stays unknown gives the key back", async () => {
    const scenario = setUp({ overrides: byLock, failing: { countActive: "reply_lost" } });
    const answer = await scenario.kernel.complete(scenario.start({ key }));
    expect(answer.kind).toBe("concurrency_gate_unavailable");
    expect(await keyState(scenario, key)).toBe("idempotency_key_unbound");
  });
});
