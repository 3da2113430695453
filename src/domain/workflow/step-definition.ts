// Reads one step of a definition. What this version cannot do is refused here, rather than left out silently.
import { parseTime } from "../engine/rfc3339.ts";
import type { JsonValue } from "../fingerprint.ts";
import type { RetryPolicy, StepType } from "./compiled.ts";
import {
  choiceField,
  fieldOf,
  flagField,
  isFields,
  labelsField,
  listField,
  numberField,
  objectField,
  type Reading,
  refuseUnknown,
  report,
  reportItem,
  secondsField,
  textField,
  textsField,
} from "./fields.ts";

export type StepDefinition = {
  readonly id: string;
  readonly type: StepType;
  readonly name: string;
  readonly dependsOn: readonly string[];
  /** The step that runs when this one has failed for good; then the failure counts as handled. */
  readonly onError?: string;
  readonly condition?: string;
  /** JSON, with templates in its texts. */
  readonly input?: JsonValue;
  readonly topic?: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly capabilities: readonly string[];
  readonly retry: RetryPolicy;
  readonly timeoutMs?: number;
  readonly outputPath?: readonly string[];
  readonly delay?:
    | { readonly kind: "for"; readonly ms: number }
    | { readonly kind: "until"; readonly at: string };
  readonly separateDuties: boolean;
};

export const idRule = {
  charactersMax: 64,
  pattern: /^[A-Za-z0-9][A-Za-z0-9._-]*$/,
  meaning: "letters, digits, dots, dashes and underscores, starting with a letter or digit",
};

/** Seven days. */
export const timeoutSecondsMax = 604_800;

/** A year: a delay may well outlast a timeout, but not the people who wrote it. */
const delaySecondsMax = 31_536_000;

const stepFields = [
  "id",
  "name",
  "type",
  "worker_id",
  "topic",
  "depends_on",
  "condition",
  "for_each",
  "max_parallel",
  "input",
  "input_schema",
  "input_schema_id",
  "output_path",
  "result_data_path",
  "output_schema",
  "output_schema_id",
  "meta",
  "on_error",
  "retry",
  "timeout_sec",
  "delay_sec",
  "delay_until",
  "route_labels",
  "policy_gate",
  "separate_duties",
];

const metaFields = [
  "actor_id",
  "actor_type",
  "idempotency_key",
  "pack_id",
  "capability",
  "risk_tags",
  "requires",
  "labels",
];

export function readStep(reading: Reading, id: string): StepDefinition {
  refuseUnknown(reading, stepFields);
  refuseUnsupported(reading);
  const type = readType(reading);
  const ownId = textField(reading, "id", idRule);
  if (ownId !== undefined && ownId !== id)
    report(reading, "id", `must be "${id}", the name the step stands under`);
  textField(reading, "worker_id", { charactersMax: 256 });
  numberField(reading, "max_parallel", { min: 0, max: 1_000, step: "whole" });
  const condition = textField(reading, "condition", { charactersMax: 4_200 });
  if (type === "condition" && condition === undefined)
    report(reading, "condition", "a condition step needs it");
  const input = readInput(reading, type);
  const topic = textField(reading, "topic", { ...idRule, charactersMax: 128 });
  const onError = textField(reading, "on_error", { charactersMax: 64 });
  const outputPath = readOutputPath(reading);
  const timeoutMs = secondsField(reading, "timeout_sec", timeoutSecondsMax);
  const delay = readDelay(reading, type, timeoutMs);
  const isTimeoutTheDelay =
    type === "delay" && fieldOf(reading, "delay_sec") === undefined && delay?.kind === "for";
  return {
    id,
    type,
    name: textField(reading, "name", { charactersMax: 256 }) ?? id,
    dependsOn: readDependencies(reading),
    labels: labelsField(reading, "route_labels"),
    capabilities: readMeta(reading),
    retry: readRetry(reading),
    separateDuties: readSeparateDuties(reading, type),
    ...(condition === undefined ? {} : { condition }),
    ...(input === undefined ? {} : { input }),
    ...(topic === undefined ? {} : { topic }),
    ...(onError === undefined ? {} : { onError }),
    ...(outputPath === undefined ? {} : { outputPath }),
    ...(timeoutMs === undefined || isTimeoutTheDelay ? {} : { timeoutMs }),
    ...(delay === undefined ? {} : { delay }),
  };
}

/** Fields whose silent loss would change what a workflow checks or produces. Hints that change nothing are let pass. */
const refusedFields: readonly (readonly [name: string, why: string])[] = [
  ["for_each", "for_each is not supported yet"],
  ["result_data_path", "not supported yet: the whole result becomes the step's output"],
  ["output_schema", "not supported yet: the output would go unchecked"],
  ["output_schema_id", "not supported yet: the output would go unchecked"],
  ["input_schema", "not supported yet on a step: its input would go unchecked"],
  ["input_schema_id", "not supported yet: the input would go unchecked"],
];

function refuseUnsupported(reading: Reading): void {
  for (const [name, why] of refusedFields) {
    const value = fieldOf(reading, name);
    if (value !== undefined && value !== "") report(reading, name, why);
  }
  const gate = choiceField(reading, "policy_gate", ["allow", "deny", "require_approval"]);
  if (gate !== undefined && gate !== "allow") {
    report(reading, "policy_gate", `"${gate}" is not supported yet; put an approval step before this one`);
  }
}

const typeNames: Readonly<Record<string, StepType>> = {
  worker: "worker",
  llm: "worker",
  http: "worker",
  container: "worker",
  script: "worker",
  input: "worker",
  approval: "approval",
  condition: "condition",
  delay: "delay",
  transform: "transform",
};

const laterTypes = ["switch", "parallel", "loop", "notify", "storage", "subworkflow"];

