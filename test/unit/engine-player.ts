// Plays random workflows on the engine: workers and people answer as the oracle says, in random order.
import { expect } from "vitest";
import { type DrawnWorkflows, drawWorkflows } from "../../proof/reference/draw-workflow.ts";
import { type Attempt, childPath, createOracle, type Oracle } from "../../proof/reference/oracle.ts";
import type { DrawOptions } from "../../proof/reference/sketch.ts";
import type { EngineLimits } from "../../src/domain/engine/draft.ts";
import { type AttemptName, attemptOf, parseTimer } from "../../src/domain/engine/keys.ts";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import { isTerminal } from "../../src/domain/run.ts";
import { compileDefinition } from "../../src/domain/workflow/compile.ts";
import type { CompiledDefinition } from "../../src/domain/workflow/compiled.ts";
import { readDefinition } from "../../src/domain/workflow/definition.ts";
import { createSeededRandom, type SeededRandom } from "../../src/testing/seeded-random.ts";
import { checkSettled } from "./engine-checks.ts";
import { Cluster, World } from "./engine-world.ts";

/** A step that waits for something, and how it goes on. */
export type Move = { readonly name: string; make(cluster: Cluster): void };

export type Game = {
  readonly drawn: DrawnWorkflows;
  readonly compiled: ReadonlyMap<string, CompiledDefinition>;
  readonly oracle: Oracle;
  readonly random: SeededRandom;
};

export function drawGame(seed: number, options: DrawOptions): Game {
  const random = createSeededRandom(seed);
  const drawn = drawWorkflows(random.stream("workflow"), "wf", options);
  const compiled = new Map(
    [...drawn.library].map(([id, text]) => [id, compileText(id, text as unknown as JsonValue)]),
  );
  return { drawn, compiled, oracle: oracleOf(drawn, seed), random: random.stream("order") };
}

export function oracleOf(drawn: DrawnWorkflows, seed: number): Oracle {
  return createOracle(seed, drawn.moods, (run) => workflowAt(drawn, run));
}

export function compileText(id: string, text: JsonValue): CompiledDefinition {
  // All of them ask for it: every change then says whether the run only waits, and the world counts that anew.
  const reading = readDefinition({ ...(text as object), slots: "release_while_waiting" });
  if (reading.kind === "invalid") {
    throw new Error(`${JSON.stringify(reading.problems)} in ${JSON.stringify(text, undefined, 1)}`);
  }
  return compileDefinition(id, reading.definition);
}

/** The workflow of a run, by the steps on the way to it. */
function workflowAt({ library, root }: DrawnWorkflows, run: string): string {
  let workflow = root;
  for (const part of run.split("/").slice(1)) {
    const step = library.get(workflow)?.steps[part.slice(0, part.lastIndexOf("@"))];
    workflow = String((step?.input as { readonly workflow_id?: string } | undefined)?.workflow_id);
  }
  return workflow;
}

export function startGame({ drawn, compiled }: Game, limits: Partial<EngineLimits> = {}): World {
  const cluster = new Cluster(compiled);
  const definition = compiled.get(drawn.root) as CompiledDefinition;
  return new World(definition, { cluster, input: drawn.input, limits });
}

/** The path of a run from its root, as the reference names it. */
export function pathOf(world: World): string {
  const { parent, cluster } = world;
  const above = parent === undefined ? undefined : cluster.worlds.get(parent.runId);
  if (parent === undefined || above === undefined) return "";
  return childPath({ run: pathOf(above), step: parent.step, attempt: parent.attempt });
}

/** All that can happen next; what gives up waiting comes only when nothing else can, the innermost run first. */
export function movesOf(oracle: Oracle, root: World, more: readonly Move[] = []): readonly Move[] {
  const worlds = [...root.cluster.worlds.values()].filter(({ status }) => !isTerminal(status));
  const moves = [...more, ...worlds.flatMap((world) => movesIn(oracle, world))];
  if (moves.length > 0) return moves;
  const deepest = worlds.sort((left, right) => (right.parent?.depth ?? 0) - (left.parent?.depth ?? 0));
  const limits = deepest.map((world) => timersOf(world, (step) => isLimit(world, step)));
  return limits.find((some) => some.length > 0) ?? [];
}

function isLimit(world: World, step: string): boolean {
  const { waitingFor } = world.step(step);
  return waitingFor === "children" || waitingFor === "child_run";
}

function timersOf(world: World, isMeant: (step: string) => boolean): readonly Move[] {
  return [...world.timers.keys()].flatMap((timerId) => {
    const timer = parseTimer(timerId);
    if (timer?.kind !== "timeout" || !isMeant(timer.step)) return [];
    return [move(world, timerId, (it) => it.fire(timerId))];
  });
}

function move(world: World, what: string, act: (world: World) => void): Move {
  const { runId } = world;
  return {
    name: `${pathOf(world)} ${what}`,
    make: (cluster) => act(cluster.worlds.get(runId) as World),
  };
}

