// Random workflows over the whole language, in random orders: the engine ends as the reference predicts.
import { describe, expect, test } from "vitest";
import { interpret } from "../../proof/reference/interpret.ts";
import type { Oracle } from "../../proof/reference/oracle.ts";
import type { RunPicture } from "../../proof/reference/picture.ts";
import type { DrawOptions } from "../../proof/reference/sketch.ts";
import { planRerun } from "../../src/domain/engine/copy-steps.ts";
import { isTerminal, parseRunId, type RunId } from "../../src/domain/run.ts";
import type { CompiledDefinition } from "../../src/domain/workflow/compiled.ts";
import { checkSettled } from "./engine-checks.ts";
import {
  drawGame,
  type Game,
  movesOf,
  oracleOf,
  pathOf,
  playToEnd,
  retriesIn,
  startGame,
} from "./engine-player.ts";
import { World } from "./engine-world.ts";

const everything: DrawOptions = {
  rootsMax: 7,
  childWorkflows: 2,
  races: true,
  mayDoWithout: true,
  timeouts: true,
  moodyRate: 0.3,
  delaySec: 1,
  topics: ["left", "right"],
};

/** Says which seed broke, with all that is needed to see why. */
function forSeeds(
  count: number,
  options: DrawOptions,
  check: (game: Game, notes: string[], root: World) => void,
): void {
  for (let seed = 1; seed <= count; seed += 1) {
    const notes: string[] = [];
    try {
      const game = drawGame(seed, options);
      const { library, input, moods } = game.drawn;
      for (const [id, text] of library) notes.push(`${id} ${JSON.stringify(text)}`);
      notes.push(`input ${JSON.stringify(input)}`, `moods ${JSON.stringify([...moods])}`);
      check(game, notes, startGame(game));
    } catch (error) {
      const told = error instanceof Error ? (error.stack ?? error.message) : String(error);
      throw new Error(`seed ${seed}\n${told}\n${notes.join("\n")}`, { cause: error });
    }
  }
}

const anyPace = ({ random }: Game) => ({
  batch: random.pick([1, 3, 128]),
  stepsMax: random.pick([1, 2, 3, 128]),
});

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

function expectStory({ drawn }: Game, oracle: Oracle, root: World): void {
  const pictures = interpret(drawn.library, drawn.root, drawn.input, oracle);
  const runs = new Map([...root.cluster.worlds.values()].map((world) => [pathOf(world), world]));
  for (const [path, picture] of pictures) {
    const world = runs.get(path);
    if (!picture.isCertain) continue;
    if (world === undefined) throw new Error(`run ${path} was never started`);
    expectPicture(world, picture);
  }
  for (const path of runs.keys()) expect([...pictures.keys()]).toContain(path);
}

const stateOf = (world: World) => ({
  status: world.status,
  records: new Map([...world.records].sort()),
  timers: new Map([...world.timers].sort()),
  out: world
    .ready()
    .map(({ jobId }) => jobId)
    .sort(),
});

/** A child that was started and taken back in the same commit was never created. */
function expectSameRuns(one: World, other: World): void {
  const ids = new Set([...one.cluster.worlds.keys(), ...other.cluster.worlds.keys()]);
  for (const id of ids) {
    const [left, right] = [one.cluster.worlds.get(id), other.cluster.worlds.get(id)];
    if (left !== undefined && right !== undefined) expect(stateOf(left)).toEqual(stateOf(right));
    else expect((left ?? right)?.status).toBe("cancelled");
  }
}

