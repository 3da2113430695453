// Explains a run that has ended: how, by which step's doing, and whether its failure can be mended.
import { formatTime } from "../engine/rfc3339.ts";
import { type Ending, type Explanation, type LimitItem, letterPath, slotHolder } from "./explanation.ts";
import type { EndedRunFacts } from "./facts.ts";

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
  const error = failedStep?.error ?? failedStep?.record.error ?? run?.error;
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
      runs: holders?.kind === "known" ? holders.value.map(slotHolder) : [],
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

const withoutEnd = (message: string): string => message.replace(/[.;\s]+$/, "");
