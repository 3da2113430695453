// Compares JSON values by their canonical text, so that a list of n values is compared in n steps and not n times n.
import type { JsonValue } from "../fingerprint.ts";
import type { Fields } from "./fields.ts";

/** Counts the steps of a comparison; throws when they are spent. */
export type Spend = (steps: number) => void;

/** Scalars as they are, the others as text: no text of one is equal to a scalar of the other. */
type ValueSet = { readonly scalars: Set<JsonValue>; readonly texts: Set<string> };

export function valueSet(values: readonly JsonValue[], spend: Spend): ValueSet {
  const set: ValueSet = { scalars: new Set(), texts: new Set() };
  for (const value of values) {
    if (isScalar(value)) set.scalars.add(value);
    else set.texts.add(canonicalText(value, spend));
    spend(1);
  }
  return set;
}

export function hasValue({ scalars, texts }: ValueSet, value: JsonValue, spend: Spend): boolean {
  if (isScalar(value)) {
    if (typeof value === "string") spend(value.length >> 4);
    return scalars.has(value);
  }
  return texts.size > 0 && texts.has(canonicalText(value, spend));
}

/** The last two equal items: the later one, and the nearest before it. Undefined when all differ. */
export function lastEqualItems(
  items: readonly JsonValue[],
  spend: Spend,
): { readonly before: number; readonly after: number } | undefined {
  const scalars = new Map<JsonValue, number>();
  const texts = new Map<string, number>();
  let found: { before: number; after: number } | undefined;
  for (const [index, item] of items.entries()) {
    // An entry of a map that grows takes about 150 ns.
    spend(14);
    if (typeof item === "string") spend(item.length >> 4);
    const before = isScalar(item)
      ? seen(scalars, item, index)
      : seen(texts, canonicalText(item, spend), index);
    if (before !== undefined) found = { before, after: index };
  }
  return found;
}

function seen<Key>(places: Map<Key, number>, key: Key, index: number): number | undefined {
  const before = places.get(key);
  places.set(key, index);
  return before;
}

function isScalar(value: JsonValue): boolean {
  return typeof value !== "object" || value === null;
}

/** JSON with the names of objects sorted. */
function canonicalText(value: JsonValue, spend: Spend): string {
  const parts: string[] = [];
  write(parts, value, spend);
  return parts.join("");
}

function write(parts: string[], value: JsonValue, spend: Spend): void {
  if (typeof value === "string") spend(10 + (value.length >> 2));
  else spend(10);
  if (typeof value !== "object" || value === null) {
    parts.push(JSON.stringify(value));
    return;
  }
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) {
      parts.push(index === 0 ? "[" : ",");
      write(parts, item, spend);
    }
    parts.push(value.length === 0 ? "[]" : "]");
    return;
  }
  const fields = value as Fields;
  const names = Object.keys(fields);
  // Sorting takes length times its logarithm; names share beginnings, so their length counts.
  spend(names.length * (8 + Math.ceil(Math.log2(names.length + 1))));
  names.sort();
  for (const [index, name] of names.entries()) {
    spend(name.length >> 2);
    parts.push(index === 0 ? "{" : ",", JSON.stringify(name), ":");
    write(parts, fields[name] as JsonValue, spend);
  }
  parts.push(names.length === 0 ? "{}" : "}");
}
