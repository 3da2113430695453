// The original way to take results and to hold locks: look, apply, overwrite; renewals that only warn; slots freed by a second call.
import { type Operations, operations } from "../../../src/adapters/operations/perform.ts";
import { activeMember } from "../../../src/adapters/operations/run-records.ts";
import { isOpen, readStepRecord } from "../../../src/domain/engine/records.ts";
import type { ReservationDigest } from "../../../src/domain/fingerprint.ts";
import { parseJobId } from "../../../src/domain/job.ts";
import type { Fence } from "../../../src/domain/lock.ts";
import { isTerminal } from "../../../src/domain/run.ts";
import type { RequestOf, Store } from "../../../src/ports/store.ts";
import { noGuard } from "./broken-operations.ts";
import { mapping } from "./broken-records.ts";

/** A result is taken whatever its job says, and what an owner writes takes the place of what is there. */
export const originalResultCommands: Operations = {
  ...operations,
  deliver: (context, request) => {
    const { entry } = request;
    if (entry.kind !== "result") return operations.deliver(context, request);
    const unmarked = mapping(
      context,
      "job",
      (job) => {
        if (job?.claim === undefined) return job;
        const { reportId: _report, ...rest } = job;
        return { ...rest, state: "claimed", claim: { ...job.claim, token: entry.token } };
      },
      (job) => job,
    );
    return operations.deliver(unmarked, request);
  },
  commit: (context, request) => {
    const { tenant, runId, expectedVersion, commitId } = request;
    const row = String(expectedVersion + 1).padStart(16, "0");
    const repeated = context.records.get("timeline", `${tenant}/${runId}`, row)?.commitId === commitId;
    const version = context.records.get("run", tenant, runId)?.version ?? expectedVersion;
    return noGuard.commit(context, repeated ? request : { ...request, expectedVersion: version });
  },
};

/** Looks first whether the step has ended, by a call of its own; when nothing is heard, it goes on. */
export function lookingFirst(store: Store): Store {
  return {
    ...store,
    deliver: async (request, options) => {
      if (request.entry.kind === "result" && (await hasEnded(store, request, options.deadlineMs))) {
        return { kind: "duplicate", storeTimeMs: 0 };
      }
      return store.deliver(request, options);
    },
    // Every run is held as one of low risk is: a renewal that fails is only warned of.
    getDocument: async (request, options) => {
      const answer = await store.getDocument(request, options);
      if (answer.kind !== "document" || request.collection !== "definition") return answer;
      const { document } = answer;
      const body = document.body.replace(/"risk":"(high|standard)"/, '"risk":"low"');
      return { ...answer, document: { ...document, body } };
    },
  };
}

async function hasEnded(store: Store, request: RequestOf<"deliver">, deadlineMs: number): Promise<boolean> {
  const { tenant, runId, entry } = request;
  const job = entry.kind === "result" ? parseJobId(entry.jobId) : undefined;
  if (job === undefined) return false;
  const found = await store.loadRun({ tenant, runId, records: [`step/${job.step}`] }, { deadlineMs });
  const [step] = found.kind === "run" ? found.records : [];
  if (step === undefined) return false;
  const record = readStepRecord(step.body);
  return !isOpen(record) || record.attempt > job.attempt;
}

/** Whatever a renewal says, the work goes on. */
export function warnOnly(store: Store): Store {
  return {
    ...store,
    renewLock: async (request, options) => {
      const answer = await store.renewLock(request, options);
      return answer.kind === "renewed" ? answer : { kind: "renewed", fence: 0 as Fence, storeTimeMs: 0 };
    },
  };
}

/** A lock that is lost counts as one more renewal that failed: the third ends the work. */
export function threeStrikes(store: Store): Store {
  return {
    ...store,
    renewLock: async (request, options) => {
      const answer = await store.renewLock(request, options);
      return answer.kind === "not_owned" ? { kind: "unavailable", cause: "lock not owned" } : answer;
    },
  };
}

/** In a request that has no other use for it. */
const slotDigest = "slot" as ReservationDigest;

/** The end of a run is one call, and freeing its slot another. */
export const slotFreedApart: Operations = {
  ...operations,
  commit: (context, request) => {
    const { records } = context;
    const state = records.get("run", request.tenant, request.runId);
    const outcome = operations.commit(context, request);
    if (state !== undefined && !isTerminal(state.status) && isTerminal(request.change.status)) {
      if (outcome.kind === "committed") records.put("active", request.tenant, activeMember(state), {});
    }
    return outcome;
  },
  cancelReservation: (context, request) => {
    if (request.digest !== slotDigest) return operations.cancelReservation(context, request);
    const state = context.records.get("run", request.tenant, request.runId);
    if (state !== undefined) context.records.erase("active", request.tenant, activeMember(state));
    return { kind: "cancelled" };
  },
};

/** When the second call fails, nobody tries again. */
export function freeingApart(store: Store): Store {
  return {
    ...store,
    commit: async (request, options) => {
      const answer = await store.commit(request, options);
      if (answer.kind === "committed" && isTerminal(request.change.status)) {
        const { tenant, runId, guard } = request;
        await store.cancelReservation({ tenant, runId, digest: slotDigest, token: guard.token }, options);
      }
      return answer;
    },
  };
}
