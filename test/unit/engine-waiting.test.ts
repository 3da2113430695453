// Steps that wait: approvals and what they are bound to, delays, the workflow's own timeout, and cancels.
import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { always, define, reads } from "./engine-sketches.ts";
import { runId, World } from "./engine-world.ts";

describe("an approval", () => {
  const asked = (options = {}) =>
    define({
      ask: { type: "approval", input: reads([], ({ input }) => ({ pay: input, b: 1, a: 2 })), ...options },
      go: { dependsOn: ["ask"], input: reads(["ask"], ({ ctx }) => (ctx.steps as { ask: never }).ask) },
    });

  test("is bound to run, step, attempt and the payload that is shown", () => {
    const world = new World(asked({ timeoutMs: 5_000 }));
    expect(world.status).toBe("waiting");
    const shown = world.records.get("approval/ask@1") ?? "";
    expect(shown).toBe(
      `{"attempt":1,"payload":{"a":2,"b":1,"pay":{"amount":5}},"run":"${runId}","step":"ask"}`,
    );
    expect(world.approvals.get(`${runId}:ask@1`)?.request).toEqual({
      approvalId: `${runId}:ask@1`,
      step: "ask",
      hash: createHash("sha256").update(shown).digest("hex"),
      payloadKey: "approval/ask@1",
      requester: "key_1",
      separateDuties: false,
      expiresAtMs: world.nowMs + 5_000,
    });
    expect([...world.timers]).toEqual([["expiry/ask@1", world.nowMs + 5_000]]);
  });

  test("given lets the run go on, with the decision as its output", () => {
    const world = new World(asked({ timeoutMs: 5_000 }));
    world.decide("ask@1", "approved", "fine");
    world.drain();
    expect(world.shown).toEqual({ ask: "succeeded", go: "running" });
    expect(world.body("job-input/go@1")).toEqual({ decision: "approved", decided_by: "ann", reason: "fine" });
    expect(world.timers.size).toBe(0);
    expect(world.events).toContain("step_approved ask");
  });

  test("refused denies the run and skips what depends on it", () => {
    const world = new World(asked());
    world.decide("ask@1", "rejected", "too much");
    world.drain();
    expect(world.shown).toEqual({ ask: "denied", go: "skipped" });
    expect([world.status, world.step("ask").error?.message]).toEqual(["denied", "rejected by ann: too much"]);
  });

  test("that nobody decides expires", () => {
    const world = new World(asked({ timeoutMs: 5_000 }));
    world.fire("expiry/ask@1");
    world.drain();
    expect([world.status, world.approvals.get(`${runId}:ask@1`)?.state]).toEqual(["timed_out", "expired"]);
  });

  test("keeps duties apart when the step or the tenant asks for it", () => {
    const byStep = new World(asked({ separateDuties: true }));
    const byTenant = new World(asked(), { separateDuties: true });
    for (const world of [byStep, byTenant]) {
      expect(world.approvals.get(`${runId}:ask@1`)?.request.separateDuties).toBe(true);
    }
  });

  test("whose payload has no canonical form fails its step", () => {
    const world = new World(define({ ask: { type: "approval", input: always(Number.POSITIVE_INFINITY) } }));
    expect(world.status).toBe("failed");
  });

  test("decided before it expires is decided, whatever its timer says later", () => {
    const world = new World(asked({ timeoutMs: 5_000 }));
    world.decide("ask@1", "approved");
    world.fire("expiry/ask@1");
    world.drain();
    expect(world.step("ask").status).toBe("succeeded");
  });
});

describe("a delay", () => {
  test("of less than a second is kept to the millisecond", () => {
    const world = new World(
      define({ d: { type: "delay", delay: { kind: "for", ms: 250 } }, e: { dependsOn: ["d"] } }),
    );
    expect([...world.timers]).toEqual([["delay/d@1", world.nowMs + 250]]);
    expect(world.status).toBe("waiting");
    world.fire("delay/d@1");
    world.drain();
    expect(world.shown).toEqual({ d: "succeeded", e: "running" });
  });

  test("until a time waits for that time, and one in the past is over at once", () => {
    const until = (text: string) =>
      define({ d: { type: "delay", delay: { kind: "until", at: always(text) } } });
    const world = new World(until("1970-01-01T01:16:40.500+01:00"));
    expect([...world.timers]).toEqual([["delay/d@1", 1_000_500]]);
    expect(new World(until("1970-01-01T00:10:00Z")).status).toBe("succeeded");
    expect(new World(until("tomorrow")).status).toBe("failed");
  });

  test("has a timer of its own beside another one", () => {
    const world = new World(
      define({
        d: { type: "delay", delay: { kind: "for", ms: 10 } },
        e: { type: "delay", delay: { kind: "for", ms: 20 } },
      }),
    );
    expect([...world.timers.keys()]).toEqual(["delay/d@1", "delay/e@1"]);
  });
});

