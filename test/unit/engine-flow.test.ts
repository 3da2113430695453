// How a run goes from its start to its end: dependencies, conditions, handlers, and what the run is then said to be.
import { describe, expect, test } from "vitest";
import { always, broken, define, reads } from "./engine-sketches.ts";
import { World } from "./engine-world.ts";

describe("a chain of steps", () => {
  const chain = () =>
    define({
      a: {},
      b: { dependsOn: ["a"], input: reads(["a"], ({ steps }) => ({ from: steps.a as never })) },
      c: { dependsOn: ["b"] },
    });

  test("puts up one job after the other and ends succeeded", () => {
    const world = new World(chain());
    expect(world.status).toBe("running");
    expect(world.ready().map(({ step }) => step)).toEqual(["a"]);
    for (const job of ["a@1", "b@1", "c@1"]) {
      world.result(job);
      world.drain();
    }
    expect(world.status).toBe("succeeded");
    expect(world.shown).toEqual({ a: "succeeded", b: "succeeded", c: "succeeded" });
    expect(world.events).toEqual([
      "run_started",
      "step_dispatched a",
      "step_completed a",
      "step_dispatched b",
      "step_completed b",
      "step_dispatched c",
      "step_completed c",
      "run_completed",
    ]);
  });

  test("hands a step's output to the expressions of the next one", () => {
    const world = new World(chain());
    world.result("a@1", "succeeded", { output: { rows: 3 } });
    world.drain();
    expect(world.body("job-input/b@1")).toEqual({
      from: { status: "succeeded", output: { rows: 3 }, error: null },
    });
  });

  test("gives a step without an input of its own that of the run, stored once", () => {
    const world = new World(chain());
    expect(world.ready()[0]?.inputKey).toBe("input");
    expect(world.body("input")).toEqual({ amount: 5 });
  });

  test("needs no second load, and reads no other step", () => {
    const world = new World(chain());
    world.result("a@1");
    world.drain();
    expect(world.peak).toEqual({ needsRounds: 0, recordsRead: 4, recordsWritten: 4, jobs: 1 });
  });
});

describe("dependencies", () => {
  test("a join begins when the last of its dependencies has ended", () => {
    const world = new World(define({ a: {}, b: {}, join: { dependsOn: ["a", "b"] } }));
    world.result("b@1");
    world.drain();
    expect(world.step("join")).toMatchObject({ status: "pending", remaining: 1 });
    world.result("a@1");
    world.drain();
    expect(world.ready().map(({ step }) => step)).toEqual(["join"]);
  });

  test("steps after a failed one are skipped, all the way down, and the run fails", () => {
    const world = new World(
      define({ a: {}, b: { dependsOn: ["a"] }, c: { dependsOn: ["b"] }, d: { dependsOn: ["b", "c"] } }),
    );
    world.result("a@1", "failed", { error: { message: "no", code: "E1" } });
    world.drain();
    expect(world.shown).toEqual({ a: "failed", b: "skipped", c: "skipped", d: "skipped" });
    expect(world.status).toBe("failed");
    expect(world.run.failure).toEqual({ step: "a", status: "failed" });
    expect(world.peak.needsRounds).toBeLessThanOrEqual(2);
  });

  test("a branch that does not depend on the failure goes on to its end", () => {
    const world = new World(define({ a: {}, b: {}, c: { dependsOn: ["b"] } }));
    world.result("a@1", "failed");
    world.drain();
    expect(world.status).toBe("running");
    world.result("b@1");
    world.drain();
    world.result("c@1");
    world.drain();
    expect(world.shown).toEqual({ a: "failed", b: "succeeded", c: "succeeded" });
    expect(world.status).toBe("failed");
  });
});

describe("conditions", () => {
  test("a step whose condition is false is skipped and its dependents run", () => {
    const world = new World(define({ a: { condition: always(false) }, b: { dependsOn: ["a"] } }));
    expect(world.shown).toEqual({ a: "skipped", b: "running" });
    expect(world.events).toContain("step_condition_skipped a");
    world.result("b@1");
    world.drain();
    expect(world.status).toBe("succeeded");
  });

  test("a condition step gives true or false and always succeeds", () => {
    const world = new World(
      define({
        big: {
          type: "condition",
          condition: reads([], ({ input }) => (input as { amount: number }).amount > 3),
        },
        yes: {
          dependsOn: ["big"],
          condition: reads(["big"], ({ ctx }) => (ctx.steps as { big: boolean }).big),
        },
        no: {
          dependsOn: ["big"],
          condition: reads(["big"], ({ ctx }) => !(ctx.steps as { big: boolean }).big),
        },
      }),
    );
    expect(world.shown).toEqual({ big: "succeeded", yes: "running", no: "skipped" });
    expect(world.body("output/big")).toEqual({ output: true });
  });

  test("a mistake in an expression fails the step at once, whatever its retries", () => {
    const world = new World(
      define({ a: { input: broken, retry: { retriesMax: 5 } }, b: { condition: always("yes") } }),
    );
    expect(world.shown).toEqual({ a: "failed", b: "failed" });
    expect(world.step("a").error).toEqual({ code: "expression_failed", message: "no such key" });
    expect(world.status).toBe("failed");
  });

  test("a run of inline steps only is over when it starts", () => {
    const world = new World(
      define({
        t: { type: "transform", input: reads([], ({ input }) => ({ twice: input })) },
        u: { type: "transform", dependsOn: ["t"], input: reads(["t"], ({ steps }) => steps.t as never) },
      }),
    );
    expect(world.status).toBe("succeeded");
    expect(world.body("output/u")).toMatchObject({ output: { output: { twice: { amount: 5 } } } });
  });
});

