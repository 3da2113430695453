// Idempotency: how a key is read from a request, what binds it to a run, and what a second request with it means.
import { hash } from "node:crypto";
import type { Brand } from "./brand.ts";
import type { LockToken } from "./lock.ts";
import type { RunId, TerminalStatus } from "./run.ts";

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
  const keys = new Set<string>();
  for (const value of values) {
    const key = unquote(value.trim());
    if (key === undefined) return { kind: "invalid", why: "a quoted key must end with a quote" };
    if (key.length === 0) return { kind: "invalid", why: "the key is empty" };
    if (key.length > 255)
      return { kind: "invalid", why: `the key has ${key.length} characters, 255 are allowed` };
    if (!/^[\x21-\x7e]+$/.test(key)) {
      return { kind: "invalid", why: "the key may hold visible ASCII characters only" };
    }
    keys.add(key);
  }
  if (keys.size > 1) return { kind: "invalid", why: "two different keys were sent" };
  const [text] = keys;
  return text === undefined ? { kind: "none" } : { kind: "key", text };
}

function unquote(value: string): string | undefined {
  if (!value.startsWith('"')) return value;
  if (!/^"(?:[^"\\]|\\["\\])*"$/.test(value)) return undefined;
  return value.slice(1, -1).replaceAll(/\\(["\\])/g, "$1");
}
