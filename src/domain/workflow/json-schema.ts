// Checks an input or output by its JSON Schema (2020-12): nothing is fetched, and every step is counted.
import type { JsonValue } from "../fingerprint.ts";
import type { Problem } from "./compiled.ts";
import { isFields } from "./fields.ts";
import { ProblemList } from "./problem-list.ts";
import { fits, type SchemaNode } from "./schema-node.ts";
import { judgeSchema, newWalk, nodeOf, type SchemaMode } from "./schema-reading.ts";
import { type Steps, StepsSpent } from "./steps.ts";

export type SchemaReading =
  | {
      readonly kind: "schema";
      /** Steps that reading it took: the same on every machine. */
      readonly cost: number;
      /** What the check takes is charged to `steps`, which several checks may share. */
      problemsOf(value: JsonValue, steps?: Steps): readonly Problem[];
    }
  | { readonly kind: "invalid"; readonly problems: readonly Problem[] };

const schemaBytesMax = 65_536;

/** Of one check that shares no steps with others. */
export const checkStepsMax = 3_000_000;

/** Up to here all problems are told; of a larger value only the first one. */
const allProblemsStepsMax = 200_000;

/** Where a schema stands in the definition, and what its values are called in their problems. */
export type SchemaPlace = { readonly schema: string; readonly value: "input" | "output" };

export function readSchema(schema: JsonValue, place: SchemaPlace, mode: SchemaMode = "new"): SchemaReading {
  const invalid = (message: string): SchemaReading => ({
    kind: "invalid",
    problems: [{ path: place.schema, message }],
  });
  if (schema === true) return { kind: "schema", cost: 1, problemsOf: () => [] };
  if (!isFields(schema)) return invalid("must be an object");
  if (Buffer.byteLength(JSON.stringify(schema)) > schemaBytesMax)
    return invalid(`has at most ${schemaBytesMax} bytes`);
  const { $schema: dialect } = schema;
  if (dialect !== undefined && !isKnownDialect(dialect))
    return invalid(`the dialect ${JSON.stringify(dialect).slice(0, 200)} is not supported`);
  const walk = newWalk(schema, place.schema, mode);
  judgeSchema(walk, schema);
  const node = walk.problems.found === 0 ? nodeOf(walk, schema, 1) : undefined;
  if (node === undefined || walk.problems.found > 0)
    return { kind: "invalid", problems: walk.problems.told() };
  return {
    kind: "schema",
    cost: walk.steps,
    problemsOf: (value, steps = { left: checkStepsMax }) => problemsOf(node, place.value, value, steps),
  };
}

/** Older drafts mean the same for what inputs need; where they differ (`items` as a list), the schema is refused. */
function isKnownDialect(dialect: JsonValue): boolean {
  return (
    typeof dialect === "string" &&
    /^https?:\/\/json-schema\.org\/(draft-0[67]|draft\/2019-09|draft\/2020-12)\/schema#?$/.test(dialect)
  );
}

/** The verdict first: most values fit, and those need no places and no messages. */
function problemsOf(
  node: SchemaNode,
  name: SchemaPlace["value"],
  value: JsonValue,
  steps: Steps,
): readonly Problem[] {
  const before = steps.left;
  try {
    if (fits(node, value, { steps, problems: undefined, findsAll: false, depth: 0 }, undefined)) return [];
  } catch (error) {
    return [{ path: name, message: whySpent(error, name) }];
  }
  // The way to the first problem takes as long again.
  const firstSteps = before - steps.left;
  const allSteps = { left: allProblemsStepsMax };
  const problems = new ProblemList(name);
  try {
    fits(node, value, { steps: allSteps, problems, findsAll: true, depth: 0 }, undefined);
  } catch (error) {
    whySpent(error, name);
    steps.left -= firstSteps;
    return firstProblemOf(node, name, value);
  } finally {
    steps.left -= allProblemsStepsMax - allSteps.left;
  }
  return problems.told();
}

function firstProblemOf(node: SchemaNode, name: SchemaPlace["value"], value: JsonValue): readonly Problem[] {
  const problems = new ProblemList(name);
  const steps = { left: Number.POSITIVE_INFINITY };
  fits(node, value, { steps, problems, findsAll: false, depth: 0 }, undefined);
  return problems.told();
}

function whySpent(error: unknown, name: SchemaPlace["value"]): string {
  if (!(error instanceof StepsSpent)) throw error;
  if (error.on === "pattern") return `the patterns take too long on this ${name}`;
  return `is too large to be checked by its ${name}_schema`;
}
