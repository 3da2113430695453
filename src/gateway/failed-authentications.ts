// Decides which keys the store is asked about: those that worked lately always; of unknown ones, so many a minute per address and per key id.
import { hash } from "node:crypto";
import { readKeyText } from "../domain/api-key.ts";
import { networkOf } from "../domain/network-address.ts";
import type { Clock } from "../ports/ports.ts";

export type FailedAuthentications = {
  /** To be called before the store is asked about a key, and ended with what came of it. */
  begin(address: string, keyText: string): KeyCheck;
  /** Whether the key worked within the last minute. */
  isKnown(keyText: string): boolean;
  /** Bounds the lines about requests without a valid key, so that a flood of them does not fill the log. */
  isLogged(address: string): boolean;
};

export type KeyOutcome = "good" | "bad" | "trouble";

type KeyCheck =
  | { readonly kind: "ask"; end(outcome: KeyOutcome): void }
  /** Cannot be a key, or was refused a moment ago. */
  | { readonly kind: "bad" }
  | { readonly kind: "wait"; readonly seconds: number };

const minuteMs = 60_000;
/** How long a refused key is refused again without asking. */
const badForMs = 10_000;
/** Keys, addresses and ids remembered; the oldest are forgotten first. An attacker with more of them has won nothing but tries. */
const entriesMax = 10_000;
/** Unknown keys asked about at once for an address without failures: many workers behind one address may start together. */
const atOnceMax = 256;
/** Refused keys remembered until they come back: 10 s of the 10,000 requests a second that one process can refuse. */
const refusedMax = 100_000;

/** Failures that are left, of `perMinute`, and look-ups under way that may yet fail. */
type Allowance = { left: number; atMs: number; asking: number };

export function createFailedAuthentications(clock: Clock, perMinute: number): FailedAuthentications {
  const goodUntilMs = new Map<string, number>();
  const badUntilMs = new Map<string, number>();
  const allowances = new Map<string, Allowance>();
  let refused = new Set<number>();
  let refusedBefore = new Set<number>();

  const isWithin = (entries: ReadonlyMap<string, number>, digest: string) =>
    (entries.get(digest) ?? 0) > clock.monotonicMs();

  const allowanceOf = (name: string): Allowance => {
    const nowMs = clock.monotonicMs();
    const known = allowances.get(name) ?? { left: perMinute, atMs: nowMs, asking: 0 };
    known.left = Math.min(perMinute, known.left + ((nowMs - known.atMs) * perMinute) / minuteMs);
    known.atMs = nowMs;
    remember(allowances, name, known);
    return known;
  };

  const hasRoom = ({ left, asking }: Allowance) =>
    asking + 1 <= (left >= perMinute ? Math.max(perMinute, atOnceMax) : left);

  const noteRefused = (mark: number) => {
    if (refused.size >= refusedMax / 2) {
      refusedBefore = refused;
      refused = new Set();
    }
    refused.add(mark);
  };

  const learn = (digest: string, outcome: KeyOutcome) => {
    const nowMs = clock.monotonicMs();
    if (outcome === "good") remember(goodUntilMs, digest, nowMs + minuteMs);
    if (outcome === "bad") {
      goodUntilMs.delete(digest);
      remember(badUntilMs, digest, nowMs + badForMs);
    }
  };

  /**
   * Keys that were refused and come back have an allowance of their own. A flood of keys never seen before uses up only the other one,
   * so that a good key gets in with its second try.
   */
  const checkUnknown = (address: string, keyId: string, digest: string): KeyCheck => {
    const mark = Number.parseInt(digest.slice(0, 12), 16);
    const turn = refused.has(mark) || refusedBefore.has(mark) ? "again" : "first";
    const taken = [`address ${turn} ${networkOf(address)}`, `key ${turn} ${keyId}`].map(allowanceOf);
    const full = taken.find((allowance) => !hasRoom(allowance));
    if (full !== undefined) {
      noteRefused(mark);
      const missing = turn === "first" ? 0 : 1 + full.asking - full.left;
      return { kind: "wait", seconds: Math.min(60, Math.max(1, Math.ceil((missing * 60) / perMinute))) };
    }
    for (const allowance of taken) allowance.asking += 1;
    return {
      kind: "ask",
      end(outcome) {
        for (const allowance of taken) {
          allowance.asking -= 1;
          if (outcome === "bad") allowance.left = Math.max(0, allowance.left - 1);
        }
        learn(digest, outcome);
      },
    };
  };

  return {
    begin(address, keyText) {
      const digest = hash("sha256", keyText);
      if (isWithin(goodUntilMs, digest)) return { kind: "ask", end: (outcome) => learn(digest, outcome) };
      const read = readKeyText(keyText);
      if (read === undefined || isWithin(badUntilMs, digest)) return { kind: "bad" };
      return checkUnknown(address, read.keyId, digest);
    },
    isKnown: (keyText) => isWithin(goodUntilMs, hash("sha256", keyText)),
    isLogged(address) {
      const lines = allowanceOf(`log ${networkOf(address)}`);
      if (lines.left < 1) return false;
      lines.left -= 1;
      return true;
    },
  };
}

/** The entry becomes the newest. */
function remember<Value>(entries: Map<string, Value>, name: string, value: Value): void {
  entries.delete(name);
  if (entries.size >= entriesMax) {
    const [oldest] = entries.keys();
    if (oldest !== undefined) entries.delete(oldest);
  }
  entries.set(name, value);
}
