// Random workflows over the whole language, in random orders: the engine comes to the end that the reference tells beforehand.
import { describe, expect, test } from "vitest";
import { interpret } from "../../src/testing/reference/interpret.ts";
import type { RunPicture } from "../../src/testing/reference/picture.ts";
import type { DrawOptions } from "../../src/testing/reference/sketch.ts";
import { drawGame, type Game, pathOf, playToEnd, startGame } from "./engine-player.ts";
import type { World } from "./engine-world.ts";

const options: DrawOptions = {
  rootsMax: 6,
  childWorkflows: 2,
  races: true,
  timeouts: true,
  moodyRate: 0.25,
  delaySec: 1,
  topics: ["left", "right"],
};

/** Says which seed broke, with all that is needed to see why. */
function forSeeds(from: number, count: number, check: (seed: number, notes: string[]) => void): void {
  for (let seed = from; seed < from + count; seed += 1) {
    const notes: string[] = [];
    try {
      check(seed, notes);
    } catch (error) {
      const told = error instanceof Error ? (error.stack ?? error.message) : String(error);
      throw new Error(`seed ${seed}\n${told}\n${notes.join("\n")}`, { cause: error });
    }
  }
}

function play(game: Game, notes: string[]): World {
  const { drawn, random } = game;
  for (const [id, text] of drawn.library) notes.push(`${id} ${JSON.stringify(text)}`);
  notes.push(`input ${JSON.stringify(drawn.input)}`, `moods ${JSON.stringify([...drawn.moods])}`);
  const root = startGame(game);
  const pace = () => ({ batch: random.pick([1, 3, 128]), stepsMax: random.pick([1, 2, 3, 128]) });
  playToEnd(game, root, pace, (name) => notes.push(name));
  return root;
}

function expectPicture(world: World, picture: RunPicture): void {
  const path = pathOf(world);
  const wrong: string[] = [];
  const see = (what: string, seen: unknown, allowed: readonly unknown[]) => {
    if (!allowed.some((one) => JSON.stringify(one) === JSON.stringify(seen)))
      wrong.push(`${path} ${what} is ${JSON.stringify(seen)}, not ${JSON.stringify(allowed)}`);
  };
  see("run", world.status, picture.allowed);
  const { shown } = world;
  for (const [id, { allowed, output }] of picture.steps) {
    const isItem = id.endsWith("]");
    const isIffy = allowed.length > 1;
    const status = isItem ? world.step(id).status : shown[id];
    if (!(isItem && isIffy)) see(id, status, allowed);
    if (output !== undefined) see(`output of ${id}`, world.output(id), [output.value]);
  }
  if (wrong.length > 0) throw new Error(wrong.join("\n"));
}

describe("every workflow of the whole language under every schedule", () => {
  test("comes to the end that the reference tells", () => {
    forSeeds(1, 1_000, (seed, notes) => {
      const game = drawGame(seed, options);
      const root = play(game, notes);
      const { drawn, oracle } = game;
      const pictures = interpret(drawn.library, drawn.root, drawn.input, oracle);
      const runs = new Map([...root.cluster.worlds.values()].map((world) => [pathOf(world), world]));
      const certain = [...pictures].filter(([, { isCertain }]) => isCertain);
      for (const [path, picture] of certain) {
        const world = runs.get(path);
        if (world === undefined) throw new Error(`run ${path} was never started`);
        expectPicture(world, picture);
      }
      for (const path of runs.keys()) expect([...pictures.keys()]).toContain(path);
    });
  }, 60_000);
});
