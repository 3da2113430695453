// Explains a run, whether it goes on or has ended: what it waits for or why it ended, and one sentence about it.
import { openCount, type StepRecord } from "../engine/records.ts";
import { formatTime } from "../engine/rfc3339.ts";
import { queueSentence } from "./explain-queued.ts";
import { explainStep } from "./explain-step.ts";
import {
  type EndedRunFacts,
  type Ending,
  type ErrorText,
  type Explanation,
  type LimitItem,
  type LiveRunFacts,
  letterPath,
  type RunLockItem,
  stoppedItem,
  type Waiting,
  type WaitingEntry,
} from "./explanation.ts";
import { rateSentence } from "./why-limited.ts";

/** Of items in one answer. */
export const itemsMax = 24;

const entriesMax = 10;

export function explainLiveRun(facts: LiveRunFacts): Explanation {
  const { header, run } = facts;
  const steps = facts.steps.map((step) => explainStep(facts, step));
  const entries = [
    ...entriesOfRun(facts),
    ...steps.flatMap(({ entry }) => (entry === undefined ? [] : [entry])),
  ];
  const items = [
    ...stoppedItem(facts),
    ...lockItem(facts, entries),
    ...steps.flatMap(({ item }) => (item === undefined ? [] : [item])),
  ]
    .map((item, position) => ({ item, position, rank: rankOf(item) }))
    .sort((left, right) => left.rank - right.rank || left.position - right.position)
    .map(({ item }) => item)
    .slice(0, itemsMax);
  const openSteps = run === undefined ? 0 : openCount(run) + openItems(facts);
  const shown = items.filter((item) => "step_id" in item).length;
  const lock = facts.lock.kind === "unanswered" ? ["who holds the run"] : [];
  const slots = facts.slots.kind === "unanswered" ? ["the tenant's limit and kill switch"] : [];
  return {
    run_id: header.runId,
    workflow_id: header.workflow,
    status: header.status,
    since: formatTime(header.updatedAtMs),
    summary: summaryOf(facts, items),
    waiting_for: items,
    open_steps: openSteps,
    not_shown: Math.max(0, openSteps - shown - entries.length),
    unanswered: [
      ...facts.unanswered,
      ...lock,
      ...slots,
      ...steps.flatMap(({ unanswered }) => (unanswered === undefined ? [] : [unanswered])),
    ],
  };
}

function openItems({ run }: LiveRunFacts): number {
  return (run?.items?.running ?? 0) + (run?.items?.waiting ?? 0);
}

/** Entries that are about the run as a whole. */
function entriesOfRun({ header, run }: LiveRunFacts): readonly WaitingEntry[] {
  const started = run === undefined || run.startedAtMs === 0;
  return [
    ...(started ? [{ kind: "started", about: header.runId } as const] : []),
    ...(header.cancelRequested === undefined ? [] : [{ kind: "cancel", about: header.runId } as const]),
  ];
}

function lockItem({ header, lock }: LiveRunFacts, entries: readonly WaitingEntry[]): readonly Waiting[] {
  const held = lock.kind === "known" && lock.value.kind === "held" ? lock.value : undefined;
  if (entries.length === 0 && held === undefined) return [];
  const item: RunLockItem = {
    kind: "run_lock",
    since: formatTime(header.updatedAtMs),
    entries: entries.slice(0, entriesMax),
    ...(held === undefined
      ? {}
      : {
          holder: {
            instance: held.instance,
            ...(held.owner === undefined ? {} : { owner: held.owner }),
            held_for_ms: Math.round(held.heldForMs),
            expires_in_ms: Math.round(held.expiresInMs),
          },
        }),
    what_to_do:
      held === undefined
        ? "Nothing: nobody holds the run, and the sweep finds it within a few seconds. If it stays so, see whether any process sweeps (interlock_sweep_* metrics, its log)."
        : `Nothing: ${held.instance} applies what waits. If it died, its lock frees itself in ${Math.round(held.expiresInMs)} ms and the next owner goes on.`,
  };
  return [item];
}

