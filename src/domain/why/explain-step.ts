// What one open step waits for, and what has arrived for it that nobody has applied yet.
import type { Approval } from "../approval.ts";
import { isUndecided, troublePrefix } from "../dispatch.ts";
import { formatTime } from "../engine/rfc3339.ts";
import type { Job } from "../job.ts";
import { isTerminal } from "../run.ts";
import {
  type ApprovalItem,
  type ChildRunItem,
  type HeldItem,
  type HeldReason,
  type LiveRunFacts,
  type LockFacts,
  type Part,
  type RunningItem,
  type StepFacts,
  type TimerItem,
  type Waiting,
  type WaitingEntry,
  whyPath,
} from "./explanation.ts";
import { whyParked } from "./why-limited.ts";
import { whyUnclaimed } from "./why-unclaimed.ts";

type StepExplanation = {
  readonly item?: Waiting;
  /** The step no longer waits; the run has yet to be updated. */
  readonly entry?: WaitingEntry;
  /** What the store did not tell about it. */
  readonly unanswered?: string;
};

export function explainStep(facts: LiveRunFacts, step: StepFacts): StepExplanation {
  const { waitingFor = "job" } = step.record;
  switch (waitingFor) {
    case "approval":
      return explainApproval(step);
    case "delay":
    case "retry":
      return explainTimer(facts, step, waitingFor);
    case "child_run":
      return explainChildRun(facts, step);
    case "children":
      return { item: explainChildren(facts, step) };
    case "job":
      return explainJob(facts, step);
  }
}

function explainApproval({ stepId, approval }: StepFacts): StepExplanation {
  const found = known(approval, `the approval of step ${stepId}`);
  if (found.value === undefined) return found.missing;
  if (found.value.state !== "pending") return { entry: { kind: "decision", about: found.value.approvalId } };
  return { item: approvalItem(found.value) };
}

function approvalItem(approval: Approval): ApprovalItem {
  const { approvalId, requester, separateDuties, expiresAtMs } = approval;
  const path = `/api/v1/approvals/${encodeURIComponent(approvalId)}/context`;
  const others = separateDuties
    ? `, but not ${requester}, who asked for the run, nor a key of the same owner or of its maker`
    : "";
  return {
    kind: "approval",
    step_id: approval.step,
    since: formatTime(approval.requestedAtMs),
    approval_id: approvalId,
    requested_by: requester,
    ...(expiresAtMs === undefined ? {} : { expires_at: formatTime(expiresAtMs) }),
    may_decide: `keys of role approver, operator or admin${others}`,
    path,
    what_to_do: `Read ${path}, then POST to the same path with /approve or /reject instead of /context.`,
  };
}

function explainTimer({ nowMs }: LiveRunFacts, step: StepFacts, timer: TimerItem["timer"]): StepExplanation {
  const { stepId, record, lastError } = step;
  const dueAtMs = record.wakeAtMs ?? nowMs;
  const isDue = dueAtMs <= nowMs;
  const item: TimerItem = {
    kind: "timer",
    step_id: stepId,
    timer,
    since: formatTime(record.startedAtMs ?? dueAtMs),
    due_at: formatTime(dueAtMs),
    attempts: record.attempt,
    failures: record.failures ?? 0,
    ...(lastError === undefined ? {} : { last_error: lastError }),
    what_to_do: isDue
      ? "Nothing: it is due, and the run is notified of it within a second."
      : timer === "retry"
        ? "Nothing: the next attempt follows then. If it cannot succeed, cancel the run and mend the cause."
        : "Nothing: the step goes on then.",
  };
  return isDue ? { item, entry: { kind: "timer", about: `${timer} of step ${stepId}` } } : { item };
}

function explainChildRun({ nowMs }: LiveRunFacts, { stepId, record, childRun }: StepFacts): StepExplanation {
  if (childRun === undefined) return { unanswered: `the run that step ${stepId} has started` };
  const { runId, header } = childRun;
  const status = header.kind === "known" ? header.value.status : undefined;
  const path = whyPath(runId);
  const item: ChildRunItem = {
    kind: "child_run",
    step_id: stepId,
    since: formatTime(record.startedAtMs ?? nowMs),
    run_id: runId,
    ...(status === undefined ? {} : { run_status: status }),
    path,
    what_to_do: `Ask the same of that run: GET ${path}.`,
  };
  if (header.kind === "unanswered") return { item, unanswered: `run ${runId}` };
  const ended = status === undefined || isTerminal(status);
  return ended ? { item, entry: { kind: "child_ended", about: runId } } : { item };
}

function explainChildren({ nowMs }: LiveRunFacts, { stepId, record }: StepFacts): Waiting {
  const { children, iteration } = record;
  return {
    kind: "children",
    step_id: stepId,
    since: formatTime(record.startedAtMs ?? nowMs),
    ...(children === undefined
      ? {}
      : {
          total: children.total,
          open: children.open,
          succeeded: children.met,
          failed: children.broken,
        }),
    ...(iteration === undefined ? {} : { iteration }),
    what_to_do:
      "Look at the other items: the open parts of this step are among them, or counted in not_shown.",
  };
}