describe("outputs in the context", () => {
  test("are put where output_path says", () => {
    const world = new World(
      define({
        a: { type: "transform", input: always(1), outputPath: ["report", "rows"] },
        b: { type: "transform", dependsOn: ["a"], input: always(2), outputPath: ["report", "pages"] },
        c: { dependsOn: ["b"], input: reads(["a", "b"], ({ ctx }) => ctx.report as never) },
      }),
    );
    expect(world.body("job-input/c@1")).toEqual({ rows: 1, pages: 2 });
  });
});

describe("error handlers", () => {
  const handled = (handler = {}) =>
    define({
      a: { onError: "fix" },
      b: { dependsOn: ["a"] },
      fix: {
        input: reads(["a"], ({ steps }) => ({ seen: (steps.a as { error: never }).error })),
        ...handler,
      },
    });

  test("a failure that its handler takes care of does not fail the run; the steps after it stay skipped", () => {
    const world = new World(handled());
    world.result("a@1", "failed", { error: { message: "no", code: "E1" } });
    world.drain();
    expect(world.shown).toEqual({ a: "failed", b: "skipped", fix: "running" });
    expect(world.body("job-input/fix@1")).toEqual({
      seen: { message: "no", code: "E1" },
      error: { step: "a", status: "failed", message: "no", code: "E1" },
    });
    world.result("fix@1");
    world.drain();
    expect(world.status).toBe("succeeded");
  });

  test("any later step may read the error, whichever attempt it came from", () => {
    const world = new World(
      define({
        a: { onError: "fix" },
        fix: {},
        b: {},
        c: {
          dependsOn: ["b"],
          input: reads(["a"], ({ steps }) => (steps.a as { error: never }).error),
        },
      }),
    );
    world.loseClaim("a@1");
    world.drain();
    world.result("a@2", "failed", { error: { message: "no" } });
    world.drain();
    world.result("b@1");
    world.drain();
    expect(world.body("job-input/c@1")).toEqual({ message: "no" });
    expect(world.peak.needsRounds).toBe(1);
  });

  test("a handler that is not needed ends skipped", () => {
    const world = new World(handled());
    for (const job of ["a@1", "b@1"]) {
      world.result(job);
      world.drain();
    }
    expect(world.status).toBe("succeeded");
    expect(world.shown.fix).toBe("skipped");
  });

  test("a handler that fails fails the run, unless its own handler takes care of it", () => {
    const alone = new World(handled());
    alone.result("a@1", "failed");
    alone.drain();
    alone.result("fix@1", "failed");
    alone.drain();
    expect([alone.status, alone.run.failure?.step]).toEqual(["failed", "fix"]);

    const chained = new World(
      define({ a: { onError: "fix" }, fix: { onError: "last", input: broken }, last: {} }),
    );
    chained.result("a@1", "failed");
    chained.drain();
    expect(chained.shown).toEqual({ a: "failed", fix: "failed", last: "running" });
    chained.result("last@1");
    chained.drain();
    expect(chained.status).toBe("succeeded");
  });

  test("a handler whose condition is false has not handled anything", () => {
    const world = new World(handled({ condition: always(false) }));
    world.result("a@1", "failed");
    world.drain();
    expect([world.status, world.run.failure?.step]).toEqual(["failed", "a"]);
  });

  test("a handler runs once: the second failure that names it fails the run", () => {
    const world = new World(define({ a: { onError: "fix" }, b: { onError: "fix" }, fix: {} }));
    world.result("a@1", "failed");
    world.result("b@1", "failed");
    world.drain();
    world.result("fix@1");
    world.drain();
    expect([world.status, world.run.failure?.step]).toEqual(["failed", "b"]);
  });

  test("two steps that name each other as handlers end", () => {
    const world = new World(define({ a: {}, x: { onError: "y" }, y: { onError: "x" }, z: { onError: "x" } }));
    world.result("z@1", "failed");
    world.drain();
    world.result("x@1", "failed");
    world.drain();
    world.result("y@1", "failed");
    world.result("a@1");
    world.drain();
    expect(world.status).toBe("failed");
  });

  test("handle timeouts, refusals and inline failures too", () => {
    const world = new World(
      define({
        slow: { timeoutMs: 100, onError: "h1" },
        ask: { type: "approval", onError: "h2" },
        sum: { type: "transform", input: broken, onError: "h3" },
        h1: {},
        h2: {},
        h3: {},
      }),
    );
    world.fire("timeout/slow@1");
    world.decide("ask@1", "rejected", "too expensive");
    world.drain();
    expect(world.shown).toMatchObject({ slow: "timed_out", ask: "denied", sum: "failed" });
    for (const { step } of world.ready()) world.result(`${step}@1`);
    world.drain();
    expect(world.status).toBe("succeeded");
  });
});