/** What a person has to do comes first, what goes on by itself last. */
function rankOf(item: Waiting): number {
  switch (item.kind) {
    case "tenant_stopped":
      return 0;
    case "queued":
    case "start_rate":
    case "limit":
      return 1;
    case "job_unclaimed":
      return item.because === "being_offered" || item.because === "topic_rate" ? 7 : 2;
    case "job_parked":
      return 2;
    case "job_held":
      return item.because === "being_asked" || item.because === "not_asked_yet" ? 7 : 2;
    case "approval":
      return 3;
    case "run_lock":
      return item.entries.length > 0 ? 4 : 8;
    case "child_run":
      return 5;
    case "timer":
      return 6;
    case "job_running":
      return 9;
    case "children":
      return 10;
  }
}

function summaryOf({ header, lock }: LiveRunFacts, items: readonly Waiting[]): string {
  const [first] = items.filter(({ kind }) => kind !== "children");
  if (first === undefined) {
    return lock.kind === "unanswered"
      ? `The run is ${header.status}; the store did not answer what it waits for.`
      : `The run is ${header.status} and being worked on: nothing in it waits for longer than a moment.`;
  }
  const others = items.filter(({ kind }) => kind !== "children").length - 1;
  const more =
    others === 0 ? "" : ` ${others} more ${others === 1 ? "thing is" : "things are"} listed below.`;
  return `${sentenceOf(first)}${more}`;
}

function sentenceOf(item: Waiting): string {
  switch (item.kind) {
    case "tenant_stopped":
      return "The tenant is stopped, so that no job of this run may be claimed.";
    case "limit":
      return `All ${item.limit} slots of the tenant are in use.`;
    case "queued":
      return queueSentence(item);
    case "start_rate":
      return rateSentence(item);
    case "job_parked":
      return `The job of step ${item.step_id} has been waiting for a budget since ${item.since}: ${item.detail}`;
    case "approval":
      return `Step ${item.step_id} has been waiting for an approval since ${item.since}.`;
    case "job_unclaimed":
      return `The job of step ${item.step_id} has been waiting for a worker since ${item.since}: ${item.detail}`;
    case "job_held":
      return `The job of step ${item.step_id} has been waiting for the dispatch check since ${item.since}: ${item.detail}`;
    case "run_lock":
      return lockSentence(item);
    case "child_run":
      return `Step ${item.step_id} waits for run ${item.run_id}${item.run_status === undefined ? "" : `, which is ${item.run_status}`}.`;
    case "timer":
      return item.timer === "retry"
        ? `Step ${item.step_id} failed ${item.failures} times and is tried again at ${item.due_at}.`
        : `Step ${item.step_id} is a delay until ${item.due_at}.`;
    case "job_running":
      return `Worker ${item.worker_id} has been working on step ${item.step_id} since ${item.since}.`;
    case "children":
      return `Step ${item.step_id} waits for its parts.`;
  }
}

function lockSentence({ entries, holder }: RunLockItem): string {
  const by =
    holder === undefined
      ? "nobody holds the run: the sweep finds it"
      : `${holder.instance} has held the run for ${holder.held_for_ms} ms`;
  const [first] = entries;
  if (first === undefined) return `Something is just being applied to the run: ${by}.`;
  return `Something has arrived (${first.kind} ${first.about}) and is not applied yet: ${by}.`;
}

export function explainEndedRun(facts: EndedRunFacts): Explanation {
  const { header, letter, slots, holders } = facts;
  const endedAtMs = header.endedAtMs ?? header.updatedAtMs;
  const ended = endingOf(facts, formatTime(endedAtMs));
  const limit = ended.dead_letter?.state === "open" ? limitItem(facts) : [];
  return {
    run_id: header.runId,
    workflow_id: header.workflow,
    status: header.status,
    since: formatTime(endedAtMs),
    summary: `${endSentence(ended)}${limit.length === 0 ? "" : " Its retry would be refused now: all slots are in use."}`,
    waiting_for: limit,
    open_steps: 0,
    not_shown: 0,
    ended,
    unanswered: [
      ...facts.unanswered,
      ...(letter.kind === "unanswered" ? ["its dead letter"] : []),
      ...(slots.kind === "unanswered" ? ["the tenant's limit and kill switch"] : []),
      ...(holders?.kind === "unanswered" ? ["the runs that hold the slots"] : []),
    ],
  };
}

