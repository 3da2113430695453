// A run as the API shows it: the header and the records, read together. Existing clients know these field names.
import type { JsonValue } from "../fingerprint.ts";
import type { RunGates } from "../gates.ts";
import { makeJobId } from "../job.ts";
import type { RunHeader, RunId, RunRecord } from "../run.ts";
import type { CompiledDefinition, CompiledStep } from "../workflow/compiled.ts";
import { inputRecordKey, runRecordKey, stepNamed, stepRecordKey } from "./keys.ts";
import {
  openCount,
  type RunProgress,
  readError,
  readOutput,
  readRunProgress,
  readStepRecord,
  type StepRecord,
  shownStatus,
  untouched,
} from "./records.ts";
import { formatTime } from "./rfc3339.ts";

/** What `GET /workflow-runs/{id}` answers. Absent values are left out; times are RFC 3339 in UTC. */
export type RunDescription = {
  /** The same as `run_id`: clients read either. */
  readonly id: string;
  readonly run_id: string;
  readonly workflow_id: string;
  readonly org_id: string;
  /** Content hash of the definition that the run is pinned to. */
  readonly definition: string;
  readonly status: string;
  readonly version: number;
  readonly created_by: string;
  readonly created_at: string;
  readonly started_at?: string;
  readonly updated_at: string;
  readonly completed_at?: string;
  readonly cancel_requested: boolean;
  /** For a run that a step of another run has started. */
  readonly parent_run_id?: string;
  readonly parent_step_id?: string;
  readonly root_run_id?: string;
  /** Left out when the record was not loaded. */
  readonly input?: JsonValue;
  /** What decided that the run did not succeed; `step_id` is absent when no step did. */
  readonly error?: { readonly step_id?: string; readonly status: string } & Partial<ErrorDescription>;
  readonly open_steps: number;
  readonly steps: Readonly<Record<string, StepDescription>>;
};

export type StepDescription = {
  readonly step_id: string;
  readonly name: string;
  readonly type: string;
  readonly status: string;
  /** Jobs enqueued, delays begun, approvals asked for: 0 for a step that never began. */
  readonly attempts: number;
  readonly failures?: number;
  readonly lost_claims?: number;
  readonly hand_backs?: number;
  readonly waiting_for?: string;
  readonly wakes_at?: string;
  readonly started_at?: string;
  readonly completed_at?: string;
  /** The latest attempt's job, or its approval. Inline steps and delays have none. */
  readonly job_id?: string;
  readonly error?: ErrorDescription;
  /** Left out when the record that holds it was not loaded. */
  readonly output?: JsonValue;
  /** Why it was skipped: its own condition, a dependency, or nobody needed it. */
  readonly skipped_because?: string;
  /** For an error handler: the step whose failure it handles. */
  readonly handles?: string;
  /** For `parallel` and `for_each`. */
  readonly children?: {
    readonly total: number;
    readonly open: number;
    readonly succeeded: number;
    readonly failed: number;
  };
  /** For `loop`: the one it is in, or how many there were. */
  readonly iteration?: number;
  /** For `subworkflow`: the run of the latest attempt. */
  readonly child_run_id?: string;
  /** Its output is too large to be shown together with the others, or those of its children are. */
  readonly output_omitted?: true;
};

type ErrorDescription = { readonly code?: string; readonly message: string };

/** Give it all records for the whole picture, or leave out `result/` and `output/` ones to leave out the payloads. */
export function describeRun(
  compiled: CompiledDefinition,
  header: RunHeader,
  records: readonly RunRecord[],
): RunDescription {
  const bodies = new Map(records.map(({ key, body }) => [key, body]));
  const runBody = bodies.get(runRecordKey);
  const run = runBody === undefined ? undefined : readRunProgress(runBody);
  const input = bodies.get(inputRecordKey);
  const steps: Record<string, StepDescription> = {};
  for (const step of compiled.steps.values()) {
    steps[step.id] = describeStep({ runId: header.runId, run, bodies }, step);
  }
  const failure = run === undefined ? undefined : describeFailure(run, steps);
  return {
    ...time("completed_at", run?.endedAtMs),
    ...describeHeader(header),
    ...time("started_at", run?.startedAtMs === 0 ? undefined : run?.startedAtMs),
    ...(input === undefined ? {} : { input: JSON.parse(input) as JsonValue }),
    ...(failure === undefined ? {} : { error: failure }),
    open_steps: run === undefined || run.ended !== undefined ? 0 : openCount(run),
    steps,
  };
}

/** A run as lists show it. */
export function describeHeader(header: RunHeader) {
  return {
    id: header.runId,
    run_id: header.runId,
    workflow_id: header.workflow,
    org_id: header.tenant,
    definition: header.definition,
    status: header.status,
    version: header.version,
    created_by: header.actor,
    created_at: formatTime(header.gates?.askedAtMs ?? header.admittedAtMs),
    updated_at: formatTime(header.updatedAtMs),
    ...time("completed_at", header.endedAtMs),
    cancel_requested: header.cancelRequested !== undefined,
    ...describeGates(header),
    ...(header.parent === undefined
      ? {}
      : {
          parent_run_id: header.parent.runId,
          parent_step_id: header.parent.step,
          root_run_id: header.parent.root,
        }),
  };
}

