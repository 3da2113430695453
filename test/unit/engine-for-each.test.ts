// A for_each of thousands of items: what each result costs, how much one commit may do, and what a failure leaves behind.
import { describe, expect, test } from "vitest";
import { go, out, start } from "./engine-examples.ts";
import type { World } from "./engine-world.ts";

function startItems(count: number, parallelMax: number, more: Record<string, string> = {}): World {
  const list = Array.from({ length: count }, (_, index) => index);
  const steps = {
    each: { for_each: "input.list", max_parallel: parallelMax, input: { n: "${item}" }, ...more },
    after: { depends_on: ["each"], input: { first: "${steps.each.output[0].of}" } },
  };
  const world = start(steps, { input: { list } });
  world.countsEachCommit = false;
  return world;
}

/** What the results of some items take each: records read and written, loads besides the first. */
function costsOf(world: World, from: number, to: number): Set<string> {
  const costs = new Set<string>();
  for (let index = from; index < to; index += 1) {
    Object.assign(world.peak, { needsRounds: 0, recordsRead: 0, recordsWritten: 0 });
    go(world, `each[${index}]@1`);
    const { recordsRead, recordsWritten, needsRounds } = world.peak;
    costs.add(`${recordsRead} read, ${recordsWritten} written, ${needsRounds} more loads`);
  }
  return costs;
}

describe("a for_each of thousands of items", () => {
  test("takes the same few records for every result, however many items there are", () => {
    const [small, large] = [startItems(200, 8), startItems(2_000, 8)];
    const few = costsOf(small, 0, 60);
    costsOf(large, 0, 1_900);
    expect(costsOf(large, 1_900, 1_960)).toEqual(few);
    expect([...few]).toEqual(["5 read, 5 written, 1 more loads"]);
  });

  test("begins, ends and collects in commits of a bounded size", () => {
    const world = startItems(1_000, 1_000);
    expect(out(world)).toHaveLength(1_000);
    for (let index = 0; index < 1_000; index += 1) world.result(`each[${index}]@1`);
    world.drain();
    expect(world.output("each")).toHaveLength(1_000);
    expect([world.shown.each, world.body("job-input/after@1")]).toEqual([
      "succeeded",
      { first: "each[0]@1" },
    ]);
  });

  test("that fails takes back all open items, also when an owner breaks in the middle of it", () => {
    for (const isBroken of [false, true]) {
      const world = startItems(300, 300);
      world.result("each[7]@1", "failed", { error: null });
      world.applyOnce(1, 50);
      expect(out(world).length).toBeGreaterThan(200);
      const [head] = world.inbox;
      const poisoned = { kind: "poisoned", entryId: "p", was: JSON.stringify(head) } as const;
      if (isBroken) world.inbox = [poisoned];
      world.drain(128, 50);
      expect([world.status, out(world)]).toEqual(["failed", []]);
    }
  });

  test("whose outputs are too large together still succeeds, and only reading them fails", () => {
    const world = startItems(6, 6);
    for (let index = 0; index < 6; index += 1) {
      world.result(`each[${index}]@1`, "succeeded", { output: "x".repeat(60_000) });
    }
    world.drain();
    expect([world.shown.each, world.shown.after, world.step("each").omitted]).toEqual([
      "succeeded",
      "failed",
      true,
    ]);
  });
});