describe("what the run is said to be", () => {
  test("waiting when all that is open waits, running as soon as a job is out", () => {
    const world = new World(define({ ask: { type: "approval" }, work: {}, more: { dependsOn: ["work"] } }));
    expect(world.status).toBe("running");
    world.result("work@1");
    world.drain();
    expect([world.status, world.shown.more]).toEqual(["running", "running"]);
    world.result("more@1");
    world.drain();
    expect(world.status).toBe("waiting");
    world.decide("ask@1", "approved");
    world.drain();
    expect(world.status).toBe("succeeded");
  });

  test("failed before denied before timed out", () => {
    const three = () =>
      new World(define({ f: {}, d: { type: "approval" }, t: { type: "approval", timeoutMs: 10 } }));
    const world = three();
    world.fire("expiry/t@1");
    world.decide("d@1", "rejected");
    world.result("f@1", "failed");
    world.drain();
    expect(world.status).toBe("failed");
    const milder = three();
    milder.fire("expiry/t@1");
    milder.result("f@1");
    milder.decide("d@1", "rejected");
    milder.drain();
    expect(milder.status).toBe("denied");
  });
});

describe("calling a run off", () => {
  const busy = () =>
    define(
      {
        job: { timeoutMs: 1_000 },
        ask: { type: "approval", timeoutMs: 1_000 },
        nap: { type: "delay", delay: { kind: "for", ms: 1_000 } },
        again: { retry: { retriesMax: 1 } },
        later: { dependsOn: ["job"] },
        join: { dependsOn: ["done", "job"] },
        done: {},
      },
      { timeoutMs: 60_000 },
    );

  const prepared = () => {
    const world = new World(busy());
    world.result("again@1", "failed_retryable");
    world.result("done@1");
    world.drain();
    return world;
  };

  test("a cancel takes back jobs, approvals and timers, and what had ended stays as it was", () => {
    const world = prepared();
    expect(world.timers.size).toBe(5);
    world.cancel();
    world.drain();
    expect(world.status).toBe("cancelled");
    expect(world.shown).toEqual({
      job: "cancelled",
      ask: "cancelled",
      nap: "cancelled",
      again: "cancelled",
      later: "cancelled",
      join: "cancelled",
      done: "succeeded",
    });
    expect(world.jobs.get(`${runId}:job@1`)?.state).toBe("voided");
    expect(world.approvals.get(`${runId}:ask@1`)?.state).toBe("cancelled");
    expect(world.peak.needsRounds).toBe(0);
  });

  test("the workflow's timeout does the same and the run is timed out", () => {
    const world = prepared();
    expect(world.timers.get("deadline")).toBe(1_060_000);
    world.fire("deadline");
    world.drain();
    expect([world.status, world.shown.job]).toEqual(["timed_out", "cancelled"]);
  });

  test("a job that the same commit would have enqueued is never enqueued", () => {
    const world = new World(define({ a: {}, b: { dependsOn: ["a"], timeoutMs: 50 } }));
    world.result("a@1");
    world.cancel();
    world.drain();
    expect([...world.jobs.keys()]).toEqual([`${runId}:a@1`]);
    expect(world.timers.size).toBe(0);
    expect(world.shown).toEqual({ a: "succeeded", b: "cancelled" });
  });

  test("a run that has ended stays as it is, whatever still arrives", () => {
    const world = prepared();
    world.cancel();
    world.drain();
    const before = new Map(world.records);
    world.cancel();
    world.postResult("job@1");
    world.decide("ask@1", "approved");
    world.fire("deadline");
    world.loseClaim("job@1");
    world.post({ kind: "poisoned", entryId: "p", was: "?" });
    world.drain();
    expect(world.records).toEqual(before);
    expect(world.status).toBe("cancelled");
  });
});
