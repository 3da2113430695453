// Known mistakes about what a restart or a failover takes back: nothing but such a loss shows them.

import { lockMember } from "../../../src/adapters/operations/locks.ts";
import { type Operations, operations } from "../../../src/adapters/operations/perform.ts";
import type { Context } from "../../../src/adapters/operations/records.ts";
import type { Guard } from "../../../src/domain/lock.ts";
import type { TenantId } from "../../../src/domain/tenant.ts";
import type { OperationName, Store } from "../../../src/ports/store.ts";
import { type HoldsBack, holdsBack } from "../../simulation/faults/loss-faults.ts";
import { losingDay } from "../../simulation/narrow-swarm.ts";
import type { Swap } from "../planted-bug.ts";
import { mapping } from "./broken-records.ts";

/** What anybody is told first after an answer that came too early. */
const anyPromise: Swap["caughtBy"] = ["INV-6", "INV-12", "INV-18", "INV-21", "INV-25"];

export const swappedDurability: Readonly<Record<string, Swap>> = {
  answered_before_synced: {
    what: "an answer is given before its change is on disk",
    caughtBy: [...anyPromise, "INV-14"],
    seedsMax: 500,
    holdsBack: (level, call) => level !== "synced" && holdsBack(level, call),
  },
  answered_before_replicated: {
    what: "an answer is given before a replica has its change",
    caughtBy: [...anyPromise, "INV-14"],
    seedsMax: 500,
    holdsBack: (level, call) => level !== "replicated" && holdsBack(level, call),
  },
  result_not_waited_for: {
    what: "a result or decision is acknowledged before a replica has it",
    caughtBy: ["INV-18", "INV-25"],
    seedsMax: 500,
    swarm: losingDay,
    holdsBack: exceptFor("deliver"),
  },
  unknown_start_resolved_by_a_read: {
    what: "whether a start without an answer took effect is looked up by a read, which waits for no replica",
    caughtBy: ["INV-18"],
    seedsMax: 500,
    swarm: losingDay,
    wrapStore: lookingUpStarts,
  },
  fence_counter_lost: {
    what: "the fence is nothing but a counter, which is lost with what was granted under it",
    caughtBy: ["INV-11"],
    seedsMax: 500,
    table: everywhere((context) =>
      mapping(
        context,
        "fence",
        (value) => value ?? { last: 2e15 },
        (value) => value,
      ),
    ),
  },
  unknown_lock_trusted: {
    what: "a write under a lock of which the store knows nothing is accepted",
    caughtBy: ["INV-12"],
    seedsMax: 500,
    table: {
      ...operations,
      reserve: (context, request) => operations.reserve(trusting(context, request), request),
      createRun: (context, request) => operations.createRun(trusting(context, request), request),
      commit: (context, request) => operations.commit(trusting(context, request), request),
    },
  },
};

function exceptFor(name: OperationName): HoldsBack {
  return (level, call) => (level === "synced" || call.name !== name) && holdsBack(level, call);
}

function everywhere(broken: (context: Context) => Context): Operations {
  const table = Object.entries(operations).map(([name, operation]) => [
    name,
    (context: Context, request: never) => operation(broken(context), request),
  ]);
  return Object.fromEntries(table) as Operations;
}

/** The lock as its writer believes it to be, where there is none. */
function trusting(
  context: Context,
  { tenant, guard }: { readonly tenant: TenantId; readonly guard: Guard },
): Context {
  const { lock, token, fence, ttlMs } = guard;
  if (context.records.get("lock", tenant, lockMember(lock)) !== undefined) return context;
  const expiresAtMs = Math.floor(context.nowUs / 1000) + ttlMs;
  const believed = { token, fence, expiresAtMs, instance: "somebody", released: false };
  return mapping(
    context,
    "lock",
    (value, member) => (member === lockMember(lock) ? (value ?? believed) : value),
    (value) => value,
  );
}

function lookingUpStarts(store: Store): Store {
  return {
    ...store,
    admit: async (request, options) => {
      const answer = await store.admit(request, options);
      const { runId, key } = request.run;
      if (answer.kind !== "unknown" || key === undefined) return answer;
      const { tenant } = request;
      const found = await store.inspectReservation({ tenant, digest: key.digest }, options);
      const isOurs = found.kind === "bound" && found.runId === runId;
      return isOurs ? { kind: "replayed", runId, status: "running", storeTimeMs: 0 } : answer;
    },
  };
}
