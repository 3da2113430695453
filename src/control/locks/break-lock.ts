// Takes a lock of any kind from its holder, on an operator's word: its writes are refused from then on.
import { askUntilKnown } from "../ask-until-known.ts";
import { instantOf, logFields } from "./lease-target.ts";
import type { BreakLockAnswer, BreakLockRequest } from "./lock-api.ts";
import { handOn, type LockDesk } from "./lock-desk.ts";

export async function breakLock(desk: LockDesk, request: BreakLockRequest): Promise<BreakLockAnswer> {
  const { ports, terms } = desk.engine;
  let since = instantOf(ports.clock);
  const answer = await askUntilKnown(ports, "breakLock", terms.store, (deadlineMs) => {
    since = instantOf(ports.clock);
    return ports.store.breakLock(request, { deadlineMs });
  });
  switch (answer.kind) {
    case "broken": {
      const { actor, reason, fence } = request;
      ports.metrics.count("locks_broken_total", { lock: request.lock.namespace });
      ports.log.warn("lock broken by an operator", { ...logFields(request), fence, actor, reason });
      handOn(desk, request, answer.granted, { since, storeTimeMs: answer.storeTimeMs });
      return { kind: "broken" };
    }
    case "superseded":
      return { kind: "superseded", fence: answer.fence };
    case "free":
    case "unauthenticated":
      return { kind: answer.kind };
    case "unavailable":
    case "unknown":
      return { kind: answer.kind, cause: answer.cause };
  }
}
