// The keywords of JSON Schema for objects and arrays. Only own properties count: never what every object inherits.
import type { JsonValue } from "../fingerprint.ts";
import type { Fields } from "./fields.ts";
import type { LinearPattern } from "./linear-pattern.ts";
import {
  type Check,
  charge,
  type Evaluated,
  fits,
  fitsInPlace,
  type KeywordLocation,
  type MakeCheck,
  type Run,
  report,
  type SchemaNode,
} from "./schema-node.ts";
import { lastEqualItems } from "./schema-scalars.ts";

/** Listing the names of an object and looking each up: about 100 ns. */
const stepsOfName = 8;

function namesOf(value: JsonValue, run: Run): readonly string[] {
  const names = Object.keys(value as Fields);
  charge(run, 4 + names.length * stepsOfName);
  return names;
}

/** Reading is quicker than asking first, and what is inherited is sorted out afterwards. */
function propertyOf(value: JsonValue, name: string): JsonValue | undefined {
  const inner = (value as Fields)[name];
  return inner !== undefined && Object.hasOwn(value as Fields, name) ? inner : undefined;
}

function fitsProperty(node: SchemaNode, inner: JsonValue, name: string, run: Run): boolean {
  run.problems?.enter(name);
  const isFit = fits(node, inner, run, undefined);
  run.problems?.leave();
  return isFit;
}

const makeMaxProperties: MakeCheck = (max) => (value, run) =>
  namesOf(value, run).length <= (max as number) || report(run, `must NOT have more than ${max} properties`);

const makeMinProperties: MakeCheck = (min) => (value, run) =>
  namesOf(value, run).length >= (min as number) || report(run, `must NOT have fewer than ${min} properties`);

const makeRequired: MakeCheck = (required) => {
  const names = required as string[];
  return (value, run) => {
    let isFit = true;
    charge(run, 2 * names.length);
    for (const name of names) {
      if (propertyOf(value, name) !== undefined) continue;
      run.problems?.addAt(name, "is required");
      if (!run.findsAll) return false;
      isFit = false;
    }
    return isFit;
  };
};

const makePropertyNames: MakeCheck = (schema, { node }) => {
  const inner = node(schema);
  if (inner.asksNothing) return undefined;
  return (value, run) => {
    let isFit = true;
    for (const name of namesOf(value, run)) {
      if (fits(inner, name, run, undefined)) continue;
      isFit = report(run, "property name must be valid");
      if (!run.findsAll) return false;
    }
    return isFit;
  };
};

const schemasOf = (value: JsonValue | undefined) => Object.entries((value ?? {}) as Fields);

/** Patterns are asked in the order in which they were written. */
function matchesAny(patterns: readonly LinearPattern[], name: string, run: Run): boolean {
  charge(run, patterns.length);
  return patterns.some((pattern) => pattern.test(name, run.steps));
}

const makeAdditionalProperties: MakeCheck = (schema, { schema: around, node, pattern }) => {
  const rest = node(schema);
  const known = new Set(schemasOf(around.properties).map(([name]) => name));
  const patterns = schemasOf(around.patternProperties).map(([source]) => pattern(source));
  return (value, run, evaluated) => {
    if (evaluated !== undefined) evaluated.allNames = true;
    if (rest.asksNothing) return true;
    let isFit = true;
    for (const name of namesOf(value, run)) {
      if (known.has(name) || matchesAny(patterns, name, run)) continue;
      const inner = (value as Fields)[name] as JsonValue;
      if (schema === false) run.problems?.addAt(name, "is not allowed here");
      else if (fitsProperty(rest, inner, name, run)) continue;
      if (!run.findsAll) return false;
      isFit = false;
    }
    return isFit;
  };
};

/** Up to here every name of the schema is looked up in the value; with more, every name of the value in the schema. */
const namesLookedUpMax = 16;

