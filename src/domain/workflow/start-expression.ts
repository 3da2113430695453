// Expressions that are evaluated before there is a run: keys of gates, rates and budgets, and priorities. They read the input alone.
import { atOnce } from "../slices.ts";
import type { Allowance, Evaluation, Scope } from "./compiled.ts";
import { type ExpressionReading, readingTemplates } from "./expression.ts";
import { fieldOf, pathIn, type Reading, report } from "./fields.ts";
import { expressionRule } from "./step-fields.ts";
import type { Work } from "./work-count.ts";

export type StartExpression = {
  /** Where it stands, as `concurrency[0].key`. */
  readonly path: string;
  readonly source: string;
  evaluate(scope: Scope, work?: Allowance): Evaluation;
};

/** A text with a template in it: a constant would be one key for all runs, which is a gate without a key. */
export function expressionField(reading: Reading, name: string, work: Work): StartExpression | undefined {
  const value = fieldOf(reading, name);
  if (value === undefined) return undefined;
  const path = pathIn(reading.path, name);
  if (typeof value !== "string" || !value.includes("${")) {
    report(reading, name, `must be a text with a template, such as "\${input.customer}"`);
    return undefined;
  }
  if (value.length > expressionRule.charactersMax) {
    report(reading, name, `has at most ${expressionRule.charactersMax} characters, not ${value.length}`);
    return undefined;
  }
  const read = atOnce(readingTemplates(value, path, work));
  const problems = read.kind === "invalid" ? read.problems : problemsOfReferences(read, path);
  reading.problems.push(...problems);
  if (read.kind === "invalid" || problems.length > 0) return undefined;
  const { evaluate } = read.expression;
  return { path, source: value, evaluate };
}

function problemsOfReferences(read: Extract<ExpressionReading, { kind: "expression" }>, path: string) {
  if (read.expression.references.length === 0) return [];
  return [{ path, message: "is evaluated before the run begins: it may read only input" }];
}