function readType(reading: Reading): StepType {
  const name = textField(reading, "type", { charactersMax: 64 }) ?? "worker";
  if (Object.hasOwn(typeNames, name)) return typeNames[name] ?? "worker";
  if (laterTypes.includes(name)) report(reading, "type", `steps of type "${name}" are not supported yet`);
  else report(reading, "type", `must be one of ${Object.keys(typeNames).join(", ")}`);
  return "worker";
}

function readInput(reading: Reading, type: StepType): JsonValue | undefined {
  const input = fieldOf(reading, "input");
  if (input !== undefined && !isFields(input)) report(reading, "input", "must be an object");
  if (input === undefined && type === "transform") report(reading, "input", "a transform step needs it");
  return input;
}

/** What is not a text stays in its place as an empty one, so that places are counted as they were written. */
function readDependencies(reading: Reading): string[] {
  const names = (listField(reading, "depends_on") ?? []).map((item) =>
    typeof item === "string" ? item : "",
  );
  for (const [index, name] of names.entries()) {
    if (name === "") reportItem(reading, "depends_on", index, "must be the id of a step");
    else if (names.indexOf(name) < index)
      reportItem(reading, "depends_on", index, `"${name}" is named twice`);
  }
  return names;
}

/** Dotted, with or without `ctx.` before it: the value is read as `ctx.<path>`. */
function readOutputPath(reading: Reading): readonly string[] | undefined {
  const text = textField(reading, "output_path", { charactersMax: 256 });
  if (text === undefined) return undefined;
  const names = text.replace(/^ctx\./, "").split(".");
  const isFit = names.length <= 16 && names.every((name) => /^[A-Za-z_][A-Za-z0-9_-]*$/.test(name));
  if (
    !isFit ||
    names.some((name) => name === "__proto__" || name === "prototype" || name === "constructor")
  ) {
    report(reading, "output_path", "must be at most 16 names joined by dots, as review.result");
    return undefined;
  }
  if (names[0] === "steps") {
    report(reading, "output_path", "may not start with steps: the outputs of all steps are there already");
    return undefined;
  }
  return names;
}

function readDelay(reading: Reading, type: StepType, timeoutMs: number | undefined): StepDefinition["delay"] {
  const ms = secondsField(reading, "delay_sec", delaySecondsMax);
  const at = textField(reading, "delay_until", { charactersMax: 4_200 });
  if (type !== "delay") {
    if (ms !== undefined) report(reading, "delay_sec", "only delay steps wait; put one before this step");
    if (at !== undefined) report(reading, "delay_until", "only delay steps wait; put one before this step");
    return undefined;
  }
  if (at !== undefined) {
    if (ms !== undefined) report(reading, "delay_until", "a delay has either delay_sec or delay_until");
    if (!at.includes("${") && parseTime(at) === undefined) {
      report(reading, "delay_until", "must be a time as 2026-11-15T08:30:00Z, or a template that gives one");
    }
    return { kind: "until", at };
  }
  if (ms !== undefined) return { kind: "for", ms };
  if (fieldOf(reading, "delay_sec") === 0) return { kind: "for", ms: 0 };
  if (timeoutMs !== undefined) return { kind: "for", ms: timeoutMs };
  report(reading, "delay_sec", "a delay step needs delay_sec, delay_until or timeout_sec");
  return undefined;
}

const secondsDefault = { initial: 1, max: 60 };

/**
 * Zeros mean "not set", as existing definitions use them. A multiplier of 1 means a constant wait, which
 * cannot be said otherwise.
 */
function readRetry(outer: Reading): RetryPolicy {
  const reading = objectField(outer, "retry");
  if (reading === undefined) {
    return {
      retriesMax: 0,
      initialMs: secondsDefault.initial * 1_000,
      maxMs: secondsDefault.max * 1_000,
      multiplier: 2,
    };
  }
  refuseUnknown(reading, ["max_retries", "initial_backoff_sec", "max_backoff_sec", "multiplier"]);
  const initialMs =
    secondsField(reading, "initial_backoff_sec", timeoutSecondsMax) ?? secondsDefault.initial * 1_000;
  const multiplier = numberField(reading, "multiplier", { min: 0, max: 100 }) ?? 0;
  if (multiplier > 0 && multiplier < 1)
    report(reading, "multiplier", "must be at least 1: waits do not get shorter");
  return {
    retriesMax: numberField(reading, "max_retries", { min: 0, max: 100, step: "whole" }) ?? 0,
    initialMs,
    maxMs:
      secondsField(reading, "max_backoff_sec", timeoutSecondsMax) ??
      Math.max(initialMs, secondsDefault.max * 1_000),
    multiplier: multiplier === 0 ? 2 : multiplier,
  };
}

/** The capabilities a worker must offer; the rest of `meta` describes the step and changes nothing. */
function readMeta(outer: Reading): readonly string[] {
  const reading = objectField(outer, "meta");
  if (reading === undefined) return [];
  refuseUnknown(reading, metaFields);
  const rule = { charactersMax: 256 };
  for (const name of ["actor_id", "actor_type", "idempotency_key", "pack_id"]) textField(reading, name, rule);
  textsField(reading, "risk_tags", rule);
  labelsField(reading, "labels");
  if ((listField(reading, "requires") ?? []).length > 100)
    report(reading, "requires", "has at most 100 items");
  const capability = textField(reading, "capability", rule);
  return [
    ...new Set([...(capability === undefined ? [] : [capability]), ...textsField(reading, "requires", rule)]),
  ];
}

function readSeparateDuties(reading: Reading, type: StepType): boolean {
  const isSeparate = flagField(reading, "separate_duties") ?? false;
  if (isSeparate && type !== "approval") report(reading, "separate_duties", "only goes with approval steps");
  return isSeparate;
}
