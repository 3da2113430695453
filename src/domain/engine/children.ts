// Steps that begin other steps: `parallel`, `for_each` with its items, and `loop`. They learn how each of them ended.
import type { JsonValue } from "../fingerprint.ts";
import type { CompiledStep, Expression } from "../workflow/compiled.ts";
import { succeedNow, succeedWith } from "./begin-job.ts";
import { bodyOf, type Draft, isFull, outputAt, putPayload, putStep, stepOf } from "./draft.ts";
import { childAt, inputRecordKey, itemsKey, itemsPerChunk, stepRecordKey } from "./keys.ts";
import type { Children, FailedStatus, StepRecord, WorkItem } from "./records.ts";
import { enclosingScopeOf, evaluate, hasSteps, holds, loopTurn } from "./scope.ts";
import {
  type Beginning,
  callOffAttempt,
  fail,
  failToBegin,
  setTimeLimit,
  wait,
  withdrawChildren,
} from "./settle-step.ts";

/** Records of children that are asked for together, where many are looked at. */
const childrenWindow = 128;

const none = { next: 0, open: 0, met: 0, broken: 0 };

export function beginParallel(draft: Draft, { step, record }: Beginning): void {
  const children = { total: step.parallel?.steps.length ?? 0, ...none };
  const begun = { step, record: { ...record, attempt: record.attempt + 1, children } };
  wait(draft, begun, "children");
  setTimeLimit(draft, begun);
  draft.queue.push({ kind: "spread", step: step.id });
}

export function beginForEach(draft: Draft, beginning: Beginning): void {
  const { step, record } = beginning;
  const items = itemsOf(draft, beginning);
  if (!Array.isArray(items)) {
    failToBegin(draft, beginning, items.failed);
    return;
  }
  const { itemsMax } = draft.limits;
  if (items.length > itemsMax) {
    const message = `for_each gave ${items.length} items; at most ${itemsMax} are allowed`;
    failToBegin(draft, beginning, message, "too_many_items");
    return;
  }
  if (items.length === 0) {
    succeedWith(draft, beginning, []);
    return;
  }
  const children = { total: items.length, ...none };
  wait(draft, { step, record: { ...record, attempt: record.attempt + 1, children } }, "children");
  draft.queue.push({ kind: "freeze", step: step.id, from: 0 });
}

type Items = JsonValue[] | { readonly failed: string };

function itemsOf(draft: Draft, { step, enclosing }: Beginning): Items {
  if (step.forEach === undefined) return [];
  const evaluated = evaluate(draft, step.forEach.items, enclosing);
  if (evaluated.kind === "failed") return { failed: evaluated.message };
  if (evaluated.kind === "value" && Array.isArray(evaluated.value)) return evaluated.value;
  return { failed: "for_each did not give a list" };
}

/**
 * Writes the items down, so that each is looked up by its position later. Large lists take several commits, each of which
 * evaluates the list again: all that it reads has ended, so it is the same list.
 */
export function freeze(draft: Draft, item: WorkItem & { readonly kind: "freeze" }): void {
  const step = draft.compiled.steps.get(item.step);
  const record = step === undefined ? undefined : stepOf(draft, step.id);
  if (step?.forEach === undefined || record === undefined) return;
  const enclosing = enclosingScopeOf(draft, step);
  const isComplete = hasSteps(draft, step.forEach.items.steps);
  const input = bodyOf(draft, inputRecordKey);
  if (!isComplete || input === undefined || enclosing === undefined) return;
  const items = itemsOf(draft, { step, record, enclosing });
  if (!Array.isArray(items)) throw new Error(`the items of ${step.id} cannot be read again`);
  for (let chunk = item.from; chunk * itemsPerChunk < items.length; chunk += 1) {
    // At least one is written, however costly the list: or the same commit would be made again and again.
    if (chunk > item.from && isFull(draft)) {
      draft.queue.unshift({ ...item, from: chunk });
      return;
    }
    const some = items.slice(chunk * itemsPerChunk, (chunk + 1) * itemsPerChunk);
    putPayload(draft, itemsKey(step.id, chunk), JSON.stringify(some));
  }
  draft.queue.push({ kind: "spread", step: step.id });
}

/**
 * Begins children until as many are open as may be, before anything else goes on: how many fit into one change must not
 * decide which of them have begun when one of them fails.
 */
export function spread(draft: Draft, item: WorkItem & { readonly kind: "spread" }): void {
  const step = draft.compiled.steps.get(item.step);
  if (step === undefined) return;
  const planned: WorkItem[] = [];
  const parallelMax = step.parallel?.parallelMax ?? step.forEach?.parallelMax ?? 0;
  for (let room = draft.stepsMax - draft.touched.size; ; room -= 1) {
    const record = stepOf(draft, step.id);
    if (record?.children === undefined || record.waitingFor !== "children") break;
    const { children } = record;
    if (children.closing || children.next >= children.total || children.open >= parallelMax) break;
    if (room <= 0) {
      // Those planned so far fill this change; the others follow when they have begun.
      planned.push(item);
      break;
    }
    const plan = planChild(draft, step, record, children);
    if (plan === "missing") break;
    if (plan !== "done") planned.push(plan);
  }
  draft.queue.unshift(...planned);
  const record = stepOf(draft, step.id);
  if (planned.length === 0 && record !== undefined && isOver(record)) failForChild(draft, step, record);
}