function movesIn(oracle: Oracle, world: World): readonly Move[] {
  const run = pathOf(world);
  const waits = [...world.timers.keys()].filter((timerId) => /^(delay|retry)\//.test(timerId));
  return [
    ...world.ready().flatMap(({ jobId, inputKey }) => {
      const place = { run, ...(attemptOf(world.runId, jobId) as Omit<Attempt, "run">) };
      return answer(oracle, world, place, world.body(inputKey) as JsonValue);
    }),
    ...[...world.approvals].flatMap(([id, { state }]) =>
      state === "pending"
        ? decision(oracle, world, { run, ...(attemptOf(world.runId, id) as Omit<Attempt, "run">) })
        : [],
    ),
    ...waits.map((timerId) => move(world, timerId, (it) => it.fire(timerId))),
    ...world.held().map(({ step, attempt }) => {
      const job = `${step}@${attempt}`;
      return move(world, `${job} allowed`, (it) => it.verdict(job, "allow"));
    }),
  ];
}

function answer(oracle: Oracle, world: World, place: Attempt, input: JsonValue): readonly Move[] {
  const job = `${place.step}@${place.attempt}`;
  const given = oracle.work(place, input);
  switch (given.kind) {
    case "output":
      return [move(world, `${job} done`, (it) => it.result(job, "succeeded", { output: given.output }))];
    case "retryable":
      return [move(world, `${job} retryable`, (it) => it.result(job, "failed_retryable", { error: null }))];
    case "failed":
      return [move(world, `${job} failed`, (it) => it.result(job, "failed", { error: { message: "no" } }))];
    case "timeout":
      return [move(world, `${job} timeout`, (it) => it.fire(`timeout/${job}`))];
    case "handed_back":
      return [move(world, `${job} handed back`, (it) => it.result(job, "handed_back", {}))];
    case "lost":
      return [move(world, `${job} lost`, (it) => it.loseClaim(job))];
    case "never":
      return [];
  }
}

function decision(oracle: Oracle, world: World, place: Attempt): readonly Move[] {
  const name = `${place.step}@${place.attempt}`;
  const verdict = oracle.decide(place);
  if (verdict === "never") return [];
  if (verdict === "expired") return [move(world, `${name} expired`, (it) => it.fire(`expiry/${name}`))];
  return [move(world, `${name} ${verdict}`, (it) => it.decide(name, verdict))];
}

/** Entries that nobody should notice: results and timers of attempts that are over, or never were. */
export function disturb(world: World, random: SeededRandom): void {
  const over = [...world.jobs.values()].filter(({ state }) => state !== "ready" && state !== "held");
  const job = over.length === 0 ? undefined : attemptOf(world.runId, random.pick(over).jobId);
  if (job !== undefined) {
    const name = `${job.step}@${job.attempt}`;
    if (!world.inbox.some((entry) => "jobId" in entry && entry.jobId.endsWith(`:${name}`))) {
      world.postResult(name, random.pick(["succeeded", "failed", "failed_retryable", "handed_back"]));
    }
    world.fire(`retry/${name}`);
  }
  const steps = [...world.compiled.steps.keys()];
  world.fire(`${random.pick(["retry", "delay", "timeout", "expiry"])}/${random.pick(steps)}@77`);
}

export type Pace = { readonly batch: number; readonly stepsMax: number };

export type Play = {
  /** What can happen next; nothing more when it is empty. */
  moves(): readonly Move[];
  onMove(name: string): void;
  readonly disturbs: boolean;
};

/** Plays to the end, a few moves between two drains. */
export function playToEnd({ random }: Game, root: World, pace: () => Pace, play: Play): void {
  for (let round = 0; ; round += 1) {
    expect(round).toBeLessThan(2_000);
    const { batch, stepsMax } = pace();
    root.cluster.drain(batch, stepsMax);
    for (const world of root.cluster.worlds.values()) checkSettled(world);
    const open = [...play.moves()];
    if (open.length === 0) return;
    for (let count = random.integer(1, 3); count > 0 && open.length > 0; count -= 1) {
      const [chosen] = open.splice(random.integer(0, open.length - 1), 1);
      play.onMove(chosen?.name ?? "");
      chosen?.make(root.cluster);
    }
    if (!play.disturbs || !random.chance(0.1)) continue;
    for (const world of root.cluster.worlds.values()) disturb(world, random);
  }
}

/** Every dead letter that is to be retried, once. */
export function retriesIn(
  world: World,
  isRetried: (name: AttemptName) => boolean,
  retried: Set<string>,
): readonly Move[] {
  return world.deadLetters.flatMap(({ id }) => {
    const name = attemptOf(world.runId, id);
    if (name === undefined || retried.has(id) || !isRetried(name)) return [];
    const job = `${name.step}@${name.attempt}`;
    return [
      move(world, `${job} retried`, (it) => {
        retried.add(id);
        it.retry(job);
      }),
    ];
  });
}
