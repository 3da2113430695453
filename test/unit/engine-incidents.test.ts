// Incidents of engines like this one as tests: each says what must hold here.
import { describe, expect, test } from "vitest";
import { firstCommit } from "../../src/domain/engine/apply.ts";
import { always, broken, define, reads } from "./engine-sketches.ts";
import { runId, tenant, World } from "./engine-world.ts";

describe("what must hold where engines are known to be weak", () => {
  test("while one branch waits for an approval the others go on", () => {
    const world = new World(
      define({ ask: { type: "approval" }, a: {}, b: { dependsOn: ["a"] }, c: { dependsOn: ["b"] } }),
    );
    for (const job of ["a@1", "b@1", "c@1"]) {
      world.result(job);
      world.drain();
    }
    expect(world.shown).toEqual({ ask: "waiting", a: "succeeded", b: "succeeded", c: "succeeded" });
  });

  test("two delays at once keep a timer each, to the millisecond, and neither ends the other", () => {
    const nap = (ms: number) => ({ type: "delay", delay: { kind: "for", ms } }) as const;
    const world = new World(define({ short: nap(40), long: nap(2_500), after: { dependsOn: ["short"] } }));
    expect(Object.fromEntries(world.timers)).toEqual({
      "delay/short@1": 1_000_040,
      "delay/long@1": 1_002_500,
    });
    world.fire("delay/short@1");
    world.drain();
    expect(world.shown).toEqual({ short: "succeeded", long: "waiting", after: "running" });
  });

  test("a result rewrites its own step and the run's counters, not the other steps", () => {
    const world = new World(define({ a: {}, b: {}, c: {}, d: {} }));
    const before = new Map(world.records);
    world.result("a@1");
    world.drain();
    const written = [...world.records].filter(([key, body]) => before.get(key) !== body).map(([key]) => key);
    expect(written.sort()).toEqual(["result/a@1", "run", "step/a"]);
  });

  test("a skipped step is an ended one and never keeps a run open", () => {
    const world = new World(define({ a: {}, b: { dependsOn: ["a"] }, c: { condition: always(false) } }));
    world.result("a@1", "failed");
    world.drain();
    expect([world.status, world.shown.b, world.shown.c]).toEqual(["failed", "skipped", "skipped"]);
  });

  test("retries of many runs are spread, not all due at the same second", () => {
    const dues = Array.from({ length: 40 }, (_, index) => {
      const step = `s${index}`;
      const world = new World(define({ [step]: { retry: { retriesMax: 1 } } }));
      world.result(`${step}@1`, "failed_retryable");
      world.drain();
      return world.timers.get(`retry/${step}@2`);
    });
    expect(new Set(dues).size).toBeGreaterThan(35);
  });
});

