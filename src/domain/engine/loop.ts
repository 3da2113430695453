// The loop step: begins its body again and again, while its condition holds and its `until` does not.
import type { CompiledStep, Expression } from "../workflow/compiled.ts";
import { succeedNow } from "./begin-inline.ts";
import { bodyOf, type Draft, outputAt, putStep, stepOf } from "./draft.ts";
import type { StepRecord, WorkItem } from "./records.ts";
import { hasSteps, holds, loopTurn } from "./scope.ts";
import { type Beginning, callOffAttempt, fail, failToBegin, setTimeLimit, wait } from "./settle-step.ts";

export function beginLoop(draft: Draft, { step, record }: Beginning): void {
  const begun = { step, record: { ...record, attempt: record.attempt + 1, iteration: 0 } };
  wait(draft, begun, "children");
  setTimeLimit(draft, begun);
  draft.queue.push({ kind: "iterate", step: step.id });
}

type Verdict = "go_on" | "stop" | "missing" | { readonly failed: string };

/** Before every iteration. A loop with an `until` that does not hold after the last iteration fails. */
export function iterate(draft: Draft, item: WorkItem & { readonly kind: "iterate" }): void {
  const step = draft.compiled.steps.get(item.step);
  const record = step === undefined ? undefined : stepOf(draft, item.step);
  if (step?.loop === undefined || record?.waitingFor !== "children") return;
  const iteration = record.iteration ?? 0;
  const { iterationsMax } = step.loop;
  const verdict = ask(draft, step, {
    condition: step.loop.while,
    iteration: iteration + 1,
    stopsWhen: false,
  });
  if (verdict === "missing") return;
  if (typeof verdict === "object") {
    end(draft, step, record);
    failToBegin(draft, { step, record }, verdict.failed);
    return;
  }
  if (verdict === "stop") {
    finish(draft, step, record);
    return;
  }
  if (iteration < iterationsMax) {
    turn(draft, step, record);
    return;
  }
  if (step.loop.while === undefined && step.loop.until === undefined) {
    finish(draft, step, record);
    return;
  }
  end(draft, step, record);
  const message = `not done after ${iterationsMax} iterations`;
  failToBegin(draft, { step, record }, message, "iterations_exhausted");
}

/** The body has ended: another iteration, or the end of the loop. */
export function hearBody(draft: Draft, item: WorkItem & { readonly kind: "hear" }): void {
  const step = draft.compiled.steps.get(item.step);
  const before = step === undefined ? undefined : stepOf(draft, item.step);
  const body = step?.loop === undefined ? undefined : stepOf(draft, step.loop.body);
  if (step?.loop === undefined || before?.waitingFor !== "children" || body === undefined) return;
  if (item.outcome !== "met") {
    end(draft, step, before);
    const message = `${item.child} ended ${item.outcome} in iteration ${before.iteration}`;
    fail(draft, { step, record: before }, item.outcome, { error: { code: "child_failed", message } });
    return;
  }
  const { lastOutputKey: _, ...rest } = before;
  const record = body.outputKey === undefined ? rest : { ...rest, lastOutputKey: body.outputKey };
  putStep(draft, step.id, record);
  const iteration = record.iteration ?? 0;
  const verdict = ask(draft, step, { condition: step.loop.until, iteration, stopsWhen: true });
  if (verdict === "missing") return;
  if (typeof verdict === "object") {
    end(draft, step, record);
    failToBegin(draft, { step, record }, verdict.failed);
  } else if (verdict === "stop") finish(draft, step, record);
  else draft.queue.push({ kind: "iterate", step: step.id });
}

type Question = {
  readonly condition: Expression | undefined;
  readonly iteration: number;
  /** The answer that ends the loop. */
  readonly stopsWhen: boolean;
};

function ask(draft: Draft, loop: CompiledStep, { condition, iteration, stopsWhen }: Question): Verdict {
  if (condition === undefined) return "go_on";
  const isComplete = hasSteps(draft, condition.steps);
  const enclosing = loopTurn(draft, loop, iteration);
  if (!isComplete || enclosing === undefined) return "missing";
  const answer = holds(draft, condition, enclosing);
  if (typeof answer !== "boolean") return answer;
  return answer === stopsWhen ? "stop" : "go_on";
}

/** The body begins anew, with attempts that go on counting: a result of an earlier iteration is known by its attempt. */
function turn(draft: Draft, step: CompiledStep, record: StepRecord): void {
  const iteration = (record.iteration ?? 0) + 1;
  putStep(draft, step.id, { ...record, iteration });
  draft.events.push({ type: "step_loop_iteration", step: step.id, iteration });
  draft.queue.push({ kind: "begin", step: step.loop?.body ?? "", fresh: false });
}

function finish(draft: Draft, step: CompiledStep, record: StepRecord): void {
  const key = record.lastOutputKey;
  if (key !== undefined && bodyOf(draft, key) === undefined) return;
  const last = outputAt(draft, key);
  end(draft, step, record);
  succeedNow(draft, { step, record }, { iterations: record.iteration ?? 0, last_output: last });
}

/** The body has ended already; what is left is the loop's own time limit. */
function end(draft: Draft, step: CompiledStep, record: StepRecord): void {
  callOffAttempt(draft, { step, record });
}
