// Counts failed authentications per address in memory, so that a flood of bad keys is refused without asking the store.
import { hash } from "node:crypto";
import type { Clock } from "../ports/clock.ts";

export type FailedAuthentications = {
  /** Seconds until the address may try again; undefined when it may now. Keys that worked lately always may. */
  refusedFor(address: string, keyText: string): number | undefined;
  failed(address: string): void;
  succeeded(keyText: string): void;
};

const windowMs = 60_000;
/** Addresses and keys remembered; the oldest is forgotten first. An attacker with more addresses than this has won nothing but tries. */
const entriesMax = 10_000;

type Count = { readonly endsAtMs: number; failures: number };

export function createFailedAuthentications(clock: Clock, perMinute: number): FailedAuthentications {
  const counts = new Map<string, Count>();
  const goodUntilMs = new Map<string, number>();

  const countOf = (address: string): Count | undefined => {
    const count = counts.get(address);
    if (count === undefined || count.endsAtMs > clock.monotonicMs()) return count;
    counts.delete(address);
    return undefined;
  };

  return {
    refusedFor(address, keyText) {
      if (counts.size === 0) return undefined;
      const count = countOf(address);
      if (count === undefined || count.failures < perMinute) return undefined;
      if (keyText !== "" && (goodUntilMs.get(digestOf(keyText)) ?? 0) > clock.monotonicMs()) return undefined;
      return Math.max(1, Math.ceil((count.endsAtMs - clock.monotonicMs()) / 1_000));
    },
    failed(address) {
      const count = countOf(address) ?? { endsAtMs: clock.monotonicMs() + windowMs, failures: 0 };
      count.failures += 1;
      remember(counts, address, count);
    },
    succeeded(keyText) {
      // While nobody fails nothing has to be remembered: a good request then costs no hash.
      if (counts.size > 0) remember(goodUntilMs, digestOf(keyText), clock.monotonicMs() + windowMs);
    },
  };
}

function digestOf(keyText: string): string {
  return hash("sha256", keyText);
}

function remember<Value>(entries: Map<string, Value>, name: string, value: Value): void {
  if (entries.size >= entriesMax && !entries.has(name)) {
    const [oldest] = entries.keys();
    if (oldest !== undefined) entries.delete(oldest);
  }
  entries.set(name, value);
}
