// Runs of a thousand steps: work that does not fit into one commit, and what one result costs.
import { describe, expect, test } from "vitest";
import type { InboxEntry } from "../../src/domain/inbox.ts";
import { always, broken, define, reads, type StepSketch } from "./engine-sketches.ts";
import { runId, World } from "./engine-world.ts";

/** `<prefix>0` to `<prefix><count-1>`. */
function many(
  count: number,
  sketch: (index: number) => StepSketch,
  prefix = "s",
): Record<string, StepSketch> {
  return Object.fromEntries(
    Array.from({ length: count }, (_, index) => [`${prefix}${index}`, sketch(index)]),
  );
}

const names = (count: number) => Array.from({ length: count }, (_, index) => `s${index}`);

function quiet(world: World): World {
  world.countsEachCommit = false;
  return world;
}

describe("a run that is too large to be started by its admission", () => {
  test("is admitted as pending with its input and facts, and started by its inbox in bounded commits", () => {
    const world = new World(define(many(1_000, () => ({}))));
    expect([world.isLarge, world.status, [...world.records.keys()]]).toEqual([
      true,
      "pending",
      ["input", "facts"],
    ]);
    expect(world.drain()).toBe(8);
    expect(world.ready()).toHaveLength(1_000);
    expect(world.peak.jobs).toBe(128);
    expect(world.fates).toEqual([{ entry: { kind: "started", entryId: "started" }, fate: "applied" }]);
  });

  test("is one whose first steps carry more than 64 KiB", () => {
    const wide = { input: always("x".repeat(20_000)) };
    expect(new World(define(many(2, () => wide))).isLarge).toBe(false);
    const world = new World(define(many(60, () => wide)));
    expect(world.isLarge).toBe(true);
    expect(world.drain()).toBe(5);
    expect(world.ready()).toHaveLength(60);
    expect(new World(define({ a: {} }), { input: "x".repeat(70_000) }).isLarge).toBe(true);
  });

  test("counts its timeout from the admission", () => {
    const world = new World(
      define(
        many(100, () => ({})),
        { timeoutMs: 10_000 },
      ),
    );
    world.nowMs += 4_000;
    world.drain();
    expect(world.timers.get("deadline")).toBe(1_010_000);
  });

  test("is started once", () => {
    const world = new World(define(many(200, () => ({}))));
    world.post({ kind: "started", entryId: "again" });
    world.drain();
    expect(world.fates.map(({ fate }) => fate)).toEqual(["applied", "late"]);
    expect(world.jobs.size).toBe(200);
  });

  test("may be cancelled before it is started", () => {
    const world = new World(define(many(200, () => ({}))));
    world.inbox = [];
    world.cancel();
    world.drain();
    expect([world.status, world.jobs.size]).toEqual(["cancelled", 0]);
  });
});

