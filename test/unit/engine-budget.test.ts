// What one commit may cost: evaluations share a budget, the rest follows in the next commit, and the run ends all the same.
import { describe, expect, test, vi } from "vitest";
import { apply, firstCommit } from "../../src/domain/engine/apply.ts";
import { changeWorkMax, defaultLimits } from "../../src/domain/engine/draft.ts";
import { playDryRun } from "../../src/domain/engine/dry-run.ts";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import { workMax } from "../../src/domain/workflow/work-count.ts";
import { type Fields, go, type Steps, start } from "./engine-examples.ts";
import { compileText } from "./engine-player.ts";
import { runId, tenant, World, type WorldOptions } from "./engine-world.ts";

const numbers = Array.from({ length: 2_000 }, (_, index) => index);
const costly = `input.numbers.all(x, ${Array.from({ length: 20 }, () => "x >= 0").join(" && ")})`;
const unlimited = { workMax: Number.MAX_SAFE_INTEGER };

const costlyLoop = (iterations: number): Steps => ({
  turn: { type: "loop", input: { body: "body", max_iterations: iterations, while: costly } },
  body: { type: "transform", input: { turn: "${loop.iteration}" } },
});

const chain = (count: number, step: Fields): Steps =>
  Object.fromEntries(
    Array.from({ length: count }, (_, index) => [
      `s${index}`,
      { ...step, ...(index === 0 ? {} : { depends_on: [`s${index - 1}`] }) },
    ]),
  );

const recordsOf = (world: World) => new Map([...world.records].sort());

/** All commits of a run by itself, each with what it cost. */
function commitsOf(steps: Steps, input: JsonValue, limits = defaultLimits): readonly number[] {
  const compiled = compileText("wf", { id: "wf", steps });
  const facts = { runId, tenant, actor: "key_1", input, nowMs: 0, separateDuties: false };
  const started = firstCommit(compiled, facts, limits);
  const costs = [started.work];
  const records = new Map<string, string | undefined>(
    started.change.records.map(({ key, body }) => [key, body]),
  );
  const view = { runId, tenant, actor: "key_1", version: 1, records };
  for (let isOver = !started.large; !isOver; ) {
    const applied = apply(compiled, view, [{ kind: "started", entryId: "started" }], 0, limits);
    costs.push(applied.work);
    if (applied.kind === "needs") for (const key of applied.records) records.set(key, undefined);
    else for (const { key, body } of applied.change.records) records.set(key, body);
    isOver = applied.kind === "applied" && applied.consumed > 0;
  }
  return costs;
}

describe("the budget of a commit", () => {
  test("is never overdrawn by more than one expression", () => {
    const costs = commitsOf(costlyLoop(16), { numbers });
    expect(costs.length).toBeGreaterThan(5);
    expect(Math.max(...costs)).toBeLessThan(changeWorkMax + 1.25 * workMax);
  });

  test("is counted: the same run makes the same commits every time", () => {
    expect(commitsOf(costlyLoop(6), { numbers })).toEqual(commitsOf(costlyLoop(6), { numbers }));
  });

  test.each([
    ["a loop", costlyLoop(30)],
    ["steps one after the other", chain(20, { type: "transform", input: { ok: `\${${costly}}` } })],
    [
      "steps beside each other",
      Object.fromEntries(
        Array.from({ length: 20 }, (_, index) => [`s${index}`, { input: { ok: `\${${costly}}` } }]),
      ),
    ],
    ["conditions", chain(20, { condition: costly, type: "transform", input: {} })],
    [
      "a parallel",
      {
        all: { type: "parallel", input: { steps: ["a", "b", "c"] } },
        a: { condition: costly },
        b: { condition: costly },
        c: { condition: costly },
      },
    ],
    [
      "a list that is costly to make",
      { each: { for_each: `${costly} ? input.numbers : []`, max_parallel: 5 } },
    ],
  ] as ReadonlyArray<readonly [string, Steps]>)(
    "%s: any budget comes to the same records",
    (_name, steps) => {
      const play = (options: WorldOptions) =>
        start(steps, { ...options, input: { numbers: numbers.slice(0, 200) } });
      const whole = play({ limits: unlimited });
      const versions = [40_000, 1].map((limit) => {
        const world = play({ limits: { workMax: limit } });
        expect(recordsOf(world)).toEqual(recordsOf(whole));
        return world.version;
      });
      expect(versions[1]).toBeGreaterThan(whole.version);
    },
  );

  test("a start that has none left is left to the inbox", () => {
    const compiled = compileText("wf", {
      id: "wf",
      steps: { a: { type: "transform", input: { x: "${input.x}" } } },
    });
    const facts = { runId, tenant, actor: "key_1", input: { x: 1 }, nowMs: 1, separateDuties: false };
    const startBy = (limit: number) => firstCommit(compiled, facts, { ...defaultLimits, workMax: limit });
    expect([startBy(0), startBy(-5)]).toMatchObject([{ large: true, work: 0 }, { large: true }]);
    expect(startBy(1)).toMatchObject({ large: false, change: { status: "succeeded" } });
  });
});

