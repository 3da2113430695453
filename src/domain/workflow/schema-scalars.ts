// The keywords of JSON Schema that look at a value itself: any value, numbers and texts.
import type { JsonValue } from "../fingerprint.ts";
import { hasValue, type Spend, valueSet } from "./equal-values.ts";
import { formatCharactersMax, formats } from "./schema-formats.ts";
import {
  type Check,
  charge,
  type Evaluated,
  fits,
  fitsInPlace,
  type KeywordPlace,
  type MakeCheck,
  mergeEvaluated,
  newEvaluated,
  type Run,
  report,
  type SchemaNode,
} from "./schema-node.ts";

const echoed = (value: JsonValue) => JSON.stringify(value).slice(0, 500);

function checkAmong(allowed: readonly JsonValue[], message: string, spend: Spend): Check {
  const set = valueSet(allowed, spend);
  return (value, run) => hasValue(set, value, (steps) => charge(run, steps)) || report(run, message);
}

const makeConst: MakeCheck = (allowed, { spend }) =>
  checkAmong([allowed], `must be ${echoed(allowed)}`, spend);

const makeEnum: MakeCheck = (allowed, { spend }) =>
  checkAmong(allowed as JsonValue[], `must be one of ${echoed(allowed)}`, spend);

const makeReference: MakeCheck = (reference, { target }) => {
  const node = target(reference);
  return (value, run, evaluated) => fitsInPlace(node, value, run, evaluated);
};

/** Problems of a schema that need not fit are not listed. */
function verdictOnly(run: Run, findsAll: boolean): Run {
  if (run.problems === undefined && run.findsAll === findsAll) return run;
  return { steps: run.steps, problems: undefined, findsAll, depth: run.depth };
}

const makeNot: MakeCheck = (schema, { node }) => {
  const inner = node(schema);
  return (value, run) =>
    !fits(inner, value, verdictOnly(run, false), undefined) || report(run, "must NOT be valid");
};

const nodesOf = (schemas: JsonValue, { node }: KeywordPlace) =>
  (schemas as JsonValue[]).map((schema) => node(schema));

const makeAllOf: MakeCheck = (schemas, place) => {
  const nodes = nodesOf(schemas, place);
  return (value, run, evaluated) => {
    let isFit = true;
    for (const node of nodes) {
      if (fitsInPlace(node, value, run, evaluated)) continue;
      if (!run.findsAll) return false;
      isFit = false;
    }
    return isFit;
  };
};

/** How many fit; all are checked only when it matters what they evaluate. */
function countFitting(
  nodes: readonly SchemaNode[],
  enough: number,
  value: JsonValue,
  run: Run,
  evaluated: Evaluated | undefined,
): number {
  let fitting = 0;
  for (const node of nodes) {
    if (fitsInPlace(node, value, run, evaluated)) fitting += 1;
    if (fitting >= enough && evaluated === undefined) break;
  }
  return fitting;
}

const makeAnyOf: MakeCheck = (schemas, place) => {
  const nodes = nodesOf(schemas, place);
  return (value, run, evaluated) => {
    const found = run.problems?.found ?? 0;
    if (countFitting(nodes, 1, value, run, evaluated) === 0)
      return report(run, "must match a schema in anyOf");
    run.problems?.forgetAfter(found);
    return true;
  };
};

const makeExactlyOneOf: MakeCheck = (schemas, place) => {
  const nodes = nodesOf(schemas, place);
  return (value, run, evaluated) => {
    const found = run.problems?.found ?? 0;
    if (countFitting(nodes, 2, value, run, evaluated) !== 1)
      return report(run, "must match exactly one schema in oneOf");
    run.problems?.forgetAfter(found);
    return true;
  };
};

