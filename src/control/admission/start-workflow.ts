// Starts a run of a workflow: its first steps are decided before the store is asked, so that one operation does it all.

import { firstCommit, type NewRunFacts, problemsOfInput } from "../../domain/engine/apply.ts";
import type { JsonValue } from "../../domain/fingerprint.ts";
import type { Fingerprint } from "../../domain/reservation.ts";
import { type RunId, unchanged } from "../../domain/run.ts";
import type { TenantSettings } from "../../domain/tenant.ts";
import { admissionOutcomes } from "../../metrics.ts";
import type { NewRun } from "../../ports/admission-operations.ts";
import type { RequestOf } from "../../ports/store.ts";
import type { Caller } from "../caller.ts";
import { afterCommit, KnownRecords, remember } from "../engine/after-commit.ts";
import { drainRun } from "../engine/drain-run.ts";
import type { Engine } from "../engine/engine.ts";
import { assignPolicies } from "../policies/assign-policies.ts";
import type { CurrentWorkflow } from "../workflows/definitions.ts";
import { withHolders } from "./slot-holders.ts";
import {
  admitRun,
  boundKey,
  type Decision,
  gateUnavailable,
  newRunId,
  type StartAnswer,
  startRun,
} from "./start-run.ts";
import { settingsOf } from "./tenant-cache.ts";

export type StartWorkflowRequest = {
  readonly caller: Caller;
  readonly workflow: string;
  readonly input: JsonValue;
  readonly key?: { readonly text: string; readonly fingerprint: Fingerprint };
  /** W3C trace context: what the run does becomes part of that trace, and workers are told. */
  readonly traceparent?: string;
};

export async function startWorkflow(
  engine: Engine,
  request: StartWorkflowRequest,
  signal?: AbortSignal,
): Promise<StartAnswer> {
  const { caller, workflow } = request;
  for (let tries = 1; ; tries += 1) {
    const current = await engine.definitions.current(caller.tenant, workflow);
    if (current.kind === "not_found")
      return replayOr(engine, request, { kind: "workflow_not_found" }, signal);
    if (current.kind !== "current") return gateUnavailable(engine, current.cause);
    const { workMax } = engine.terms.commit;
    const work = { left: workMax };
    const { definition } = current;
    const problems = engine.computing.time("check_input", caller.tenant, () =>
      problemsOfInput(definition, request.input, work),
    );
    if (problems.length > 0) return replayOr(engine, request, { kind: "input_invalid", problems }, signal);
    if (workMax - work.left > costlyCheckUnits) await engine.ports.clock.yield();
    const answer = await startPinned(engine, { ...request, pinned: current, workLeft: work.left }, signal);
    if (answer.kind !== "version_conflict") return answer;
    // Somebody saved the workflow since this process read it. Nothing was admitted: read it again.
    engine.definitions.forgetCurrent(caller.tenant, workflow);
    if (tries === 3) return gateUnavailable(engine, "the workflow keeps changing");
  }
}

/** About a millisecond: after a check that took longer, others go first. */
const costlyCheckUnits = 20_000;

/**
 * A key that is bound answers with its run, whatever became of the workflow since. Asked by a revision that no workflow has,
 * the gate judges the key and can admit nothing.
 */
export async function replayOr<Refusal>(
  engine: Engine,
  { caller, workflow, key, traceparent }: Omit<StartWorkflowRequest, "input">,
  refusal: Refusal,
  signal: AbortSignal | undefined,
): Promise<Decision | Refusal> {
  if (key === undefined) return refusal;
  const { tenant, actor, credential } = caller;
  const change = { ...unchanged, status: "pending", timeline: "[]" } as const;
  const nothing = { workflow, revision: 0, definition: "", actor, change, start: "applied", key } as const;
  const asked = {
    tenant,
    ...nothing,
    ...(credential === undefined ? {} : { credential }),
    ...(traceparent === undefined ? {} : { traceparent }),
  };
  const answer = await startRun(engine, asked, signal);
  return unboundKinds.has(answer.kind) ? refusal : answer;
}

/** What the gate says when the key is bound to nothing. */
const unboundKinds: ReadonlySet<Decision["kind"]> = new Set([
  "version_conflict",
  "max_concurrent_runs_reached",
  "tenant_stopped",
  "quota_reached",
  "idempotency_quota_reached",
]);

