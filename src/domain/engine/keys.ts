// The names of a run's records, timers and items: built here, read back here.
import type { ApprovalId } from "../approval.ts";
import { parseAttempt } from "../job.ts";
import type { RunId } from "../run.ts";
import type { CompiledDefinition, CompiledStep } from "../workflow/compiled.ts";
import type { StepRecord } from "./records.ts";

/** One attempt of one step. */
export type AttemptName = { readonly step: string; readonly attempt: number };

/** The run's input, as JSON. */
export const inputRecordKey = "input";
/** The engine's own state of the run: `RunProgress`. */
export const runRecordKey = "run";
/** What was known at the admission: `RunFacts`. */
export const factsRecordKey = "facts";

/** Records of the engine itself, a few hundred characters each; the others hold what callers have sent. */
export const isSmall = (key: string): boolean =>
  key.startsWith("step/") || key === runRecordKey || key === factsRecordKey;

export const stepRecordKey = (step: string): string => `step/${step}`;
/** The other way round; undefined for any other record. */
export const stepOfRecord = (key: string): string | undefined =>
  key.startsWith("step/") ? key.slice(5) : undefined;
/** Written once, at the first attempt; later attempts get the same input. In a loop every iteration has its own. */
export const jobInputKey = (step: string, attempt = 1): string => `job-input/${step}@${attempt}`;
export const resultKey = ({ step, attempt }: AttemptName): string => `result/${step}@${attempt}`;
/** Whether a record is the result of one item of a `for_each`. */
export const isItemResult = (key: string): boolean => key.includes("]@") && key.startsWith("result/");
/** The output of a step that no worker does. */
export const outputRecordKey = (step: string): string => `output/${step}`;
export const approvalKey = ({ step, attempt }: AttemptName): string => `approval/${step}@${attempt}`;

/** The items of a `for_each`, `itemsPerChunk` of them in each record. */
export const itemsKey = (step: string, chunk: number): string => `items/${step}/${chunk}`;
/** The output of a whole run, kept only for those who started it. */
export const runOutputKey = "output";

/** A record of another run: requested like the run's own, and loaded by the flow that calls the store. */
export const foreignKey = (runId: RunId, key: string): string => `${runId}#${key}`;
/** The content hash of a workflow's current definition. */
export const workflowKey = (workflow: string): string => `workflow#${workflow}`;
/** Present when the store has refused another run in this tree. */
export const treeFullKey = "tree#full";

export type OutsideKey =
  | { readonly kind: "run"; readonly runId: RunId; readonly key: string }
  | { readonly kind: "workflow"; readonly workflow: string }
  | { readonly kind: "tree" };

/** What a key stands for that is not a record of the run itself. */
export function parseOutsideKey(key: string): OutsideKey | undefined {
  const at = key.indexOf("#");
  if (at < 0) return undefined;
  const [owner, rest] = [key.slice(0, at), key.slice(at + 1)];
  if (owner === "workflow") return { kind: "workflow", workflow: rest };
  return owner === "tree" ? { kind: "tree" } : { kind: "run", runId: owner as RunId, key: rest };
}

const stepTimerKinds = ["retry", "timeout", "delay", "expiry"] as const;
type StepTimerKind = (typeof stepTimerKinds)[number];

/** The workflow's own timeout. */
export const deadlineTimer = "deadline";

export const stepTimer = (kind: StepTimerKind, { step, attempt }: AttemptName): string =>
  `${kind}/${step}@${attempt}`;

export type TimerName = { readonly kind: "deadline" } | ({ readonly kind: StepTimerKind } & AttemptName);

const stepTimerPattern = /^(retry|timeout|delay|expiry)\/([^@]+)@([1-9][0-9]{0,6})$/;

export function parseTimer(timerId: string): TimerName | undefined {
  if (timerId === deadlineTimer) return { kind: "deadline" };
  const [, kind, step, attempt] = stepTimerPattern.exec(timerId) ?? [];
  if (kind === undefined || step === undefined) return undefined;
  return { kind: kind as StepTimerKind, step, attempt: Number(attempt) };
}

/** The attempt that a job or approval id names, if it is one of this run. */
export function attemptOf(runId: RunId, id: string): AttemptName | undefined {
  return id.startsWith(runId) && id[runId.length] === ":" ? parseAttempt(id, runId.length + 1) : undefined;
}

/** An approval goes by the job id of the attempt that waits for it. */
export const approvalIdOf = (runId: RunId, { step, attempt }: AttemptName): ApprovalId =>
  `${runId}:${step}@${attempt}` as ApprovalId;

/** Items in one record. Beginning an item reads one such record, whatever the number of items. */
export const itemsPerChunk = 64;

export const itemId = (step: string, index: number): string => `${step}[${index}]`;

type ItemName = { readonly step: string; readonly index: number };

/** Step ids have no brackets, so an item is recognised by its name. */
export function parseItem(id: string): ItemName | undefined {
  if (!id.endsWith("]")) return undefined;
  const at = id.lastIndexOf("[");
  return { step: id.slice(0, at), index: Number(id.slice(at + 1, -1)) };
}

/** The definition of a step or of one item of it. */
export function stepNamed(compiled: CompiledDefinition, id: string): CompiledStep | undefined {
  const item = parseItem(id);
  if (item === undefined) return compiled.steps.get(id);
  const step = compiled.steps.get(item.step);
  return step?.forEach === undefined ? undefined : itemOf(step, item.index);
}

/** An item has the step's work and none of its neighbours: it answers to the step alone. */
function itemOf(step: CompiledStep, index: number): CompiledStep {
  const { forEach: _, condition: _condition, onError: _onError, ...rest } = step;
  return { ...rest, id: itemId(step.id, index), dependsOn: [], dependents: [], controller: step.id };
}

/** The children that a `parallel` or `for_each` step begins, by position. */
export function childAt(step: CompiledStep, index: number): string {
  return step.parallel === undefined ? itemId(step.id, index) : (step.parallel.steps[index] as string);
}

/** Whether this switch has gone another way than to the target. */
export function passesOver(step: CompiledStep, record: StepRecord, target: string): boolean {
  if (step.switch === undefined || record.status !== "succeeded" || record.chosen === target) return false;
  return step.switch.otherwise === target || step.switch.cases.some((one) => one.target === target);
}

/** Whether a switch among those that a step depends on has gone another way; `before` has their records in order. */
export function isUntaken(
  compiled: CompiledDefinition,
  step: CompiledStep,
  before: ReadonlyArray<StepRecord | undefined>,
): boolean {
  return step.dependsOn.some((name, index) => {
    const [choice, record] = [compiled.steps.get(name), before[index]];
    return choice !== undefined && record !== undefined && passesOver(choice, record, step.id);
  });
}