describe("work that does not fit into one commit", () => {
  const fan = () => define({ first: {}, ...many(1_000, () => ({ dependsOn: ["first"] })) });

  test("a result with a thousand dependents stays in the inbox until all have been told", () => {
    const world = new World(fan());
    world.result("first@1");
    world.applyOnce();
    expect([world.inbox.length, world.ready().length, world.status]).toEqual([1, 127, "running"]);
    world.drain();
    expect(world.ready()).toHaveLength(1_000);
    expect(world.peak.jobs).toBe(128);
    expect(world.run.work).toBeUndefined();
  });

  test("a run with work left is running, even when all that has begun waits", () => {
    const nap: StepSketch = { type: "delay", delay: { kind: "for", ms: 50 }, dependsOn: ["first"] };
    const world = new World(define({ first: {}, ...many(200, () => nap) }));
    world.result("first@1");
    world.applyOnce();
    expect([world.status, world.run.counts.waiting]).toEqual(["running", 127]);
    world.drain();
    expect([world.status, world.run.counts.waiting]).toEqual(["waiting", 200]);
  });

  test("results that arrive in the middle of it are applied after it", () => {
    const world = new World(fan());
    world.result("first@1");
    world.applyOnce();
    world.result("s0@1");
    world.drain();
    expect(world.step("s0").status).toBe("succeeded");
    expect(world.fates.map(({ fate }) => fate)).toEqual(["applied", "applied"]);
  });

  test("a chain of a thousand inline steps runs through", () => {
    const chain = many(1_000, (index) => ({
      type: "transform",
      ...(index === 0 ? {} : { dependsOn: [`s${index - 1}`] }),
      input:
        index === 0
          ? always(0)
          : reads([`s${index - 1}`], ({ ctx }) => 1 + Number(Object.values(ctx.steps as object)[0])),
    }));
    const world = quiet(new World(define(chain)));
    world.drain();
    expect([world.status, world.body("output/s999")]).toEqual(["succeeded", { output: 999 }]);
    expect(world.peak.recordsWritten).toBeLessThanOrEqual(2 * 128 + 1);
  });

  test("a thousand steps are skipped after the one they depend on failed", () => {
    const chain = many(1_000, (index) => ({
      dependsOn: index === 0 ? ["first"] : ["first", `s${index - 1}`],
    }));
    const world = quiet(new World(define({ first: {}, ...chain })));
    world.result("first@1", "failed");
    expect(world.drain()).toBeLessThanOrEqual(9);
    expect(world.status).toBe("failed");
    expect(world.run.counts.skipped).toBe(1_000);
    expect(world.peak.needsRounds).toBeLessThanOrEqual(2);
  });

  test("a cancel calls off a thousand open steps before the run is cancelled", () => {
    const world = new World(fan());
    world.result("first@1");
    world.drain();
    world.cancel();
    world.applyOnce();
    expect([world.status, world.inbox.length]).toEqual(["running", 1]);
    world.postResult("s999@1");
    world.drain();
    expect([world.status, world.ready().length]).toEqual(["cancelled", 0]);
    expect(world.fates.map(({ fate }) => fate)).toEqual(["applied", "applied", "late"]);
    expect(world.peak.recordsRead).toBeLessThanOrEqual(258);
  });

  test("a cancel ends the rest of a start that is still going on", () => {
    const world = new World(define(many(1_000, () => ({}))));
    world.applyOnce();
    world.post({ kind: "cancel", entryId: "c", actor: "ann", reason: "" });
    world.drain();
    expect(world.status).toBe("cancelled");
    expect(world.run.counts.cancelled).toBe(1_000);
  });

  test("an entry that breaks in the middle of its work fails the run", () => {
    const world = new World(fan());
    world.result("first@1");
    world.applyOnce();
    const was = JSON.stringify(world.inbox[0]);
    world.inbox[0] = { kind: "poisoned", entryId: (world.inbox[0] as InboxEntry).entryId, was };
    world.drain();
    expect([world.status, world.run.error?.code]).toEqual(["failed", "poisoned_entry"]);
    expect(world.ready()).toEqual([]);
  });

  test("failures by the hundred are told in bounded commits", () => {
    const world = quiet(
      new World(define({ first: {}, ...many(300, () => ({ dependsOn: ["first"], input: broken })) })),
    );
    world.result("first@1");
    expect(world.drain()).toBe(3);
    expect(world.run.counts).toMatchObject({ succeeded: 1, failed: 300 });
  });
});

describe("the cost of one result", () => {
  /** Many branches that meet in one step, each result read by its follower. */
  const branches = (count: number) =>
    define({
      ...many(count, () => ({})),
      ...many(
        count,
        (index) => ({
          dependsOn: [`s${index}`],
          input: reads([`s${index}`], ({ steps }) => steps as never),
        }),
        "t",
      ),
      join: { dependsOn: names(count) },
    });

  const costOf = (count: number) => {
    const world = quiet(new World(branches(count)));
    world.drain();
    Object.assign(world.peak, { recordsRead: 0, recordsWritten: 0, needsRounds: 0 });
    let largest = 0;
    for (let index = 0; index < count; index += 1) {
      world.result(`s${index}@1`);
      world.drain();
      largest = Math.max(largest, world.records.get("run")?.length ?? 0);
    }
    return { ...world.peak, jobs: 0, largest: Math.ceil(largest / 100) };
  };

  test("is the same in a run of twenty steps and in one of two thousand", () => {
    expect(costOf(1_000)).toEqual(costOf(10));
    expect(costOf(10)).toMatchObject({ needsRounds: 0, recordsRead: 5, recordsWritten: 5 });
  });

  test("does not depend on how many results came before", () => {
    const world = quiet(new World(branches(600)));
    world.drain();
    world.result("s0@1");
    world.drain();
    expect(world.jobs.get(`${runId}:t0@1`)?.inputKey).toBe("job-input/t0@1");
    expect(world.step("join").remaining).toBe(599);
  });
});
