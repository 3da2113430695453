// Callers of public locks in a soak: names that are used once, and one name that several want.
import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { every, type Lane } from "./lane.ts";
import { attempt, noteMade } from "./tally.ts";

const contenders = 3;

export function useLocks(lane: Lane): ReadonlyArray<Promise<void>> {
  const rivals = Array.from({ length: contenders }, () => every(400, lane, contend));
  return [every(250, lane, useOnce), ...rivals];
}

async function useOnce(lane: Lane): Promise<void> {
  const resource = `once-${randomBytes(6).toString("hex")}`;
  const grant = await acquire(lane, { resource, wait_ms: 0 });
  if (grant === undefined) return;
  noteMade(lane.tally, "locks");
  const renew = () => lane.admin.locks.renew({ resource, token: grant.token, ttl_ms: ttlMs });
  await attempt(lane.tally, "renew a lock", renew);
  await release(lane, { resource, token: grant.token });
}

/** Each that follows another ends the grant before it. */
async function contend(lane: Lane): Promise<void> {
  const resource = "wanted";
  const grant = await acquire(lane, { resource, wait_ms: 10_000 });
  if (grant === undefined) return;
  noteMade(lane.tally, "lock endings");
  await sleep(20);
  await release(lane, { resource, token: grant.token });
}

const ttlMs = 20_000;

type Wish = { readonly resource: string; readonly wait_ms: number };
type Held = { readonly resource: string; readonly token: string };

async function acquire({ tally, admin }: Lane, wish: Wish) {
  const token = randomBytes(16).toString("hex");
  const granted = await attempt(tally, "acquire a lock", () =>
    admin.locks.acquire({ ...wish, token, ttl_ms: ttlMs }),
  );
  return granted === undefined ? undefined : { token };
}

async function release({ tally, admin }: Lane, held: Held): Promise<void> {
  await attempt(tally, "release a lock", () => admin.locks.release(held));
}
