// Writes JSON in its one canonical form (RFC 8785), piece by piece: names in order, no space, numbers as JavaScript writes them.
import type { JsonValue } from "./fingerprint.ts";

/** A piece of the costliest JSON takes 4 ms to write. */
const pieceCharacters = 32_768;

/** An array or an object that is being written. */
type Open = {
  readonly json: JsonValue;
  /** Of an object, in order. */
  readonly names: readonly string[] | undefined;
  readonly length: number;
  next: number;
};

/** All pieces together are the text. */
export function* canonicalPieces(json: JsonValue): Generator<string, undefined, undefined> {
  const open: Open[] = [];
  let piece = "";
  let value: JsonValue | undefined = json;
  for (;;) {
    if (typeof value === "object" && value !== null) {
      open.push(opened(value));
      piece += Array.isArray(value) ? "[" : "{";
    } else piece += scalarText(value);
    let around = open.at(-1);
    for (; around !== undefined && around.next === around.length; around = open.at(-1)) {
      piece += around.names === undefined ? "]" : "}";
      open.pop();
    }
    if (around === undefined || piece.length >= pieceCharacters) {
      yield piece;
      piece = "";
      if (around === undefined) return;
    }
    if (around.next > 0) piece += ",";
    const name = around.names?.[around.next];
    if (name !== undefined) piece += `${scalarText(name)}:`;
    value = (around.json as Readonly<Record<string, JsonValue>>)[name ?? around.next];
    around.next += 1;
  }
}

function opened(json: JsonValue): Open {
  if (Array.isArray(json)) return { json, names: undefined, length: json.length, next: 0 };
  const fields = json as Readonly<Record<string, JsonValue | undefined>>;
  // What is undefined is not there, as everywhere in JSON.
  const names = Object.keys(fields).filter((name) => fields[name] !== undefined);
  names.sort();
  return { json, names, length: names.length, next: 0 };
}

function scalarText(value: JsonValue | undefined): string {
  const isWritable =
    typeof value === "string" ? value.isWellFormed() : typeof value !== "number" || Number.isFinite(value);
  if (!isWritable) throw new Error("a number without end or half of a surrogate pair has no canonical form");
  return JSON.stringify(value ?? null);
}
