// The keywords of JSON Schema for arrays.
import type { JsonValue } from "../fingerprint.ts";
import { lastEqualItems } from "./equal-values.ts";
import { charge, fits, type MakeCheck, type Run, report, type SchemaNode } from "./schema-node.ts";

const makeMaxItems: MakeCheck = (max) => (value, run) =>
  (value as JsonValue[]).length <= (max as number) || report(run, `must NOT have more than ${max} items`);

const makeMinItems: MakeCheck = (min) => (value, run) =>
  (value as JsonValue[]).length >= (min as number) || report(run, `must NOT have fewer than ${min} items`);

function fitsItem(node: SchemaNode, items: readonly JsonValue[], index: number, run: Run): boolean {
  run.problems?.enter(index);
  const isFit = fits(node, items[index] as JsonValue, run, undefined);
  run.problems?.leave();
  return isFit;
}

/** All items from the first to be asked. */
function fitItems(node: SchemaNode, items: readonly JsonValue[], from: number, run: Run): boolean {
  if (node.asksNothing) return true;
  let isFit = true;
  charge(run, Math.max(0, items.length - from));
  for (let index = from; index < items.length; index += 1) {
    if (fitsItem(node, items, index, run)) continue;
    if (!run.findsAll) return false;
    isFit = false;
  }
  return isFit;
}

const makePrefixItems: MakeCheck = (schemas, { node }) => {
  const nodes = (schemas as JsonValue[]).map((schema) => node(schema));
  return (value, run, evaluated) => {
    const items = value as JsonValue[];
    if (evaluated !== undefined) evaluated.items = Math.max(evaluated.items, nodes.length);
    let isFit = true;
    charge(run, Math.min(nodes.length, items.length));
    for (const [index, inner] of nodes.entries()) {
      if (index >= items.length) break;
      if (fitsItem(inner, items, index, run)) continue;
      if (!run.findsAll) return false;
      isFit = false;
    }
    return isFit;
  };
};

/** `false` is reported once, not for every item. */
function restOfItems(
  schema: JsonValue,
  rest: SchemaNode,
  items: readonly JsonValue[],
  from: number,
  run: Run,
) {
  if (schema !== false) return fitItems(rest, items, from, run);
  return items.length <= from || report(run, `must NOT have more than ${from} items`);
}

const makeItems: MakeCheck = (schema, { schema: { prefixItems }, node }) => {
  const rest = node(schema);
  const from = Array.isArray(prefixItems) ? prefixItems.length : undefined;
  return (value, run, evaluated) => {
    if (evaluated !== undefined) evaluated.items = Number.POSITIVE_INFINITY;
    const items = value as JsonValue[];
    return from === undefined ? fitItems(rest, items, 0, run) : restOfItems(schema, rest, items, from, run);
  };
};

const makeContains: MakeCheck = (schema, { schema: { minContains = 1, maxContains }, node }) => {
  const [min, max] = [minContains as number, maxContains as number | undefined];
  if (max === undefined && min === 0) return undefined;
  const message =
    max === undefined
      ? `must contain at least ${min} valid item(s)`
      : `must contain at least ${min} and no more than ${max} valid item(s)`;
  if (max !== undefined && min > max) return (_value, run) => report(run, message);
  const sought = node(schema);
  const enough = max === undefined ? min : max + 1;
  return (value, run, evaluated) => {
    // All items count as spoken of, also those that do not fit: stored schemas rely on it.
    if (evaluated !== undefined && !sought.asksNothing) evaluated.items = Number.POSITIVE_INFINITY;
    const items = value as JsonValue[];
    const found = run.problems?.found ?? 0;
    let fitting = 0;
    for (let index = 0; index < items.length && fitting < enough; index += 1) {
      charge(run, 1);
      if (fitsItem(sought, items, index, run)) fitting += 1;
    }
    if (fitting < min || fitting > (max ?? fitting)) return report(run, message);
    run.problems?.forgetAfter(found);
    return true;
  };
};

const makeUniqueItems: MakeCheck = (isAsked) => {
  if (isAsked !== true) return undefined;
  return (value, run) => {
    const equal = lastEqualItems(value as JsonValue[], (steps) => charge(run, steps));
    if (equal === undefined) return true;
    const { before, after } = equal;
    return report(run, `must NOT have duplicate items (items ## ${before} and ${after} are identical)`);
  };
};

const makeUnevaluatedItems: MakeCheck = (schema, { node }) => {
  const rest = node(schema);
  return (value, run, evaluated) => {
    if (evaluated === undefined || evaluated.items === Number.POSITIVE_INFINITY) return true;
    const from = evaluated.items;
    evaluated.items = Number.POSITIVE_INFINITY;
    return restOfItems(schema, rest, value as JsonValue[], from, run);
  };
};

/** In the order in which problems are listed. */
export const arrayKeywords: ReadonlyMap<string, MakeCheck> = new Map([
  ["maxItems", makeMaxItems],
  ["minItems", makeMinItems],
  ["prefixItems", makePrefixItems],
  ["items", makeItems],
  ["contains", makeContains],
  ["uniqueItems", makeUniqueItems],
  ["unevaluatedItems", makeUnevaluatedItems],
]);
