// Bounds what checking an input may cost: how much a schema says about one value, once its references are followed.
import type { JsonValue } from "../fingerprint.ts";
import type { Problem } from "./compiled.ts";
import { type Fields, isFields } from "./fields.ts";
import { placeIn } from "./place.ts";

export type SchemaCost = {
  /** Keywords that may be applied to one value. */
  readonly keywords: number;
  /** Every item is compared with every other. */
  readonly comparesItems: boolean;
};

export type CostReading =
  | { readonly kind: "cost"; readonly cost: SchemaCost }
  | { readonly kind: "invalid"; readonly problems: readonly Problem[] };

/** References can double the work at every level, so that a page of schema would take 2^30 steps. */
const keywordsMax = 10_000;

/** One subschema, a map of them, or a list of them. */
const single = [
  "additionalProperties",
  "contains",
  "else",
  "if",
  "items",
  "not",
  "propertyNames",
  "then",
  "unevaluatedItems",
  "unevaluatedProperties",
];
const named = ["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"];
const listed = ["allOf", "anyOf", "oneOf", "prefixItems"];

/** Needed to name schemas from elsewhere or at run time; `$async` would turn the answer into a promise. */
const refusedKeywords = [
  "$anchor",
  "$async",
  "$dynamicAnchor",
  "$dynamicRef",
  "$recursiveAnchor",
  "$recursiveRef",
  "$vocabulary",
];

/** `place` is where the schema stands: problems are told below it. */
export function costOf(root: Fields, place: string): CostReading {
  const walk: Walk = { root, place, problems: [], costs: new Map(), open: new Set(), comparesItems: false };
  checkAll(walk, root, place);
  if (walk.problems.length > 0) return { kind: "invalid", problems: walk.problems };
  const keywords = keywordsOf(walk, root);
  if (walk.problems.length > 0) return { kind: "invalid", problems: walk.problems };
  return { kind: "cost", cost: { keywords, comparesItems: walk.comparesItems } };
}

type Walk = {
  readonly root: Fields;
  readonly place: string;
  readonly problems: Problem[];
  readonly costs: Map<Fields, number>;
  readonly open: Set<Fields>;
  comparesItems: boolean;
};

type Subschema = { readonly keyword: string; readonly path: string; readonly schema: Fields };

function subschemas(schema: Fields, path: string): Subschema[] {
  return Object.entries(schema).flatMap(([keyword, value]) => {
    const place = placeIn(path, keyword);
    if (single.includes(keyword)) return isFields(value) ? [{ keyword, path: place, schema: value }] : [];
    if (named.includes(keyword) && isFields(value)) {
      return Object.entries(value).flatMap(([name, inner]) =>
        isFields(inner) ? [{ keyword, path: placeIn(place, name), schema: inner }] : [],
      );
    }
    if (!listed.includes(keyword) || !Array.isArray(value)) return [];
    return value.flatMap((inner: JsonValue, index) =>
      isFields(inner) ? [{ keyword, path: `${place}[${index}]`, schema: inner }] : [],
    );
  });
}

/** Every schema inside, used or not. */
function checkAll(walk: Walk, schema: Fields, path: string): void {
  for (const keyword of refusedKeywords) {
    if (Object.hasOwn(schema, keyword))
      walk.problems.push({ path: placeIn(path, keyword), message: "not supported" });
  }
  if (schema !== walk.root && Object.hasOwn(schema, "$id")) {
    walk.problems.push({ path: placeIn(path, "$id"), message: "only the whole schema may have an id" });
  }
  if (Object.hasOwn(schema, "$ref") && targetOf(walk.root, schema.$ref) === undefined) {
    const message = "must point into this schema, as #/$defs/address; other schemas are never fetched";
    walk.problems.push({ path: placeIn(path, "$ref"), message });
  }
  if (schema.uniqueItems === true) walk.comparesItems = true;
  for (const inner of subschemas(schema, path)) checkAll(walk, inner.schema, inner.path);
}

/** A reference to itself would multiply with the depth of the input, so recursion is refused. */
function keywordsOf(walk: Walk, schema: Fields): number {
  const known = walk.costs.get(schema);
  if (known !== undefined) return known;
  if (walk.open.has(schema)) {
    if (walk.problems.length === 0) {
      walk.problems.push({
        path: walk.place,
        message: "a schema that refers to itself is not supported",
      });
    }
    return 0;
  }
  walk.open.add(schema);
  const target = Object.hasOwn(schema, "$ref") ? targetOf(walk.root, schema.$ref) : undefined;
  const applied = subschemas(schema, "").filter(
    ({ keyword }) => keyword !== "$defs" && keyword !== "definitions",
  );
  const inner = [...applied.map((part) => part.schema), ...(isFields(target) ? [target] : [])];
  let cost = 1 + Object.keys(schema).length + (Array.isArray(schema.enum) ? schema.enum.length : 0);
  for (const part of inner) cost += keywordsOf(walk, part);
  walk.open.delete(schema);
  walk.costs.set(schema, cost);
  if (cost > keywordsMax && walk.problems.length === 0) {
    const message = `the schema says more than ${keywordsMax} things, counting what it refers to`;
    walk.problems.push({ path: walk.place, message });
  }
  return cost;
}

/** Only pointers into the schema itself: `#` and `#/a/b`. */
function targetOf(root: Fields, reference: JsonValue | undefined): JsonValue | undefined {
  if (typeof reference !== "string" || !/^#(\/|$)/.test(reference)) return undefined;
  let at: JsonValue | undefined = root;
  for (const part of reference.split("/").slice(1)) {
    const name = decoded(part);
    if (name === undefined || at === null || typeof at !== "object" || !Object.hasOwn(at, name))
      return undefined;
    at = (at as Fields)[name];
  }
  return isFields(at) || typeof at === "boolean" ? at : undefined;
}

function decoded(part: string): string | undefined {
  try {
    return decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~");
  } catch {
    return undefined;
  }
}
