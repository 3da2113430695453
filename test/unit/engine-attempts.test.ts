// Attempts: retries and their waits, timeouts, lost claims, and entries that come too late to matter.
import { describe, expect, test } from "vitest";
import { apply } from "../../src/domain/engine/apply.ts";
import { backoffMs } from "../../src/domain/engine/try-again.ts";
import { define } from "./engine-sketches.ts";
import { runId, tenant, World } from "./engine-world.ts";

describe("a retryable failure", () => {
  const policy = { retriesMax: 2, initialMs: 1_000, maxMs: 1_500, multiplier: 2 };

  test("is followed by another attempt with the same input after a wait", () => {
    const world = new World(define({ a: { retry: policy } }));
    world.result("a@1", "failed_retryable", { error: { message: "busy" } });
    world.drain();
    expect(world.status).toBe("waiting");
    expect(world.step("a")).toMatchObject({
      status: "waiting",
      waitingFor: "retry",
      failures: 1,
      attempt: 1,
    });
    const dueAtMs = world.timers.get("retry/a@2") ?? 0;
    expect(dueAtMs - world.nowMs).toBeGreaterThanOrEqual(500);
    expect(dueAtMs - world.nowMs).toBeLessThanOrEqual(1_000);
    world.fire("retry/a@2");
    world.drain();
    expect(world.ready()).toMatchObject([{ jobId: `${runId}:a@2`, attempt: 2, inputKey: "input" }]);
    world.result("a@2");
    world.drain();
    expect(world.status).toBe("succeeded");
  });

  test("ends the step and leaves a dead letter when the retries are used up", () => {
    const world = new World(define({ a: { retry: policy } }));
    for (const attempt of [1, 2, 3]) {
      if (attempt > 1) world.fire(`retry/a@${attempt}`);
      world.drain();
      world.result(`a@${attempt}`, "failed_retryable", { error: { message: "busy" } });
      world.drain();
    }
    expect(world.status).toBe("failed");
    expect(world.deadLetters).toMatchObject([{ id: `${runId}:a@3`, reason: "retries_exhausted" }]);
    expect(JSON.parse(world.deadLetters[0]?.body ?? "")).toMatchObject({
      failures: 3,
      error_key: "result/a@3",
    });
  });

  test("a final failure is never tried again and leaves no dead letter", () => {
    const world = new World(define({ a: { retry: policy } }));
    world.result("a@1", "failed");
    world.drain();
    expect([world.status, world.deadLetters, world.timers.size]).toEqual(["failed", [], 0]);
  });

  test("waits half to all of an exponential delay up to its maximum, spread by the job's id", () => {
    const waits = Array.from({ length: 500 }, (_, index) => backoffMs(policy, 1, `run:a@${index}`));
    expect(Math.min(...waits)).toBeGreaterThanOrEqual(500);
    expect(Math.min(...waits)).toBeLessThan(550);
    expect(Math.max(...waits)).toBeGreaterThan(950);
    expect(Math.max(...waits)).toBeLessThanOrEqual(1_000);
    expect(backoffMs(policy, 1, "x")).toBe(backoffMs(policy, 1, "x"));
    expect(backoffMs(policy, 900, "x")).toBeLessThanOrEqual(1_500);
    expect(backoffMs({ ...policy, multiplier: 10 }, 900, "x")).toBeGreaterThanOrEqual(750);
    expect(backoffMs({ ...policy, initialMs: 0 }, 900, "x")).toBe(0);
  });
});

describe("a step's timeout", () => {
  test("is told to the worker and ends the step when there are no retries", () => {
    const world = new World(define({ a: { timeoutMs: 250 } }));
    expect(world.ready()[0]?.deadlineAtMs).toBe(world.nowMs + 250);
    world.fire("timeout/a@1");
    world.drain();
    expect([world.status, world.step("a").status]).toEqual(["timed_out", "timed_out"]);
    expect(world.jobs.get(`${runId}:a@1`)?.state).toBe("voided");
    expect(world.deadLetters).toEqual([]);
  });

  test("counts as a retryable failure", () => {
    const world = new World(define({ a: { timeoutMs: 250, retry: { retriesMax: 1 } } }));
    world.fire("timeout/a@1");
    world.drain();
    world.fire("retry/a@2");
    world.drain();
    expect(world.timers.get("timeout/a@2")).toBe(world.nowMs + 250);
    world.fire("timeout/a@2");
    world.drain();
    expect(world.status).toBe("timed_out");
    expect(world.deadLetters).toMatchObject([{ reason: "retries_exhausted" }]);
  });

  test("is cleared by the result", () => {
    const world = new World(define({ a: { timeoutMs: 250 }, b: { dependsOn: ["a"] } }));
    world.result("a@1");
    world.drain();
    expect(world.timers.size).toBe(0);
  });
});

