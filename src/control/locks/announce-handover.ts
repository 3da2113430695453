// Announces a lock that was granted to a waiter of another process, by a digest that only that process recognises.
import { createHash } from "node:crypto";
import type { LockToken } from "../../domain/lock.ts";
import type { Bus, Consumer } from "../../ports/bus.ts";
import type { LeaseTarget } from "./lease-target.ts";
import type { LockWaiters } from "./lock-waiters.ts";

/** A token proves ownership and never travels; its digest only says whose turn it is. */
function digestOfToken(token: LockToken): string {
  return createHash("sha256").update(token).digest("base64url");
}

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
