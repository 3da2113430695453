// Starts a run: its first commit is prepared without I/O, the store is asked once, and what follows a commit is done.
import type { Config } from "../../config.ts";
import { admissionOutcomes } from "../../domain/admission-outcomes.ts";
import { firstCommit, type NewRunFacts, problemsOfInput } from "../../domain/engine/apply.ts";
import { digestOf, type Fingerprint, type JsonValue } from "../../domain/fingerprint.ts";
import type { PlannedGates, StartExpressionFailed } from "../../domain/plan-gates.ts";
import type { AssignedPolicies } from "../../domain/policy.ts";
import {
  type InTheMaking,
  makeRunId,
  orderedUnique,
  type RunChange,
  type RunId,
  type RunRecord,
  unchanged,
} from "../../domain/run.ts";
import type { TenantId, TenantSettings } from "../../domain/tenant.ts";
import type { SlotHolder } from "../../domain/why/explanation.ts";
import type { CompiledDefinition, Problem } from "../../domain/workflow/compiled.ts";
import { InterlockError } from "../../errors.ts";
import { metrics as metricRows } from "../../metrics.ts";
import type { NewRun } from "../../ports/admission-operations.ts";
import type { Ports } from "../../ports/ports.ts";
import type { Answer, OutcomeOf, RequestOf } from "../../ports/store.ts";
import { ask } from "../ask-until-known.ts";
import type { Caller } from "../caller.ts";
import type { StartNotes } from "../canaries/samples.ts";
import { afterCommit, KnownRecords, remember } from "../engine/after-commit.ts";
import { drainRun } from "../engine/drain-run.ts";
import type { Engine } from "../engine/engine.ts";
import { assignPolicies } from "../policies/assign-policies.ts";
import type { CurrentWorkflow } from "../workflows/definitions.ts";
import { planStart } from "./plan-start.ts";
import { startUnderLock } from "./start-under-lock.ts";
import { settingsOf } from "./tenant-cache.ts";

/** What admission needs of the engine. */
export type Gate = Pick<
  Engine<"tenants" | "admission" | "locks" | "inbox">,
  "ports" | "config" | "terms" | "tenants" | "platform"
>;

/** What admission decides: as the store answered, or why the store was not asked or did not answer. */
export type AdmissionAnswer =
  | Exclude<OutcomeOf<"admit">, Admitted | LimitReached | Exhausted>
  /** `resetsInMs`: how long until then, by the store's clock; absent where it was not asked. */
  | (Exhausted & { readonly resetsInMs?: number })
  | (Admitted & { readonly storeTimeMs: number })
  /** `runs`: those that hold the gate's places, oldest first; absent when the store did not say in time. */
  | (LimitReached & { readonly runs?: readonly SlotHolder[] })
  | { readonly kind: "concurrency_gate_unavailable"; readonly cause: string }
  /** The run with this id may exist; repeating with the same key finds out. */
  | { readonly kind: "outcome_unknown"; readonly runId: RunId }
  /** The caller went away before anything was decided; nothing was left behind. */
  | { readonly kind: "request_cancelled" };
type Admitted = Extract<OutcomeOf<"admit">, { kind: "admitted" }>;
type Exhausted = Extract<OutcomeOf<"admit">, { kind: "budget_exhausted" }>;
type LimitReached = Extract<OutcomeOf<"admit">, { kind: "max_concurrent_runs_reached" }>;

export type StartAnswer =
  | AdmissionAnswer
  | { readonly kind: "workflow_not_found" }
  | StartExpressionFailed
  | { readonly kind: "input_invalid"; readonly problems: readonly Problem[] };

export type StartWorkflowRequest = {
  readonly caller: Caller;
  readonly workflow: string;
  readonly input: JsonValue;
  readonly key?: { readonly text: string; readonly fingerprint: Fingerprint };
  /** Instead of the workflow's, from 0 to 9; lowered to what the key that asks allows. */
  readonly priority?: number;
  /** W3C trace context: what the run does becomes part of that trace, and workers are given it. */
  readonly traceparent?: string;
};

export async function startWorkflow(
  engine: Engine,
  request: StartWorkflowRequest,
  signal?: AbortSignal,
): Promise<StartAnswer> {
  const { caller, workflow } = request;
  for (let tries = 1; ; tries += 1) {
    const found = engine.definitions.current(caller.tenant, workflow);
    const current = found instanceof Promise ? await found : found;
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
    const answer = await startPinned(engine, request, { ...current, workLeft: work.left }, signal);
    if (answer.kind === "start_expression_failed") return replayOr(engine, request, answer, signal);
    if (answer.kind !== "version_conflict") return answer;
    // Somebody saved the workflow since this process read it. Nothing was admitted: read it again.
    engine.definitions.forgetCurrent(caller.tenant, workflow);
    if (tries === 3) return gateUnavailable(engine, "the workflow keeps changing");
  }
}