describe("a lost claim", () => {
  test("is followed by the next attempt at once and does not count as a failure", () => {
    const world = new World(define({ a: { timeoutMs: 1_000, retry: { retriesMax: 0 } } }));
    world.loseClaim("a@1");
    world.drain();
    expect(world.step("a")).toMatchObject({ status: "running", attempt: 2, lostClaims: 1 });
    expect([...world.timers.keys()]).toEqual(["timeout/a@2"]);
    world.result("a@2");
    world.drain();
    expect(world.status).toBe("succeeded");
  });

  test("the fifth ends the step with a dead letter", () => {
    const world = new World(define({ a: {} }));
    for (let attempt = 1; attempt <= 5; attempt += 1) {
      world.loseClaim(`a@${attempt}`);
      world.drain();
    }
    expect(world.status).toBe("failed");
    expect(world.step("a").error?.code).toBe("claims_lost");
    expect(world.deadLetters).toMatchObject([{ id: `${runId}:a@5`, reason: "claims_lost" }]);
    expect(world.jobs.size).toBe(5);
  });
});

describe("a job that is handed back", () => {
  const back = { handed_back_by: "w1" };

  test("is followed by the next attempt at once, and counts neither as a failure nor as a lost claim", () => {
    const world = new World(define({ a: { timeoutMs: 1_000, retry: { retriesMax: 0 } } }));
    const before = world.step("a");
    world.result("a@1", "handed_back", back);
    world.drain();
    expect(world.step("a")).toEqual({ ...before, attempt: 2, handBacks: 1 });
    expect(world.ready()).toMatchObject([{ jobId: `${runId}:a@2`, inputKey: "input" }]);
    expect([...world.timers.keys()]).toEqual(["timeout/a@2"]);
    expect(world.timeline.filter(({ step }) => step === "a").slice(-2)).toEqual([
      { type: "step_handed_back", step: "a", attempt: 1, worker: "w1", hand_backs: 1 },
      { type: "step_dispatched", step: "a", attempt: 2 },
    ]);
    world.result("a@2");
    world.drain();
    expect([world.status, world.deadLetters]).toEqual(["succeeded", []]);
  });

  test("says nothing of its worker when the message did not", () => {
    const world = new World(define({ a: {} }));
    world.result("a@1", "handed_back", {});
    world.drain();
    expect(world.timeline).toContainEqual({ type: "step_handed_back", step: "a", attempt: 1, hand_backs: 1 });
    expect(world.step("a")).toMatchObject({ status: "running", attempt: 2 });
  });

  test("takes no retry away: all of them are left for failures", () => {
    const world = new World(define({ a: { retry: { retriesMax: 1 } } }));
    world.result("a@1", "handed_back", back);
    world.drain();
    world.result("a@2", "failed_retryable");
    world.drain();
    world.fire("retry/a@3");
    world.drain();
    expect(world.step("a")).toMatchObject({ status: "running", attempt: 3, failures: 1, handBacks: 1 });
  });

  test("more than a hundred times counts as a lost claim, and ends the step in the end", () => {
    const world = new World(define({ a: { timeoutMs: 1_000 } }));
    for (let attempt = 1; attempt <= 104; attempt += 1) {
      expect(world.step("a").lostClaims).toBe(attempt <= 101 ? undefined : attempt - 101);
      world.result(`a@${attempt}`, "handed_back", back);
      world.drain();
    }
    expect(world.step("a")).toMatchObject({ status: "running", attempt: 105, lostClaims: 4, handBacks: 104 });
    world.result("a@105", "handed_back", back);
    world.drain();
    expect(world.status).toBe("failed");
    expect(world.timers.size).toBe(0);
    const error = { code: "claims_lost", message: "handed back 105 times" };
    expect(world.step("a").error).toEqual(error);
    expect(world.deadLetters).toMatchObject([{ id: `${runId}:a@105`, reason: "claims_lost" }]);
    expect(JSON.parse(world.deadLetters[0]?.body ?? "")).toMatchObject({ error });
    world.retry("a@105");
    world.drain();
    expect(world.step("a")).toMatchObject({ status: "running", attempt: 106 });
    expect(world.step("a").handBacks).toBeUndefined();
  });

  test("of an older attempt, or of a run that was cancelled, is late", () => {
    const world = new World(define({ a: {} }));
    world.loseClaim("a@1");
    world.drain();
    world.postResult("a@1", "handed_back");
    world.drain();
    expect(world.fates.at(-1)?.fate).toBe("late");
    expect(world.step("a")).toMatchObject({ attempt: 2, lostClaims: 1 });
    world.cancel();
    world.postResult("a@2", "handed_back");
    world.drain();
    expect([world.status, world.fates.at(-1)?.fate, world.ready()]).toEqual(["cancelled", "late", []]);
  });

  test("reads nothing that was not loaded with its entry", () => {
    const world = new World(define({ a: {}, b: { dependsOn: ["a"] } }));
    world.result("a@1", "handed_back", back);
    world.drain();
    expect(world.peak.needsRounds).toBe(0);
  });
});

