// The table of step types and situations: what a cell is, how it is played, and what must hold at its end.
import { expect } from "vitest";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import { isTerminal, type RunId } from "../../src/domain/run.ts";
import type { Ended, Event, Scene, Steps, Work } from "./step-types-world.ts";

export const situations = ["success", "failure", "retry", "timeout", "cancel", "restart"] as const;
export type Situation = (typeof situations)[number];

export type Cell = {
  /** Why the situation cannot happen to this type. The cell then shows what happens instead. */
  readonly cannot?: string;
  /** What must hold, as a sentence. */
  readonly shows: string;
  readonly steps: Steps;
  /** Workflows that the steps start. */
  readonly others?: Readonly<Record<string, Steps>>;
  readonly input?: JsonValue;
  /** What the worker of topic `work` does; by default it gives back its input. */
  readonly work?: (scene: Scene) => Work;
  /** For `restart`: waits until the step is in the middle. The process dies then. */
  readonly middle?: (scene: Scene, runId: RunId) => Promise<unknown>;
  /** What somebody does while the run is under way; after a restart, in the next process. */
  readonly script?: (scene: Scene, runId: RunId) => Promise<unknown>;
  readonly ends: Ending;
};

export type Ending = {
  readonly status: string;
  /** Of every step. */
  readonly steps: Readonly<Record<string, string>>;
  readonly outputs?: Readonly<Record<string, JsonValue>>;
  readonly attempts?: Readonly<Record<string, number>>;
  /** Codes of errors, or messages of workers. */
  readonly errors?: Readonly<Record<string, string>>;
  /** Events in this order, with others between them: `step_completed a`. */
  readonly timeline?: readonly string[];
  readonly never?: readonly string[];
  /** Steps that began and ended in one commit: nobody can come between. */
  readonly atOnce?: readonly string[];
  readonly more?: (scene: Scene, ended: Ended) => Promise<unknown>;
};

export type Row = Readonly<Record<Situation, Cell>>;

/** Plays a cell to its end. `restart` is when the process is to die; those who come there wait for each other. */
export async function play(scene: Scene, cell: Cell, restart: () => Promise<void>): Promise<void> {
  for (const [id, steps] of Object.entries(cell.others ?? {})) await scene.save(id, steps);
  await scene.save("flow", cell.steps);
  const work = cell.work?.(scene) ?? (({ input }) => input);
  scene.worker(work);
  const runId = await scene.start("flow", cell.input);
  if (cell.middle !== undefined) {
    await cell.middle(scene, runId);
    await restart();
    expect(isTerminal((await scene.header(runId)).status), "the process died in the middle").toBe(false);
    scene.worker(work);
  }
  await cell.script?.(scene, runId);
  const ended = await scene.ended(runId);
  expectEnding(ended, cell.ends);
  await cell.ends.more?.(scene, ended);
  expectOnce(ended);
  await scene.expectNothingOpen();
}

function expectEnding(ended: Ended, ends: Ending): void {
  const steps = Object.values(ended.steps);
  const seen = {
    status: ended.status,
    steps: Object.fromEntries(steps.map(({ step_id, status }) => [step_id, status])),
  };
  expect(seen).toEqual({ status: ends.status, steps: ends.steps });
  for (const [id, output] of Object.entries(ends.outputs ?? {})) {
    expect({ [id]: ended.steps[id]?.output }).toEqual({ [id]: output });
  }
  for (const [id, attempts] of Object.entries(ends.attempts ?? {})) {
    expect({ [id]: ended.steps[id]?.attempts }).toEqual({ [id]: attempts });
  }
  for (const [id, error] of Object.entries(ends.errors ?? {})) {
    const { code, message } = ended.steps[id]?.error ?? {};
    expect({ [id]: code ?? message }).toEqual({ [id]: error });
  }
  const happened = ended.commits.flat().map(nameOf);
  const expected = [...(ends.timeline ?? [])];
  for (const event of happened) if (event === expected[0]) expected.shift();
  expect(expected, `of ${happened.join(", ")}`).toEqual([]);
  expect(happened.filter((event) => (ends.never ?? []).includes(event))).toEqual([]);
  for (const id of ends.atOnce ?? []) {
    const commits = ended.commits.filter((events) => events.some(({ step }) => step === id));
    expect(commits, `the commits of ${id}`).toHaveLength(1);
  }
}

export function nameOf({ type, step }: Event): string {
  return step === undefined ? type : `${type} ${step}`;
}

/** No attempt of a step is enqueued or completed twice, whatever happened meanwhile. */
export function expectOnce(ended: Ended): void {
  for (const type of ["step_dispatched", "step_completed"]) {
    const seen = ended.commits
      .flat()
      .filter((event) => event.type === type)
      .map(({ step, attempt }) => `${step}@${attempt}`);
    expect(
      seen.filter((name, index) => seen.indexOf(name) !== index),
      `twice ${type}`,
    ).toEqual([]);
  }
}

/** A worker step of the topic that every cell has a worker for. */
export function work(more: { readonly [field: string]: JsonValue } = {}): Steps[string] {
  return { type: "worker", topic: "work", ...more };
}

/** Retries that follow at once. */
export const soon = { max_retries: 3, initial_backoff_sec: 0.02, multiplier: 1 };
