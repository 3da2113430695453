// What one entry of the inbox does to a run, by its kind. Entries that come too late are recognised and change nothing.
import type { InboxEntry } from "../inbox.ts";
import type { RunId } from "../run.ts";
import { beginCallOff, conclude, continueCallOff } from "./advance.ts";
import { listed } from "./begin-job.ts";
import { bodyOf, cancelChild, clearTimer, type Draft, putPayload, stepOf } from "./draft.ts";
import { recordsFor } from "./foresee.ts";
import {
  type AttemptName,
  attemptOf,
  deadlineTimer,
  factsRecordKey,
  inputRecordKey,
  outputRecordKey,
  parseTimer,
  stepNamed,
  stepTimer,
  type TimerName,
} from "./keys.ts";
import { hasFailed, isOpen, readFacts, readHandBack, writeOutput } from "./records.ts";
import { runInput } from "./scope.ts";
import { callOffAttempt, fail, type StepInHand, succeed, withdrawChildren } from "./settle-step.ts";
import { takeOver } from "./subworkflow.ts";
import {
  applyOutput,
  enqueueAttempt,
  failAttempt,
  handBack,
  loseClaim,
  reopen,
  revive,
} from "./try-again.ts";

export type Fate = "applied" | "late";

export function applyEntry(draft: Draft, entry: InboxEntry): Fate {
  // A retry is what may open a run again that has ended.
  const isOver = draft.run.ended !== undefined && entry.kind !== "retry";
  const fate = isOver ? "late" : fateOf(draft, entry);
  const child = reopenedChild(entry);
  if (child !== undefined && (fate === "late" || entry.kind === "poisoned")) cancelChild(draft, child);
  if (fate === "late") draft.events.push({ type: "entry_late", entry: entry.kind, entry_id: entry.entryId });
  return fate;
}

/** The run below that was opened again with this entry: unless the entry is applied, nobody waits for it. */
export function reopenedChild(entry: InboxEntry | undefined): RunId | undefined {
  if (entry?.kind === "poisoned") return reopenedChild(readPoison(entry.was));
  return entry?.kind === "retry" ? entry.childRunId : undefined;
}

function fateOf(draft: Draft, entry: InboxEntry): Fate {
  switch (entry.kind) {
    case "started":
      return start(draft);
    case "result":
      return applyResult(draft, entry);
    case "decision":
      return applyDecision(draft, entry);
    case "cancel":
      draft.events.push({ type: "run_cancelled", actor: entry.actor, reason: entry.reason });
      return callOff(draft, "cancelled");
    case "timer":
      return applyTimer(draft, entry);
    case "claim_lost":
      return applyLostClaim(draft, entry);
    case "child_ended":
      return applyChildEnded(draft, entry);
    case "retry":
      return applyRetry(draft, entry);
    case "dispatch":
      return applyVerdict(draft, entry);
    case "poisoned":
      return applyPoisoned(draft, entry);
    default:
      return entry satisfies never;
  }
}

/** The first entry of a run that was too large to be started by its admission. */
function start(draft: Draft): Fate {
  if (draft.run.startedAtMs !== 0) return "late";
  const facts = bodyOf(draft, factsRecordKey);
  if (facts === undefined) return "late";
  const known = typeof facts === "string" ? readFacts(facts) : undefined;
  if (known?.traceparent !== undefined) draft.run.traceparent = known.traceparent;
  if (known?.budgets !== undefined) draft.run.budgets = known.budgets;
  // Nobody has checked the input of a child run before.
  if (draft.parent !== undefined && !fitsInput(draft)) return "applied";
  const countsFromMs = known === undefined || known.mayWait === true ? draft.nowMs : known.admittedAtMs;
  beginRun(draft, countsFromMs, known?.rerun === undefined ? "roots" : "copy");
  return "applied";
}

