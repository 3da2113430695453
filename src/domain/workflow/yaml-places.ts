// Finds where a place of a definition, such as steps.review.depends_on[0], stands in its YAML text.
import { type Alias, isAlias, isMap, isScalar, isSeq, type ParsedNode } from "yaml";

/** What each alias stands for. */
export type YamlTargets = ReadonlyMap<Alias, ParsedNode>;

/**
 * The character where the last part of the path that is there was written: a field by its name, an item by itself. So what is
 * missing is reported at what it is missing from.
 */
export function findNode(
  contents: ParsedNode | null,
  targets: YamlTargets,
  path: string,
): number | undefined {
  let node = contents;
  let offset = contents?.range[0];
  for (const key of keysOf(path)) {
    const at = node !== null && isAlias(node) ? (targets.get(node) ?? null) : node;
    const found = memberOf(at, key);
    if (found === undefined) return offset;
    offset = found.offset;
    node = found.node;
  }
  return offset;
}

function memberOf(node: ParsedNode | null, key: string | number) {
  if (node === null) return undefined;
  if (isSeq(node) && typeof key === "number") {
    const item = node.items[key] as ParsedNode | undefined;
    return item === undefined ? undefined : { node: item, offset: item.range[0] };
  }
  if (!isMap(node)) return undefined;
  const pair = node.items.find((one) => isScalar(one.key) && String(one.key.value ?? "") === String(key));
  if (pair === undefined) return undefined;
  return { node: pair.value as ParsedNode | null, offset: (pair.key as ParsedNode).range[0] };
}

/** The inverse of `placeIn`: names after dots, texts in quotes and numbers in brackets. */
function keysOf(path: string): (string | number)[] {
  const parts = path.matchAll(/\[(\d+)\]|\[("(?:\\.|[^"\\])*")\]|([^.[\]]+)/g);
  return [...parts].map(([, index, quoted, name]) => {
    if (index !== undefined) return Number(index);
    return quoted === undefined ? (name ?? "") : (JSON.parse(quoted) as string);
  });
}
