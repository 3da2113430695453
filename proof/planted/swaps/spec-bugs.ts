// Known mistakes about what is given back, parked runs, old duplicates, clocks and a store that is away, put in on purpose.
import { type Operations, operations } from "../../../src/adapters/operations/perform.ts";
import { type Context, orderedNumber, type Records } from "../../../src/adapters/operations/records.ts";
import { type JobId, parseJobId } from "../../../src/domain/job.ts";
import { isTerminal } from "../../../src/domain/run.ts";
import type { Ports } from "../../../src/ports/ports.ts";
import type { Store } from "../../../src/ports/store.ts";
import { busyDay, unsteadyWallClock } from "../../simulation/narrow-swarm.ts";
import type { Swap } from "../planted-bug.ts";
import { laterOfWallAndStored } from "./broken-clocks.ts";
import { mapping } from "./broken-records.ts";

/** As a counter that is decremented once more. */
const repeatedEndFreesAnother: Operations = {
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

/** A worker that was given up on reports, and the place of the next attempt's worker is taken for its own. */
const staleReportFreesPlace: Operations = {
  ...operations,
  deliver: (context, request) => {
    const outcome = operations.deliver(context, request);
    const { entry, tenant, runId } = request;
    if (outcome.kind === "delivered" || outcome.kind === "applied" || outcome.kind === "run_busy")
      return outcome;
    if (entry.kind !== "result") return outcome;
    const step = parseJobId(entry.jobId)?.step;
    for (const { value } of context.records.scan("job", `${tenant}/${runId}`, "", 1_000)) {
      if (value.state !== "claimed" || value.step !== step || value.claim?.pool === undefined) continue;
      context.records.erase("running", `${tenant}/pool/${value.claim.pool}`, value.jobId);
    }
    return outcome;
  },
};

/** A child is begun only when a slot is free, which its own parent holds. */
const childWaitsForSlot: Operations = {
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
const resumedTakesAnotherSlot: Operations = {
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
const resultsRememberedForAWhile: Operations = {
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
const guardIgnoresExpiry: Operations = {
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
function admitsWithoutTheStore(store: Store): Store {
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
function retriesWithoutPause(ports: Ports): Ports {
  const { clock } = ports;
  return { ...ports, clock: { ...clock, sleep: (_ms, signal) => clock.sleep(0, signal) } };
}

export const swappedSpec: Readonly<Record<string, Swap>> = {
  repeated_end_frees_another: {
    what: "the end of a run, told twice, frees two slots",
    caughtBy: ["INV-4"],
    table: repeatedEndFreesAnother,
  },
  stale_report_frees_place: {
    what: "a worker that was given up on frees the place of the next one",
    caughtBy: ["INV-4"],
    seedsMax: 500,
    table: staleReportFreesPlace,
  },
  child_waits_for_slot: {
    what: "a child run begins only when a slot is free, and its parent holds the last one",
    caughtBy: ["INV-28"],
    table: childWaitsForSlot,
  },
  resumed_takes_another_slot: {
    what: "a run that goes on after it was parked takes a second slot",
    caughtBy: ["INV-28"],
    table: resumedTakesAnotherSlot,
  },
  results_remembered_for_a_while: {
    what: "a result is recognised for as long as the bus would, and not by its job",
    caughtBy: ["INV-24"],
    seedsMax: 500,
    swarm: busyDay,
    table: resultsRememberedForAWhile,
  },
  guard_ignores_expiry: {
    what: "a grant that has expired still guards writes: only a jump of the store's clock shows it (INV-16)",
    caughtBy: ["INV-12"],
    seedsMax: 500,
    table: guardIgnoresExpiry,
  },
  store_time_jumps: {
    what: "the time of an embedded store is the later of wall clock and stored: a step forward takes locks from living holders",
    caughtBy: ["INV-14"],
    swarm: unsteadyWallClock,
    storeClock: laterOfWallAndStored,
  },
  store_time_stands_still: {
    what: "the time of an embedded store is the later of wall clock and stored: after a step back no lock ends, no timer fires",
    caughtBy: ["INV-15", "INV-20", "INV-23", "liveness"],
    storeClock: laterOfWallAndStored,
  },
  admits_without_the_store: {
    what: "a gateway that does not reach the store admits by itself",
    caughtBy: ["INV-29"],
    wrapStore: admitsWithoutTheStore,
  },
  retries_without_pause: {
    what: "a call without an answer is repeated at once",
    caughtBy: ["INV-29"],
    seedsMax: 500,
    wrapPorts: retriesWithoutPause,
  },
};
