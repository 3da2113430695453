// What the flows of public locks share, and how every one of them gives a lock back: whoever it goes to is told at once.
import type { LockName, LockToken } from "../../domain/lock.ts";
import type { LockGrant } from "../../ports/lock-operations.ts";
import type { Answer } from "../../ports/store.ts";
import { type AskLimits, askUntilKnown } from "../ask-until-known.ts";
import type { Engine } from "../engine/engine.ts";
import { announceHandover } from "./announce-handover.ts";
import { instantOf, type LeaseTarget } from "./lease-target.ts";
import type { Handover } from "./lock-waiters.ts";

export type LockDesk = {
  readonly engine: Pick<Engine, "ports" | "config" | "terms" | "background" | "lockWaiters" | "bus">;
};

export function publicLock(resource: string): LockName {
  return { namespace: "public", name: resource };
}

export async function releaseAndHandOver(
  desk: LockDesk,
  target: LeaseTarget,
  token: LockToken,
  /** Past `notAfterMs`, in store time, the store refuses it. */
  { notAfterMs, ...limits }: AskLimits & { readonly notAfterMs?: number },
): Promise<Answer<"releaseLock">> {
  const { ports } = desk.engine;
  let since = instantOf(ports.clock);
  const answer = await askUntilKnown(ports, "releaseLock", limits, (deadlineMs) => {
    since = instantOf(ports.clock);
    const bound = notAfterMs === undefined ? {} : { notAfterMs };
    return ports.store.releaseLock({ ...target, token }, { deadlineMs, ...bound });
  });
  if (answer.kind === "released") handOn(desk, target, answer.granted, { ...answer, since });
  return answer;
}

/** The grant was made by a call sent at `since`, so its time cannot have begun earlier. */
export function handOn(
  { engine: { lockWaiters, bus } }: LockDesk,
  target: LeaseTarget,
  granted: LockGrant | undefined,
  { since, storeTimeMs }: Pick<Handover, "since" | "storeTimeMs">,
): void {
  if (granted === undefined) return;
  const { token, fence, expiresInMs } = granted;
  const isHere = lockWaiters.handOver(target, token, { fence, expiresInMs, since, storeTimeMs });
  if (!isHere) announceHandover(bus, target, token);
}