describe("every workflow of the whole language under every schedule", () => {
  test("comes to the end that the reference tells", () => {
    forSeeds(600, everything, (game, notes, root) => {
      playToEnd(game, root, () => anyPace(game), {
        moves: () => movesOf(game.oracle, root),
        onMove: (name) => notes.push(name),
        disturbs: true,
      });
      expectStory(game, game.oracle, root);
    });
  });

  test("comes to the same records one entry at a time, in batches, or in commits of a few steps or a small budget", () => {
    forSeeds(150, everything, (game, notes, root) => {
      const others = [startGame(game), startGame(game, { workMax: 100 })] as const;
      const { random } = game;
      for (let round = 0; ; round += 1) {
        expect(round).toBeLessThan(2_000);
        root.cluster.drain(1, 128);
        others[0].cluster.drain(128, 128);
        others[1].cluster.drain(3, random.integer(1, 4));
        for (const other of others) expectSameRuns(root, other);
        const open = [...movesOf(game.oracle, root)];
        if (open.length === 0) break;
        for (let count = random.integer(1, 4); count > 0 && open.length > 0; count -= 1) {
          const [chosen] = open.splice(random.integer(0, open.length - 1), 1);
          notes.push(chosen?.name ?? "");
          for (const { cluster } of [root, ...others]) chosen?.make(cluster);
        }
      }
    });
  });

  test("leaves nothing behind when it is cancelled at any time", () => {
    forSeeds(200, everything, (game, notes, root) => {
      let left = game.random.integer(0, 12);
      playToEnd(game, root, () => anyPace(game), {
        moves: () => {
          left -= 1;
          return left < 0 ? [] : movesOf(game.oracle, root);
        },
        onMove: (name) => notes.push(name),
        disturbs: false,
      });
      const before = root.status;
      root.cancel();
      root.cluster.drain(game.random.pick([1, 128]), game.random.pick([1, 2, 128]));
      expect(root.status).toBe(isTerminal(before) ? before : "cancelled");
      for (const world of root.cluster.worlds.values()) {
        expect([world.runId, isTerminal(world.status)]).toEqual([world.runId, true]);
        checkSettled(world);
      }
    });
  });

  test("goes on as if nothing had failed when every dead letter is retried", () => {
    const options = { ...everything, childWorkflows: 0, races: false, mayDoWithout: false };
    forSeeds(250, options, (game, notes, root) => {
      // Some results will never fit, however often they are asked for.
      const isRetried = ({ attempt }: { readonly attempt: number }) => attempt < 15;
      const oracle = { ...game.oracle, isRetried };
      const retried = new Set<string>();
      playToEnd(game, root, () => anyPace(game), {
        moves: () => movesOf(game.oracle, root, retriesIn(root, isRetried, retried)),
        onMove: (name) => notes.push(name),
        disturbs: false,
      });
      expectStory(game, oracle, root);
    });
  });

  test("does again, from any step, what depends on it or was not done, and keeps the rest", () => {
    const again = parseRunId("run_07_abcdefgh99") as RunId;
    forSeeds(
      250,
      { ...everything, childWorkflows: 1, races: false, timeouts: false },
      (game, notes, root) => {
        const { drawn, oracle, random, compiled } = game;
        const play = { onMove: (name: string) => notes.push(name), disturbs: false };
        playToEnd(game, root, () => anyPace(game), { ...play, moves: () => movesOf(oracle, root) });
        const definition = compiled.get(drawn.root) as CompiledDefinition;
        const fromStep = random.pick([...definition.steps.keys()]);
        const plan = planRerun(definition, (id) => root.step(id), fromStep);
        if (plan.kind !== "plan" || leavesHandlers(definition, plan.kept)) return;
        notes.push(`again from ${fromStep}, keeping ${[...plan.kept]}`);
        const { cluster } = root;
        const rerun = { of: root.runId, fromStep };
        const world = new World(definition, { cluster, input: drawn.input, runId: again, rerun });
        // A step that hung or failed succeeds from now on.
        const good = oracleOf({ ...drawn, moods: new Map() }, 1);
        playToEnd(game, world, () => anyPace(game), { ...play, moves: () => movesOf(good, world) });
        const before = interpret(drawn.library, drawn.root, drawn.input, oracle).get("");
        const ended = new Map([...(before?.ended ?? [])].filter(([id]) => isKept(plan.kept, id)));
        const kept = { ended, chosen: before?.chosen ?? new Map() };
        const picture = interpret(drawn.library, drawn.root, drawn.input, good, kept).get("");
        if (picture !== undefined) expectPicture(world, withoutItems(picture));
      },
    );
  });
});

/** The handler of a child that is kept as it failed does not begin again. */
function leavesHandlers({ steps }: CompiledDefinition, kept: ReadonlySet<string>): boolean {
  return [...steps.values()].some(
    ({ id, controller, onError }) =>
      controller !== undefined && onError !== undefined && kept.has(id) && !kept.has(onError),
  );
}

const isKept = (kept: ReadonlySet<string>, id: string) => kept.has(id.replace(/\[\d+\]$/, ""));

/** The items of a step that is kept stay with the earlier run. */
function withoutItems(picture: RunPicture): RunPicture {
  return { ...picture, steps: new Map([...picture.steps].filter(([id]) => !id.endsWith("]"))) };
}
