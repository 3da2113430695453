// Idempotency: whether two requests ask for the same thing (a hash of their canonical form, RFC 8785), and what binds a key to a run.
import { createHash, hash } from "node:crypto";
import type { LockToken } from "./lock.ts";
import type { RunId, TerminalStatus } from "./run.ts";
import { atOnce, type Sliced } from "./slices.ts";
import type { Brand } from "./tenant.ts";

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

/** The same in slices, for bodies of megabytes; what fits into one piece is hashed at once. */
export function* fingerprinting(request: FingerprintedRequest): Sliced<Fingerprint> {
  const { method, path, query, body } = request;
  // An object with the names body, method, path and query, in this order.
  const writer = new CanonicalWriter(withoutTenantAlias(body));
  const first = `{"body":${writer.piece()}`;
  const asked = `,"method":${quoted(method.toUpperCase())},"path":${quoted(path)},"query":${listedText(query)}}`;
  if (writer.isDone()) return `${recipe}:${hash("sha256", first + asked)}` as Fingerprint;
  const hashing = createHash("sha256").update(first);
  while (!writer.isDone()) {
    yield;
    hashing.update(writer.piece());
  }
  return `${recipe}:${hashing.update(asked).digest("hex")}` as Fingerprint;
}

function listedText(query: FingerprintedRequest["query"]): string {
  let text = "";
  for (const name of listedParameters) {
    const value = query[name];
    if (value !== undefined) text += `${text === "" ? "" : ","}"${name}":${quoted(value)}`;
  }
  return `{${text}}`;
}

/** `org_id` repeats the credential's tenant, which is part of the key's scope already. */
function withoutTenantAlias(body: JsonValue): JsonValue {
  if (body === null || typeof body !== "object" || !Object.hasOwn(body, "org_id") || Array.isArray(body))
    return body;
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

/** Writes the canonical text piece by piece. A class, since the place where it goes on is kept between two pieces. */
class CanonicalWriter {
  readonly #open: Open[] = [];
  /** What comes next, unless all is written. */
  #value: JsonValue | undefined;
  #isDone = false;

  constructor(json: JsonValue) {
    this.#value = json;
  }

  isDone(): boolean {
    return this.#isDone;
  }

  /** All pieces together are the text. */
  piece(): string {
    const open = this.#open;
    let piece = "";
    let value = this.#value;
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
      if (around === undefined) {
        this.#isDone = true;
        return piece;
      }
      const isFull = piece.length >= pieceCharacters;
      if (around.next > 0) piece += ",";
      const name = around.names?.[around.next];
      if (name !== undefined) piece += `${quoted(name)}:`;
      value = (around.json as Readonly<Record<string, JsonValue>>)[name ?? around.next];
      around.next += 1;
      if (isFull) {
        this.#value = value;
        return piece;
      }
    }
  }
}

function opened(json: JsonValue): Open {
  if (Array.isArray(json)) return { json, names: undefined, length: json.length, next: 0 };
  const fields = json as Readonly<Record<string, JsonValue | undefined>>;
  let names = Object.keys(fields);
  let isSorted = true;
  let isWhole = true;
  for (let index = 0; index < names.length; index += 1) {
    const name = names[index] as string;
    if (index > 0 && name < (names[index - 1] as string)) isSorted = false;
    if (fields[name] === undefined) isWhole = false;
  }
  // What is undefined is not there, as everywhere in JSON.
  if (!isWhole) names = names.filter((name) => fields[name] !== undefined);
  if (!isSorted) names.sort();
  return { json, names, length: names.length, next: 0 };
}

function scalarText(value: JsonValue | undefined): string {
  if (typeof value === "string") return quoted(value);
  if (typeof value === "number" && !Number.isFinite(value)) throw new Error(noCanonicalForm);
  return String(value ?? null);
}

const noCanonicalForm = "a number without end or half of a surrogate pair has no canonical form";

