// Draws steps that begin no others in their run: work, items, approvals, values, waits, and other runs.
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import type { StepText } from "./language.ts";
import type { Mood } from "./oracle.ts";
import { drawNumber, type Sketch, type Spot } from "./sketch.ts";

export function drawLeaf(sketch: Sketch, id: string, kind: string, spot: Spot): StepText {
  const { random, options } = sketch;
  switch (kind) {
    case "approval": {
      const isTimed = options.timeouts && random.chance(0.5);
      setMood(sketch, id, spot, isTimed);
      return { type: "approval", ...(isTimed ? { timeout_sec: 5 } : {}) };
    }
    case "delay":
      return { type: "delay", delay_sec: random.pick([0, options.delaySec]) };
    case "notify":
      setMood(sketch, id, spot, false);
      return {
        type: "notify",
        topic: random.pick(options.topics),
        input: { message: "hello" },
        ...drawRetry(sketch),
      };
    case "transform":
      return {
        type: "transform",
        input: { v: template(drawValue(sketch, spot)), ...drawWhole(sketch, spot) },
      };
    case "storage":
      return drawStorage(sketch, id, spot);
    case "subworkflow":
      return sketch.others.length === 0 ? drawWork(sketch, id, spot) : drawSubworkflow(sketch, id, spot);
    case "for_each":
      return { ...drawWork(sketch, id, spot), ...drawItems(sketch, spot) };
    default:
      return drawWork(sketch, id, spot);
  }
}

const template = (text: string): string => `\${${text}}`;

/** A step that hangs is left to the step above it that gives up. */
function setMood(
  { random, options, moods, workflow }: Sketch,
  id: string,
  spot: Spot,
  isTimed: boolean,
): void {
  const hangs = spot.hangs !== undefined && spot.hangs.left > 0 && random.chance(0.5);
  if (hangs && spot.hangs !== undefined) spot.hangs.left -= 1;
  const drawn: Mood["kind"] = random.chance(options.moodyRate)
    ? random.pick(["moody", "moody", "failing"])
    : "good";
  moods.set(`${workflow}/${id}`, { kind: hangs ? "hanging" : drawn, isTimed });
}

function drawRetry({ random, options }: Sketch): StepText {
  if (!random.chance(0.5)) return {};
  const wait = options.delaySec;
  return {
    retry: { max_retries: random.integer(1, 3), initial_backoff_sec: wait, max_backoff_sec: wait },
  };
}

function drawValue(sketch: Sketch, { before, isInLoop }: Spot): string {
  const { random } = sketch;
  if (isInLoop && random.chance(0.6)) return random.pick(["loop.iteration", "loop.last_output.v"]);
  return drawNumber(sketch, before);
}

/** The whole output of something, whatever it is. */
function drawWhole({ random, steps }: Sketch, { before }: Spot): StepText {
  const known = before.filter((id) => isCertain(steps, id));
  return known.length > 0 && random.chance(0.3)
    ? { all: template(`steps.${random.pick(known)}.output`) }
    : {};
}

/** What races gives depends on who was first. */
function isCertain(steps: Sketch["steps"], id: string): boolean {
  const step = steps[id];
  if (step?.type === "approval" || step?.type === "subworkflow") return false;
  if (step?.type === "loop") return isCertain(steps, String((step.input as StepText).body));
  if (step?.type !== "parallel") return step !== undefined;
  const { strategy, max_parallel: openMax, steps: children } = step.input as StepText;
  const isOrdered = openMax === 1 || strategy === "all";
  return isOrdered && (children as readonly string[]).every((child) => isCertain(steps, child));
}

/** Some of what workers give is not as small as this. */
const tooLarge = { properties: { v: { maximum: 4 } } };

function drawWork(sketch: Sketch, id: string, spot: Spot): StepText {
  const { random, options } = sketch;
  const isTimed = options.timeouts && random.chance(0.3) && spot.hangs === undefined;
  setMood(sketch, id, spot, isTimed);
  const hasInput = random.chance(0.6);
  return {
    type: "worker",
    topic: random.pick(options.topics),
    ...drawRetry(sketch),
    ...(isTimed ? { timeout_sec: 5 } : {}),
    ...(hasInput ? { input: { echo: template(drawValue(sketch, spot)) } } : {}),
    ...(hasInput && random.chance(0.1) ? { input_schema: { type: "object", required: ["echo"] } } : {}),
    ...random.pick([{}, {}, {}, {}, {}, {}, {}, { output_schema: tooLarge }, { result_data_path: "v" }]),
  };
}

function drawItems({ random, steps, options }: Sketch, spot: Spot): StepText {
  const lists = spot.before.filter((id) => steps[id]?.for_each !== undefined && isCertain(steps, id));
  const texts = ["input.list", "input.list", "input.list", ...lists.map((id) => `steps.${id}.output`)];
  if (random.chance(0.05)) texts.push("input.n");
  const mayRace = options.races && !spot.isInLoop && spot.hangs === undefined;
  const isOne = random.chance(0.3);
  const continues = !isOne && (!mayRace || random.chance(0.5));
  return {
    for_each: random.pick(texts),
    ...(random.chance(0.7) ? { input: { echo: template(random.pick(["item", "index"])) } } : {}),
    ...(isOne ? { max_parallel: 1 } : random.chance(0.5) ? { max_parallel: 2 } : {}),
    ...(continues || random.chance(0.2) ? { for_each_on_failure: "continue" } : {}),
  };
}

/** In a loop a place of its own; other steps wait for the one that used theirs before. */
function drawStorage(sketch: Sketch, id: string, spot: Spot): StepText {
  const { random, places } = sketch;
  const isShared = spot.depth === 0;
  const key = isShared ? random.pick(["p", "q"]) : `own_${id}`;
  const operation = isShared && places.has(key) ? random.pick(["read", "read", "write", "delete"]) : "write";
  const value: JsonValue = { v: template(drawValue(sketch, spot)) };
  return { type: "storage", input: { operation, key, ...(operation === "write" ? { value } : {}) } };
}

function drawSubworkflow(sketch: Sketch, id: string, spot: Spot): StepText {
  const { random, others, options, moods, workflow } = sketch;
  const isMissing = random.chance(0.03);
  const mapping = {
    n: template(drawValue(sketch, spot)),
    flag: template("input.flag"),
    list: template("input.list"),
  };
  const isTimed = options.timeouts && spot.hangs === undefined && random.chance(0.2);
  const hangs = isTimed && random.chance(0.4);
  moods.set(`${workflow}/${id}`, { kind: hangs ? "hanging" : "good", isTimed });
  return {
    type: "subworkflow",
    input: {
      workflow_id: isMissing ? "nobody" : random.pick(others),
      ...(random.chance(0.7) ? { input_mapping: mapping } : {}),
      ...(random.chance(0.5) ? { output_mapping: { v: template("child.output.v") } } : {}),
    },
    ...drawRetry(sketch),
    ...(isTimed ? { timeout_sec: 50 } : {}),
  };
}