/** Only of runs that have gates, or that have ended before they began. */
function describeGates({ gates, endReason }: RunHeader) {
  const queue = gates === undefined ? undefined : describeQueuePlace(gates);
  return {
    ...(gates === undefined ? {} : { priority: gates.priority }),
    ...(queue === undefined ? {} : { queue }),
    ...(gates?.released === true ? { places_released: true as const } : {}),
    ...(endReason === undefined ? {} : { end_reason: endReason }),
  };
}

function describeQueuePlace({ gates, held, waits, deadlineAtMs, released, ...start }: RunGates) {
  const deadline_at = formatTime(deadlineAtMs);
  const { startsAtMs, rate, askedAtMs } = start;
  if (startsAtMs !== undefined && rate !== undefined)
    return { rate, starts_at: formatTime(startsAtMs), since: formatTime(askedAtMs), deadline_at };
  const gate = gates[held]?.gate;
  if (waits === undefined || gate === undefined) return undefined;
  const { level, sinceMs } = waits;
  // A run that comes back waits for as long as it must.
  return { gate, level, since: formatTime(sinceMs), ...(released === true ? {} : { deadline_at }) };
}

type Sources = {
  readonly runId: RunId;
  readonly run: RunProgress | undefined;
  readonly bodies: ReadonlyMap<string, string>;
};

function describeStep(sources: Sources, step: CompiledStep): StepDescription {
  const body = sources.bodies.get(stepRecordKey(step.id));
  const record = body === undefined ? untouched : readStepRecord(body);
  const status = shownStatus(record, sources.run);
  const error = describeError(sources, record);
  const output = record.outputKey === undefined ? undefined : sources.bodies.get(record.outputKey);
  const hasJob = record.attempt > 0 && step.forEach === undefined && typesWithJob.has(step.type);
  const because = status === "skipped" ? (record.skipped ?? "not_needed") : undefined;
  return {
    step_id: step.id,
    name: step.name,
    type: step.type,
    status,
    attempts: record.attempt,
    ...(record.failures === undefined ? {} : { failures: record.failures }),
    ...(record.lostClaims === undefined ? {} : { lost_claims: record.lostClaims }),
    ...(record.handBacks === undefined ? {} : { hand_backs: record.handBacks }),
    ...(record.waitingFor === undefined ? {} : { waiting_for: record.waitingFor }),
    ...time("wakes_at", record.wakeAtMs),
    ...time("started_at", record.startedAtMs),
    ...time("completed_at", record.endedAtMs),
    ...(hasJob
      ? { job_id: makeJobId({ runId: sources.runId, step: step.id, attempt: record.attempt }) }
      : {}),
    ...(error === undefined ? {} : { error }),
    ...(output === undefined ? {} : { output: readOutput(output) }),
    ...(record.outputKey !== undefined && output === undefined ? { output_omitted: true as const } : {}),
    ...(because === undefined ? {} : { skipped_because: because }),
    ...(record.handles === undefined ? {} : { handles: record.handles.step }),
    ...describeChildren(record),
  };
}

const typesWithJob: ReadonlySet<CompiledStep["type"]> = new Set(["worker", "notify", "approval"]);

function describeChildren({ children, iteration, childRunId, omitted }: StepRecord) {
  return {
    ...(children === undefined
      ? {}
      : {
          children: {
            total: children.total,
            open: children.open,
            succeeded: children.met,
            failed: children.broken,
          },
        }),
    ...(iteration === undefined ? {} : { iteration }),
    ...(childRunId === undefined ? {} : { child_run_id: childRunId }),
    ...(omitted === undefined ? {} : { output_omitted: omitted }),
  };
}

/** Steps and items one by one, from records that were read together. */
export function describer(
  compiled: CompiledDefinition,
  runId: RunId,
  records: readonly RunRecord[],
): (id: string) => StepDescription | undefined {
  const bodies = new Map(records.map(({ key, body }) => [key, body]));
  const runBody = bodies.get(runRecordKey);
  const run = runBody === undefined ? undefined : readRunProgress(runBody);
  return (id) => {
    const step = stepNamed(compiled, id);
    return step === undefined ? undefined : describeStep({ runId, run, bodies }, step);
  };
}

/** A worker's error is shown by its message and code; whatever else it sent stays in the result record. */
function describeError({ bodies }: Sources, record: StepRecord): ErrorDescription | undefined {
  if (record.error !== undefined) return record.error;
  if (record.errorKey === undefined) return undefined;
  const body = bodies.get(record.errorKey);
  const error = body === undefined ? null : readError(body);
  if (typeof error === "string") return { message: error };
  if (error === null || typeof error !== "object" || Array.isArray(error))
    return { message: "the worker failed" };
  const { message, code } = error as { readonly message?: JsonValue; readonly code?: JsonValue };
  return {
    message: typeof message === "string" ? message : "the worker failed",
    ...(typeof code === "string" ? { code } : {}),
  };
}

function describeFailure(
  run: RunProgress,
  steps: Readonly<Record<string, StepDescription>>,
): RunDescription["error"] {
  if (run.error !== undefined) return { status: "failed", ...run.error };
  if (run.failure === undefined) return undefined;
  const { step, status } = run.failure;
  return { step_id: step, status, ...steps[step]?.error };
}

function time<Name extends string>(name: Name, ms: number | undefined): { readonly [Key in Name]?: string } {
  return ms === undefined ? {} : ({ [name]: formatTime(ms) } as { readonly [Key in Name]?: string });
}
