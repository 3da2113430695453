// Who waits for which public lock in this process: a release that hands the lock on finds the new owner here, or announces it.

import { createHash } from "node:crypto";
import type { Instant, LockToken } from "../../domain/lock.ts";
import type { Bus, Consumer } from "../../ports/bus.ts";
import type { LockGrant } from "../../ports/lock-operations.ts";
import type { Clock, Ports } from "../../ports/ports.ts";
import type { LeaseTarget } from "./lease-terms.ts";

/** A grant that somebody else's release or break made; `since` is when that call was sent. */
export type Handover = Omit<LockGrant, "token"> & {
  readonly since: Instant;
  readonly storeTimeMs: number;
};

export type Waiter = {
  /** Until the time is over or there is news: the lock was handed over, or the wait is no longer wanted. */
  rest(ms: number): Promise<void>;
  wake(): void;
  /** The grant that was handed over, once. */
  take(): Handover | undefined;
  leave(): void;
};

/** A wake-up from another process is only ever a hint: the waiter whose turn it may be asks the store. */
export type LockWaiters = {
  /** Copies of one request have the same token: they wait together, and what one gets they all get. */
  join(target: LeaseTarget, token: LockToken): Waiter | "full";
  /** Whether the new owner waits here; otherwise it finds out when it asks again. */
  handOver(target: LeaseTarget, token: LockToken, handover: Handover): boolean;
  /** How many wait here with this token. */
  count(target: LeaseTarget, token: LockToken): number;
  /** Those who wait for this lock and whose token is meant stop resting and ask again. */
  wake(target: LeaseTarget, isMeant: (token: LockToken) => boolean): void;
};

export function createLockWaiters(
  { clock, metrics }: Pick<Ports, "clock" | "metrics">,
  waitersMax: number,
): LockWaiters {
  const waiting = new Map<string, Set<OneWaiter>>();
  let size = 0;
  const show = (change: number) => {
    size += change;
    metrics.set("lock_waiters", {}, size);
  };
  return {
    join(target, token) {
      if (size >= waitersMax) return "full";
      const key = keyOf(target, token);
      const copies = waiting.get(key) ?? new Set();
      const waiter = new OneWaiter(clock, () => {
        if (!copies.delete(waiter)) return;
        if (copies.size === 0) waiting.delete(key);
        show(-1);
      });
      waiting.set(key, copies.add(waiter));
      show(1);
      return waiter;
    },
    handOver(target, token, handover) {
      const copies = waiting.get(keyOf(target, token));
      for (const waiter of copies ?? []) waiter.give(handover);
      return copies !== undefined;
    },
    count: (target, token) => waiting.get(keyOf(target, token))?.size ?? 0,
    wake(target, isMeant) {
      const prefix = keyOf(target, "" as LockToken).slice(0, -2);
      for (const [key, copies] of waiting) {
        if (!key.startsWith(prefix)) continue;
        const [, , , token] = JSON.parse(key) as [string, string, string, LockToken];
        if (isMeant(token)) for (const waiter of copies) waiter.wake();
      }
    },
  };
}

class OneWaiter implements Waiter {
  readonly leave: () => void;
  readonly #clock: Clock;
  #resting: AbortController | undefined;
  #handover: Handover | undefined;

  constructor(clock: Clock, leave: () => void) {
    this.#clock = clock;
    this.leave = leave;
  }

  async rest(ms: number): Promise<void> {
    if (this.#handover !== undefined) return;
    const resting = new AbortController();
    this.#resting = resting;
    await this.#clock.sleep(ms, resting.signal);
  }

  wake(): void {
    this.#resting?.abort();
  }

  give(handover: Handover): void {
    this.#handover = handover;
    this.wake();
  }

  take(): Handover | undefined {
    const handover = this.#handover;
    this.#handover = undefined;
    return handover;
  }
}

function keyOf({ tenant, lock }: LeaseTarget, token: LockToken): string {
  return JSON.stringify([tenant, lock.namespace, lock.name, token]);
}

/** A token proves ownership and never travels; its digest only says whose turn it is. */
function digestOfToken(token: LockToken): string {
  return createHash("sha256").update(token).digest("base64url");
}

/** To the process of the new owner. */
type News = { readonly target: LeaseTarget; readonly digest: string };

export function announceHandover(bus: Bus, { tenant, lock }: LeaseTarget, token: LockToken): void {
  const news: News = { target: { tenant, lock }, digest: digestOfToken(token) };
  bus.announce("locks", JSON.stringify(news));
}

/** The named waiter asks the store, which alone knows whether it has the lock. */
export function hearHandovers(bus: Bus, waiters: LockWaiters): Consumer {
  return bus.listen("locks", (body) => {
    const { target, digest } = JSON.parse(body) as News;
    waiters.wake(target, (token) => digestOfToken(token) === digest);
  });
}
