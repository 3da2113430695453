// What a step's expressions may read: checks that all of it was loaded, and evaluates.
import type { JsonValue } from "../fingerprint.ts";
import type { Allowance, CompiledStep, Evaluation, Expression, Scope } from "../workflow/compiled.ts";
import { bodyOf, type Draft, errorAt, outputAt, recordAt, stepOf, unitsToRead } from "./draft.ts";
import { inputRecordKey, itemsKey, itemsPerChunk, parseItem } from "./keys.ts";
import type { Failure, StepRecord } from "./records.ts";

/** All that is evaluated when the step begins. */
export function expressionsOf(step: CompiledStep): readonly Expression[] {
  const found = [];
  if (step.condition !== undefined) found.push(step.condition);
  if (step.delay?.kind === "until") found.push(step.delay.at);
  if (step.storage?.value !== undefined) found.push(step.storage.value);
  if (step.subworkflow?.input !== undefined) found.push(step.subworkflow.input);
  if (step.switch?.on !== undefined) found.push(step.switch.on);
  for (const { value } of step.switch?.cases ?? []) found.push(value);
  // The input of a for_each is that of its items, each of which evaluates it for itself.
  if (step.forEach !== undefined) found.push(step.forEach.items);
  else if (step.input !== undefined) found.push(step.input);
  return found;
}

/** Whether beginning the step reads the run's input: by an expression, or because its own input is that of the run. */
export function readsRunInput(step: CompiledStep): boolean {
  if (step.type === "approval" || step.type === "transform" || step.type === "subworkflow") return true;
  return step.problemsOfInput !== undefined || expressionsOf(step).length > 0;
}

/** What a step's expressions may read besides: its item, and the loop that it is in. Undefined when a record is missing. */
export type EnclosingScope = Pick<Scope, "item" | "index" | "loop" | "child">;

export function enclosingScopeOf(draft: Draft, step: CompiledStep): EnclosingScope | undefined {
  const item = parseItem(step.id);
  const key = item === undefined ? "" : itemsKey(item.step, Math.floor(item.index / itemsPerChunk));
  const chunk = item === undefined ? undefined : bodyOf(draft, key);
  const loop = step.repeats ? enclosingLoop(draft, step) : undefined;
  const turn = loop === undefined ? {} : loopTurn(draft, loop);
  if ((item !== undefined && chunk === undefined) || turn === undefined) return undefined;
  if (item === undefined || typeof chunk !== "string") return turn;
  const items = recordAt(draft, key) as readonly JsonValue[];
  return { ...turn, item: items[item.index % itemsPerChunk] ?? null, index: item.index };
}

/** The iteration that a loop is in, and what the one before has given. */
export function loopTurn(
  draft: Draft,
  loop: CompiledStep,
  iteration?: number,
): Pick<Scope, "loop"> | undefined {
  const record = stepOf(draft, loop.id);
  if (record === undefined) return undefined;
  const key = record.lastOutputKey;
  const body = key === undefined ? { kind: "absent" as const } : bodyOf(draft, key);
  if (body === undefined) return undefined;
  return { loop: { iteration: iteration ?? record.iteration ?? 0, last_output: outputAt(draft, key) } };
}

/** The record of a step that begins in a loop, with its turn. Begun again in the same iterations, it keeps the one it has. */
export function inTurn(draft: Draft, step: CompiledStep, before: StepRecord): StepRecord {
  const loop = enclosingLoop(draft, step);
  const { turn, iteration = 1 } = (loop === undefined ? undefined : stepOf(draft, loop.id)) ?? {};
  const path = turn === undefined ? String(iteration) : `${turn.path}.${iteration}`;
  return before.turn?.path === path ? before : { ...before, turn: { path, attemptsBefore: before.attempt } };
}

function enclosingLoop({ compiled }: Draft, step: CompiledStep): CompiledStep | undefined {
  let name = step.controller;
  while (name !== undefined) {
    const controller = compiled.steps.get(name);
    if (controller?.loop !== undefined) return controller;
    name = controller?.controller;
  }
  return undefined;
}

/** Notes as missing whatever the steps' expressions read and was not loaded; true when nothing is missing. */
export function hasSteps(draft: Draft, steps: Iterable<string>): boolean {
  let isComplete = true;
  for (const id of steps) {
    draft.work.left -= 2;
    const record = stepOf(draft, id);
    const key = record?.outputKey ?? record?.errorKey;
    if (record === undefined || (key !== undefined && bodyOf(draft, key) === undefined)) isComplete = false;
  }
  return isComplete;
}

/** Making a scope ready takes about a microsecond, and as long for each step that it holds. */
const unitsPerEvaluation = 20;
const unitsPerStepRead = 20;

/** What the outputs may take that one expression reads: 40 ms, or 12 million characters without lists and objects. */
export const readingUnitsMax = 800_000;

function readingTogether(draft: Draft, steps: readonly string[]): number {
  let units = 0;
  for (const id of steps) {
    const record = stepOf(draft, id);
    units += unitsToRead(draft, record?.outputKey ?? record?.errorKey);
  }
  return units;
}