/** Ends a run whose input does not fit; true also when the input is missing, which says nothing yet. */
function fitsInput(draft: Draft): boolean {
  if (bodyOf(draft, inputRecordKey) === undefined) return true;
  const problems = draft.compiled.problemsOfInput(runInput(draft), draft.work);
  if (problems.length === 0) return true;
  draft.run.startedAtMs = draft.nowMs;
  draft.run.error = { code: "input_invalid", message: listed(problems) };
  draft.events.push({ type: "run_failed", code: "input_invalid" });
  conclude(draft, "failed");
  return false;
}

/** The workflow's timeout counts from the admission; of a run that may have waited at a gate, from its beginning. */
export function beginRun(draft: Draft, admittedAtMs: number, first: "roots" | "copy" = "roots"): void {
  draft.run.startedAtMs = draft.nowMs;
  draft.events.push({ type: "run_started" });
  if (draft.compiled.timeoutMs !== undefined) {
    draft.timers.push({ timerId: deadlineTimer, dueAtMs: admittedAtMs + draft.compiled.timeoutMs });
  }
  draft.queue.push({ kind: first, from: 0 });
}

function callOff(draft: Draft, status: "cancelled" | "timed_out" | "failed"): Fate {
  beginCallOff(draft, status);
  continueCallOff(draft);
  return "applied";
}

type StepNeed = {
  readonly entry: InboxEntry;
  readonly name: AttemptName | undefined;
  readonly status: "running" | "waiting" | "open";
};

/** The open step that an entry is about; undefined when the entry is late, or the step's record is missing. */
function openStep(draft: Draft, { entry, name, status }: StepNeed): StepInHand | undefined {
  const step = name === undefined ? undefined : stepNamed(draft.compiled, name.step);
  if (name === undefined || step === undefined) return undefined;
  const record = stepOf(draft, name.step);
  if (record === undefined) {
    for (const key of recordsFor(draft.compiled, [entry])) {
      if (!draft.loaded.has(key)) draft.missing.add(key);
    }
    return undefined;
  }
  const isExpected = status === "open" ? isOpen(record) : record.status === status;
  return isExpected && record.attempt === name.attempt ? { step, record } : undefined;
}

function applyResult(draft: Draft, entry: InboxEntry & { readonly kind: "result" }): Fate {
  const name = attemptOf(draft.runId, entry.jobId);
  const inHand = openStep(draft, { entry, name, status: "running" });
  if (inHand === undefined) return "late";
  if (inHand.step.timeoutMs !== undefined) clearTimer(draft, stepTimer("timeout", name as AttemptName));
  if (entry.outcome === "succeeded") {
    applyOutput(draft, inHand, entry.payloadKey);
  } else if (entry.outcome === "failed") {
    fail(draft, inHand, "failed", { errorKey: entry.payloadKey });
  } else if (entry.outcome === "handed_back") {
    const body = bodyOf(draft, entry.payloadKey);
    if (body !== undefined)
      handBack(draft, inHand, typeof body === "string" ? readHandBack(body) : undefined);
  } else {
    failAttempt(draft, inHand, { status: "failed", cause: { errorKey: entry.payloadKey } });
  }
  return "applied";
}

function applyDecision(draft: Draft, entry: InboxEntry & { readonly kind: "decision" }): Fate {
  const name = attemptOf(draft.runId, entry.approvalId);
  const inHand = openStep(draft, { entry, name, status: "waiting" });
  if (inHand?.record.waitingFor !== "approval") return "late";
  const { step, record } = inHand;
  if (record.wakeAtMs !== undefined) clearTimer(draft, stepTimer("expiry", name as AttemptName));
  const { decision, decidedBy, reason } = entry;
  if (decision === "approved") {
    draft.events.push({
      type: "step_approved",
      step: step.id,
      attempt: record.attempt,
      decided_by: decidedBy,
    });
    const key = outputRecordKey(step.id);
    putPayload(draft, key, writeOutput({ decision, decided_by: decidedBy, reason }));
    succeed(draft, inHand, key);
  } else {
    const message = reason === "" ? `rejected by ${decidedBy}` : `rejected by ${decidedBy}: ${reason}`;
    fail(draft, inHand, "denied", { error: { code: "approval_rejected", message } });
  }
  return "applied";
}