describe("what is read for expressions", () => {
  const long = "x".repeat(200_000);
  const readsOf = (play: () => unknown) => {
    const parse = vi.spyOn(JSON, "parse");
    try {
      play();
      return parse.mock.calls.filter(([text]) => text.length > 100_000).length;
    } finally {
      parse.mockRestore();
    }
  };

  test("a large input is read once in a commit, however many steps ask for it", () => {
    const world = start(
      {
        a: {},
        ...chain(60, { type: "transform", input: { x: "${input.x}" }, depends_on: ["a"] }),
        s0: { type: "transform", input: { x: "${input.x}" }, depends_on: ["a"] },
      },
      { input: { long, x: 1 } },
    );
    const before = world.version;
    const reads = readsOf(() => go(world, "a@1"));
    expect(world.status).toBe("succeeded");
    expect(reads).toBeLessThanOrEqual(world.version - before);
  });

  test("the outputs of a list are not all read when they are too large to be kept together", () => {
    const world = start(
      { each: { for_each: "input.items", max_parallel: 100 } },
      { input: { items: numbers.slice(0, 100) } },
    );
    for (const { jobId } of world.ready())
      world.result(jobId.slice(runId.length + 1), "succeeded", { output: long });
    const reads = readsOf(() => world.drain());
    expect([world.status, world.step("each").omitted]).toEqual(["succeeded", true]);
    expect(reads).toBeLessThanOrEqual(4);
  });

  test("outputs that are too costly to be read together fail the step that asks for them", () => {
    const names = numbers.slice(0, 4).map((index) => `w${index}`);
    const steps: Steps = {
      ...Object.fromEntries(names.map((name) => [name, {}])),
      all: {
        type: "transform",
        input: { n: `\${${names.map((name) => `size(steps.${name}.output)`).join(" + ")}}` },
        depends_on: names,
      },
    };
    const world = start(steps);
    const lists = Array.from({ length: 80_000 }, () => []);
    for (const name of names) world.result(`${name}@1`, "succeeded", { output: lists });
    world.drain();
    expect(world.step("all").error?.message).toBe(
      "the outputs that the expression reads are too large together",
    );
  });
});

describe("a switch", () => {
  const pick = (count: number): Steps => ({
    pick: {
      type: "switch",
      input: {
        cases: Array.from({ length: count }, (_, index) => ({
          when: `\${${costly} && input.numbers[0] == ${index + 1}}`,
          next: "a",
        })),
        default: "a",
      },
    },
    a: {},
  });

  test("goes through the cases that two expressions could pay for, and fails beyond them", () => {
    expect(start(pick(2), { input: { numbers } }).shown).toEqual({ pick: "succeeded", a: "running" });
    const world = start(pick(40), { input: { numbers } });
    expect(world.step("pick").error?.message).toBe("the cases of the switch take too many steps together");
  });
});