const makeIf: MakeCheck = (schema, { schema: { then, else: otherwise }, node }) => {
  const thenNode = then === undefined ? undefined : node(then);
  const elseNode = otherwise === undefined ? undefined : node(otherwise);
  if ((thenNode?.asksNothing ?? true) && (elseNode?.asksNothing ?? true)) return undefined;
  const condition = node(schema);
  return (value, run, evaluated) => {
    const inner = evaluated === undefined ? undefined : newEvaluated();
    const holds = fits(condition, value, verdictOnly(run, inner !== undefined), inner);
    // What a condition evaluates counts even where it does not hold: stored schemas rely on it.
    if (evaluated !== undefined && inner !== undefined) mergeEvaluated(run, evaluated, inner);
    const branch = holds ? thenNode : elseNode;
    if (branch === undefined || fitsInPlace(branch, value, run, evaluated)) return true;
    return report(run, `must match "${holds ? "then" : "else"}" schema`);
  };
};

/** In the order in which problems are listed. */
export const anyKeywords: ReadonlyMap<string, MakeCheck> = new Map([
  ["$ref", makeReference],
  ["const", makeConst],
  ["enum", makeEnum],
  ["not", makeNot],
  ["anyOf", makeAnyOf],
  ["oneOf", makeExactlyOneOf],
  ["allOf", makeAllOf],
  ["if", makeIf],
]);

const limitOf =
  (sign: string, holds: (value: number, limit: number) => boolean): MakeCheck =>
  (limit) => {
    const message = `must be ${sign} ${limit}`;
    return (value, run) => holds(value as number, limit as number) || report(run, message);
  };

const makeMultipleOf: MakeCheck = (factor) => {
  const message = `must be multiple of ${factor}`;
  return (value, run) => Number.isInteger((value as number) / (factor as number)) || report(run, message);
};

export const numberKeywords: ReadonlyMap<string, MakeCheck> = new Map([
  ["maximum", limitOf("<=", (value, limit) => value <= limit)],
  ["minimum", limitOf(">=", (value, limit) => value >= limit)],
  ["exclusiveMaximum", limitOf("<", (value, limit) => value < limit)],
  ["exclusiveMinimum", limitOf(">", (value, limit) => value > limit)],
  ["multipleOf", makeMultipleOf],
]);

/** Characters as people count them: a pair of surrogates is one. */
function charactersOf(text: string): number {
  let characters = text.length;
  for (let at = 0; at < text.length; at += 1) {
    if ((text.codePointAt(at) ?? 0) <= 0xffff) continue;
    characters -= 1;
    at += 1;
  }
  return characters;
}

const makeMaxLength: MakeCheck = (limit) => {
  const max = limit as number;
  return (value, run) => {
    const text = value as string;
    if (text.length <= max) return true;
    charge(run, text.length >> 2);
    return charactersOf(text) <= max || report(run, `must NOT have more than ${max} characters`);
  };
};

const makeMinLength: MakeCheck = (limit) => {
  const min = limit as number;
  return (value, run) => {
    const text = value as string;
    if (text.length >= 2 * min) return true;
    charge(run, text.length >> 2);
    return charactersOf(text) >= min || report(run, `must NOT have fewer than ${min} characters`);
  };
};

const makePattern: MakeCheck = (source, { pattern }) => {
  const linear = pattern(source as string);
  const message = `must match pattern "${(source as string).slice(0, 500)}"`;
  return (value, run) => linear.test(value as string, run.steps) || report(run, message);
};

const makeFormat: MakeCheck = (name) => {
  const format = formats.get(name as string);
  if (format === undefined) return undefined;
  const message = `must match format "${name}"`;
  return (value, run) => {
    const text = value as string;
    if (text.length > formatCharactersMax) return report(run, message);
    charge(run, 32 + text.length * format.steps);
    return format.fits(text) || report(run, message);
  };
};

export const textKeywords: ReadonlyMap<string, MakeCheck> = new Map([
  ["maxLength", makeMaxLength],
  ["minLength", makeMinLength],
  ["pattern", makePattern],
  ["format", makeFormat],
]);
