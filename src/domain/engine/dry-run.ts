// Plays a workflow through without doing anything: what would run, in which order, with which input.
import type { JsonValue } from "../fingerprint.ts";
import type { InboxEntry } from "../inbox.ts";
import { makeRunId } from "../run.ts";
import type { ChildRun, RunChange } from "../run-change.ts";
import type { TenantId } from "../tenant.ts";
import type { CompiledDefinition } from "../workflow/compiled.ts";
import { apply } from "./apply.ts";
import type { RunView } from "./contract.ts";
import { defaultLimits, type EngineLimits } from "./draft.ts";
import { parseItem, stepNamed } from "./instances.ts";
import {
  approvalKey,
  parseOutsideKey,
  parseTimer,
  runOutputKey,
  runRecordKey,
  stepRecordKey,
} from "./keys.ts";
import { readStepRecord, writeOutput } from "./records.ts";
import { startRun } from "./start.ts";
import { describer, type StepDescription } from "./views.ts";

export type DryRunRequest = {
  readonly tenant: TenantId;
  readonly input: JsonValue;
  /** What workers, child runs and items would answer, by step; null for those left out. */
  readonly outputs: Readonly<Record<string, JsonValue>>;
  readonly nowMs: number;
};

export type DryRunStep = Pick<
  StepDescription,
  "step_id" | "type" | "status" | "output" | "error" | "skipped_because"
> & {
  readonly topic?: string;
  /** The evaluated input of a job, of an approval or of a child run. */
  readonly input?: JsonValue;
};

export type DryRun = {
  readonly status: string;
  /** In the order in which they would begin. */
  readonly steps: readonly DryRunStep[];
  /** It was cut short: a loop or a list is longer than anybody reads. */
  readonly truncated: boolean;
};

/** Enough for any workflow whose course somebody wants to look at. */
const entriesMax = 2_000;
const stepsShownMax = 1_000;

type Play = {
  readonly compiled: CompiledDefinition;
  readonly request: DryRunRequest;
  readonly view: RunView & { readonly records: Map<string, string | undefined> };
  readonly limits: EngineLimits;
  readonly inbox: InboxEntry[];
  readonly timers: Map<string, number>;
  /** Ids in the order of their first mention. */
  readonly seen: Set<string>;
  status: string;
  nowMs: number;
};

/** Jobs succeed with the outputs given, approvals are granted, time passes at once, and nothing leaves this function. */
export function dryRun(
  compiled: CompiledDefinition,
  request: DryRunRequest,
  limits: EngineLimits = defaultLimits,
): DryRun {
  const runId = makeRunId(request.tenant, "dryrun00");
  const facts = {
    runId,
    tenant: request.tenant,
    actor: "dry-run",
    input: request.input,
    nowMs: request.nowMs,
  };
  const started = startRun(compiled, { ...facts, separateDuties: false }, limits);
  const play: Play = {
    compiled,
    request,
    view: { runId, tenant: request.tenant, actor: "dry-run", version: 1, records: new Map() },
    limits,
    inbox: started.large ? [{ kind: "started", entryId: "started" }] : [],
    timers: new Map(),
    seen: new Set(),
    status: started.change.status,
    nowMs: request.nowMs,
  };
  take(play, started.change);
  let entries = 0;
  for (; entries < entriesMax; entries += 1) {
    const entry = play.inbox[0] ?? nextTimer(play);
    if (entry === undefined) break;
    playEntry(play, entry);
  }
  const ids = [...play.seen].slice(0, stepsShownMax);
  const truncated = entries >= entriesMax || play.seen.size > stepsShownMax;
  const records = [...play.view.records].flatMap(([key, body]) =>
    body === undefined ? [] : [{ key, body }],
  );
  const describe = describer(compiled, runId, records);
  return { status: play.status, steps: ids.flatMap((id) => shown(play, id, describe(id))), truncated };
}

function playEntry(play: Play, entry: InboxEntry): void {
  const { compiled, view, limits } = play;
  for (;;) {
    const applied = apply(compiled, view, [entry], play.nowMs, limits);
    if (applied.kind === "needs") {
      for (const key of applied.records) view.records.set(key, outside(play, key));
      continue;
    }
    if (applied.consumed > 0 && play.inbox[0] === entry) play.inbox.shift();
    take(play, applied.change);
    if (applied.consumed > 0) return;
  }
}

