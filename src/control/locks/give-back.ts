// Gives back what a wait for a public lock may have left in the store: its place in the queue, or a grant that nobody uses.
import type { LockToken } from "../../domain/lock.ts";
import type { LeaseTarget } from "./lease-target.ts";
import { logFields } from "./lease-target.ts";
import { type LockDesk, releaseAndHandOver } from "./lock-desk.ts";

/**
 * `openUntilMs` is store time until which a try without an answer may still arrive: what it gets then must be given back
 * as well. When the outcome stays unknown, the place lapses by itself and a grant ends with its ttl.
 */
export async function giveBack(
  desk: LockDesk,
  target: LeaseTarget,
  token: LockToken,
  openUntilMs: number | undefined,
): Promise<"given_back" | "unknown"> {
  const { ports, config } = desk.engine;
  const budgetMs = config["locks.public.releaseTimeoutMs"];
  const release = () => releaseAndHandOver(desk, target, token, { callTimeoutMs: budgetMs / 2, budgetMs });
  let answer = await release();
  if (openUntilMs !== undefined && "storeTimeMs" in answer && answer.storeTimeMs <= openUntilMs) {
    await ports.clock.sleep(openUntilMs - answer.storeTimeMs + 1);
    answer = await release();
  }
  if (answer.kind === "released" || answer.kind === "not_owned") return "given_back";
  ports.log.warn("lock release failed: left to its ttl", { ...logFields(target), cause: answer.cause });
  return "unknown";
}
