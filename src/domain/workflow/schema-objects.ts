// The keywords of JSON Schema for objects. Only own properties count: never what every object inherits.
import type { JsonValue } from "../fingerprint.ts";
import type { Fields } from "./fields.ts";
import type { LinearPattern } from "./linear-pattern.ts";
import {
  type Check,
  charge,
  type Evaluated,
  fits,
  fitsInPlace,
  type KeywordPlace,
  type MakeCheck,
  type Run,
  report,
  type SchemaNode,
} from "./schema-node.ts";

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
const makeDependencies: MakeCheck = (dependencies, { node }: KeywordPlace) => {
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