type PinnedStart = StartWorkflowRequest &
  Pick<NewRunFacts, "rerun"> & {
    /** Without a revision it may differ from what the workflow says today. */
    readonly pinned: Pick<CurrentWorkflow, "definition" | "hash"> & { readonly revision?: number };
    /** What checking the input has left to the first commit. */
    readonly workLeft?: number;
  };

/** Prepares the first commit, asks the store once, and does what follows a commit. */
export async function startPinned(
  engine: Engine,
  request: PinnedStart,
  signal?: AbortSignal,
): Promise<Decision> {
  const { caller, pinned } = request;
  const { tenant, actor } = caller;
  const settings = await settingsOf(engine, tenant);
  // Without them nobody knows whether duties are separate: a run that is not would stay so.
  if (settings === undefined) return gateUnavailable(engine, "the tenant's settings cannot be read");
  // A run whose caller has no trace begins one, so that what it does is found together.
  const span =
    request.traceparent === undefined
      ? engine.ports.tracer.startSpan("start", "internal", undefined)
      : undefined;
  const traceparent = request.traceparent ?? span?.traceparent;
  const runId = newRunId(engine.ports, tenant);
  const assigned = await assignPolicies(engine, settings, runId);
  const notes = engine.samples.ofStart(assigned.arm);
  const started = prepare(engine, request, { runId, traceparent, settings });
  const preclaim = engine.offers.preclaim({ tenant, runId, records: new Map() }, started.change);
  const { change } = preclaim;
  try {
    const asked = askedOf(request, { runId, change, start: started.large ? "inbox" : "applied" });
    const answer = await admitRun(engine, { asked, assigned, notes, traceparent }, signal);
    span?.note({ tenant, outcome: admissionOutcomes[answer.kind] });
    if (answer.kind === "max_concurrent_runs_reached") return withHolders(engine.slotHolders, tenant, answer);
    if (answer.kind !== "admitted") return answer;
    if (started.large) {
      engine.background.run("starting a large run", () => drainRun(engine, tenant, runId));
      return answer;
    }
    const { claims, storeTimeMs } = answer;
    const run = { tenant, runId, actor, definition: pinned.hash, status: change.status, proposing: false };
    const before = { ...run, version: 0, commitId: "", records: new KnownRecords() };
    remember(engine, before, change, { version: 1, commitId: runId });
    afterCommit(engine, { tenant, runId, change, claims, storeTimeMs, preclaim });
    return answer;
  } finally {
    preclaim.abandon();
    span?.end();
  }
}

type Known = {
  readonly runId: RunId;
  readonly traceparent: string | undefined;
  readonly settings: TenantSettings;
};

/** The first commit. Without I/O: whatever it needs was read before. */
function prepare(
  { computing, config, storeTime, terms }: Engine,
  { caller, input, pinned, rerun, workLeft }: PinnedStart,
  { runId, traceparent, settings }: Known,
) {
  const { tenant, actor, person } = caller;
  const facts: NewRunFacts = {
    runId,
    tenant,
    actor,
    input,
    nowMs: storeTime.nowMs(),
    separateDuties: settings.separateDuties ?? config["approvals.separateDuties"] === "yes",
    ...(person === undefined ? {} : { person }),
    ...(traceparent === undefined ? {} : { traceparent }),
    ...(rerun === undefined ? {} : { rerun }),
  };
  const limits = { ...terms.commit, ...(workLeft === undefined ? {} : { workMax: workLeft }) };
  return computing.time("first_commit", tenant, () => firstCommit(pinned.definition, facts, limits));
}

function askedOf(
  { caller, workflow, key, pinned }: PinnedStart,
  decided: Pick<NewRun, "runId" | "change" | "start">,
): RequestOf<"admit"> {
  const { tenant, actor, credential } = caller;
  const { hash, revision } = pinned;
  return {
    tenant,
    run: {
      ...decided,
      workflow,
      definition: hash,
      actor,
      ...(revision === undefined ? {} : { revision }),
      ...(key === undefined ? {} : { key: boundKey(key) }),
    },
    ...(credential === undefined ? {} : { credential }),
  };
}
