// Reservations: what a second request with the same key means, and that no two keys share a digest.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  digestOf,
  type Fingerprint,
  judgeReservation,
  type Reservation,
} from "../../src/domain/fingerprint.ts";
import type { LockToken } from "../../src/domain/lock.ts";
import type { RunId } from "../../src/domain/run.ts";

// Fixed, so that a green change stays green.
fc.configureGlobal({ seed: 1 });

const first = "run_00_first000" as RunId;
const second = "run_00_second00" as RunId;
const same = "v1:same" as Fingerprint;
const other = "v1:other" as Fingerprint;
const owner = "owner" as LockToken;
const newer = "newer" as LockToken;

const pending: Reservation = {
  state: "pending",
  runId: first,
  fingerprint: same,
  token: owner,
  expiresAtMs: 9,
};
const bound: Reservation = { state: "bound", runId: first, fingerprint: same };
const ended: Reservation = { ...bound, finalStatus: "failed", expiresAtMs: 9 };

describe("a request that asks for a key", () => {
  test.each([
    { found: undefined, asks: second, request: same, holder: undefined, verdict: "unbound" },
    { found: undefined, asks: second, request: same, holder: owner, verdict: "unbound" },
    { found: pending, asks: first, request: same, holder: owner, verdict: "ours" },
    { found: pending, asks: second, request: same, holder: owner, verdict: "idempotency_key_in_flight" },
    { found: pending, asks: second, request: other, holder: owner, verdict: "idempotency_key_in_flight" },
    { found: pending, asks: second, request: same, holder: undefined, verdict: "unbound" },
    { found: pending, asks: second, request: same, holder: newer, verdict: "unbound" },
    { found: pending, asks: first, request: same, holder: newer, verdict: "unbound" },
    { found: bound, asks: second, request: same, holder: undefined, verdict: "replay" },
    { found: bound, asks: second, request: same, holder: owner, verdict: "replay" },
    { found: bound, asks: first, request: same, holder: undefined, verdict: "replay" },
    { found: bound, asks: second, request: other, holder: undefined, verdict: "idempotency_key_reused" },
    { found: bound, asks: second, request: other, holder: newer, verdict: "idempotency_key_reused" },
    { found: ended, asks: second, request: same, holder: undefined, verdict: "replay" },
    { found: ended, asks: second, request: other, holder: undefined, verdict: "idempotency_key_reused" },
  ] as const)(
    "finds $found.state of $found.runId, asks as $asks with $request while $holder holds the lock: $verdict",
    ({ found, asks, request, holder, verdict }) => {
      expect(judgeReservation(found, { runId: asks, fingerprint: request }, holder)).toBe(verdict);
    },
  );

  test("never finds a pending reservation alive without its owner's lock (no poisoned key)", () => {
    const token = fc.option(fc.constantFrom("a", "b", "c"), { nil: undefined });
    fc.assert(
      fc.property(token, fc.constantFrom("a", "b", "c"), (holder, reservedBy) => {
        const reservation: Reservation = { ...pending, token: reservedBy as LockToken };
        const verdict = judgeReservation(
          reservation,
          { runId: second, fingerprint: same },
          holder as LockToken | undefined,
        );
        expect(verdict === "idempotency_key_in_flight").toBe(holder === reservedBy);
      }),
    );
  });
});

describe("the digest of a key", () => {
  const text = fc.string({ unit: "grapheme", maxLength: 20 });
  /** Texts that would collide if lengths were not part of what is hashed. */
  const tricky = fc.oneof(text, fc.stringMatching(/^[0-9]{0,3}:?[a-z0-9:]{0,6}$/));

  test("is SHA-256 in hexadecimal, and pinned: stored records depend on it", () => {
    expect(digestOf("start_run", "k")).toBe(
      "03137563cf58656a950f6b0dadf810d2d7fad86ac396c461147d58f9e5ec2206",
    );
  });

  test("is equal exactly for equal pairs of operation and key", () => {
    const pair = fc.tuple(tricky, tricky);
    fc.assert(
      fc.property(pair, pair, ([operation, key], [otherOperation, otherKey]) => {
        const equal = operation === otherOperation && key === otherKey;
        expect(digestOf(operation, key) === digestOf(otherOperation, otherKey)).toBe(equal);
      }),
      { numRuns: 2_000 },
    );
  });

  test("does not depend on where the operation ends and the key begins", () => {
    fc.assert(
      fc.property(tricky, fc.nat({ max: 20 }), fc.nat({ max: 20 }), (joined, one, another) => {
        fc.pre(one <= joined.length && another <= joined.length && one !== another);
        const split = (at: number) => digestOf(joined.slice(0, at), joined.slice(at));
        expect(split(one)).not.toBe(split(another));
      }),
    );
  });

  test("keeps keys apart that differ in case only", () => {
    expect(digestOf("start_run", "Key")).not.toBe(digestOf("start_run", "key"));
  });
});