function applyLostClaim(draft: Draft, entry: InboxEntry & { readonly kind: "claim_lost" }): Fate {
  const name = attemptOf(draft.runId, entry.jobId);
  const inHand = openStep(draft, { entry, name, status: "running" });
  if (inHand === undefined) return "late";
  if (inHand.step.timeoutMs !== undefined) clearTimer(draft, stepTimer("timeout", name as AttemptName));
  loseClaim(draft, inHand, entry.worker);
  return "applied";
}

function applyTimer(draft: Draft, entry: InboxEntry & { readonly kind: "timer" }): Fate {
  const timer = parseTimer(entry.timerId);
  if (timer === undefined) return "late";
  if (timer.kind === "deadline") {
    draft.events.push({ type: "run_timed_out" });
    return callOff(draft, "timed_out");
  }
  const name = openAttemptOf(timer);
  const status = timer.kind === "timeout" ? "open" : "waiting";
  const inHand = openStep(draft, { entry, name, status });
  if (inHand === undefined) return "late";
  switch (timer.kind) {
    case "timeout":
      return timeOut(draft, inHand);
    case "expiry":
      return inHand.record.waitingFor === "approval" ? expire(draft, inHand) : "late";
    case "delay":
      return inHand.record.waitingFor === "delay" ? endDelay(draft, inHand) : "late";
    case "retry":
      return inHand.record.waitingFor === "retry" ? retry(draft, inHand) : "late";
    default:
      return timer satisfies never;
  }
}

function timeOut(draft: Draft, inHand: StepInHand): Fate {
  const { waitingFor } = inHand.record;
  if (inHand.record.status === "waiting" && waitingFor !== "children" && waitingFor !== "child_run")
    return "late";
  callOffAttempt(draft, inHand);
  if (waitingFor === "children") withdrawChildren(draft, inHand.step, inHand.record);
  const message = `no result within ${inHand.step.timeoutMs} ms`;
  failAttempt(draft, inHand, {
    status: "timed_out",
    cause: { error: { code: "step_timed_out", message } },
  });
  return "applied";
}

function expire(draft: Draft, inHand: StepInHand): Fate {
  callOffAttempt(draft, inHand, "expired");
  const error = { code: "approval_expired", message: "nobody decided in time" };
  fail(draft, inHand, "timed_out", { error });
  return "applied";
}

function endDelay(draft: Draft, inHand: StepInHand): Fate {
  const { step, record } = inHand;
  draft.events.push({ type: "step_delay_completed", step: step.id, attempt: record.attempt });
  succeed(draft, inHand);
  return "applied";
}

function retry(draft: Draft, inHand: StepInHand): Fate {
  enqueueAttempt(draft, inHand);
  return "applied";
}

/** A run that a step has started is over. */
function applyChildEnded(draft: Draft, entry: InboxEntry & { readonly kind: "child_ended" }): Fate {
  const { step, attempt, status, runId } = entry;
  const inHand = openStep(draft, { entry, name: { step, attempt }, status: "waiting" });
  if (inHand?.record.waitingFor !== "child_run" || inHand.record.childRunId !== runId) return "late";
  if (status === "succeeded") {
    takeOver(draft, inHand, runId);
    return "applied";
  }
  if (inHand.step.timeoutMs !== undefined) clearTimer(draft, stepTimer("timeout", { step, attempt }));
  const error = { code: "child_run_ended", message: `run ${runId} ended ${status}` };
  if (status === "denied") fail(draft, inHand, "denied", { error });
  else failAttempt(draft, inHand, { status: status === "timed_out" ? status : "failed", cause: { error } });
  return "applied";
}