/** About a millisecond: after a check that took longer, others go first. */
const costlyCheckUnits = 20_000;

type PinnedStart = StartWorkflowRequest & Pick<NewRunFacts, "rerun">;

type Pinned = Pick<CurrentWorkflow, "definition" | "hash"> & {
  /** Without one it may differ from what the workflow says today. */
  readonly revision?: number;
  /** What checking the input has left to the first commit. */
  readonly workLeft?: number;
};

/** Prepares the first commit by a definition that is already chosen, asks the store once, and does what follows a commit. */
export async function startPinned(
  engine: Engine,
  request: PinnedStart,
  pinned: Pinned,
  signal?: AbortSignal,
): Promise<AdmissionAnswer | StartExpressionFailed> {
  const { caller, workflow, key } = request;
  const { tenant, actor, credential } = caller;
  const read = settingsOf(engine, tenant);
  const settings = read instanceof Promise ? await read : read;
  // Without them nobody knows whether duties are separate: a run that is not would stay so.
  if (settings === undefined) return gateUnavailable(engine, "the tenant's settings cannot be read");
  const work = { left: pinned.workLeft ?? engine.terms.commit.workMax };
  const planned = planStart(engine, request, { definition: pinned.definition, settings, work });
  if (planned.kind !== "planned") return planned;
  // A run whose caller has no trace begins one, so that what it does is found together.
  const span =
    request.traceparent === undefined
      ? engine.ports.tracer.startSpan("start", "internal", undefined)
      : undefined;
  const traceparent = request.traceparent ?? span?.traceparent;
  const runId = newRunId(engine.ports, tenant);
  const assigning = assignPolicies(engine, settings, runId);
  const assigned = assigning instanceof Promise ? await assigning : assigning;
  const notes = engine.samples.ofStart(assigned.arm);
  const { plan } = planned;
  const known = { runId, traceparent, settings, planned, workLeft: work.left };
  const started = prepare(engine, request, pinned.definition, known);
  const cached = {
    ...{ tenant, runId, actor, definition: pinned.hash, status: started.change.status },
    ...{ proposing: false, version: 0, commitId: "", records: new KnownRecords() },
  };
  const preclaim = engine.offers.preclaim(cached, started.change);
  const { change } = preclaim;
  try {
    const run: InTheMaking<NewRun> = {
      runId,
      workflow,
      definition: pinned.hash,
      actor,
      change,
      start: started.large ? "inbox" : "applied",
    };
    if (pinned.revision !== undefined) run.revision = pinned.revision;
    if (key !== undefined) run.key = reservationOf(key);
    if (plan !== undefined) run.gates = plan;
    if (planned.rates.length > 0) run.rates = planned.rates;
    const refusing = planned.budgets.filter(({ atLimit }) => atLimit === "reject");
    if (refusing.length > 0) run.budgets = refusing;
    const asked = credential === undefined ? { tenant, run } : { tenant, run, credential };
    const endpoint = request.rerun === undefined ? "start_run" : "rerun_run";
    const answer = await admit(engine, { asked, settings, assigned, notes, traceparent, endpoint }, signal);
    span?.note({ tenant, outcome: admissionOutcomes[answer.kind] });
    if (answer.kind === "max_concurrent_runs_reached") {
      const runs = await engine.slotHolders.of(tenant, answer.gate);
      return runs === undefined ? answer : { ...answer, runs };
    }
    if (answer.kind === "budget_exhausted")
      return { ...answer, resetsInMs: Math.max(0, answer.resetsAtMs - engine.storeTime.nowMs()) };
    if (answer.kind !== "admitted") return answer;
    if (started.large) engine.background.run("starting a large run", () => drainRun(engine, tenant, runId));
    else {
      const { claims, storeTimeMs } = answer;
      remember(engine, cached, { change, written: started.written }, { version: 1, commitId: runId });
      afterCommit(engine, { tenant, runId, change, claims, storeTimeMs, preclaim });
    }
    return answer;
  } finally {
    preclaim.abandon();
    span?.end();
  }
}

type PlannedStart = Extract<PlannedGates, { readonly kind: "planned" }>;

type Known = {
  readonly runId: RunId;
  readonly traceparent: string | undefined;
  readonly settings: TenantSettings;
  readonly planned: PlannedStart;
  /** What checking the input and planning the limits have left to it. */
  readonly workLeft: number;
};

