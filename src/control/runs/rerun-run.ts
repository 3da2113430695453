// Starts a run anew from one of its steps: what was done before that step is taken over, the rest is done again.
import {
  planRerun as keptSteps,
  notPossible,
  type RerunNotPossible,
} from "../../domain/engine/copy-steps.ts";
import { inputRecordKey, stepRecordKey } from "../../domain/engine/keys.ts";
import { readStepRecord, type StepRecord } from "../../domain/engine/records.ts";
import type { Fingerprint, JsonValue } from "../../domain/fingerprint.ts";
import type { RunHeader, RunId } from "../../domain/run.ts";
import type { CompiledDefinition } from "../../domain/workflow/compiled.ts";
import { replayOr, type StartAnswer, startPinned } from "../admission/start-run.ts";
import type { Caller } from "../caller.ts";
import type { Engine } from "../engine/engine.ts";
import { loadRun } from "./read-run.ts";

type RerunRequest = {
  readonly caller: Caller;
  readonly runId: RunId;
  readonly fromStep: string;
  readonly key?: { readonly text: string; readonly fingerprint: Fingerprint };
  readonly priority?: number;
  readonly traceparent?: string;
};

type RerunRefusal =
  | { readonly kind: "run_not_found" }
  | RerunNotPossible
  /** So far things were only read: whatever is not known, nothing was changed. */
  | { readonly kind: "store_unavailable"; readonly cause: string };

type PlannedRerun = {
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
export async function planRerun(engine: Engine, request: RerunRequest): Promise<PlannedRerun | RerunRefusal> {
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
): Promise<StartAnswer | RerunRefusal> {
  const { caller, runId, fromStep, key, priority, traceparent } = request;
  const plan = await planOf(engine, request);
  if (plan.kind === "store_unavailable") return plan;
  if (plan.kind !== "ready") {
    // A key that is bound answers with its run, whatever became of the run that it went on from.
    const replay = { caller, workflow: "", endpoint: "rerun_run" } as const;
    const asked = { ...replay, ...(key === undefined ? {} : { key }) };
    return replayOr(engine, asked, plan, signal);
  }
  const { header, definition, input } = plan;
  const start = {
    caller,
    workflow: header.workflow,
    input,
    ...(key === undefined ? {} : { key }),
    ...(priority === undefined ? {} : { priority }),
    ...(traceparent === undefined ? {} : { traceparent }),
    rerun: { of: runId, fromStep },
  };
  return startPinned(engine, start, { definition, hash: header.definition }, signal);
}

async function planOf(engine: Engine, request: RerunRequest): Promise<Plan | RerunRefusal> {
  const { caller, runId, fromStep } = request;
  const { tenant } = caller;
  const first = await loadRun(engine, tenant, runId, [inputRecordKey]);
  if (first.kind === "run_not_found") return first;
  if (first.kind !== "run") return { kind: "store_unavailable", cause: first.cause };
  const pinned = await engine.definitions.pinned(tenant, first.header.definition);
  if (pinned.kind === "missing") return notPossible("the definition that the run is pinned to is gone");
  if (pinned.kind !== "compiled") return { kind: "store_unavailable", cause: pinned.cause };
  const { definition } = pinned;
  const keys = [...definition.steps.keys()].map(stepRecordKey);
  const loaded = await loadRun(engine, tenant, runId, keys);
  if (loaded.kind === "run_not_found") return loaded;
  if (loaded.kind !== "run") return { kind: "store_unavailable", cause: loaded.cause };
  const records = new Map<string, StepRecord>(
    loaded.records.map(({ key, body }) => [key, readStepRecord(body)]),
  );
  const plan = keptSteps(definition, (id) => records.get(stepRecordKey(id)), fromStep);
  if (plan.kind !== "plan") return plan;
  const input = JSON.parse(first.records[0]?.body ?? "null") as JsonValue;
  return { kind: "ready", header: first.header, definition, input, kept: plan.kept };
}
