// Workflows for the fuzzer: whole ones of every kind of step that needs no time, and some that are wrong at one place.
import type { SeededRandom } from "../../src/testing/seeded-random.ts";
import { anyValue, placesIn, withoutPlace, withValueAt } from "./values.ts";

const definitions: ReadonlyArray<Readonly<Record<string, unknown>>> = [
  { id: "simple", name: "Simple", steps: { one: { type: "worker", topic: "work" } } },
  {
    id: "guarded",
    name: "Guarded",
    steps: { ok: { type: "approval" }, one: { topic: "work", depends_on: ["ok"] } },
  },
  {
    id: "refund",
    input_schema: { type: "object", required: ["order"], properties: { order: { type: "string" } } },
    steps: {
      large: { type: "condition", condition: "input.amount > 100" },
      one: { topic: "work", depends_on: ["large"], input: { order: "${input.order}" } },
    },
  },
  {
    id: "list",
    steps: { one: { topic: "list", for_each: "[1, 2, 3]", max_parallel: 2, input: { number: "${item}" } } },
  },
  {
    id: "both",
    steps: {
      one: { type: "parallel", input: { steps: ["left", "right"], strategy: "all" } },
      left: { topic: "work" },
      right: { topic: "list" },
    },
  },
  {
    id: "loop",
    steps: {
      one: {
        type: "loop",
        input: { body: "again", max_iterations: 3, until: "steps.again.output.score > 0.9" },
      },
      again: { topic: "work" },
    },
  },
  {
    id: "parent",
    steps: { one: { type: "subworkflow", input: { workflow_id: "simple", input: { order: "o-1" } } } },
  },
  {
    id: "notes",
    steps: {
      one: { type: "storage", input: { operation: "write", key: "a.b", value: "${input}" } },
      two: { type: "notify", depends_on: ["one"], input: { level: "info", message: "done" } },
    },
  },
];

/** Mostly whole. */
export function definitionFor(random: SeededRandom): unknown {
  const definition = random.pick(definitions);
  const named = random.chance(0.3) ? { ...definition, id: `wf-${random.integer(0, 9)}` } : definition;
  if (random.chance(0.5)) return named;
  const places = placesIn({}, named).filter(({ path }) => path.length > 0);
  const { path } = random.pick(places);
  return random.chance(0.3) ? withoutPlace(named, path) : withValueAt(named, path, anyValue(random, 3));
}
