// Plays a workflow through without doing anything: what would run, in which order, with which input.
import type { JsonValue } from "../fingerprint.ts";
import type { InboxEntry } from "../inbox.ts";
import { type ChildRun, makeRunId, type RunChange } from "../run.ts";
import type { Sliced } from "../slices.ts";
import type { TenantId } from "../tenant.ts";
import type { CompiledDefinition } from "../workflow/compiled.ts";
import { apply, firstCommit, type RunView } from "./apply.ts";
import { changeWorkMax, defaultLimits, type EngineLimits } from "./draft.ts";
import {
  approvalKey,
  parseItem,
  parseOutsideKey,
  parseTimer,
  runOutputKey,
  runRecordKey,
  stepNamed,
  stepRecordKey,
} from "./keys.ts";
import { readStepRecord, writeOutput } from "./records.ts";
import { describer, type StepDescription } from "./views.ts";

type DryRunRequest = {
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
  readonly truncatedBecause?: TruncationCause;
};

/** `entries`: too many things would happen; `work`: its expressions cost too much together; `size`: it would be too long. */
export const truncationCauses = ["entries", "work", "size"] as const;
type TruncationCause = (typeof truncationCauses)[number];

/** Enough for any workflow whose course somebody wants to look at. */
const entriesMax = 2_000;
const stepsShownMax = 1_000;
/** As many as forty full commits: under a second. */
const dryRunWorkMax = 40 * changeWorkMax;
/** What all records together may have, and all that is shown. */
const keptCharactersMax = 32 * 1024 * 1024;
const shownCharactersMax = 2 * 1024 * 1024;
/** Applying anything at all takes about 50 us. */
const unitsPerCommit = 1_000;
/** Between two turns of everybody else, about a millisecond. A commit ends there, too: any budget comes to the same records. */
const sliceUnits = 20_000;

type Play = {
  readonly compiled: CompiledDefinition;
  readonly request: DryRunRequest;
  readonly view: Omit<RunView, "records"> & { readonly records: Map<string, string | undefined> };
  readonly limits: EngineLimits;
  readonly inbox: InboxEntry[];
  /** Waits that are no limit: limits are not reached when everything answers at once. */
  readonly delays: Map<string, number>;
  /** Ids in the order of their first mention. */
  readonly seen: Set<string>;
  /** The steps that have started a run, by its id. */
  readonly parents: Map<string, string>;
  /** What the request says that steps give, written once. */
  readonly given: Map<string, string>;
  status: string;
  nowMs: number;
  work: number;
  characters: number;
};

/**
 * Jobs succeed with the outputs given, approvals are granted, time passes at once, and nothing leaves this function. The
 * caller lets other work go first where it yields.
 */
export function* playDryRun(
  compiled: CompiledDefinition,
  request: DryRunRequest,
  limits: EngineLimits = defaultLimits,
): Sliced<DryRun> {
  const runId = makeRunId(request.tenant, "dryrun00");
  const facts = {
    runId,
    tenant: request.tenant,
    actor: "dry-run",
    input: request.input,
    nowMs: request.nowMs,
  };
  const sliced = { ...limits, workMax: Math.min(limits.workMax, sliceUnits) };
  const started = firstCommit(compiled, { ...facts, separateDuties: false }, sliced);
  const play: Play = {
    compiled,
    request,
    view: { runId, tenant: request.tenant, actor: "dry-run", version: 1, records: new Map() },
    limits: sliced,
    inbox: started.large ? [{ kind: "started", entryId: "started" }] : [],
    delays: new Map(),
    seen: new Set(),
    parents: new Map(),
    given: new Map(),
    status: started.change.status,
    nowMs: request.nowMs,
    work: started.work,
    characters: 0,
  };
  take(play, started.change);
  const cut = yield* playEntries(play);
  const { steps, isCut } = yield* showSteps(play);
  const truncatedBecause = cut ?? (isCut ? "size" : undefined);
  const truncated = truncatedBecause !== undefined;
  return { status: play.status, steps, truncated, ...(truncated ? { truncatedBecause } : {}) };
}

/** Why it was left before the end, if it was. */
function* playEntries(play: Play): Sliced<TruncationCause | undefined> {
  let heard = 0;
  for (let entries = 0; entries < entriesMax; ) {
    if (play.inbox.length === 0) fireTimer(play);
    const [entry] = play.inbox;
    if (entry === undefined) return undefined;
    if (play.work >= dryRunWorkMax) return "work";
    if (play.characters >= keptCharactersMax) return "size";
    if (playOnce(play, entry) === "done") entries += 1;
    if (play.work - heard >= sliceUnits) {
      heard = play.work;
      yield;
    }
  }
  return "entries";
}

