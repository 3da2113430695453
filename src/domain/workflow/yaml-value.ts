// Turns parsed YAML into JSON with the place of every value, and refuses what JSON cannot say.
import {
  type Alias,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  type ParsedNode,
  type Scalar,
  type YAMLMap,
  type YAMLSeq,
} from "yaml";
import { excerptOf } from "../excerpt.ts";
import type { JsonValue } from "../fingerprint.ts";
import { isHeldExactly, numberCharactersMax } from "../strict-json.ts";
import type { Found } from "./yaml-text.ts";

/** As deep as JSON is read. */
export const yamlDepthMax = 32;

const aliasesMax = 100;

type YamlValue = {
  readonly value: JsonValue;
  readonly found: readonly Found[];
  readonly targets: YamlTargets;
};

/** `sizeMax` bounds what aliases may add up to: nine lines can stand for a billion values. */
export function yamlValue(contents: ParsedNode | null, sizeMax: number): YamlValue {
  const walk: Walk = {
    found: [],
    targets: new Map(),
    anchors: new Map(),
    aliases: 0,
    sizeLeft: sizeMax,
  };
  const value = jsonOf(walk, contents, 0);
  return { value, found: walk.found, targets: walk.targets };
}

type Anchored = {
  readonly node: ParsedNode;
  readonly value: JsonValue;
  readonly size: number;
  /** Levels below the anchored value itself. */
  readonly height: number;
};

type Walk = {
  readonly found: Found[];
  readonly targets: Map<Alias, ParsedNode>;
  /** By name; an open one stands for what is still being read. */
  readonly anchors: Map<string, Anchored | "open">;
  aliases: number;
  sizeLeft: number;
};

type Node = ParsedNode | null;

function jsonOf(walk: Walk, node: Node, depth: number): JsonValue {
  // Once too much is too much: the rest is not looked at.
  if (walk.sizeLeft < 0) return null;
  if (node === null) return null;
  if (depth > yamlDepthMax) return refuse(walk, node, `nested deeper than ${yamlDepthMax}`);
  if (isAlias(node)) return aliasValue(walk, node, depth);
  if (node.tag !== undefined && !knownTags.includes(node.tag)) {
    return refuse(walk, node, `the tag ${excerptOf(node.tag)} is not supported`);
  }
  take(walk, node, 2);
  const { anchor } = node;
  if (anchor === undefined) return plainValue(walk, node, depth);
  walk.anchors.set(anchor, "open");
  const sizeBefore = walk.sizeLeft;
  const value = plainValue(walk, node, depth);
  const size = 2 + sizeBefore - walk.sizeLeft;
  walk.anchors.set(anchor, { node, value, size, height: heightOf(value) });
  return value;
}

const knownTags = ["str", "int", "float", "bool", "null", "map", "seq"].map(
  (name) => `tag:yaml.org,2002:${name}`,
);

function refuse(walk: Walk, node: ParsedNode, message: string): null {
  walk.found.push({ message, offset: node.range[0] });
  return null;
}

function take(walk: Walk, node: ParsedNode, size: number): void {
  if (walk.sizeLeft < 0) return;
  walk.sizeLeft -= size;
  if (walk.sizeLeft < 0) refuse(walk, node, "the text is too large once its aliases are written out");
}

function aliasValue(walk: Walk, node: Alias.Parsed, depth: number): JsonValue {
  walk.aliases += 1;
  if (walk.aliases > aliasesMax) {
    walk.sizeLeft = -1;
    return refuse(walk, node, `has more than ${aliasesMax} aliases`);
  }
  const anchored = walk.anchors.get(node.source);
  if (anchored === undefined)
    return refuse(walk, node, `there is no anchor "${excerptOf(node.source)}" before it`);
  if (anchored === "open") return refuse(walk, node, `"${excerptOf(node.source)}" contains itself`);
  if (depth + anchored.height > yamlDepthMax) return refuse(walk, node, `nested deeper than ${yamlDepthMax}`);
  take(walk, node, anchored.size);
  walk.targets.set(node, anchored.node);
  return anchored.value;
}

