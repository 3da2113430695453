// Random workflows over all step types, nested, in the language itself; with how the work of each step will go.
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import type { SeededRandom } from "../../src/testing/seeded-random.ts";
import { drawControl } from "./draw-control.ts";
import { drawLeaf } from "./draw-leaf.ts";
import type { StepText, WorkflowText } from "./language.ts";
import type { Mood } from "./oracle.ts";
import { type DrawOptions, drawNumber, type Sketch, type Spot } from "./sketch.ts";

export type DrawnWorkflows = {
  readonly root: string;
  readonly library: ReadonlyMap<string, WorkflowText>;
  readonly moods: ReadonlyMap<string, Mood>;
  readonly input: JsonValue;
};

export function drawWorkflows(random: SeededRandom, root: string, options: DrawOptions): DrawnWorkflows {
  const library = new Map<string, WorkflowText>();
  const moods = new Map<string, Mood>();
  const others: string[] = [];
  const children = random.integer(0, options.childWorkflows);
  for (let number = children; number >= 0; number -= 1) {
    const workflow = number === 0 ? root : `${root}.${number}`;
    const rootsMax = number === 0 ? options.rootsMax : Math.min(3, options.rootsMax);
    const sketch: Sketch = {
      ...{ random, workflow, moods },
      options: { ...options, rootsMax },
      steps: {},
      others: [...others],
      places: new Map(),
      add: (kind, spot) => addStep(sketch, kind, spot),
    };
    drawRoots(sketch);
    library.set(workflow, { id: workflow, name: workflow, steps: sketch.steps } as WorkflowText);
    others.push(workflow);
  }
  const input = {
    n: random.integer(0, 4),
    flag: random.chance(0.6),
    list: Array.from({ length: random.integer(0, 4) }, () => random.integer(0, 5)),
  };
  return { root, library, moods, input };
}

const rootKinds = [
  ...["worker", "worker", "worker", "worker", "for_each", "for_each", "approval", "condition"],
  ...["switch", "switch", "parallel", "parallel", "parallel", "loop", "loop", "delay", "notify"],
  ...["transform", "transform", "storage", "storage", "subworkflow", "subworkflow"],
];

function drawRoots(sketch: Sketch): void {
  const { random, options } = sketch;
  const roots: string[] = [];
  for (let left = random.integer(1, options.rootsMax); left > 0; left -= 1) {
    const before = drawSome(random, roots, 3);
    const spot: Spot = { before, depth: 0, isInLoop: false, isRacing: false };
    roots.push(...drawRoot(sketch, random.pick(rootKinds), spot, roots));
  }
}

/** A step and, for a switch, its targets: all that others may depend on. */
function drawRoot(sketch: Sketch, kind: string, spot: Spot, earlier: readonly string[]): readonly string[] {
  const id = addStep(sketch, kind, spot);
  const step = sketch.steps[id] ?? {};
  const more = kind === "storage" ? lastUse(sketch, id) : [];
  sketch.steps[id] = { ...step, depends_on: [...new Set([...spot.before, ...more])] };
  if (kind !== "switch") return [id];
  return [id, ...drawTargets(sketch, id, spot, earlier)];
}

/** A step that uses a place waits for the step that used it before. */
function lastUse({ steps, places }: Sketch, id: string): readonly string[] {
  const { key } = (steps[id]?.input ?? {}) as { readonly key?: string };
  const last = key === undefined ? undefined : places.get(key);
  if (key !== undefined) places.set(key, id);
  return last === undefined ? [] : [last];
}

const targetKinds = ["worker", "worker", "transform", "delay", "condition", "parallel", "loop", "for_each"];

function drawTargets(
  sketch: Sketch,
  choice: string,
  { before }: Spot,
  earlier: readonly string[],
): readonly string[] {
  const { random, steps } = sketch;
  const targets = Array.from({ length: random.integer(1, 3) }, () => {
    const id = addStep(sketch, random.pick(targetKinds), {
      before: random.chance(0.3) ? [...before, choice] : [choice],
      ...{ depth: 0, isInLoop: false, isRacing: false },
    });
    if (earlier.length > 0 && random.chance(0.3)) {
      steps[id] = { ...steps[id], depends_on: [random.pick(earlier), choice] };
    } else if (random.chance(0.2)) steps[id] = { ...steps[id], depends_on: [choice] };
    return id;
  });
  const cases = targets.map((next, index) => ({
    when: random.chance(0.2) ? "$" + "{input.n}" : index + random.integer(0, 1),
    next,
  }));
  const hasValue = random.chance(0.8);
  const own = hasValue ? cases : cases.map(({ next }) => ({ when: "$" + "{input.flag}", next }));
  const otherwise = random.chance(0.4) ? { default: random.pick(targets) } : {};
  // Without a case of its own a target may still be the default.
  const isCovered = "default" in otherwise && own.length > 1;
  const kept = isCovered ? own.filter(({ next }, index) => index === 0 || next !== otherwise.default) : own;
  const condition = hasValue ? { condition: drawNumber(sketch, before) } : {};
  steps[choice] = { ...steps[choice], ...condition, input: { cases: kept, ...otherwise } };
  return targets;
}

function addStep(sketch: Sketch, kind: string, spot: Spot): string {
  const { steps, random, options } = sketch;
  const id = `s${Object.keys(steps).length + 1}`;
  steps[id] = {};
  const drawn = drawControl(sketch, kind, spot) ?? drawLeaf(sketch, id, kind, spot);
  const condition = kind === "switch" || kind === "condition" ? {} : drawCondition(sketch, spot);
  steps[id] = { ...drawn, ...condition };
  const mayHandle = options.mayDoWithout && !spot.isInLoop && !spot.isRacing;
  if (mayHandle && random.chance(0.2)) addHandler(sketch, id);
  return id;
}

function drawCondition(sketch: Sketch, { before, isInLoop }: Spot): StepText {
  const { random } = sketch;
  if (!random.chance(0.15)) return {};
  const texts = ["true", "false", "input.flag", "input.flag", `${drawNumber(sketch, before)} > 1`];
  if (before.length > 0) texts.push(`steps.${random.pick(before)}.status == "succeeded"`);
  if (isInLoop) texts.push("loop.iteration != 2");
  if (random.chance(0.1)) texts.push("input.absent");
  return { condition: random.pick(texts) };
}

/** Sometimes a chain of them, and sometimes with somebody who waits for it. */
function addHandler(sketch: Sketch, owner: string): void {
  const { random, steps } = sketch;
  const spot: Spot = { before: [], depth: 3, isInLoop: false, isRacing: false };
  const kind = random.pick(["worker", "transform", "notify", "delay"]);
  const handler = addStep(sketch, kind, spot);
  steps[owner] = { ...steps[owner], on_error: handler };
  if (!random.chance(0.3)) return;
  const after = addStep(sketch, "worker", spot);
  steps[after] = { ...steps[after], depends_on: [handler] };
}

function drawSome<Item>(random: SeededRandom, items: readonly Item[], max: number): readonly Item[] {
  const chosen = new Set<Item>();
  for (let left = Math.min(max, items.length); left > 0; left -= 1) {
    if (random.chance(0.7)) chosen.add(random.pick(items));
  }
  return [...chosen];
}
