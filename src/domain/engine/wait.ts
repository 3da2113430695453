// A step that waits: for a person, for a time, for its children or for another run.
import { type Draft, putStep } from "./draft.ts";
import { stepTimer } from "./keys.ts";
import type { StepRecord } from "./records.ts";
import type { StepInHand } from "./settle-step.ts";

type Reason = Exclude<StepRecord["waitingFor"], undefined | "retry">;

const events = {
  approval: "step_waiting",
  delay: "step_delay_started",
  children: "step_children_started",
  child_run: "step_subworkflow_started",
} as const satisfies Record<Reason, string>;

export function wait(draft: Draft, { step, record }: StepInHand, reason: Reason, wakeAtMs?: number): void {
  putStep(draft, step.id, {
    ...record,
    status: "waiting",
    waitingFor: reason,
    ...(wakeAtMs === undefined ? {} : { wakeAtMs }),
  });
  draft.events.push({
    type: events[reason],
    step: step.id,
    attempt: record.attempt,
    ...(wakeAtMs === undefined ? {} : { wake_at_ms: wakeAtMs }),
    ...(record.children === undefined ? {} : { children: record.children.total }),
    ...(record.childRunId === undefined ? {} : { child_run_id: record.childRunId }),
  });
}

/** The time a step has for all that it has begun. */
export function setTimeLimit(draft: Draft, { step, record }: StepInHand): void {
  if (step.timeoutMs === undefined) return;
  const timerId = stepTimer("timeout", { step: step.id, attempt: record.attempt });
  draft.timers.push({ timerId, dueAtMs: draft.nowMs + step.timeoutMs });
}
