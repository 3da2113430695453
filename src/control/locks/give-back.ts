// Gives back what a wait for a public lock may have left in the store: its place in the queue, or a grant that nobody uses.
import type { LockToken } from "../../domain/lock.ts";
import type { LeaseTarget } from "./lease-target.ts";
import { logFields } from "./lease-target.ts";
import { type LockDesk, releaseAndHandOver } from "./lock-desk.ts";

type GiveBackTerms = {
  /** Store time until which a try without an answer may still arrive: what it gets then must be given back as well. */
  readonly openUntilMs: number | undefined;
  /**
   * Store time at which it was decided, for a token that its caller knows: a caller who waited in vain for the answer asks
   * again with it, and a release that comes after a pause would take away what it then got.
   */
  readonly decidedAtMs?: number;
};

/** When the outcome stays unknown, the place lapses by itself and a grant ends with its ttl. */
export async function giveBack(
  desk: LockDesk,
  target: LeaseTarget,
  token: LockToken,
  { openUntilMs, decidedAtMs }: GiveBackTerms,
): Promise<"given_back" | "unknown"> {
  const { ports, config } = desk.engine;
  const budgetMs = config["locks.public.releaseTimeoutMs"];
  const release = (fromMs: number | undefined) => {
    const bound = fromMs === undefined ? {} : { notAfterMs: fromMs + Math.floor(budgetMs / 2) };
    return releaseAndHandOver(desk, target, token, { callTimeoutMs: budgetMs / 2, budgetMs, ...bound });
  };
  let answer = await release(decidedAtMs);
  if (openUntilMs !== undefined && "storeTimeMs" in answer && answer.storeTimeMs <= openUntilMs) {
    await ports.clock.sleep(openUntilMs - answer.storeTimeMs + 1);
    answer = await release(decidedAtMs === undefined ? undefined : Math.max(decidedAtMs, openUntilMs));
  }
  if (answer.kind === "released" || answer.kind === "not_owned") return "given_back";
  ports.log.warn("lock release failed: left to its ttl", { ...logFields(target), cause: answer.cause });
  return "unknown";
}