describe("entries that come too late", () => {
  test("a result of an older attempt, of a finished step or of an unknown one changes nothing", () => {
    const world = new World(define({ a: {}, b: {} }));
    world.loseClaim("a@1");
    world.drain();
    world.result("b@1");
    world.drain();
    const before = new Map(world.records);
    world.postResult("a@1");
    world.postResult("b@1");
    world.postResult("nobody@1");
    world.drain();
    expect(world.fates.slice(-3).map(({ fate }) => fate)).toEqual(["late", "late", "late"]);
    expect(world.records).toEqual(before);
    expect(world.events.slice(-3)).toEqual(["entry_late", "entry_late", "entry_late"]);
  });

  test("a job of another run is not one of ours", () => {
    const world = new World(define({ a: {} }));
    const jobId = "run_07_otherrun99:a@1" as never;
    world.post({ kind: "result", jobId, outcome: "succeeded", payloadKey: "result/a@1", entryId: "x" });
    world.drain();
    expect(world.status).toBe("running");
  });

  test("old timers do not stand for new attempts", () => {
    const world = new World(define({ a: { timeoutMs: 500, retry: { retriesMax: 3 } } }));
    world.result("a@1", "failed_retryable");
    world.drain();
    world.fire("timeout/a@1");
    world.drain();
    expect(world.step("a")).toMatchObject({ status: "waiting", failures: 1 });
    world.fire("retry/a@2");
    world.fire("retry/a@2");
    world.fire("timeout/a@1");
    world.drain();
    expect(world.step("a")).toMatchObject({ status: "running", attempt: 2, failures: 1 });
    expect(world.fates.map(({ fate }) => fate)).toEqual(["applied", "late", "applied", "late", "late"]);
  });
});

