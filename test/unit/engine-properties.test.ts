// Random workflows under random schedules: what holds for all of them, with duplicates, stale entries and cancels.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import { isTerminal } from "../../src/domain/run.ts";
import type { CompiledDefinition } from "../../src/domain/workflow/compiled.ts";
import { always, broken, define, reads, type StepSketch } from "./engine-sketches.ts";
import { runId, World } from "./engine-world.ts";

/** One of the names, drawn by weight. */
const weighted = <Name extends string>(weights: Readonly<Record<Name, number>>) =>
  fc.oneof(
    ...Object.entries<number>(weights).map(([name, weight]) => ({
      weight,
      arbitrary: fc.constant(name as Name),
    })),
  );

/** Mostly absent. */
const rarely = <Value>(value: fc.Arbitrary<Value>) =>
  fc.oneof({ weight: 4, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: value });

// Fixed, so that a green change stays green.
fc.configureGlobal({ seed: 1 });

const stepDraw = fc.record({
  type: weighted({ worker: 12, approval: 2, condition: 1, delay: 2, transform: 2 }),
  dependsOn: fc.array(fc.nat({ max: 20 }), { maxLength: 3 }),
  input: weighted({ none: 8, reads: 8, broken: 1 }),
  condition: weighted({ none: 12, true: 1, false: 1, reads: 2, broken: 1 }),
  readsFrom: fc.array(fc.nat({ max: 20 }), { maxLength: 2 }),
  handler: rarely(fc.nat({ max: 20 })),
  retriesMax: fc.nat({ max: 2 }),
  hasTimeout: fc.boolean(),
});
type StepDraw = typeof stepDraw extends fc.Arbitrary<infer Value> ? Value : never;

/** Steps depend on earlier ones and are handled by any; expressions read any earlier step, ended or not. */
function definitionOf(draws: readonly StepDraw[], timeoutMs: number | undefined): CompiledDefinition {
  const ids = draws.map((_, index) => `s${index}`);
  const sketches: Record<string, StepSketch> = {};
  draws.forEach((draw, index) => {
    const earlier = (drawn: number) => ids[drawn % Math.max(1, index)] as string;
    const dependsOn = index === 0 ? [] : [...new Set(draw.dependsOn.map(earlier))];
    const readsFrom = index === 0 ? [] : [...new Set(draw.readsFrom.map(earlier))];
    const states = reads(readsFrom, ({ steps }) => ({ seen: steps as JsonValue }));
    const anyDone = reads(readsFrom, ({ steps }) => Object.keys(steps).length % 2 === 0);
    const conditions = { none: undefined, true: always(true), false: always(false), reads: anyDone, broken };
    const inputs = { none: undefined, reads: states, broken };
    const condition = conditions[draw.condition];
    const input = inputs[draw.input];
    const onError = draw.handler === undefined ? undefined : ids[draw.handler % ids.length];
    sketches[ids[index] as string] = {
      type: draw.type,
      dependsOn,
      retry: { retriesMax: draw.retriesMax },
      ...(condition === undefined ? {} : { condition }),
      ...(input === undefined ? {} : { input }),
      ...(onError === undefined ? {} : { onError }),
      ...(draw.hasTimeout ? { timeoutMs: 300 } : {}),
      ...(draw.type === "delay" ? { delay: { kind: "for", ms: index % 2 === 0 ? 40 : 0 } } : {}),
    };
  });
  return define(sketches, timeoutMs === undefined ? {} : { timeoutMs });
}

const definitions = fc
  .tuple(fc.array(stepDraw, { minLength: 2, maxLength: 12, size: "max" }), rarely(fc.constant(5_000)))
  .map(([draws, timeoutMs]) => definitionOf(draws, timeoutMs));

const moves = fc.record({
  kind: weighted({
    ...{ done: 6, fail: 1, retry: 2, lost: 2, duplicate: 1, stale: 1, timer: 3, oldTimer: 1 },
    ...{ approve: 2, reject: 1, poison: 1, back: 1 },
  }),
  pick: fc.nat({ max: 1_000 }),
});
type Move = typeof moves extends fc.Arbitrary<infer Value> ? Value : never;

/** Bursts arrive together; a cancel may come at any time. */
const schedules = fc.record({
  bursts: fc.array(fc.array(moves, { minLength: 1, maxLength: 5 }), { maxLength: 12, size: "max" }),
  cancelAt: rarely(fc.nat({ max: 12 })),
});

function pickFrom<Value>(values: readonly Value[], pick: number): Value | undefined {
  return values[pick % Math.max(1, values.length)];
}

const nameOf = (jobId: string) => jobId.slice(runId.length + 1);

