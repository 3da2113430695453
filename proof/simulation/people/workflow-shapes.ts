// Random small workflows: a few steps of every type, with retries, timeouts and error handlers, short enough for one seed.
import type { JsonValue } from "../../../src/domain/fingerprint.ts";
import type { SeededRandom } from "../../../src/testing/seeded-random.ts";

export const topics = ["left", "right"] as const;

/** `leaseMs` is how long a worker may be silent: timeouts lie around it. */
export function drawWorkflow(random: SeededRandom, id: string, leaseMs: number): JsonValue {
  const amount = random.integer(1, 4);
  const steps: Record<string, JsonValue> = {};
  for (let index = 1; index <= amount; index += 1) {
    const earlier = Object.keys(steps);
    const dependsOn = earlier.filter(() => random.chance(0.5));
    steps[`s${index}`] = { ...drawStep(random, leaseMs, dependsOn), depends_on: dependsOn };
  }
  if (random.chance(0.3)) addHandler(random, steps);
  return {
    id,
    name: id,
    risk: random.pick(["high", "standard", "low"]),
    steps,
    ...(random.chance(0.3) ? { timeout_sec: seconds(random, leaseMs, 3) } : {}),
  };
}

type Step = Record<string, JsonValue>;

const stepTypes = [
  ...["worker", "worker", "worker", "worker", "approval", "approval"],
  ...["condition", "delay", "transform", "transform"],
];

function drawStep(random: SeededRandom, leaseMs: number, dependsOn: readonly string[]): Step {
  switch (random.pick(stepTypes)) {
    case "approval":
      return {
        type: "approval",
        input: { what: "${input.what}" },
        ...(random.chance(0.6) ? { timeout_sec: seconds(random, leaseMs, 0.3) } : {}),
        ...(random.chance(0.3) ? { separate_duties: true } : {}),
      };
    case "condition":
      return { type: "condition", condition: random.pick(["true", "input.flag"]) };
    case "delay":
      return { type: "delay", delay_sec: random.pick([0.001, 0.1, 0.4]) };
    case "transform": {
      const of = random.pick([...dependsOn, undefined]);
      // What it copies is compared with what was reported, once the run has ended.
      const copied = of === undefined ? {} : { of, copied: `\${steps.${of}.output}` };
      return { type: "transform", input: { what: "${input.what}", ...copied } };
    }
    default:
      return drawWork(random, leaseMs);
  }
}

function drawWork(random: SeededRandom, leaseMs: number): Step {
  const retry = { max_retries: random.integer(1, 2), initial_backoff_sec: 0.1, max_backoff_sec: 0.3 };
  return {
    type: "worker",
    topic: random.pick(topics),
    ...(random.chance(0.5) ? { retry } : {}),
    ...(random.chance(0.3) ? { timeout_sec: seconds(random, leaseMs, 1) } : {}),
    ...(random.chance(0.2) ? { condition: "input.flag" } : {}),
    ...(random.chance(0.3) ? { input: { what: "${input.what}" } } : {}),
  };
}

function addHandler(random: SeededRandom, steps: Record<string, JsonValue>): void {
  const failing = random.pick(Object.keys(steps));
  steps[failing] = { ...(steps[failing] as Step), on_error: "handler" };
  steps.handler = { type: "worker", topic: random.pick(topics) };
}

/** Around the lease times the factor: some run out, some do not. */
function seconds(random: SeededRandom, leaseMs: number, factor: number): number {
  return (leaseMs * factor * random.pick([0.5, 1, 2])) / 1_000;
}