function endingOf({ header, run, failedStep, letter }: EndedRunFacts, at: string): Ending {
  const unbegun: ErrorText | undefined =
    header.endReason === undefined ? undefined : { message: neverBegun(header.endReason) };
  const error = failedStep?.error ?? failedStep?.record.error ?? run?.error ?? unbegun;
  return {
    status: header.status,
    at,
    ...(failedStep === undefined ? {} : { step_id: failedStep.stepId }),
    ...(error === undefined
      ? {}
      : { error: { message: error.message, ...(error.code === undefined ? {} : { code: error.code }) } }),
    ...(letter.kind === "known"
      ? {
          dead_letter: {
            id: letter.value.id,
            state: letter.value.state,
            path: letterPath(letter.value.id),
          },
        }
      : {}),
  };
}

function limitItem({ header, slots, holders }: EndedRunFacts): readonly LimitItem[] {
  if (slots.kind !== "known" || slots.value.limit === undefined || slots.value.active < slots.value.limit) {
    return [];
  }
  return [
    {
      kind: "limit",
      since: formatTime(header.endedAtMs ?? header.updatedAtMs),
      limit: slots.value.limit,
      active: slots.value.active,
      runs: holders?.kind === "known" ? holders.value : [],
      what_to_do: "Wait for one of these runs to end, cancel one, or raise max_concurrent_runs.",
    },
  ];
}

function endSentence({ status, at, step_id, error, dead_letter }: Ending): string {
  const how =
    status === "succeeded" ? "succeeded" : status === "denied" ? "was denied" : `ended as ${status}`;
  const where = step_id === undefined ? "" : ` at step ${step_id}`;
  const why = error === undefined ? "" : `: ${withoutEnd(error.message)}`;
  const nothing = "; nothing is waiting.";
  if (dead_letter === undefined) return `The run ${how} at ${at}${where}${why}${nothing}`;
  const mend =
    dead_letter.state === "open"
      ? ` POST ${dead_letter.path}/retry lets the step go on.`
      : " Its dead letter was retried before.";
  return `The run ${how} at ${at}${where}${why}${nothing}${mend}`;
}

/** The reasons that operations give; the others are what was said with the cancel. */
function neverBegun(reason: string): string {
  if (reason === "queue_deadline_passed")
    return "it waited for its places until its deadline and never began";
  const newer = /^superseded_by (\S+)$/.exec(reason)?.[1];
  return newer === undefined
    ? `it never began: ${reason}`
    : `it never began: run ${newer} took its place in the queue`;
}

const withoutEnd = (message: string): string => message.replace(/[.;\s]+$/, "");

export type OpenStep = { readonly stepId: string; readonly record: StepRecord };

/** Takes turns between the kinds of waiting, so that a thousand running jobs do not hide the one approval. */
export function chooseSteps(open: readonly OpenStep[], amountMax: number): readonly OpenStep[] {
  const kinds = new Map<string, OpenStep[]>();
  for (const step of [...open].sort(oldestFirst)) {
    const kind = step.record.waitingFor ?? "job";
    const same = kinds.get(kind);
    if (same === undefined) kinds.set(kind, [step]);
    else same.push(step);
  }
  const chosen: OpenStep[] = [];
  for (let turn = 0; chosen.length < Math.min(amountMax, open.length); turn += 1) {
    for (const steps of kinds.values()) {
      const step = steps[turn];
      if (step !== undefined && chosen.length < amountMax) chosen.push(step);
    }
  }
  return chosen;
}

function oldestFirst(left: OpenStep, right: OpenStep): number {
  return (left.record.startedAtMs ?? 0) - (right.record.startedAtMs ?? 0);
}