/** The first commit. Without I/O: whatever it needs was read before. */
function prepare(
  { computing, config, storeTime, terms }: Engine,
  { caller, input, rerun }: PinnedStart,
  definition: CompiledDefinition,
  { runId, traceparent, settings, planned, workLeft }: Known,
) {
  const { tenant, actor, person } = caller;
  const facts: InTheMaking<NewRunFacts> = {
    runId,
    tenant,
    actor,
    input,
    nowMs: storeTime.nowMs(),
    separateDuties: settings.separateDuties ?? config["approvals.separateDuties"] === "yes",
    mayWait: planned.mayWait,
  };
  if (planned.budgets.length > 0) facts.budgets = planned.budgets;
  if (person !== undefined) facts.person = person;
  if (traceparent !== undefined) facts.traceparent = traceparent;
  if (rerun !== undefined) facts.rerun = rerun;
  return computing.time("first_commit", tenant, () => firstCommit(definition, facts, terms.commit, workLeft));
}

export type Admission = {
  readonly asked: RequestOf<"admit">;
  readonly settings: TenantSettings;
  readonly assigned: AssignedPolicies;
  /** Where a canary's samples go. */
  readonly notes: StartNotes | undefined;
  readonly traceparent: string | undefined;
  readonly endpoint: Endpoint;
};

/** What was asked for, as metrics name it. */
type Endpoint = "start_run" | "rerun_run";

/** Asks for the run by the strategy that its policies name, and measures what was decided. */
async function admit(gate: Gate, admission: Admission, signal?: AbortSignal): Promise<AdmissionAnswer> {
  const { asked, settings, assigned, notes, traceparent, endpoint } = admission;
  const { tenant, run } = asked;
  const { clock, metrics, tracer } = gate.ports;
  const startedMs = clock.monotonicMs();
  const span = tracer.startSpan("admission", "internal", traceparent);
  const strategy = isAtomic(run, settings) ? "atomic" : assigned.policies["admission.strategy"];
  let answer: AdmissionAnswer;
  if (signal?.aborted) answer = { kind: "request_cancelled" };
  else if (strategy === "lock") answer = await startUnderLock(gate, admission, signal);
  else answer = answerOf(await ask(gate, "admit", asked, gate.terms.admission), run.runId);
  const outcome = admissionOutcomes[answer.kind];
  const waitMs = clock.monotonicMs() - startedMs;
  const labels = { tenant, endpoint, strategy, outcome };
  metrics.observe("admission_wait_seconds", labels, waitMs / 1000);
  metrics.count("admission_decisions_total", { strategy, outcome });
  if ("active" in answer) metrics.set("active_runs", { tenant }, answer.active);
  if (answer.kind === "admitted" || answer.kind === "queued") noteNew(gate, tenant, answer);
  const found = answer.kind === "admitted" || answer.kind === "queued" ? "new" : outcome;
  if (run.key !== undefined && keyOutcomes.has(found)) {
    metrics.count("idempotency_reservations_total", { outcome: found });
  }
  span?.note({ tenant, strategy, outcome, ...("runId" in answer ? { run: answer.runId } : {}) });
  const isUnavailable = answer.kind === "concurrency_gate_unavailable" || answer.kind === "outcome_unknown";
  if (answer.kind !== "request_cancelled") notes?.decided({ waitMs, isUnavailable });
  span?.end(isUnavailable ? "failed" : undefined);
  return answer;
}

/** Nobody waits under a lock: a run with limits of its own is admitted in one operation, whatever a rollout says. */
function isAtomic({ gates, rates, budgets }: NewRun, settings: TenantSettings): boolean {
  if (gates !== undefined || rates !== undefined || budgets !== undefined) return true;
  return Object.values(settings.budgets ?? {}).some(({ atLimit }) => atLimit === "reject");
}

type Queued = Extract<OutcomeOf<"admit">, { kind: "queued" }>;

function noteNew({ config, ports: { metrics } }: Gate, tenant: TenantId, answer: Admitted | Queued): void {
  metrics.count("run_starts_total", {});
  if (answer.evictedEarly) metrics.count("idempotency_keys_evicted_total", {});
  if (answer.keysKept === undefined) return;
  metrics.set(
    "idempotency_keys_used_ratio",
    { tenant },
    answer.keysKept / config["admission.keysPerTenantMax"],
  );
}

const keyOutcomes: ReadonlySet<string> = new Set(metricRows.idempotency_reservations_total.values.outcome);

/** Of the atomic strategy. The whole decision is one store operation: no lock, no retries, nothing to clean up. */
function answerOf(answer: Answer<"admit">, runId: RunId): AdmissionAnswer {
  if (answer.kind === "unavailable") return { kind: "concurrency_gate_unavailable", cause: answer.cause };
  return answer.kind === "unknown" ? { kind: "outcome_unknown", runId } : answer;
}

