// Steps that nobody else does: a condition, a switch, a value put together or kept, a time to wait.
import { isDeepStrictEqual } from "node:util";
import type { JsonValue } from "../fingerprint.ts";
import { workMax } from "../workflow/cel-budget.ts";
import { inputOf, listed } from "./begin-job.ts";
import { type Draft, putPayload } from "./draft.ts";
import { outputRecordKey, stepTimer } from "./keys.ts";
import { writeOutput } from "./records.ts";
import { parseTime } from "./rfc3339.ts";
import { evaluate, holds } from "./scope.ts";
import { type Beginning, failToBegin, type StepInHand, succeed, wait } from "./settle-step.ts";

export function evaluateCondition(draft: Draft, beginning: Beginning): void {
  const { step, enclosing } = beginning;
  const verdict = step.condition === undefined ? true : holds(draft, step.condition, enclosing);
  if (typeof verdict !== "boolean") {
    failToBegin(draft, beginning, verdict.failed);
    return;
  }
  draft.events.push({ type: "step_condition_evaluated", step: step.id, result: verdict });
  succeedWith(draft, beginning, verdict);
}

/** What the cases of one switch may cost together: as much as two expressions, since a change cannot end between them. */
const casesWorkMax = 2 * workMax;

/** The first case that equals decides; a case whose value cannot be evaluated fails the step instead of being skipped. */
export function evaluateSwitch(draft: Draft, beginning: Beginning): void {
  const { step, record } = beginning;
  const { on, cases = [], otherwise } = step.switch ?? {};
  const asked = on === undefined ? yes : evaluate(draft, on, beginning.enclosing);
  if (asked.kind === "failed") {
    failToBegin(draft, beginning, asked.message);
    return;
  }
  const value = asked.kind === "value" ? asked.value : null;
  let matched: { readonly index: number; readonly target: string } | undefined;
  const together = { left: casesWorkMax };
  for (const [index, { value: expression, target }] of cases.entries()) {
    if (together.left <= 0) {
      failToBegin(draft, beginning, "the cases of the switch take too many steps together");
      return;
    }
    const candidate = evaluate(draft, expression, beginning.enclosing, together);
    if (candidate.kind === "failed") {
      failToBegin(draft, beginning, candidate.message);
      return;
    }
    if (candidate.kind === "nothing" || !isDeepStrictEqual(candidate.value, value)) continue;
    matched = { index, target };
    break;
  }
  const target = matched?.target ?? otherwise ?? "";
  draft.events.push({ type: "step_switch_evaluated", step: step.id, target_step: target });
  const output = { matched_case: matched?.index ?? null, matched_value: value, target_step: target || null };
  succeedWith(draft, { step, record: { ...record, chosen: target } }, output);
}

const yes = { kind: "value", value: true } as const;

export function transform(draft: Draft, beginning: Beginning): void {
  const input = inputOf(draft, beginning);
  if (input.kind === "failed") {
    failToBegin(draft, beginning, input.message, input.code);
    return;
  }
  const problems = beginning.step.problemsOfOutput?.(input.value, draft.work) ?? [];
  if (problems.length > 0) failToBegin(draft, beginning, listed(problems), "output_invalid");
  else succeedWith(draft, beginning, input.value);
}

/** A place in `ctx` is what its last writer has put there: writing and deleting are outputs like any other. */
export function beginStorage(draft: Draft, beginning: Beginning): void {
  const { storage } = beginning.step;
  const evaluated =
    storage?.value === undefined
      ? ({ kind: "nothing" } as const)
      : evaluate(draft, storage.value, beginning.enclosing);
  if (evaluated.kind === "failed") failToBegin(draft, beginning, evaluated.message);
  else succeedWith(draft, beginning, evaluated.kind === "value" ? evaluated.value : null);
}

export function beginDelay(draft: Draft, beginning: Beginning): void {
  const { step, record } = beginning;
  const dueAtMs = delayEnd(draft, beginning);
  if (typeof dueAtMs !== "number") {
    failToBegin(draft, beginning, dueAtMs.failed);
    return;
  }
  const attempt = record.attempt + 1;
  if (dueAtMs <= draft.nowMs) {
    draft.events.push({ type: "step_delay_completed", step: step.id, attempt });
    succeed(draft, { step, record: { ...record, attempt } });
    return;
  }
  draft.timers.push({ timerId: stepTimer("delay", { step: step.id, attempt }), dueAtMs });
  wait(draft, { step, record: { ...record, attempt } }, "delay", dueAtMs);
}

function delayEnd(draft: Draft, { step, enclosing }: Beginning): number | { readonly failed: string } {
  const { delay } = step;
  if (delay === undefined) return draft.nowMs;
  if (delay.kind === "for") return draft.nowMs + delay.ms;
  const at = evaluate(draft, delay.at, enclosing);
  if (at.kind === "failed") return { failed: at.message };
  const text = at.kind === "value" && typeof at.value === "string" ? at.value : "";
  return parseTime(text) ?? { failed: "delay_until is not an RFC 3339 time with an offset" };
}

/** Ends a step at once, in the attempt that has just begun. */
export function succeedWith(draft: Draft, { step, record }: StepInHand, output: JsonValue): void {
  succeedNow(draft, { step, record: { ...record, attempt: record.attempt + 1 } }, output);
}

/** Ends a step with an output that the engine has made. */
export function succeedNow(draft: Draft, inHand: StepInHand, output: JsonValue): void {
  const key = outputRecordKey(inHand.step.id);
  putPayload(draft, key, writeOutput(output));
  succeed(draft, inHand, key);
}