function heightOf(value: JsonValue): number {
  if (value === null || typeof value !== "object") return 0;
  const inner: readonly JsonValue[] = Object.values(value);
  return inner.reduce<number>((height, one) => Math.max(height, 1 + heightOf(one)), 0);
}

function plainValue(walk: Walk, node: Exclude<ParsedNode, Alias.Parsed>, depth: number): JsonValue {
  if (isMap(node)) return mapValue(walk, node, depth);
  if (isSeq(node)) return (node as YAMLSeq.Parsed).items.map((item) => jsonOf(walk, item, depth + 1));
  return scalarValue(walk, node as Scalar.Parsed);
}

function mapValue(walk: Walk, node: YAMLMap.Parsed, depth: number): JsonValue {
  const entries = new Map<string, JsonValue>();
  for (const { key, value } of node.items) {
    if (!isScalar(key)) {
      refuse(walk, key ?? node, "a name must be a text");
      continue;
    }
    const name = String(key.value ?? "");
    take(walk, key, 2 + name.length);
    if (!name.isWellFormed()) refuse(walk, key, "a name holds half of a surrogate pair");
    if (name === "<<" && key.type === "PLAIN")
      refuse(walk, key, "merge keys (<<) are not supported: write the fields out");
    else if (entries.has(name))
      refuse(walk, key, `the name ${JSON.stringify(excerptOf(name))} stands twice in one map`);
    entries.set(name, jsonOf(walk, value, depth + 1));
  }
  return objectOf(entries);
}

function scalarValue(walk: Walk, node: Scalar.Parsed): JsonValue {
  const value: unknown = node.value;
  if (typeof value === "string") {
    take(walk, node, value.length);
    return value.isWellFormed() ? value : refuse(walk, node, "a text holds half of a surrogate pair");
  }
  if (typeof value === "number") return numberValue(walk, node, value);
  if (value === null || typeof value === "boolean") return value;
  return refuse(walk, node, "is no value that JSON has");
}

/** Readers of older YAML take 010 for eight, others for ten. */
function numberValue(walk: Walk, node: Scalar.Parsed, value: number): JsonValue {
  const source = node.source.trim();
  const shown = excerptOf(source);
  if (/^[-+]?0\d/.test(source))
    return refuse(walk, node, `the number ${shown} starts with zero; drop it, or put a text in quotes`);
  if (source.length > numberCharactersMax) {
    const length = `${source.length} characters, ${numberCharactersMax} are allowed`;
    return refuse(walk, node, `the number ${shown} has ${length}; put it in quotes`);
  }
  const isExact = /^[-+]?0[xo]/.test(source)
    ? Number.isSafeInteger(value)
    : Number.isFinite(value) && isHeldExactly(asJson(source), value);
  if (isExact) return value === 0 ? 0 : value;
  return refuse(walk, node, `the number ${shown} cannot be held exactly; put it in quotes`);
}

/** YAML allows a plus, and no digit before or after the point. */
function asJson(source: string): string {
  return source
    .replace(/^\+/, "")
    .replace(/^(-?)\./, "$10.")
    .replace(/\.(?=$|[eE])/, "");
}

/**
 * Only the built-in parser gives an object no more room than it needs: made by assignments, `{1000: x}` takes 12 KB, and
 * 256 KiB of such maps 300 MB.
 */
function objectOf(entries: ReadonlyMap<string, JsonValue>): JsonValue {
  const names = [...entries.keys()];
  if (!names.some((name) => /^\d+$/.test(name))) return Object.fromEntries(entries);
  const text = names.map((name) => `${JSON.stringify(name)}:0`).join(",");
  const fields = JSON.parse(`{${text}}`) as Record<string, JsonValue>;
  for (const [name, value] of entries) fields[name] = value;
  return fields;
}

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

/** The inverse of `pathIn`: names after dots, texts in quotes and numbers in brackets. */
function keysOf(path: string): (string | number)[] {
  const parts = path.matchAll(/\[(\d+)\]|\[("(?:\\.|[^"\\])*")\]|([^.[\]]+)/g);
  return [...parts].map(([, index, quoted, name]) => {
    if (index !== undefined) return Number(index);
    return quoted === undefined ? (name ?? "") : (JSON.parse(quoted) as string);
  });
}