/** Refused before admission was asked, for want of something else that a start needs. */
function gateUnavailable({ config, ports }: Gate, cause: string): AdmissionAnswer {
  const kind = "concurrency_gate_unavailable";
  const labels = { strategy: config["admission.strategy"], outcome: admissionOutcomes[kind] };
  ports.metrics.count("admission_decisions_total", labels);
  return { kind, cause };
}

function newRunId({ clock, random }: Pick<Ports, "clock" | "random">, tenant: TenantId): RunId {
  return makeRunId(tenant, orderedUnique(clock.wallMs(), random.token()));
}

/** The digest that names the key in the store, and what the request wanted. */
function reservationOf({ text, fingerprint }: NonNullable<StartRequest["key"]>) {
  return { digest: digestOf("start_run", text), fingerprint };
}

/** A run whose first commit is already decided. */
export type StartRequest = Omit<NewRun, "runId" | "key"> & {
  readonly tenant: TenantId;
  readonly key?: { readonly text: string; readonly fingerprint: Fingerprint };
  /** The id of the key that asks, if one does. */
  readonly credential?: string;
  /** Of the request that asks: its admission becomes a child of it. */
  readonly traceparent?: string;
  /** `start_run` when absent. */
  readonly endpoint?: Endpoint;
};

/** For runs that are made without the engine: they follow the tenant's policies like any other. */
export async function startRun(
  gate: Gate,
  request: StartRequest,
  signal?: AbortSignal,
): Promise<AdmissionAnswer> {
  const { tenant, key, credential, traceparent, endpoint = "start_run", ...run } = request;
  checkRecords(gate.config, run.change.records);
  // A caller that has already gone is answered without a call.
  const settings = signal?.aborted ? {} : await settingsOf(gate, tenant);
  if (settings === undefined) return gateUnavailable(gate, "the tenant's settings cannot be read");
  const runId = newRunId(gate.ports, tenant);
  const assigned = await assignPolicies(gate, settings, runId);
  const asked = {
    tenant,
    run: { ...run, runId, ...(key === undefined ? {} : { key: reservationOf(key) }) },
    ...(credential === undefined ? {} : { credential }),
  };
  return admit(gate, { asked, settings, assigned, notes: undefined, traceparent, endpoint }, signal);
}

/** Bounds what one admission writes, so that it never holds the store for long. */
function checkRecords(config: Config, records: readonly RunRecord[]): void {
  const recordsMax = config["admission.recordsMax"];
  if (records.length > recordsMax) {
    throw new InterlockError(
      "invalid_request",
      `${records.length} initial records, ${recordsMax} are allowed`,
    );
  }
  const bytes = records.reduce(
    (sum, { key, body }) => sum + Buffer.byteLength(key) + Buffer.byteLength(body),
    0,
  );
  const bytesMax = config["admission.recordBytesMax"];
  if (bytes > bytesMax) {
    throw new InterlockError("invalid_request", `initial records of ${bytes} bytes, ${bytesMax} are allowed`);
  }
}

/**
 * A key that is bound answers with its run, whatever became of the workflow since. Asked by a revision that no workflow has,
 * the store judges the key and can admit nothing.
 */
export async function replayOr<Refusal>(
  engine: Engine,
  { caller, workflow, key, traceparent, endpoint }: Replay,
  refusal: Refusal,
  signal: AbortSignal | undefined,
): Promise<AdmissionAnswer | Refusal> {
  if (key === undefined) return refusal;
  const { tenant, actor, credential } = caller;
  const change: RunChange = { ...unchanged, status: "pending", timeline: "[]" };
  const request: StartRequest = {
    ...{ tenant, actor, workflow, revision: 0, definition: "", change, start: "applied", key },
    ...(credential === undefined ? {} : { credential }),
    ...(traceparent === undefined ? {} : { traceparent }),
    ...(endpoint === undefined ? {} : { endpoint }),
  };
  const answer = await startRun(engine, request, signal);
  return unboundKinds.has(answer.kind) ? refusal : answer;
}

type Replay = Omit<StartWorkflowRequest, "input"> & Pick<StartRequest, "endpoint">;

/** What the store answers when the key is bound to nothing. */
const unboundKinds: ReadonlySet<AdmissionAnswer["kind"]> = new Set([
  "version_conflict",
  "max_concurrent_runs_reached",
  "queue_full",
  "tenant_stopped",
  "quota_reached",
  "idempotency_quota_reached",
]);