function explainJob(facts: LiveRunFacts, { stepId, job, jobLock, ledger }: StepFacts): StepExplanation {
  const found = known(job, `the job of step ${stepId}`);
  if (found.value === undefined) return found.missing;
  switch (found.value.state) {
    case "held":
      return isUndecided(found.value)
        ? { item: whyHeld(found.value, jobLock) }
        : { entry: { kind: "dispatch", about: found.value.jobId } };
    case "ready":
      return { item: whyUnclaimed(facts, found.value) };
    case "parked":
      return { item: whyParked(found.value, ledger, facts.nowMs) };
    case "claimed":
      return { item: runningItem(facts, found.value) };
    case "reported":
      return { entry: { kind: "result", about: found.value.jobId } };
    case "lost":
      return { entry: { kind: "claim_lost", about: found.value.jobId } };
    case "voided":
      // Called off in the commit that ends its attempt: the step is just being changed.
      return {};
  }
}

function runningItem({ nowMs }: LiveRunFacts, job: Job): RunningItem {
  const { claim, deadlineAtMs, progress } = job;
  const leaseMsLeft = Math.max(0, (claim?.expiresAtMs ?? nowMs) - nowMs);
  return {
    kind: "job_running",
    step_id: job.step,
    since: formatTime(claim?.claimedAtMs ?? job.createdAtMs),
    job_id: job.jobId,
    worker_id: claim?.worker ?? "",
    attempt: job.attempt,
    lease_ms_left: leaseMsLeft,
    ...(deadlineAtMs === undefined ? {} : { deadline_at: formatTime(deadlineAtMs) }),
    ...(progress === undefined ? {} : { progress: readProgress(progress) }),
    what_to_do:
      leaseMsLeft > 0
        ? `Wait, or look at worker ${claim?.worker}: if it falls silent, the next attempt follows when its lease is over.`
        : `Nothing: worker ${claim?.worker} fell silent, and the sweep enqueues the next attempt within a second.`,
  };
}

/** Workers send JSON; whatever else got in is shown as it is. */
function readProgress(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

type Found<Value> =
  | { readonly value: Value }
  | { readonly value: undefined; readonly missing: StepExplanation };

/** What is not there is taken for a change under way: the step was read before it. */
function known<Value>(part: Part<Value> | undefined, what: string): Found<Value> {
  if (part?.kind === "known") return { value: part.value };
  return { value: undefined, missing: part?.kind === "absent" ? {} : { unanswered: what } };
}

type Verdict = { readonly because: HeldReason; readonly detail: string; readonly whatToDo: string };

function whyHeld(job: Job, lock: Part<LockFacts> | undefined): HeldItem {
  const { because, detail, whatToDo } = judge(job, lock);
  const { checked } = job;
  return {
    kind: "job_held",
    step_id: job.step,
    since: formatTime(job.createdAtMs),
    job_id: job.jobId,
    topic: job.topic,
    attempt: job.attempt,
    because,
    detail,
    ...(checked === undefined
      ? {}
      : { last_reason: checked.reason, last_said_at: formatTime(checked.saidAtMs) }),
    what_to_do: whatToDo,
  };
}

function judge({ checked, republished }: Job, lock: Part<LockFacts> | undefined): Verdict {
  const holder = lock?.kind === "known" && lock.value.kind === "held" ? lock.value : undefined;
  if (holder !== undefined) {
    return {
      because: "being_asked",
      detail: `${holder.instance} is asking the dispatch check about it.`,
      whatToDo: "Wait for its answer: it is asked for dispatch.checkTimeoutMs at most.",
    };
  }
  if (checked?.reason.startsWith(troublePrefix)) {
    return {
      because: "check_failed",
      detail: `${checked.reason}.`,
      whatToDo:
        "Mend the check: it is asked again by itself, and nothing of risk high begins until it answers.",
    };
  }
  if (checked !== undefined) {
    return {
      because: "held_by_check",
      detail:
        checked.reason === ""
          ? "The dispatch check holds it."
          : `The dispatch check holds it: ${checked.reason}.`,
      whatToDo: "Do what the check waits for: it is asked again by itself. Or cancel the run.",
    };
  }
  return republished > 0
    ? {
        because: "nobody_asks",
        detail:
          "No process has asked the dispatch check about it: none has the role scheduler and a check, or its answers are lost.",
        whatToDo:
          "Start a process with the role scheduler and dispatch.checkUrl, or set dispatch.hold to off for what comes.",
      }
    : {
        because: "not_asked_yet",
        detail: "The dispatch check has not been asked about it yet.",
        whatToDo: "Ask again in a second.",
      };
}
