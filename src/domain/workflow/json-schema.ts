// Checks an input or output by its JSON Schema (2020-12): nothing is fetched, and every step is counted.
import type { JsonValue } from "../fingerprint.ts";
import type { Allowance, Problem } from "./compiled.ts";
import { isFields } from "./fields.ts";
import { fits, ProblemList, type SchemaNode, type Steps, StepsSpent } from "./schema-node.ts";
import { judgeSchema, newWalk, nodeOf, type SchemaMode } from "./schema-reading.ts";

export type { SchemaMode } from "./schema-reading.ts";

/** All problems of a value. What the check costs is taken from `work`; its verdict never depends on what is left there. */
export type SchemaCheck = (value: JsonValue, work?: Allowance) => readonly Problem[];

type SchemaReading =
  | {
      readonly kind: "schema";
      /** Steps that reading it took, about 20 ns each: the same number on every machine. */
      readonly cost: number;
      readonly problemsOf: SchemaCheck;
    }
  | { readonly kind: "invalid"; readonly problems: readonly Problem[] };

const schemaBytesMax = 65_536;

/** Of a verdict: about 35 ms at 17 ns a step, and as long again to name the first problem of a value that does not fit. */
const checkStepsMax = 2_000_000;

/** Up to this size all problems are listed; of a larger value only the first one. */
const allProblemsStepsMax = 200_000;

/** An allowance is counted in units of about 50 ns. */
const stepsPerUnit = 3;

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
    return { kind: "invalid", problems: walk.problems.listed() };
  return {
    kind: "schema",
    cost: walk.steps,
    problemsOf: (value, work) => {
      const { problems, steps } = check(node, place.value, value);
      if (work !== undefined) work.left -= Math.ceil(steps / stepsPerUnit);
      return problems;
    },
  };
}

/** Older drafts mean the same for what inputs need; where they differ (`items` as a list), the schema is refused. */
function isKnownDialect(dialect: JsonValue): boolean {
  return (
    typeof dialect === "string" &&
    /^https?:\/\/json-schema\.org\/(draft-0[67]|draft\/2019-09|draft\/2020-12)\/schema#?$/.test(dialect)
  );
}

type Checked = { readonly problems: readonly Problem[]; readonly steps: number };

/** The verdict first: most values fit, and those need no places and no messages. */
function check(node: SchemaNode, name: SchemaPlace["value"], value: JsonValue): Checked {
  const steps = { left: checkStepsMax };
  try {
    const isFit = fits(node, value, { steps, problems: undefined, findsAll: false, depth: 0 }, undefined);
    if (isFit) return { problems: [], steps: checkStepsMax - steps.left };
  } catch (error) {
    return { problems: [{ path: name, message: whySpent(error, name) }], steps: checkStepsMax };
  }
  const verdictSteps = checkStepsMax - steps.left;
  const allSteps = { left: allProblemsStepsMax };
  const all = problemsBy(node, name, value, { steps: allSteps, findsAll: true });
  if (all !== undefined) return { problems: all, steps: verdictSteps + allProblemsStepsMax - allSteps.left };
  // The way to the first problem is that of the verdict.
  const first = problemsBy(node, name, value, { steps: { left: verdictSteps }, findsAll: false });
  return { problems: first ?? [], steps: 2 * verdictSteps + allProblemsStepsMax };
}

/** Undefined when the steps do not suffice. */
function problemsBy(
  node: SchemaNode,
  name: SchemaPlace["value"],
  value: JsonValue,
  { steps, findsAll }: { readonly steps: Steps; readonly findsAll: boolean },
): readonly Problem[] | undefined {
  const problems = new ProblemList(name);
  try {
    fits(node, value, { steps, problems, findsAll, depth: 0 }, undefined);
  } catch (error) {
    whySpent(error, name);
    return undefined;
  }
  return problems.listed();
}

/** Anything else is a mistake of ours, and thrown on. */
function whySpent(error: unknown, name: SchemaPlace["value"]): string {
  if (!(error instanceof StepsSpent)) throw error;
  if (error.on === "pattern") return `the patterns take too long on this ${name}`;
  return `is too large to be checked by its ${name}_schema`;
}