/** What the dispatch check says of a held job. A denied step fails for good, as one does whose approval is rejected. */
function applyVerdict(draft: Draft, entry: InboxEntry & { readonly kind: "dispatch" }): Fate {
  const name = attemptOf(draft.runId, entry.jobId);
  const inHand = openStep(draft, { entry, name, status: "running" });
  if (inHand === undefined) return "late";
  const { jobId, verdict, reason } = entry;
  const about = { step: inHand.step.id, attempt: inHand.record.attempt };
  switch (verdict) {
    case "allow": {
      const { topic, requires } = inHand.step;
      const required = requires === undefined ? {} : { requires: JSON.stringify(requires) };
      draft.releaseJobs.push({ jobId, topic, ...required });
      draft.events.push({ type: "step_allowed", ...about });
      return "applied";
    }
    case "hold":
      draft.events.push({ type: "step_held", ...about, reason });
      return "applied";
    case "deny": {
      callOffAttempt(draft, inHand);
      const message = reason === "" ? "the dispatch check denied it" : reason;
      fail(draft, inHand, "denied", { error: { code: "dispatch_denied", message } });
      return "applied";
    }
    default:
      return verdict satisfies never;
  }
}

/** Somebody wants a step to go on that failed for good. The store has opened the run again, if it had ended. */
function applyRetry(draft: Draft, entry: InboxEntry & { readonly kind: "retry" }): Fate {
  const name = attemptOf(draft.runId, entry.jobId);
  const step = name === undefined ? undefined : stepNamed(draft.compiled, name.step);
  const record = step === undefined ? undefined : stepOf(draft, step.id);
  const { childRunId } = entry;
  const isExpected =
    record !== undefined &&
    hasFailed(record.status) &&
    record.attempt === name?.attempt &&
    (childRunId === undefined || record.childRunId === childRunId);
  if (step === undefined || !isExpected || draft.run.callOff !== undefined) return "late";
  if (!revive(draft, { step, record }, childRunId)) return "late";
  reopen(draft.run);
  draft.events.push({ type: "run_retried", step: step.id, actor: entry.actor });
  return "applied";
}

/** The step that the entry was about fails; where no open step can be blamed, the run does. */
function applyPoisoned(draft: Draft, entry: InboxEntry & { readonly kind: "poisoned" }): Fate {
  const was = readPoison(entry.was);
  const name = attemptNamed(draft, was);
  const step = name === undefined ? undefined : stepNamed(draft.compiled, name.step);
  if (name === undefined || step === undefined) return failRun(draft);
  const record = stepOf(draft, name.step);
  if (record === undefined) return "late";
  if (record.attempt > name.attempt || (record.status !== "pending" && !isOpen(record))) return "late";
  if (record.status === "pending") return failRun(draft);
  callOffAttempt(draft, { step, record });
  if (record.waitingFor === "children") withdrawChildren(draft, step, record);
  fail(draft, { step, record }, "failed", {
    error: { code: "poisoned_entry", message: `an entry of kind ${was?.kind} could not be applied` },
  });
  return "applied";
}

/** Also used when the entry broke the work that it had begun. */
export function failRun(draft: Draft): Fate {
  draft.run.error = { code: "poisoned_entry", message: "an entry of this run could not be applied" };
  draft.events.push({ type: "run_failed", code: "poisoned_entry" });
  return callOff(draft, "failed");
}

export function readPoison(was: string): InboxEntry | undefined {
  try {
    return (JSON.parse(was) as InboxEntry | null) ?? undefined;
  } catch {
    return undefined;
  }
}

function attemptNamed(draft: Draft, entry: InboxEntry | undefined): AttemptName | undefined {
  if (entry === undefined) return undefined;
  if (entry.kind === "result" || entry.kind === "claim_lost" || entry.kind === "dispatch") {
    return attemptOf(draft.runId, String(entry.jobId));
  }
  if (entry.kind === "child_ended") return { step: entry.step, attempt: entry.attempt };
  if (entry.kind === "decision") return attemptOf(draft.runId, String(entry.approvalId));
  const timer = entry.kind === "timer" ? parseTimer(String(entry.timerId)) : undefined;
  return timer === undefined || timer.kind === "deadline" ? undefined : openAttemptOf(timer);
}

/** The attempt that is open when the timer fires: a retry timer names the one to come. */
function openAttemptOf(timer: TimerName & AttemptName): AttemptName {
  return { step: timer.step, attempt: timer.kind === "retry" ? timer.attempt - 1 : timer.attempt };
}