const makeProperties: MakeCheck = (properties, { node }) => {
  const nodes = new Map(schemasOf(properties).map(([name, schema]) => [name, node(schema)]));
  const asking = [...nodes].filter(([, inner]) => !inner.asksNothing);
  return (value, run, evaluated) => {
    if (evaluated !== undefined) speakOf(nodes, value, run, evaluated);
    if (asking.length === 0) return true;
    const pairs =
      nodes.size <= namesLookedUpMax
        ? asking
        : namesOf(value, run).flatMap((name) => {
            const inner = nodes.get(name);
            return inner === undefined ? [] : [[name, inner] as const];
          });
    let isFit = true;
    charge(run, 2 * pairs.length);
    for (const [name, inner] of pairs) {
      const property = propertyOf(value, name);
      if (property === undefined || fitsProperty(inner, property, name, run)) continue;
      if (!run.findsAll) return false;
      isFit = false;
    }
    return isFit;
  };
};

function speakOf(
  nodes: ReadonlyMap<string, SchemaNode>,
  value: JsonValue,
  run: Run,
  evaluated: Evaluated,
): void {
  for (const name of namesOf(value, run)) if (nodes.has(name)) evaluated.names.add(name);
}

const makePatternProperties: MakeCheck = (schemas, { node, pattern }) => {
  const pairs = schemasOf(schemas).map(([source, schema]) => ({
    pattern: pattern(source),
    node: node(schema),
  }));
  return (value, run, evaluated) => {
    let isFit = true;
    const names = namesOf(value, run);
    for (const pair of pairs) {
      charge(run, names.length);
      for (const name of names) {
        if (!pair.pattern.test(name, run.steps)) continue;
        evaluated?.names.add(name);
        if (fitsProperty(pair.node, (value as Fields)[name] as JsonValue, name, run)) continue;
        if (!run.findsAll) return false;
        isFit = false;
      }
    }
    return isFit;
  };
};

function checkDependency(name: string, required: readonly string[]): Check {
  const noun = required.length === 1 ? "property" : "properties";
  const message = `must have ${noun} ${required.join(", ").slice(0, 400)} when property ${name} is present`;
  return (value, run) => {
    if (propertyOf(value, name) === undefined) return true;
    let isFit = true;
    charge(run, 2 * required.length);
    for (const other of required) {
      if (propertyOf(value, other) !== undefined) continue;
      isFit = report(run, message);
      if (!run.findsAll) return false;
    }
    return isFit;
  };
}

function checkWhenPresent(name: string, node: SchemaNode): Check {
  return (value, run, evaluated) =>
    propertyOf(value, name) === undefined || fitsInPlace(node, value, run, evaluated);
}

/** What each name asks for when it is present: other names, or a schema of the whole object. */
const makeDependencies: MakeCheck = (dependencies, { node }: KeywordLocation) => {
  const entries = schemasOf(dependencies);
  const names = entries.filter(([, asked]) => Array.isArray(asked));
  const schemas = entries.filter(([, asked]) => !Array.isArray(asked));
  const checks = [
    ...names.map(([name, asked]) => checkDependency(name, asked as string[])),
    ...schemas.map(([name, asked]) => checkWhenPresent(name, node(asked))),
  ];
  return (value, run, evaluated) => {
    let isFit = true;
    charge(run, checks.length);
    for (const check of checks) {
      if (check(value, run, evaluated)) continue;
      if (!run.findsAll) return false;
      isFit = false;
    }
    return isFit;
  };
};

const makeUnevaluatedProperties: MakeCheck = (schema, { node }) => {
  const rest = node(schema);
  return (value, run, evaluated) => {
    if (evaluated === undefined || evaluated.allNames) return true;
    let isFit = true;
    for (const name of namesOf(value, run)) {
      if (evaluated.names.has(name)) continue;
      if (schema === false) report(run, "must NOT have unevaluated properties");
      else if (fitsProperty(rest, (value as Fields)[name] as JsonValue, name, run)) continue;
      isFit = false;
      if (!run.findsAll) return false;
    }
    evaluated.allNames = true;
    return isFit;
  };
};

/** In the order in which problems are listed. */
export const objectKeywords: ReadonlyMap<string, MakeCheck> = new Map([
  ["maxProperties", makeMaxProperties],
  ["minProperties", makeMinProperties],
  ["required", makeRequired],
  ["propertyNames", makePropertyNames],
  ["additionalProperties", makeAdditionalProperties],
  ["dependencies", makeDependencies],
  ["properties", makeProperties],
  ["patternProperties", makePatternProperties],
  ["dependentRequired", makeDependencies],
  ["dependentSchemas", makeDependencies],
  ["unevaluatedProperties", makeUnevaluatedProperties],
]);

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