/** Visible ASCII characters without quotes and backslashes stand for themselves. */
const plainText = /^[ !#-[\]-~]*$/;

function quoted(text: string): string {
  if (plainText.test(text)) return `"${text}"`;
  if (!text.isWellFormed()) throw new Error(noCanonicalForm);
  return JSON.stringify(text);
}

/** SHA-256 of (operation, key): keys of any form become one fixed-size part of a record's name. */
export type ReservationDigest = Brand<string, "ReservationDigest">;

/** Version tag + SHA-256 of the canonical request: two requests with the same fingerprint ask for the same thing. */
export type Fingerprint = Brand<string, "Fingerprint">;

export type Reservation =
  | {
      readonly state: "pending";
      readonly runId: RunId;
      readonly fingerprint: Fingerprint;
      /** Token of the admission lock under which the key was reserved. */
      readonly token: LockToken;
      readonly expiresAtMs: number;
    }
  | {
      readonly state: "bound";
      readonly runId: RunId;
      readonly fingerprint: Fingerprint;
      /** Known once the run has ended; it still answers replays after retention removed the run. */
      readonly finalStatus?: TerminalStatus;
      /** Absent while the run is not terminal: a record never expires before its run. */
      readonly expiresAtMs?: number;
    };

type ReservationVerdict =
  | "unbound"
  | "ours"
  | "idempotency_key_in_flight"
  | "idempotency_key_reused"
  | "replay";

/**
 * What a request finds when it asks for a key. A pending reservation lives only as long as its owner holds the admission lock:
 * after that its owner can no longer create the run, so the key is free again.
 */
export function judgeReservation(
  reservation: Reservation | undefined,
  asked: { readonly runId: RunId; readonly fingerprint: Fingerprint },
  admissionLockToken: LockToken | undefined,
): ReservationVerdict {
  if (reservation === undefined) return "unbound";
  if (reservation.state === "pending") {
    if (reservation.token !== admissionLockToken) return "unbound";
    return reservation.runId === asked.runId ? "ours" : "idempotency_key_in_flight";
  }
  return reservation.fingerprint === asked.fingerprint ? "replay" : "idempotency_key_reused";
}

/** Lengths are part of what is hashed, so that no two (operation, key) pairs give the same text. */
export function digestOf(operation: string, key: string): ReservationDigest {
  const text = `${operation.length}:${operation}${key.length}:${key}`;
  return hash("sha256", text) as ReservationDigest;
}

export type KeyReading =
  | { readonly kind: "none" }
  | { readonly kind: "key"; readonly text: string }
  | { readonly kind: "invalid"; readonly why: string };

/**
 * `values` are all values of the accepted headers (`Idempotency-Key`, `X-Idempotency-Key`). The quoted form is a structured-field
 * string: `"a\"b"` is the key `a"b`, and the same key as the bare `a"b`.
 */
export function readIdempotencyKey(values: readonly string[]): KeyReading {
  let known: string | undefined;
  let others = 0;
  for (const value of values) {
    const key = unquote(value.trim());
    if (key === undefined) return { kind: "invalid", why: "a quoted key must end with a quote" };
    if (key.length === 0) return { kind: "invalid", why: "the key is empty" };
    if (key.length > 255)
      return { kind: "invalid", why: `the key has ${key.length} characters, 255 are allowed` };
    if (!/^[\x21-\x7e]+$/.test(key)) {
      return { kind: "invalid", why: "the key may hold visible ASCII characters only" };
    }
    if (known !== undefined && key !== known) others += 1;
    known = key;
  }
  if (others > 0) return { kind: "invalid", why: "two different keys were sent" };
  return known === undefined ? { kind: "none" } : { kind: "key", text: known };
}

function unquote(value: string): string | undefined {
  if (!value.startsWith('"')) return value;
  if (!/^"(?:[^"\\]|\\["\\])*"$/.test(value)) return undefined;
  return value.slice(1, -1).replaceAll(/\\(["\\])/g, "$1");
}