/** One commit, or one round of what it has to see first; `done` when the entry is used up. */
function playOnce(play: Play, entry: InboxEntry): "done" | "goes on" {
  const { compiled, view, limits, inbox } = play;
  const applied = apply(compiled, view, [entry], play.nowMs, limits);
  play.work += applied.work + unitsPerCommit;
  if (applied.kind === "needs") {
    for (const key of applied.records) view.records.set(key, outside(play, key));
    return "goes on";
  }
  if (applied.consumed > 0) inbox.shift();
  take(play, applied.change);
  return applied.consumed > 0 ? "done" : "goes on";
}

/** A child workflow is taken to exist, and to give what the request says. */
function outside(play: Play, key: string): string | undefined {
  const named = parseOutsideKey(key);
  if (named?.kind === "workflow") return "dry-run";
  // A child that is only played has a state, too: it is not taken for one that was deleted.
  if (named?.kind === "run" && named.key === runRecordKey) return "{}";
  if (named?.kind !== "run" || named.key !== runOutputKey) return undefined;
  return outputGiven(play, play.parents.get(named.runId) ?? "");
}

function outputGiven({ request, given }: Play, step: string): string {
  const known = given.get(step);
  if (known !== undefined) return known;
  const written = writeOutput(request.outputs[step] ?? null);
  given.set(step, written);
  return written;
}

/** Keeps what a store would keep, and lets everything that was begun answer. */
function take(play: Play, change: RunChange): void {
  const { view, inbox, delays, seen, parents } = play;
  play.status = change.status;
  for (const { key, body } of change.records) {
    view.records.set(key, body);
    play.characters += body.length;
  }
  for (const event of JSON.parse(change.timeline) as ReadonlyArray<{ readonly step?: string }>) {
    if (event.step !== undefined) seen.add(event.step);
  }
  for (const timerId of change.clearTimers) delays.delete(timerId);
  for (const { timerId, dueAtMs } of change.timers) {
    if (parseTimer(timerId)?.kind === "delay") delays.set(timerId, dueAtMs);
  }
  for (const { jobId, step, attempt } of change.jobs) {
    const payloadKey = `result/${step}@${attempt}`;
    view.records.set(payloadKey, outputGiven(play, parseItem(step)?.step ?? step));
    inbox.push({ kind: "result", entryId: jobId, jobId, outcome: "succeeded", payloadKey });
  }
  for (const { approvalId } of change.approvals) {
    const decision = { decision: "approved", decidedBy: "dry-run", reason: "" } as const;
    inbox.push({ kind: "decision", entryId: approvalId, approvalId, ...decision });
  }
  for (const child of change.children) {
    parents.set(child.runId, child.step);
    inbox.push(endOf(child));
  }
}

function endOf({ runId, step, attempt }: ChildRun): InboxEntry {
  return { kind: "child_ended", entryId: `child:${runId}`, runId, step, attempt, status: "succeeded" };
}

/** The earliest wait; of two, the one that was begun first. */
function fireTimer(play: Play): void {
  let first: { readonly timerId: string; readonly dueAtMs: number } | undefined;
  for (const [timerId, dueAtMs] of play.delays) {
    if (first === undefined || dueAtMs < first.dueAtMs) first = { timerId, dueAtMs };
  }
  if (first === undefined) return;
  const { timerId, dueAtMs } = first;
  play.delays.delete(timerId);
  play.nowMs = Math.max(play.nowMs, dueAtMs);
  play.inbox.push({ kind: "timer", entryId: timerId, timerId });
}

type Shown = { readonly steps: readonly DryRunStep[]; readonly isCut: boolean };

/** The same output may be shown with every item of a list, so that what is shown has a limit of its own. */
function* showSteps(play: Play): Sliced<Shown> {
  const { compiled, view, seen } = play;
  const records = [...view.records].flatMap(([key, body]) => (body === undefined ? [] : [{ key, body }]));
  const describe = describer(compiled, view.runId, records);
  const steps: DryRunStep[] = [];
  let characters = 0;
  let heard = 0;
  for (const id of seen) {
    if (steps.length >= stepsShownMax || characters >= shownCharactersMax) return { steps, isCut: true };
    const step = shown(play, id, describe(id));
    if (step === undefined) continue;
    steps.push(step);
    characters += JSON.stringify(step).length;
    if (characters - heard < sliceUnits) continue;
    heard = characters;
    yield;
  }
  return { steps, isCut: false };
}

function shown(
  { compiled, view }: Play,
  id: string,
  described: StepDescription | undefined,
): DryRunStep | undefined {
  const step = stepNamed(compiled, id);
  if (step === undefined || described === undefined) return undefined;
  const { step_id, type, status, output, error, skipped_because } = described;
  const input = inputShown(view.records, id);
  return {
    step_id,
    type,
    status,
    ...(step.type === "worker" || step.type === "notify" ? { topic: step.topic } : {}),
    ...(input === undefined ? {} : { input }),
    ...(output === undefined ? {} : { output }),
    ...(error === undefined ? {} : { error }),
    ...(skipped_because === undefined ? {} : { skipped_because }),
  };
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
