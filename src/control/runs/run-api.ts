// What may be asked of runs beyond starting and ending them: reading, rerunning, trying out.

import { problemsOfInput } from "../../domain/engine/apply.ts";
import { type DryRun, playDryRun } from "../../domain/engine/dry-run.ts";
import type { JsonValue } from "../../domain/fingerprint.ts";
import type { RunId } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { Problem } from "../../domain/workflow/compiled.ts";
import type { StartAnswer } from "../admission/start-run.ts";
import type { RunDetails, Trouble } from "../control-api.ts";
import type { Engine } from "../engine/engine.ts";
import { createTurns, type Turns } from "../workflows/turns.ts";
import { getRun, type ItemsAnswer, type ItemsPage, listItems } from "./read-run.ts";
import {
  type PlannedRerun,
  planRerunOf,
  type RerunRefusal,
  type RerunRequest,
  rerunRun,
} from "./rerun-run.ts";

type DryRunRequest = {
  readonly tenant: TenantId;
  readonly workflow: string;
  readonly input: JsonValue;
  /** What workers and child runs would answer, by step. */
  readonly outputs: Readonly<Record<string, JsonValue>>;
};

export type DryRunAnswer =
  | { readonly kind: "played"; readonly play: DryRun }
  | { readonly kind: "workflow_not_found" }
  | { readonly kind: "input_invalid"; readonly problems: readonly Problem[] }
  | { readonly kind: "store_unavailable"; readonly cause: string };

export type RunApi = {
  /** Without the items of its lists: those are read with `listItems`. */
  getRun(
    tenant: TenantId,
    runId: RunId,
  ): Promise<{ readonly kind: "run"; readonly run: RunDetails } | { readonly kind: "not_found" } | Trouble>;
  listItems(tenant: TenantId, runId: RunId, step: string, page: ItemsPage): Promise<ItemsAnswer>;
  rerunRun(request: RerunRequest, signal?: AbortSignal): Promise<StartAnswer | RerunRefusal>;
  planRerun(request: RerunRequest): Promise<PlannedRerun | RerunRefusal>;
  dryRun(request: DryRunRequest): Promise<DryRunAnswer>;
};

export function createRunApi(engine: Engine): RunApi {
  // A dry run is in no hurry: half of the time is everybody else's, however many there are.
  const plays = createTurns(engine.ports.clock, "as long as a slice");
  return {
    getRun: (tenant, runId) => getRun(engine, tenant, runId),
    listItems: (tenant, runId, step, page) => listItems(engine, tenant, runId, step, page),
    rerunRun: (request, signal) => rerunRun(engine, request, signal),
    planRerun: (request) => planRerunOf(engine, request),
    dryRun: (request) => playThrough(engine, plays, request),
  };
}

async function playThrough(engine: Engine, plays: Turns, request: DryRunRequest): Promise<DryRunAnswer> {
  const { tenant, workflow, input, outputs } = request;
  const current = await engine.definitions.current(tenant, workflow);
  if (current.kind === "not_found") return { kind: "workflow_not_found" };
  if (current.kind !== "current") return { kind: "store_unavailable", cause: current.cause };
  const { definition } = current;
  const timed = <Value>(work: () => Value) => engine.computing.time("dry_run", tenant, work);
  const problems = timed(() => problemsOfInput(definition, input));
  if (problems.length > 0) return { kind: "input_invalid", problems };
  const nowMs = engine.storeTime.nowMs();
  const limits = engine.terms.commit;
  const play = playDryRun(definition, { tenant, input, outputs, nowMs }, limits);
  return { kind: "played", play: await plays.take(tenant, { next: () => timed(() => play.next()) }) };
}
