// Held jobs in the engine: which jobs wait for the dispatch check, and what its verdicts do to their steps.
import { describe, expect, test } from "vitest";
import { interpret } from "../../proof/reference/interpret.ts";
import type { DrawOptions } from "../../proof/reference/sketch.ts";
import type { EngineLimits } from "../../src/domain/engine/draft.ts";
import { notifyTopic } from "../../src/domain/job.ts";
import type { CompiledDefinition } from "../../src/domain/workflow/compiled.ts";
import { drawGame, movesOf, playToEnd, startGame } from "./engine-player.ts";
import { define, type StepSketch } from "./engine-sketches.ts";
import { runId, World } from "./engine-world.ts";

const holding: Partial<EngineLimits> = { holdsHighRisk: true };

function high(sketches: Readonly<Record<string, StepSketch>>): CompiledDefinition {
  return { ...define(sketches), risk: "high" };
}

describe("jobs are held", () => {
  test("when a check is asked and the workflow is of high risk", () => {
    const world = new World(high({ a: {} }), { limits: holding });
    expect(world.held()).toMatchObject([{ jobId: `${runId}:a@1`, topic: "job.default" }]);
    expect([world.ready(), world.step("a").status, world.status]).toEqual([[], "running", "running"]);
  });

  test.each([
    ["no check is asked", {}, "high"],
    ["the risk is standard", holding, "standard"],
    ["the risk is low", holding, "low"],
  ] as const)("and not when %s", (_when, limits, risk) => {
    const world = new World({ ...define({ a: {} }), risk }, { limits });
    expect(world.held()).toEqual([]);
    expect(world.ready()).toHaveLength(1);
    expect(world.ready()[0]).not.toHaveProperty("held");
  });

  test("but for what the control plane does itself: notifications must get out", () => {
    const steps = {
      tell: { type: "notify", topic: notifyTopic },
      post: { type: "notify", topic: "mail" },
    } as const;
    const world = new World(high(steps), { limits: holding });
    expect(world.ready().map(({ step }) => step)).toEqual(["tell"]);
    expect(world.held().map(({ step }) => step)).toEqual(["post"]);
  });

  test("with every attempt anew: what was allowed once is asked again for its retry", () => {
    const world = new World(high({ a: { retry: { retriesMax: 1 } } }), { limits: holding });
    world.verdict("a@1", "allow");
    world.drain();
    world.result("a@1", "failed_retryable", { error: { message: "busy" } });
    world.drain();
    world.fire("retry/a@2");
    world.drain();
    expect(world.held().map(({ jobId }) => jobId)).toEqual([`${runId}:a@2`]);
  });
});