describe("what must hold where coordination is known to go wrong", () => {
  test("results of an ended run are consumed at once and change nothing", () => {
    const world = new World(define({ a: {}, b: {} }));
    world.cancel();
    world.drain();
    world.postResult("a@1");
    world.postResult("b@1", "failed_retryable");
    world.drain();
    expect(world.fates.map(({ fate }) => fate)).toEqual(["applied", "late", "late"]);
    expect([world.status, world.inbox]).toEqual(["cancelled", []]);
  });

  test("an approval decided twice lets its step go on once", () => {
    const world = new World(define({ ask: { type: "approval" }, go: { dependsOn: ["ask"] } }));
    world.decide("ask@1", "approved");
    world.decide("ask@1", "approved");
    world.decide("ask@1", "rejected");
    world.drain();
    expect(world.fates.map(({ fate }) => fate)).toEqual(["applied", "late", "late"]);
    expect(world.jobs.size).toBe(1);
  });

  test("a decision on an ended run revives nothing, and a cancel leaves an ended run alone", () => {
    const world = new World(define({ ask: { type: "approval" }, bad: {}, go: { dependsOn: ["ask"] } }));
    world.decide("ask@1", "rejected");
    world.result("bad@1");
    world.drain();
    expect(world.status).toBe("denied");
    world.decide("ask@1", "approved");
    world.cancel();
    world.drain();
    expect([world.status, world.shown.ask, world.jobs.size]).toEqual(["denied", "denied", 1]);
  });

  test("the hash of an approval depends on run, step, attempt and payload, and on nothing else", () => {
    const hashOf = (facts: object, payload: number, step = "ask") => {
      const compiled = define({ [step]: { type: "approval", input: always({ payload }) } });
      const given = { runId, tenant, actor: "ann", input: {}, nowMs: 1, separateDuties: false };
      return firstCommit(compiled, { ...given, ...facts }).change.approvals[0]?.hash;
    };
    const hash = hashOf({}, 1);
    expect(hashOf({ actor: "bob", nowMs: 99, traceparent: "00-x", input: { other: 1 } }, 1)).toBe(hash);
    expect(hashOf({ separateDuties: true }, 1)).toBe(hash);
    expect(hashOf({}, 2)).not.toBe(hash);
    expect(hashOf({}, 1, "other")).not.toBe(hash);
    expect(hashOf({ runId: "run_07_otherrun99" }, 1)).not.toBe(hash);
  });

  test("every dispatch is an attempt of its own, whatever caused it", () => {
    const world = new World(define({ a: { timeoutMs: 100, retry: { retriesMax: 2 } } }));
    world.loseClaim("a@1");
    world.drain();
    world.result("a@2", "failed_retryable");
    world.drain();
    world.fire("retry/a@3");
    world.drain();
    world.fire("timeout/a@3");
    world.drain();
    world.fire("retry/a@4");
    world.drain();
    expect([...world.jobs.keys()].map((id) => id.slice(-3))).toEqual(["a@1", "a@2", "a@3", "a@4"]);
    expect(world.step("a")).toMatchObject({ attempt: 4, failures: 2, lostClaims: 1 });
  });

  test("a step is never said to run or wait without its job or approval in the same commit", () => {
    const compiled = define({ a: {}, ask: { type: "approval" } });
    const facts = { runId, tenant, actor: "ann", input: {}, nowMs: 1, separateDuties: false };
    const { change } = firstCommit(compiled, facts);
    expect(change.jobs.map(({ step }) => step)).toEqual(["a"]);
    expect(change.approvals.map(({ step }) => step)).toEqual(["ask"]);
    expect(change.records.map(({ key }) => key)).toEqual(
      expect.arrayContaining(["step/a", "step/ask", "approval/ask@1"]),
    );
  });

  test("a succeeded step names the record that holds its result", () => {
    const world = new World(define({ a: {}, b: { dependsOn: ["a"] } }));
    world.loseClaim("a@1");
    world.drain();
    world.result("a@2", "succeeded", { output: 42 });
    world.drain();
    expect(world.step("a").outputKey).toBe("result/a@2");
    expect(world.body(world.step("a").outputKey as string)).toEqual({ output: 42 });
  });

  test("of a cancel and a result the first in the inbox counts, whichever it is", () => {
    const both = () => new World(define({ a: {} }));
    const cancelFirst = both();
    cancelFirst.cancel();
    cancelFirst.postResult("a@1");
    cancelFirst.drain();
    expect([cancelFirst.status, cancelFirst.shown.a]).toEqual(["cancelled", "cancelled"]);
    const resultFirst = both();
    resultFirst.result("a@1");
    resultFirst.cancel();
    resultFirst.drain();
    expect([resultFirst.status, resultFirst.shown.a]).toEqual(["succeeded", "succeeded"]);
  });

  test("results of one attempt delivered twice count once", () => {
    const world = new World(define({ a: {}, b: {}, join: { dependsOn: ["a", "b"] } }));
    world.result("a@1");
    world.postResult("a@1");
    world.postResult("a@1", "failed");
    world.drain();
    expect(world.step("join")).toMatchObject({ status: "pending", remaining: 1 });
    expect(world.run.counts).toMatchObject({ running: 1, succeeded: 1 });
  });

  test("a timer that fires lets its step go on in the same commit", () => {
    const world = new World(
      define({ nap: { type: "delay", delay: { kind: "for", ms: 5 } }, go: { dependsOn: ["nap"] } }),
    );
    world.fire("delay/nap@1");
    world.applyOnce();
    expect([world.inbox.length, world.shown]).toEqual([0, { nap: "succeeded", go: "running" }]);
  });

  test("on_error takes timeouts, chains and failures of inline steps", () => {
    const world = new World(
      define({
        slow: { timeoutMs: 10, onError: "first" },
        first: { type: "transform", input: broken, onError: "second" },
        second: {
          input: reads(["first"], ({ steps }) => ({ saw: (steps.first as { error: never }).error })),
        },
      }),
    );
    world.fire("timeout/slow@1");
    world.drain();
    expect(world.shown).toEqual({ slow: "timed_out", first: "failed", second: "running" });
    expect(world.body("job-input/second@1")).toMatchObject({ saw: { code: "expression_failed" } });
    world.result("second@1");
    world.drain();
    expect(world.status).toBe("succeeded");
  });

  test("a cancel voids every open job in the commit that says cancelled", () => {
    const world = new World(define({ a: {}, b: {}, c: {} }));
    world.result("b@1");
    world.drain();
    world.cancel();
    world.drain();
    expect([...world.jobs.values()].map(({ state }) => state)).toEqual(["voided", "reported", "voided"]);
  });

  test("a refused step does not use up retries", () => {
    const world = new World(define({ ask: { type: "approval", retry: { retriesMax: 3 } } }));
    world.decide("ask@1", "rejected");
    world.drain();
    expect([world.status, world.timers.size, world.deadLetters]).toEqual(["denied", 0, []]);
    expect(world.step("ask").failures).toBeUndefined();
  });

  test("a retryable failure is retried", () => {
    const world = new World(define({ a: { retry: { retriesMax: 1 } } }));
    world.result("a@1", "failed_retryable");
    world.drain();
    world.fire("retry/a@2");
    world.drain();
    world.result("a@2");
    world.drain();
    expect(world.status).toBe("succeeded");
  });

  test("an approval resumes the parked step only, and nothing before it runs again", () => {
    const world = new World(
      define({ a: {}, ask: { type: "approval", dependsOn: ["a"] }, go: { dependsOn: ["ask"] } }),
    );
    world.result("a@1");
    world.drain();
    world.decide("ask@1", "approved");
    world.drain();
    expect([...world.jobs.keys()]).toEqual([`${runId}:a@1`, `${runId}:go@1`]);
  });
});