/** Makes the same move in all worlds, chosen by what the first one shows. */
function make(worlds: readonly [World, ...World[]], { kind, pick }: Move): void {
  const [first] = worlds;
  const out = pickFrom(first.ready(), pick);
  const any = pickFrom([...first.jobs.values()], pick);
  const timer = pickFrom([...first.timers.keys()], pick);
  const waiting = [...first.approvals.values()].filter(({ state }) => state === "pending");
  const approval = pickFrom(waiting, pick)?.request.approvalId;
  const step = `s${pick % first.compiled.steps.size}`;
  for (const world of worlds) {
    if (kind === "done" && out) world.result(nameOf(out.jobId));
    if (kind === "fail" && out) world.result(nameOf(out.jobId), "failed", { error: { message: "no" } });
    if (kind === "retry" && out) world.result(nameOf(out.jobId), "failed_retryable", { error: null });
    if (kind === "lost" && out) world.loseClaim(nameOf(out.jobId));
    if (kind === "back" && out) world.result(nameOf(out.jobId), "handed_back", { handed_back_by: "w1" });
    if (kind === "duplicate" && any && any.state !== "ready") world.postResult(nameOf(any.jobId));
    if (kind === "stale") world.postResult(`${step}@${7 + (pick % 3)}`);
    if (kind === "timer" && timer) world.fire(timer);
    if (kind === "oldTimer") world.fire(`${pickFrom(["retry", "delay", "expiry"], pick)}/${step}@7`);
    if (kind === "approve" && approval) world.decide(nameOf(approval), "approved");
    if (kind === "reject" && approval) world.decide(nameOf(approval), "rejected");
    if (kind === "poison" && any && pick % 5 === 0) {
      const was = JSON.stringify({ kind: "result", entryId: "x", jobId: any.jobId });
      world.post({ kind: "poisoned", entryId: world.nextId(), was });
    }
  }
}

/** Gives every open thing what it waits for, until the run ends. */
function finish(world: World): void {
  for (let round = 0; !isTerminal(world.status); round += 1) {
    expect(round).toBeLessThan(200);
    for (const { jobId } of world.ready()) world.result(nameOf(jobId));
    for (const [id, { state }] of world.approvals)
      if (state === "pending") world.decide(nameOf(id), "approved");
    for (const timerId of world.timers.keys()) if (timerId !== "deadline") world.fire(timerId);
    expect(world.inbox.length).toBeGreaterThan(0);
    world.drain();
  }
}

type Schedule = typeof schedules extends fc.Arbitrary<infer Value> ? Value : never;

function play(worlds: readonly [World, ...World[]], schedule: Schedule, afterBurst: () => void): void {
  schedule.bursts.forEach((burst, index) => {
    for (const move of burst) make(worlds, move);
    if (schedule.cancelAt === index) for (const world of worlds) world.cancel();
    afterBurst();
  });
}

/** Payloads of jobs that one world never enqueued because a cancel came in the same batch are no difference. */
const stateOf = (world: World) => ({
  status: world.status,
  records: new Map([...world.records].sort()),
  timers: new Map([...world.timers].sort()),
  ready: world
    .ready()
    .map(({ jobId }) => jobId)
    .sort(),
});

describe("every workflow under every schedule", () => {
  test("ends, keeps its counters true, succeeds no step twice and needs at most two more loads", () => {
    fc.assert(
      fc.property(definitions, schedules, (compiled, schedule) => {
        const world = new World(compiled);
        play([world], schedule, () => world.drain());
        finish(world);
        const completed = world.events.filter((event) => event.startsWith("step_completed "));
        expect(new Set(completed).size).toBe(completed.length);
        const dispatched = world.timeline.filter(({ type }) => type === "step_dispatched");
        const names = dispatched.map(({ step, attempt }) => `${step}@${attempt}`);
        expect(new Set(names).size).toBe(names.length);
        for (const id of compiled.steps.keys()) {
          const attempts = dispatched.filter(({ step }) => step === id).map(({ attempt }) => attempt);
          expect(attempts).toEqual(attempts.map((_, index) => index + 1));
        }
        expect(world.peak.needsRounds).toBeLessThanOrEqual(2);
        expect(world.events.filter((event) => event === "run_completed")).toHaveLength(1);
      }),
      { numRuns: 1_000 },
    );
  });

  test("comes to the same records one entry at a time, in batches, in commits of a single step, or of any budget", () => {
    const paces = fc.record({
      stepsMax: fc.integer({ min: 1, max: 4 }),
      workMax: fc.integer({ min: 1, max: 200 }),
    });
    fc.assert(
      fc.property(definitions, schedules, paces, (compiled, schedule, { stepsMax, workMax }) => {
        const limits = { workMax };
        const worlds = [new World(compiled), new World(compiled), new World(compiled, { limits })] as const;
        // With a small budget a start goes to the inbox.
        worlds[2].drain(3, stepsMax);
        expect(stateOf(worlds[2])).toEqual(stateOf(worlds[0]));
        play(worlds, schedule, () => {
          worlds[0].drain(1);
          worlds[1].drain(128);
          worlds[2].drain(3, stepsMax);
          expect(stateOf(worlds[1])).toEqual(stateOf(worlds[0]));
          expect(stateOf(worlds[2])).toEqual(stateOf(worlds[0]));
        });
      }),
      { numRuns: 500 },
    );
  });

  test("an ended run is changed by nothing", () => {
    fc.assert(
      fc.property(definitions, schedules, schedules, (compiled, before, after) => {
        const world = new World(compiled);
        play([world], before, () => world.drain());
        world.cancel();
        world.drain();
        const ended = stateOf(world);
        play([world], after, () => {
          world.cancel();
          world.drain();
        });
        expect(stateOf(world)).toEqual(ended);
      }),
      { numRuns: 300 },
    );
  });
});
