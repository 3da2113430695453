// Starts a run anew from one of its steps: what was done before that step is taken over, the rest is done again.
import { planRerun, type RerunPlan } from "../../domain/engine/copy-steps.ts";
import { inputRecordKey, stepRecordKey } from "../../domain/engine/keys.ts";
import { readStepRecord, type StepRecord } from "../../domain/engine/records.ts";
import type { JsonValue } from "../../domain/fingerprint.ts";
import type { Fingerprint } from "../../domain/reservation.ts";
import type { RunHeader, RunId } from "../../domain/run.ts";
import type { CompiledDefinition } from "../../domain/workflow/compiled.ts";
import { replayOr, startBy } from "../admission/start-workflow.ts";
import type { Caller, StartWorkflowAnswer, Trouble } from "../control-api.ts";
import type { Engine } from "../engine/engine.ts";
import { loadRun } from "./read-run.ts";

export type RerunRequest = {
  readonly caller: Caller;
  readonly runId: RunId;
  readonly fromStep: string;
  readonly key?: { readonly text: string; readonly fingerprint: Fingerprint };
  readonly traceparent?: string;
};

export type RerunRefusal =
  | { readonly kind: "not_found" }
  /** The definition that the run is pinned to is gone. */
  | { readonly kind: "definition_missing" }
  | Exclude<RerunPlan, { kind: "plan" }>;

export type PlannedRerun = {
  readonly kind: "planned";
  /** Steps whose results are taken over, and steps that may run again. */
  readonly kept: readonly string[];
  readonly again: readonly string[];
};

type Plan = {
  readonly kind: "ready";
  readonly header: RunHeader;
  readonly definition: CompiledDefinition;
  readonly input: JsonValue;
  readonly kept: ReadonlySet<string>;
};

/** Says what a rerun would do, and does nothing. */
export async function planRerunOf(
  engine: Engine,
  request: RerunRequest,
): Promise<PlannedRerun | RerunRefusal | Trouble> {
  const plan = await planOf(engine, request);
  if (plan.kind !== "ready") return plan;
  const steps = [...plan.definition.steps.values()].sort((left, right) => left.order - right.order);
  const ids = steps.map(({ id }) => id);
  const again = ids.filter((id) => !plan.kept.has(id));
  return { kind: "planned", kept: ids.filter((id) => plan.kept.has(id)), again };
}

/** A new run passes the gate like any other. It is pinned to the definition of the run that it goes on from. */
export async function rerunRun(
  engine: Engine,
  request: RerunRequest,
  signal?: AbortSignal,
): Promise<StartWorkflowAnswer | RerunRefusal | Trouble> {
  const { caller, runId, fromStep, key, traceparent } = request;
  const plan = await planOf(engine, request);
  if (plan.kind === "unavailable" || plan.kind === "unknown") return plan;
  if (plan.kind !== "ready") {
    // A key that is bound answers with its run, whatever became of the run that it went on from.
    const asked = { caller, workflow: "", ...(key === undefined ? {} : { key }) };
    return replayOr(engine, asked, plan, signal);
  }
  const { header, definition, input } = plan;
  const start = {
    caller,
    workflow: header.workflow,
    input,
    ...(key === undefined ? {} : { key }),
    ...(traceparent === undefined ? {} : { traceparent }),
    rerun: { of: runId, fromStep },
  };
  return startBy(engine, start, { definition, hash: header.definition }, signal);
}

async function planOf(engine: Engine, request: RerunRequest): Promise<Plan | RerunRefusal | Trouble> {
  const { caller, runId, fromStep } = request;
  const { tenant } = caller;
  const first = await loadRun(engine, tenant, runId, [inputRecordKey]);
  if (first.kind !== "run") return first;
  const pinned = await engine.definitions.pinned(tenant, first.header.definition);
  if (pinned.kind === "missing") return { kind: "definition_missing" };
  if (pinned.kind !== "compiled") return pinned;
  const { definition } = pinned;
  const keys = [...definition.steps.keys()].map(stepRecordKey);
  const loaded = await loadRun(engine, tenant, runId, keys);
  if (loaded.kind !== "run") return loaded;
  const records = new Map<string, StepRecord>(
    loaded.records.map(({ key, body }) => [key, readStepRecord(body)]),
  );
  const plan = planRerun(definition, (id) => records.get(stepRecordKey(id)), fromStep);
  if (plan.kind !== "plan") return plan;
  const input = JSON.parse(first.records[0]?.body ?? "null") as JsonValue;
  return { kind: "ready", header: first.header, definition, input, kept: plan.kept };
}