/** A child workflow is taken to exist, and to give what the request says. */
function outside({ request, view }: Play, key: string): string | undefined {
  const named = parseOutsideKey(key);
  if (named?.kind === "workflow") return "dry-run";
  // A child that is only played has a state, too: it is not taken for one that was deleted.
  if (named?.kind === "run" && named.key === runRecordKey) return "{}";
  if (named?.kind !== "run" || named.key !== runOutputKey) return undefined;
  const steps = [...view.records].flatMap(([name, body]) =>
    name.startsWith("step/") && body?.includes(named.runId) ? [name.slice("step/".length)] : [],
  );
  return writeOutput(request.outputs[steps[0] ?? ""] ?? null);
}

/** Keeps what a store would keep, and lets everything that was begun answer. */
function take(play: Play, change: RunChange): void {
  const { view, inbox, timers, seen, request } = play;
  play.status = change.status;
  for (const { key, body } of change.records) view.records.set(key, body);
  for (const event of JSON.parse(change.timeline) as ReadonlyArray<{ readonly step?: string }>) {
    if (event.step !== undefined) seen.add(event.step);
  }
  for (const timerId of change.clearTimers) timers.delete(timerId);
  for (const { timerId, dueAtMs } of change.timers) timers.set(timerId, dueAtMs);
  for (const { jobId, step, attempt } of change.jobs) {
    const payloadKey = `result/${step}@${attempt}`;
    view.records.set(payloadKey, writeOutput(request.outputs[parseItem(step)?.step ?? step] ?? null));
    inbox.push({ kind: "result", entryId: jobId, jobId, outcome: "succeeded", payloadKey });
  }
  for (const { approvalId } of change.approvals) {
    const decision = { decision: "approved", decidedBy: "dry-run", reason: "" } as const;
    inbox.push({ kind: "decision", entryId: approvalId, approvalId, ...decision });
  }
  for (const child of change.children) inbox.push(endOf(child));
}

function endOf({ runId, step, attempt }: ChildRun): InboxEntry {
  return { kind: "child_ended", entryId: `child:${runId}`, runId, step, attempt, status: "succeeded" };
}

/** The earliest wait that is no limit: limits are not reached when everything answers at once. */
function nextTimer(play: Play): InboxEntry | undefined {
  const waits = [...play.timers].filter(([timerId]) => parseTimer(timerId)?.kind === "delay");
  const [first] = waits.sort((left, right) => left[1] - right[1]);
  if (first === undefined) return undefined;
  const [timerId, dueAtMs] = first;
  play.timers.delete(timerId);
  play.nowMs = Math.max(play.nowMs, dueAtMs);
  return { kind: "timer", entryId: timerId, timerId };
}

function shown({ compiled, view }: Play, id: string, described: StepDescription | undefined): DryRunStep[] {
  const step = stepNamed(compiled, id);
  if (step === undefined || described === undefined) return [];
  const { step_id, type, status, output, error, skipped_because } = described;
  const input = inputShown(view.records, id);
  return [
    {
      step_id,
      type,
      status,
      ...(step.type === "worker" || step.type === "notify" ? { topic: step.topic } : {}),
      ...(input === undefined ? {} : { input }),
      ...(output === undefined ? {} : { output }),
      ...(error === undefined ? {} : { error }),
      ...(skipped_because === undefined ? {} : { skipped_because }),
    },
  ];
}

function inputShown(records: Play["view"]["records"], id: string): JsonValue | undefined {
  const body = records.get(stepRecordKey(id));
  if (body === undefined) return undefined;
  const { inputKey = `job-input/${id}@1`, attempt } = readStepRecord(body);
  const text = records.get(inputKey);
  if (text !== undefined) return JSON.parse(text) as JsonValue;
  const asked = records.get(approvalKey({ step: id, attempt }));
  return asked === undefined ? undefined : (JSON.parse(asked) as { payload: JsonValue }).payload;
}
