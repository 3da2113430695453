// Draws steps that decide about others: conditions, switches, parallels and loops with what they begin.
import type { StepText } from "./language.ts";
import { drawNumber, type Sketch, type Spot } from "./sketch.ts";

/** Undefined for a kind that begins no others. */
export function drawControl(sketch: Sketch, kind: string, spot: Spot): StepText | undefined {
  const { random } = sketch;
  switch (kind) {
    case "condition":
      return {
        type: "condition",
        condition: random.pick(["true", "input.flag", `${drawNumber(sketch, spot.before)} < 3`]),
      };
    case "switch":
      return { type: "switch" };
    case "parallel":
      return spot.depth >= 2 ? undefined : drawParallel(sketch, spot);
    case "loop":
      return spot.depth >= 2 ? undefined : drawLoop(sketch, spot);
    default:
      return undefined;
  }
}

const childKinds = [
  ...["worker", "worker", "worker", "worker", "for_each", "delay", "notify", "transform"],
  ...["parallel", "loop", "storage", "approval", "subworkflow", "condition"],
];
/** Without those whose end can be of more than two kinds: what a race leaves open stays small. */
const racingKinds = ["worker", "worker", "worker", "for_each", "delay", "transform", "parallel"];

/** A step that gives up after a while has something below that may never end. */
function drawLimit({ random, options }: Sketch, spot: Spot) {
  const isLimited = options.timeouts && spot.hangs === undefined && !spot.isRacing && random.chance(0.2);
  return isLimited ? { limit: { timeout_sec: 100 }, hangs: { left: 1 } } : { limit: {}, hangs: spot.hangs };
}

function drawParallel(sketch: Sketch, spot: Spot): StepText {
  const { random, options } = sketch;
  const { limit, hangs } = drawLimit(sketch, spot);
  const count = random.integer(1, 4);
  const strategy = options.mayDoWithout ? random.pick(["all", "all", "any", "n_of_m"]) : "all";
  const mayRace = options.races && !spot.isInLoop;
  const isOne = random.chance(0.4) || (strategy !== "all" && !mayRace);
  const continues = random.chance(0.5) || (!isOne && !mayRace);
  const isRacing = spot.isRacing || (!isOne && !(strategy === "all" && continues));
  const steps = Array.from({ length: count }, () =>
    sketch.add(random.pick(isRacing ? racingKinds : childKinds), {
      before: spot.before,
      depth: spot.depth + 1,
      isInLoop: spot.isInLoop,
      isRacing,
      ...(hangs === undefined ? {} : { hangs }),
    }),
  );
  const openMax = isOne ? 1 : hangs === undefined && random.chance(0.4) ? 2 : undefined;
  return {
    type: "parallel",
    input: {
      steps,
      strategy,
      ...(strategy === "n_of_m" ? { required: random.integer(1, count) } : {}),
      ...(openMax === undefined ? {} : { max_parallel: openMax }),
      on_failure: continues ? "continue" : "cancel",
    },
    ...limit,
  };
}

function drawLoop(sketch: Sketch, spot: Spot): StepText {
  const { random } = sketch;
  const { limit, hangs } = drawLimit(sketch, spot);
  const body = sketch.add(random.pick(childKinds), {
    before: spot.before,
    depth: spot.depth + 1,
    isInLoop: true,
    isRacing: spot.isRacing,
    ...(hangs === undefined ? {} : { hangs }),
  });
  const asked = { while: "loop.iteration < 3", until: "loop.iteration >= 2" };
  const isNumbered = sketch.steps[body]?.type === "worker" && sketch.steps[body]?.for_each === undefined;
  const until =
    isNumbered && random.chance(0.3) ? { until: `steps.${body}.output.v > 2` } : { until: asked.until };
  const conditions = random.pick([{}, { while: asked.while }, until, { while: "input.n > 1" }]);
  return {
    type: "loop",
    input: { body, max_iterations: random.integer(1, 3), ...conditions },
    ...limit,
  };
}