/** After a retry all others may have ended before: then nobody is left to be heard of. */
function isOver({ children, waitingFor }: StepRecord): boolean {
  if (children?.again !== true || waitingFor !== "children" || children.closing) return false;
  return children.open === 0 && children.next >= children.total;
}

function planChild(
  draft: Draft,
  step: CompiledStep,
  record: StepRecord,
  children: Children,
): (WorkItem & { readonly kind: "begin" }) | "done" | "missing" {
  const child = childAt(step, children.next);
  let isDone = false;
  if (children.again === true) {
    const before = recordInWindow(draft, step, children);
    if (before === undefined) return "missing";
    isDone = before.status !== "pending" && before.status !== "cancelled";
  }
  const open = children.open + (isDone ? 0 : 1);
  putStep(draft, step.id, { ...record, children: { ...children, next: children.next + 1, open } });
  if (isDone) return "done";
  return { kind: "begin", step: child, fresh: !step.repeats && children.again !== true };
}

/** Asks for a number of children's records at once. */
function recordInWindow(draft: Draft, step: CompiledStep, { next, total }: Children): StepRecord | undefined {
  const id = childAt(step, next);
  if (draft.steps.has(id) || draft.loaded.has(stepRecordKey(id)) || draft.age === "new")
    return stepOf(draft, id);
  for (let index = next; index < Math.min(total, next + childrenWindow); index += 1) {
    const key = stepRecordKey(childAt(step, index));
    if (!draft.loaded.has(key)) draft.missing.add(key);
  }
  return undefined;
}

/** One child less is open: the step ends, or begins another. */
export function hearChild(draft: Draft, item: WorkItem & { readonly kind: "hear" }): void {
  const step = draft.compiled.steps.get(item.step);
  const record = step === undefined ? undefined : stepOf(draft, item.step);
  if (step === undefined || record?.children === undefined) return;
  if (record.waitingFor !== "children" || record.children.closing) return;
  const { met, broken, open, total, next } = record.children;
  const counted = { ...record.children, open: open - 1 };
  const children: Children =
    item.outcome === "met"
      ? { ...counted, met: met + 1 }
      : { ...counted, broken: broken + 1, failures: countedAs(counted, item.outcome, 1) };
  const heard = { ...record, children };
  const required = step.parallel?.required ?? total;
  const onFailure = step.parallel?.onFailure ?? step.forEach?.onFailure ?? "cancel";
  if (children.met >= required) {
    close(draft, step, heard);
    return;
  }
  const isHopeless = total - children.broken < required;
  const isLast = children.open === 0 && next >= total;
  putStep(draft, step.id, heard);
  if (isHopeless && (onFailure === "cancel" || isLast)) failForChild(draft, step, heard, item);
  else draft.queue.push({ kind: "spread", step: step.id });
}

/** Enough children have succeeded: the others are taken back, and the outputs put together. */
function close(draft: Draft, step: CompiledStep, record: StepRecord): void {
  const children = { ...(record.children as Children), closing: true as const };
  putStep(draft, step.id, { ...record, children });
  withdrawChildren(draft, step, { ...record, children });
  draft.queue.push({ kind: "collect", step: step.id, from: 0, text: "" });
}

/** With several failures the worst decides, whichever came first: the end must not depend on the order. */
function failForChild(
  draft: Draft,
  step: CompiledStep,
  record: StepRecord,
  heard?: WorkItem & { readonly kind: "hear" },
): void {
  const { broken, total, failures = {} } = record.children as Children;
  const many = broken > 1 ? ` and ${broken - 1} more of ${total}` : "";
  const message =
    heard === undefined || heard.outcome === "met"
      ? `${broken} of ${total} did not succeed`
      : `${heard.child} ended ${heard.outcome}${many}`;
  const status = failedStatuses.find((one) => (failures[one] ?? 0) > 0) ?? "failed";
  callOffAttempt(draft, { step, record });
  withdrawChildren(draft, step, record);
  fail(draft, { step, record }, status, { error: { code: "child_failed", message } });
}

/** The worst first. */
const failedStatuses = ["failed", "denied", "timed_out"] as const satisfies readonly FailedStatus[];

/** One child more, or less, that ended in this way. */
export function countedAs(
  { failures = {} }: Children,
  status: FailedStatus,
  change: 1 | -1,
): NonNullable<Children["failures"]> {
  return { ...failures, [status]: (failures[status] ?? 0) + change };
}

/** A loop begins its body again and again, while its condition holds and its `until` does not. */
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