describe("poisoned entries", () => {
  const poison = (was: object | string) =>
    ({ kind: "poisoned", entryId: "p1", was: typeof was === "string" ? was : JSON.stringify(was) }) as const;

  test("fail the step that the entry was about, without a retry", () => {
    const world = new World(define({ a: { retry: { retriesMax: 9 } }, b: {} }));
    world.post(poison({ kind: "result", entryId: "e", jobId: `${runId}:a@1`, outcome: "succeeded" }));
    world.drain();
    expect(world.step("a")).toMatchObject({ status: "failed", error: { code: "poisoned_entry" } });
    expect(world.status).toBe("running");
    world.result("b@1");
    world.drain();
    expect(world.status).toBe("failed");
  });

  test("fail the run when no open step can be blamed", () => {
    for (const was of [
      "not json",
      { kind: "cancel", entryId: "c" },
      { kind: "started", entryId: "s" },
      "null",
    ]) {
      const world = new World(define({ a: {}, b: { type: "approval" } }));
      world.post(poison(was));
      world.drain();
      expect([world.status, world.run.error?.code]).toEqual(["failed", "poisoned_entry"]);
      expect(world.shown).toEqual({ a: "cancelled", b: "cancelled" });
    }
  });

  test("of attempts that are over are late", () => {
    const world = new World(define({ a: {}, b: { dependsOn: ["a"] } }));
    world.result("a@1");
    world.drain();
    world.post(poison({ kind: "result", entryId: "e", jobId: `${runId}:a@1`, outcome: "succeeded" }));
    world.drain();
    expect(world.shown).toEqual({ a: "succeeded", b: "running" });
  });

  const retryOf = (attempt: string) =>
    ({ kind: "retry", jobId: `${runId}:${attempt}` as never, actor: "dora", entryId: "r1" }) as const;

  test("whose letter is retried let a delay wait once more, and ask no worker for it", () => {
    const world = new World(
      define({ d: { type: "delay", delay: { kind: "for", ms: 250 } }, e: { dependsOn: ["d"] } }),
    );
    world.post(poison({ kind: "timer", entryId: "e", timerId: "delay/d@1" }));
    world.drain();
    expect(world.status).toBe("failed");
    world.status = "running";
    world.post(retryOf("d@1"));
    world.drain();
    expect(world.ready()).toEqual([]);
    expect(world.step("d")).toMatchObject({ status: "waiting", waitingFor: "delay", attempt: 2 });
    world.fire("delay/d@2");
    world.drain();
    world.result("e@1");
    world.drain();
    expect(world.status).toBe("succeeded");
  });

  test("whose letter is retried let an approval be asked for once more", () => {
    const world = new World(define({ a: { type: "approval" } }));
    const decision = { kind: "decision", entryId: "e", approvalId: `${runId}:a@1`, decision: "approved" };
    world.post(poison(decision));
    world.drain();
    expect(world.status).toBe("failed");
    world.status = "running";
    world.post(retryOf("a@1"));
    world.drain();
    expect(world.ready()).toEqual([]);
    expect(world.step("a")).toMatchObject({ status: "waiting", waitingFor: "approval", attempt: 2 });
    expect(world.approvals.get(`${runId}:a@2`)?.state).toBe("pending");
  });

  test.each(["step/a", "run"])("end a run whose record %s nobody can read", (key) => {
    const world = new World(define({ a: {}, b: {} }));
    const records = new Map<string, string | undefined>(world.records).set(key, "{");
    const view = { runId, tenant, actor: "key_1", version: 1, records };
    world.result("a@1");
    expect(() => apply(world.compiled, view, world.inbox, world.nowMs)).toThrow(SyntaxError);
    const applied = apply(world.compiled, view, [poison("not json")], world.nowMs);
    expect(applied).toMatchObject({ kind: "applied", consumed: 1, change: { status: "failed" } });
  });

  test("a retry that opened a run for which no step waits any more calls that run off", () => {
    const world = new World(define({ a: {} }));
    world.result("a@1", "failed");
    world.drain();
    const childRunId = "run_00_below" as never;
    const view = { runId, tenant, actor: "key_1", version: 2, records: new Map(world.records) };
    const applied = apply(world.compiled, view, [{ ...retryOf("a@1"), childRunId }], world.nowMs);
    expect(applied).toMatchObject({ kind: "applied", change: { cancelChildren: [childRunId] } });
  });

  test.each(["has ended", "goes on"])(
    "a retry that could not be applied calls off the run that it opened, while its own %s",
    (state) => {
      const world = new World(define({ a: {}, b: {} }));
      world.result("a@1", "failed");
      if (state === "has ended") world.result("b@1");
      world.drain();
      const childRunId = "run_00_below" as never;
      const view = { runId, tenant, actor: "key_1", version: 2, records: new Map(world.records) };
      const applied = apply(world.compiled, view, [poison({ ...retryOf("a@1"), childRunId })], world.nowMs);
      const change = { status: "failed", cancelChildren: [childRunId] };
      expect(applied).toMatchObject({ kind: "applied", consumed: 1, change });
    },
  );
});