describe("places in ctx", () => {
  /** One step gives an object of many names, others write below it, and a last one reads it: the CPU time of that. */
  const cpuOf = (scale: number) => {
    const writers = Array.from({ length: 50 * scale }, (_, index) => `w${index}`);
    const input = (index: number) => ({ operation: "write", key: `base.more${index}`, value: index });
    const steps: Steps = {
      base: { output_path: "base" },
      ...Object.fromEntries(
        writers.map((id, index) => [id, { type: "storage", input: input(index), depends_on: ["base"] }]),
      ),
      gate: {},
      seen: { type: "transform", input: { n: "${size(ctx.base)}" }, depends_on: [...writers, "gate"] },
    };
    const world = new World(compileText("wf", { id: "wf", steps }));
    world.countsEachCommit = false;
    world.drain();
    const names = numbers.slice(0, 250 * scale).map((number) => [`name${number}`, number]);
    world.result("base@1", "succeeded", { output: Object.fromEntries(names) });
    world.drain();
    world.result("gate@1");
    const before = process.cpuUsage();
    world.drain();
    const used = process.cpuUsage(before);
    expect(world.output("seen")).toEqual({ n: 300 * scale });
    return used.user + used.system;
  };
  const leastOf = (scale: number) => Math.min(cpuOf(scale), cpuOf(scale), cpuOf(scale));

  test("are put together in proportion to what is there: names are not copied again for each who writes", () => {
    leastOf(1);
    // Eight times as many writers and names would take 64 times as long.
    expect(leastOf(8) / leastOf(1)).toBeLessThan(30);
  });
});

describe("a dry run", () => {
  const play = (steps: Steps, input: JsonValue, outputs: Readonly<Record<string, JsonValue>> = {}) => {
    const played = playDryRun(compileText("wf", { id: "wf", steps }), {
      tenant,
      input,
      outputs,
      nowMs: 1_000,
    });
    let slices = 1;
    for (let slice = played.next(); ; slice = played.next()) {
      if (slice.done === true) return { ...slice.value, slices };
      slices += 1;
    }
  };

  test("is cut off by its work as a whole, in slices, the same way every time", () => {
    const first = play(costlyLoop(10_000), { numbers });
    expect(first).toMatchObject({ truncated: true, truncatedBecause: "work" });
    expect(first.slices).toBeGreaterThan(20);
    expect(play(costlyLoop(10_000), { numbers })).toEqual(first);
  });

  test("of an ordinary workflow is one slice and whole", () => {
    const played = play(
      { a: {}, b: { depends_on: ["a"], input: { x: "${steps.a.output.x}" } } },
      {},
      { a: { x: 1 } },
    );
    expect(played).toMatchObject({ truncated: false, slices: 1, status: "succeeded" });
    expect(played.steps[1]).toMatchObject({ step_id: "b", input: { x: 1 } });
    expect(played).not.toHaveProperty("truncatedBecause");
  });

  test("shows no more than somebody reads, however large the outputs given", () => {
    const played = play(
      { each: { for_each: "input.numbers" } },
      { numbers: numbers.slice(0, 50) },
      { each: "x".repeat(200_000) },
    );
    expect(played).toMatchObject({ truncated: true, truncatedBecause: "size" });
    expect(JSON.stringify(played).length).toBeLessThan(3_000_000);
  });

  test("lets the earliest wait end first", () => {
    const nap = (seconds: number) => ({ type: "delay", delay_sec: seconds });
    const played = play(
      { long: nap(9), short: nap(1), after: { depends_on: ["short"] }, last: { depends_on: ["long"] } },
      {},
    );
    expect(played.steps.map(({ step_id }) => step_id)).toEqual(["long", "short", "after", "last"]);
  });
});
