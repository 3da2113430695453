// Tells whether two requests ask for the same thing: a hash of their canonical form (RFC 8785), which is written here.
import { createHash } from "node:crypto";
import type { Fingerprint } from "./reservation.ts";
import { atOnce, type Sliced } from "./slices.ts";

export type JsonValue =
  | null
  | boolean
  | number
  | string
  | readonly JsonValue[]
  | { readonly [name: string]: JsonValue };

export type FingerprintedRequest = {
  readonly method: string;
  /** With the concrete ids, so that one key on two workflows is two requests. */
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  /** As sent, before defaults are filled in. */
  readonly body: JsonValue;
};

/** Only these change what a start does; other parameters (and envelope ids added by proxies) must not break a retry. */
const listedParameters = ["dry_run", "team_id"];

/** The tag changes when the recipe does, so that old records never match by accident. */
const recipe = "v1";

export function fingerprintOf(request: FingerprintedRequest): Fingerprint {
  return atOnce(fingerprinting(request));
}

/** The same in slices, for bodies of megabytes. */
export function* fingerprinting(request: FingerprintedRequest): Sliced<Fingerprint> {
  const query = Object.fromEntries(
    listedParameters.flatMap((name) => {
      const value = request.query[name];
      return value === undefined ? [] : [[name, value]];
    }),
  );
  const hash = createHash("sha256");
  const pieces = canonicalPieces({
    method: request.method.toUpperCase(),
    path: request.path,
    query,
    body: withoutTenantAlias(request.body),
  });
  let written = 0;
  for (const piece of pieces) {
    if (written > 0) yield;
    hash.update(piece);
    written += piece.length;
  }
  return `${recipe}:${hash.digest("hex")}` as Fingerprint;
}

/** `org_id` repeats the credential's tenant, which is part of the key's scope already. */
function withoutTenantAlias(body: JsonValue): JsonValue {
  if (body === null || typeof body !== "object" || Array.isArray(body)) return body;
  const { org_id: _tenant, ...rest } = body as { readonly [name: string]: JsonValue };
  return rest;
}

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
function* canonicalPieces(json: JsonValue): Generator<string, undefined, undefined> {
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
