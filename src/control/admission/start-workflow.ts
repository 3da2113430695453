// Starts a run of a workflow: its first steps are decided before the store is asked, so that one operation does it all.
import type { NewRunFacts } from "../../domain/engine/contract.ts";
import { problemsOfInput } from "../../domain/engine/input-problems.ts";
import { startRun as firstCommit } from "../../domain/engine/start.ts";
import { makeRunId, orderedUnique } from "../../domain/run.ts";
import { unchanged } from "../../domain/run-change.ts";
import { retryAfterSeconds } from "../../domain/wait.ts";
import type { StartWorkflowAnswer, StartWorkflowRequest } from "../control-api.ts";
import { afterCommit, remember } from "../engine/after-commit.ts";
import { drainRun } from "../engine/drain-run.ts";
import { type Engine, settingsOf } from "../engine/engine.ts";
import { KnownRecords } from "../engine/run-cache.ts";
import { assignPolicies } from "../policies/assign-policies.ts";
import type { CurrentWorkflow } from "../workflows/definitions.ts";
import type { StartAnswer } from "./start-answer.ts";
import { startRun } from "./start-run.ts";

export async function startWorkflow(
  engine: Engine,
  request: StartWorkflowRequest,
  signal?: AbortSignal,
): Promise<StartWorkflowAnswer> {
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
    const answer = await startBy(engine, { ...request, workLeft: work.left }, current, signal);
    if (answer.kind !== "workflow_changed") return answer;
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
  request: Pick<StartWorkflowRequest, "caller" | "workflow" | "key" | "traceparent">,
  refusal: Refusal,
  signal: AbortSignal | undefined,
): Promise<StartWorkflowAnswer | Refusal> {
  const { caller, workflow, key, traceparent } = request;
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
  return unboundKinds.includes(answer.kind) ? refusal : answer;
}

/** What the gate says when the key is bound to nothing. */
const unboundKinds: readonly StartAnswer["kind"][] = [
  "workflow_changed",
  "limit_reached",
  "tenant_stopped",
  "run_quota_reached",
  "key_quota_reached",
];

/** What a run is pinned to; without a revision it may differ from what the workflow says today. */
type StartBasis = Pick<CurrentWorkflow, "definition" | "hash"> & { readonly revision?: number };

type RunRequest = StartWorkflowRequest &
  Pick<NewRunFacts, "rerun"> & {
    /** What checking the input has left to the first commit. */
    readonly workLeft?: number;
  };

/** A run whose caller has no trace begins one, so that what it does is found together. */
export async function startBy(
  engine: Engine,
  request: RunRequest,
  basis: StartBasis,
  signal: AbortSignal | undefined,
): Promise<StartWorkflowAnswer> {
  const { tracer } = engine.ports;
  const span =
    request.traceparent === undefined ? tracer.startSpan("start", "internal", undefined) : undefined;
  if (span === undefined) return startPinned(engine, request, basis, signal);
  const { traceparent } = span;
  const answer = await startPinned(engine, { ...request, traceparent }, basis, signal);
  span.note({ tenant: request.caller.tenant, outcome: answer.kind });
  span.end();
  return answer;
}

async function startPinned(
  engine: Engine,
  request: RunRequest,
  { definition, hash, revision }: StartBasis,
  signal: AbortSignal | undefined,
): Promise<StartWorkflowAnswer> {
  const { ports, config, storeTime } = engine;
  const { caller, workflow, input, key, traceparent, rerun, workLeft } = request;
  const { tenant, actor, credential, person } = caller;
  const settings = await settingsOf(engine, tenant);
  // Without them nobody knows whether duties are separate: a run that is not would stay so.
  if (settings === undefined) return gateUnavailable(engine, "the tenant's settings cannot be read");
  const separateDuties = settings.separateDuties ?? config["approvals.separateDuties"] === "yes";
  const runId = makeRunId(tenant, orderedUnique(ports.clock.wallMs(), ports.random.token()));
  const assigned = await assignPolicies(engine, settings, runId);
  const notes = engine.samples.ofStart(assigned.arm);
  const nowMs = storeTime.nowMs();
  const started = engine.computing.time("first_commit", tenant, () =>
    firstCommit(
      definition,
      {
        runId,
        tenant,
        actor,
        input,
        nowMs,
        separateDuties,
        ...(person === undefined ? {} : { person }),
        ...(traceparent === undefined ? {} : { traceparent }),
        ...(rerun === undefined ? {} : { rerun }),
      },
      { ...engine.terms.commit, ...(workLeft === undefined ? {} : { workMax: workLeft }) },
    ),
  );
  const preclaim = engine.offers.preclaim({ tenant, runId, records: new Map() }, started.change);
  const { change } = preclaim;
  const answer = await startRun(
    engine,
    {
      tenant,
      runId,
      workflow,
      ...(revision === undefined ? {} : { revision }),
      definition: hash,
      actor,
      change,
      start: started.large ? "inbox" : "applied",
      ...(key === undefined ? {} : { key }),
      ...(credential === undefined ? {} : { credential }),
      ...(traceparent === undefined ? {} : { traceparent }),
      assigned,
      ...(notes === undefined ? {} : { notes }),
    },
    signal,
  );
  if (answer.kind !== "admitted") {
    preclaim.abandon();
    return answer;
  }
  const { claims, storeTimeMs } = answer;
  if (started.large) {
    preclaim.abandon();
    engine.background.run("starting a large run", () => drainRun(engine, tenant, runId));
    return answer;
  }
  const run = {
    tenant,
    runId,
    actor,
    definition: hash,
    version: 0,
    commitId: "",
    status: change.status,
    proposing: false,
  };
  remember(engine, { ...run, records: new KnownRecords() }, change, { version: 1, commitId: runId });
  afterCommit(engine, { tenant, runId, change, claims, storeTimeMs, preclaim });
  return answer;
}

/** Decided before admission was asked, by what a start needs besides. */
function gateUnavailable({ config, ports }: Engine, cause: string): StartWorkflowAnswer {
  const strategy = config["admission.strategy"];
  ports.metrics.count("admission_decisions_total", { strategy, outcome: "gate_unavailable" });
  const seconds = retryAfterSeconds(config["admission.retryAfterSeconds"], 1, ports.random.fraction());
  return { kind: "gate_unavailable", cause, retryAfterSeconds: seconds };
}
