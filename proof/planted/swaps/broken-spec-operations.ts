// Operations and stores with one mistake each about giving back, parked runs, old duplicates, jumping clocks and lost stores.
import type { Context } from "../../../src/adapters/operations/context.ts";
import { type Operations, operations } from "../../../src/adapters/operations/perform.ts";
import { orderedNumber, type Records } from "../../../src/adapters/operations/records.ts";
import { type JobId, parseJobId } from "../../../src/domain/job.ts";
import { isTerminal } from "../../../src/domain/run.ts";
import type { Ports } from "../../../src/ports/ports.ts";
import type { Store } from "../../../src/ports/store.ts";
import { mapping } from "./broken-records.ts";

/** As a counter that is decremented once more. */
export const repeatedEndFreesAnother: Operations = {
  ...operations,
  commit: (context, request) => {
    const { tenant, runId, change } = request;
    const before = context.records.get("run", tenant, runId);
    const outcome = operations.commit(context, request);
    if (outcome.kind !== "committed" || before === undefined || !isTerminal(before.status)) return outcome;
    const [oldest] = context.records.scan("active", tenant, "", 1);
    if (oldest !== undefined && isTerminal(change.status)) {
      context.records.erase("active", tenant, oldest.member);
    }
    return outcome;
  },
};

/** A worker that was given up on reports, and the place of whoever works on the next attempt is taken for its own. */
export const staleReportFreesPlace: Operations = {
  ...operations,
  deliver: (context, request) => {
    const outcome = operations.deliver(context, request);
    const { entry, tenant, runId } = request;
    if (outcome.kind !== "refused" || entry.kind !== "result") return outcome;
    const step = parseJobId(entry.jobId)?.step;
    for (const { value } of context.records.scan("job", `${tenant}/${runId}`, "", 1_000)) {
      if (value.state !== "claimed" || value.step !== step || value.claim?.pool === undefined) continue;
      context.records.erase("running", `${tenant}/pool/${value.claim.pool}`, value.jobId);
    }
    return outcome;
  },
};

/** A child is begun only when a slot is free, which its own parent holds. */
export const childWaitsForSlot: Operations = {
  ...operations,
  takeRun: (context, request) => {
    const { tenant, runId } = request;
    const limit = context.records.get("tenant", tenant, "record")?.settings.maxConcurrentRuns;
    const isFull = limit !== undefined && context.records.size("active", tenant) >= limit;
    const isChild = context.records.get("run", tenant, runId)?.parent !== undefined;
    return isFull && isChild ? { kind: "empty" } : operations.takeRun(context, request);
  },
};

/** A run that goes on after it was parked takes a slot once more. */
export const resumedTakesAnotherSlot: Operations = {
  ...operations,
  commit: (context, request) => {
    const { tenant, runId } = request;
    const before = context.records.get("run", tenant, runId);
    const outcome = operations.commit(context, request);
    const after = context.records.get("run", tenant, runId);
    if (before?.status === "waiting" && after?.status === "running") {
      const member = `${orderedNumber(Math.floor(context.nowUs / 1_000))} ${runId}`;
      context.records.put("active", tenant, member, {});
    }
    return outcome;
  },
};

/** Results are recognised by a memory of a while, and not by their job. */
export const resultsRememberedForAWhile: Operations = {
  ...operations,
  deliver: (context, request) => {
    const { entry } = request;
    if (entry.kind !== "result") return operations.deliver(context, request);
    const nowMs = Math.floor(context.nowUs / 1_000);
    const reported = memoryOf(context);
    const reportedAtMs = reported.get(entry.jobId) ?? nowMs;
    const forgets = mapping(
      context,
      "job",
      (job) => {
        if (job?.state !== "reported" || nowMs <= reportedAtMs + rememberedMs) return job;
        const { reportId: _report, ...rest } = job;
        return { ...rest, state: "claimed" };
      },
      (job) => job,
    );
    const outcome = operations.deliver(forgets, request);
    if (outcome.kind === "delivered" || outcome.kind === "applied") reported.set(entry.jobId, nowMs);
    return outcome;
  },
};

const rememberedMs = 1_000;
const memories = new WeakMap<Records, Map<JobId, number>>();

function memoryOf({ records }: Context): Map<JobId, number> {
  const memory = memories.get(records) ?? new Map<JobId, number>();
  memories.set(records, memory);
  return memory;
}

/** Its holder stops in time by its own clock, so that only a jump of the store's clock shows it. */
export const guardIgnoresExpiry: Operations = {
  ...operations,
  reserve: (context, request) => operations.reserve(withEndlessGrants(context), request),
  createRun: (context, request) => operations.createRun(withEndlessGrants(context), request),
  commit: (context, request) => operations.commit(withEndlessGrants(context), request),
};

function withEndlessGrants(context: Context): Context {
  return mapping(
    context,
    "lock",
    (grant) => grant && { ...grant, expiresAtMs: Number.MAX_SAFE_INTEGER },
    (grant) => grant,
  );
}

/** While the store is away this process decides alone. */
export function admitsWithoutTheStore(store: Store): Store {
  return {
    ...store,
    admit: async (request, options) => {
      const answer = await store.admit(request, options);
      if (answer.kind !== "unavailable") return answer;
      const { runId } = request.run;
      return { kind: "admitted", runId, status: "pending", active: 1, claims: [], storeTimeMs: 0 };
    },
  };
}

/** Whatever a flow would wait between two tries is left out. */
export function retriesWithoutPause(ports: Ports): Ports {
  const { clock } = ports;
  return { ...ports, clock: { ...clock, sleep: (_ms, signal) => clock.sleep(0, signal) } };
}