/** Call `hasSteps` for its steps first. An expression that throws counts as failed: it must never stop the run. */
export function evaluate(
  draft: Draft,
  expression: Expression,
  enclosing: EnclosingScope,
  /** For expressions that share one: their own cost is taken from it, too. */
  together: Allowance = { left: 0 },
): Evaluation {
  const omitted = expression.steps.find((id) => stepOf(draft, id)?.omitted === true);
  if (omitted !== undefined) {
    return { kind: "failed", message: `the outputs of "${omitted}" are too large to be read together` };
  }
  if (readingTogether(draft, expression.steps) > readingUnitsMax) {
    return { kind: "failed", message: "the outputs that the expression reads are too large together" };
  }
  const before = together.left;
  together.left -= unitsPerEvaluation + unitsPerStepRead * expression.steps.length;
  const scope = {
    ...scopeOf(draft, expression.steps),
    ...enclosing,
    // Read when it is asked for: every item of a for_each comes by here, and the list of all of them may be the run's input.
    get input() {
      return runInput(draft);
    },
  };
  try {
    return expression.evaluate(scope, together);
  } catch (error) {
    return { kind: "failed", message: error instanceof Error ? error.message : String(error) };
  } finally {
    draft.work.left -= before - together.left;
  }
}

/** Nothing and null count as false, as a flag that the input left out; any other value but true and false is a mistake. */
export function holds(
  draft: Draft,
  condition: Expression,
  enclosing: EnclosingScope,
): boolean | { readonly failed: string } {
  const evaluated = evaluate(draft, condition, enclosing);
  if (evaluated.kind === "failed") return { failed: evaluated.message };
  if (evaluated.kind === "nothing" || evaluated.value === null) return false;
  if (typeof evaluated.value === "boolean") return evaluated.value;
  return { failed: `the condition gave a ${typeof evaluated.value}, not true or false` };
}

export function runInput(draft: Draft): JsonValue {
  return recordAt(draft, inputRecordKey);
}

/** The failure as its handler sees it: `{step, status, message, code?}`. */
export function failureShown(draft: Draft, failure: Failure): JsonValue {
  const record = stepOf(draft, failure.step);
  const error = record === undefined ? null : errorOf(draft, record);
  const details = error !== null && typeof error === "object" && !Array.isArray(error) ? error : {};
  return { step: failure.step, status: failure.status, ...details };
}

function scopeOf(draft: Draft, ids: readonly string[]): Pick<Scope, "steps" | "ctx"> {
  const steps: Record<string, JsonValue> = {};
  const outputs: Record<string, JsonValue> = {};
  const ctx: Record<string, JsonValue> = { steps: outputs };
  if (ids.length === 0) return { steps, ctx };
  const own = new Set([ctx]);
  const records = ids.map((id) => ({ id, record: stepOf(draft, id) }));
  // Of two steps that write to the same place, the one that ended last is seen; within a millisecond, the later in the order.
  if (records.length > 1) {
    const orderOf = (id: string) => draft.compiled.steps.get(id)?.order ?? 0;
    records.sort(
      (left, right) =>
        (left.record?.endedAtMs ?? 0) - (right.record?.endedAtMs ?? 0) ||
        orderOf(left.id) - orderOf(right.id),
    );
  }
  for (const { id, record } of records) {
    if (record === undefined) continue;
    const output = outputAt(draft, record.outputKey);
    steps[id] = { status: record.status, output, error: errorOf(draft, record) };
    outputs[id] = output;
    if (record.outputKey !== undefined) putInContext({ ctx, own }, draft.compiled.steps.get(id), output);
  }
  return { steps, ctx };
}

/** Places of `own` were made here; any other value may be a step's output, and is copied before it is changed. */
type Context = { readonly ctx: JsonObject; readonly own: Set<JsonObject> };

function putInContext(context: Context, step: CompiledStep | undefined, output: JsonValue): void {
  if (step?.outputPath !== undefined) putAt(context, step.outputPath, output);
  if (step?.storage?.operation === "write") putAt(context, step.storage.path, output);
  if (step?.storage?.operation === "delete") removeAt(context, step.storage.path);
}

function errorOf(draft: Draft, record: StepRecord): JsonValue {
  return record.error ?? errorAt(draft, record.errorKey);
}

type JsonObject = Record<string, JsonValue>;

function removeAt({ ctx, own }: Context, path: readonly string[]): void {
  let object = ctx;
  for (const name of path.slice(0, -1)) {
    if (objectAt(object, name) === undefined) return;
    object = ownObject(own, object, name);
  }
  delete object[path.at(-1) as string];
}

function putAt({ ctx, own }: Context, path: readonly string[], value: JsonValue): void {
  if (path.length === 0 || path.includes("__proto__")) return;
  let object = ctx;
  for (const name of path.slice(0, -1)) object = ownObject(own, object, name);
  object[path.at(-1) as string] = value;
}

function objectAt(object: JsonObject, name: string): JsonObject | undefined {
  const inner = Object.hasOwn(object, name) ? object[name] : undefined;
  return inner === null || typeof inner !== "object" || Array.isArray(inner)
    ? undefined
    : (inner as JsonObject);
}

/** Copied at most once, however many steps write below it: each copy takes as long as the place has names. */
function ownObject(own: Set<JsonObject>, object: JsonObject, name: string): JsonObject {
  const inner = objectAt(object, name);
  if (inner !== undefined && own.has(inner)) return inner;
  const copy: JsonObject = { ...inner };
  object[name] = copy;
  own.add(copy);
  return copy;
}