describe("a verdict", () => {
  test("that allows gives the job to workers, with what its hint needs", () => {
    const requires = { capabilities: ["gpu"], labels: {} };
    const world = new World(high({ a: { requires, topic: "train" } }), { limits: holding });
    world.verdict("a@1", "allow", "fine");
    world.drain();
    expect(world.ready()).toMatchObject([{ topic: "train", requires: JSON.stringify(requires) }]);
    expect(world.events).toContain("step_allowed a");
    world.result("a@1");
    world.drain();
    expect(world.status).toBe("succeeded");
  });

  test("that holds changes nothing but says why in the timeline", () => {
    const world = new World(high({ a: {} }), { limits: holding });
    world.verdict("a@1", "hold", "after hours");
    world.drain();
    expect(world.held()).toHaveLength(1);
    expect(world.timeline).toContainEqual({
      type: "step_held",
      step: "a",
      attempt: 1,
      reason: "after hours",
    });
    world.verdict("a@1", "allow");
    world.drain();
    expect(world.ready()).toHaveLength(1);
  });

  test("that denies ends the step and the run as a rejected approval does, without a retry or a dead letter", () => {
    const sketches = {
      a: { retry: { retriesMax: 3 }, timeoutMs: 5_000 },
      b: { dependsOn: ["a"] },
    };
    const world = new World(high(sketches), { limits: holding });
    world.verdict("a@1", "deny", "not on a Friday");
    world.drain();
    expect(world.status).toBe("denied");
    const error = { code: "dispatch_denied", message: "not on a Friday" };
    expect(world.step("a")).toMatchObject({ status: "denied", error });
    expect([world.shown.b, world.deadLetters, world.timers.size]).toEqual(["skipped", [], 0]);
    expect(world.jobs.get(`${runId}:a@1`)?.state).toBe("voided");
    expect(world.events).toContain("step_rejected a");
  });

  test("that denies without a reason still says what happened", () => {
    const world = new World(high({ a: {} }), { limits: holding });
    world.verdict("a@1", "deny");
    world.drain();
    expect(world.step("a").error).toEqual({
      code: "dispatch_denied",
      message: "the dispatch check denied it",
    });
  });

  test("that denies is for an error handler to take care of, which is asked about in its turn", () => {
    const world = new World(high({ a: { onError: "undo" }, undo: {} }), { limits: holding });
    world.verdict("a@1", "deny", "no");
    world.drain();
    expect(world.held().map(({ step }) => step)).toEqual(["undo"]);
    world.verdict("undo@1", "allow");
    world.drain();
    world.result("undo@1");
    world.drain();
    expect(world.status).toBe("succeeded");
  });

  test("comes too late for a step that has ended, another attempt, or a run that was cancelled", () => {
    const world = new World(high({ a: { timeoutMs: 1_000, retry: { retriesMax: 1 } } }), { limits: holding });
    world.fire("timeout/a@1");
    world.drain();
    world.verdict("a@1", "allow");
    world.drain();
    expect(world.fates.at(-1)?.fate).toBe("late");
    world.fire("retry/a@2");
    world.drain();
    expect(world.held()).toHaveLength(1);
    world.cancel();
    world.verdict("a@2", "allow");
    world.drain();
    expect([world.status, world.fates.at(-1)?.fate]).toEqual(["cancelled", "late"]);
  });

  test("and a cancel applied together leave the job called off, not released", () => {
    const world = new World(high({ a: {} }), { limits: holding });
    world.verdict("a@1", "allow");
    world.cancel();
    world.drain();
    expect([world.status, world.jobs.get(`${runId}:a@1`)?.state]).toEqual(["cancelled", "voided"]);
  });

  test("that nobody could apply fails its step", () => {
    const world = new World(high({ a: {}, b: {} }), { limits: holding });
    const was = JSON.stringify({
      kind: "dispatch",
      entryId: "e",
      jobId: `${runId}:a@1`,
      verdict: "allow",
      reason: "",
    });
    world.post({ kind: "poisoned", entryId: "e", was });
    world.drain();
    expect(world.step("a").error?.code).toBe("poisoned_entry");
    expect(world.held().map(({ step }) => step)).toEqual(["b"]);
  });

  test("is applied with the records that were foreseen, in one trip", () => {
    for (const verdict of ["allow", "hold", "deny"] as const) {
      const world = new World(high({ a: {}, b: { dependsOn: ["a"] } }), { limits: holding });
      world.verdict("a@1", verdict);
      world.drain();
      expect(world.peak.needsRounds).toBe(0);
    }
  });
});

describe("any workflow of high risk", () => {
  const options: DrawOptions = {
    rootsMax: 7,
    childWorkflows: 2,
    races: true,
    mayDoWithout: true,
    timeouts: true,
    moodyRate: 0.3,
    delaySec: 1,
    topics: ["left", "right"],
  };

  test("comes to the end that the reference tells, when every job is allowed in its turn", () => {
    let heldJobs = 0;
    for (let seed = 1; seed <= 150; seed += 1) {
      const drawn = drawGame(seed, options);
      const compiled = new Map(
        [...drawn.compiled].map(([id, definition]) => [id, { ...definition, risk: "high" as const }]),
      );
      const game = { ...drawn, compiled };
      const root = startGame(game, holding);
      const { random } = game;
      playToEnd(game, root, () => ({ batch: random.pick([1, 3, 128]), stepsMax: random.pick([2, 128]) }), {
        moves: () => movesOf(game.oracle, root),
        onMove: (name) => {
          if (name.endsWith(" allowed")) heldJobs += 1;
        },
        disturbs: true,
      });
      const told = interpret(game.drawn.library, game.drawn.root, game.drawn.input, game.oracle).get("");
      expect(told?.allowed, `seed ${seed}`).toContain(root.status);
      for (const { jobs } of root.cluster.worlds.values()) {
        for (const job of jobs.values()) expect(job.held === true || job.topic === notifyTopic).toBe(true);
      }
    }
    expect(heldJobs).toBeGreaterThan(300);
  });
});
