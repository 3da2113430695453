// Reads the fields of single step types: switch, parallel, loop, for_each, notify, storage, subworkflow, and schemas.
import type { JsonValue } from "../fingerprint.ts";
import type { OnChildFailure, StepType } from "./compiled.ts";
import {
  choiceField,
  fieldOf,
  isFields,
  isUnset,
  listField,
  numberField,
  objectField,
  pathIn,
  type Reading,
  refuseUnknown,
  report,
  reportItem,
  textField,
} from "./fields.ts";
import { contextPathField, expressionRule, idRule, pathField, stepIdsField } from "./step-fields.ts";

/** The name of a step, and where it was written. */
export type NamedStep = { readonly step: string; readonly path: string };

export type SwitchDefinition = {
  readonly on?: string;
  readonly cases: ReadonlyArray<{
    readonly value: { readonly json: JsonValue; readonly path: string };
    readonly target: NamedStep;
  }>;
  readonly otherwise?: NamedStep;
};

export type ParallelDefinition = {
  readonly steps: readonly NamedStep[];
  readonly required: number;
  readonly parallelMax: number;
  readonly onFailure: OnChildFailure;
};

export type LoopDefinition = {
  readonly body?: NamedStep;
  readonly iterationsMax: number;
  readonly while?: { readonly text: string; readonly path: string };
  readonly until?: { readonly text: string; readonly path: string };
};

/** More than any definition has steps. */
const casesMax = 1_000;
const childrenMax = 1_000;
const iterationsLimit = 10_000;
const iterationsDefault = 100;

/** The fields under `input`, which these steps must have. */
function ownFields(reading: Reading, type: string, known: readonly string[]): Reading | undefined {
  const own = objectField(reading, "input");
  if (own === undefined) {
    if (fieldOf(reading, "input") === undefined) report(reading, "input", `a ${type} step needs it`);
    return undefined;
  }
  refuseUnknown(own, known);
  return own;
}

export function readSwitch(reading: Reading): SwitchDefinition {
  const on = textField(reading, "condition", expressionRule);
  const matching = isUnset(reading, "condition") ? "true" : "condition";
  const own = ownFields(reading, "switch", ["cases", "default"]);
  if (own === undefined) return { cases: [] };
  const items = listField(own, "cases");
  if (fieldOf(own, "cases") === undefined || items?.length === 0) {
    report(own, "cases", "a switch needs at least one case");
  }
  if (items !== undefined && items.length > casesMax) report(own, "cases", `has at most ${casesMax} items`);
  const cases = (items ?? []).slice(0, casesMax).flatMap((item, index) => {
    if (isFields(item)) {
      const path = `${pathIn(own.path, "cases")}[${index}]`;
      return readCase({ path, fields: item, problems: own.problems }, matching);
    }
    reportItem(own, "cases", index, "must be an object");
    return [];
  });
  const otherwise = textField(own, "default", { charactersMax: 64 });
  return {
    cases,
    ...(on === undefined ? {} : { on }),
    ...(otherwise === undefined ? {} : { otherwise: { step: otherwise, path: pathIn(own.path, "default") } }),
  };
}

const valueNames = ["match", "when", "value"];
const targetNames = ["next", "step", "target"];

/** `matching`: what the value of a case must equal. */
function readCase(reading: Reading, matching: "true" | "condition"): SwitchDefinition["cases"] {
  refuseUnknown(reading, [...valueNames, ...targetNames]);
  const valueName = onlyOne(reading, valueNames);
  const targetName = onlyOne(reading, targetNames);
  if (valueName === undefined || targetName === undefined) return [];
  const step = textField(reading, targetName, { charactersMax: 64 });
  if (fieldOf(reading, targetName) === "") report(reading, targetName, "must be the id of a step");
  const json = reading.fields[valueName] ?? null;
  if (matching === "true" && !mayBeTrue(json)) {
    const hint = "as $" + "{input.amount > 5}";
    report(
      reading,
      valueName,
      `can never match: without a condition a case matches when its value is true; write a template, ${hint}`,
    );
  }
  if (step === undefined) return [];
  return [
    {
      value: { json, path: pathIn(reading.path, valueName) },
      target: { step, path: pathIn(reading.path, targetName) },
    },
  ];
}

/** Null is a value to match, unless another name has one. */
function onlyOne(reading: Reading, names: readonly string[]): string | undefined {
  const written = names.filter((name) => Object.hasOwn(reading.fields, name));
  const set = written.filter((name) => reading.fields[name] !== null);
  const [name, another] = set.length > 0 ? set : written;
  if (name === undefined) report(reading, names[0] ?? "", `a case needs one of ${names.join(", ")}`);
  else if (another !== undefined) report(reading, another, `a case has only one of ${names.join(", ")}`);
  return another === undefined ? name : undefined;
}

function mayBeTrue(json: JsonValue): boolean {
  return json === true || (typeof json === "string" && /^\s*\$\{[\s\S]*\}\s*$/.test(json));
}

const parallelFields = ["steps", "strategy", "required", "max_parallel", "on_failure"];

export function readParallel(reading: Reading, ownMax: number | undefined): ParallelDefinition {
  const own = ownFields(reading, "parallel", parallelFields);
  if (own === undefined) return { steps: [], required: 0, parallelMax: 0, onFailure: "cancel" };
  const ids = stepIdsField(own, "steps");
  if (fieldOf(own, "steps") === undefined) report(own, "steps", "a parallel step needs it");
  else if (Array.isArray(own.fields.steps) && (ids.length < 1 || ids.length > childrenMax)) {
    report(own, "steps", `has 1 to ${childrenMax} items, not ${ids.length}`);
  }
  const innerMax = readParallelMax(own);
  if (innerMax !== undefined && ownMax !== undefined && innerMax !== ownMax) {
    report(own, "max_parallel", `says ${innerMax}, but the step itself says ${ownMax}`);
  }
  return {
    steps: ids.map((step, index) => ({ step, path: `${pathIn(own.path, "steps")}[${index}]` })),
    required: readRequired(own, ids.length),
    parallelMax: Math.min(innerMax ?? ownMax ?? ids.length, ids.length),
    onFailure: choiceField(own, "on_failure", ["cancel", "continue"]) ?? "cancel",
  };
}

/** Zero means "not set". */
export function readParallelMax(reading: Reading): number | undefined {
  const max = numberField(reading, "max_parallel", { min: 0, max: 1_000, step: "whole" });
  return max === 0 ? undefined : max;
}

function readRequired(own: Reading, children: number): number {
  const strategy = choiceField(own, "strategy", ["all", "any", "n_of_m"]) ?? "all";
  const max = Math.max(1, children);
  const required = numberField(own, "required", { min: 0, max, step: "whole" });
  if (strategy === "n_of_m") {
    const isMissing = fieldOf(own, "required") === undefined || required === 0;
    if (isMissing) report(own, "required", `n_of_m needs it: how many must succeed, from 1 to ${max}`);
    return required ?? 1;
  }
  if (required !== undefined && required > 0)
    report(own, "required", `only goes with the strategy n_of_m, not with ${strategy}`);
  return strategy === "any" ? 1 : children;
}

const loopFields = ["body", "body_step", "max_iterations", "while", "condition", "until"];

export function readLoop(reading: Reading): LoopDefinition {
  const own = ownFields(reading, "loop", loopFields);
  if (own === undefined) return { iterationsMax: iterationsDefault };
  const body = eitherText(own, ["body", "body_step"], { charactersMax: 64 });
  if (isUnset(own, "body") && isUnset(own, "body_step"))
    report(own, "body", "a loop needs the id of the step that it repeats");
  const whileText = eitherText(own, ["while", "condition"], expressionRule);
  const until = eitherText(own, ["until"], expressionRule);
  const iterationsMax = numberField(own, "max_iterations", { min: 1, max: iterationsLimit, step: "whole" });
  return {
    iterationsMax: iterationsMax ?? iterationsDefault,
    ...(body === undefined ? {} : { body: { step: body.text, path: body.path } }),
    ...(whileText === undefined ? {} : { while: whileText }),
    ...(until === undefined ? {} : { until }),
  };
}

/** A text that goes by one of several names. */
function eitherText(
  reading: Reading,
  names: readonly string[],
  rule: { readonly charactersMax: number },
): { readonly text: string; readonly path: string } | undefined {
  const found = names.flatMap((name) => {
    const text = textField(reading, name, rule);
    return text === undefined ? [] : [{ text, name }];
  });
  const [first, second] = found;
  if (second !== undefined) report(reading, second.name, `means the same as ${first?.name}: write only one`);
  return first === undefined ? undefined : { text: first.text, path: pathIn(reading.path, first.name) };
}

export type ForEachDefinition = {
  readonly items: string;
  readonly parallelMax: number;
  readonly onFailure: OnChildFailure;
};

export type StorageDefinition =
  | { readonly operation: "read" | "delete"; readonly path: readonly string[] }
  | { readonly operation: "write"; readonly path: readonly string[]; readonly value: JsonValue };

export type SubworkflowDefinition = {
  readonly workflow: string;
  readonly input?: JsonValue;
  readonly output?: JsonValue;
};

/** Where notifications go when a step names no topic of its own. */
export const notifyTopic = "interlock.notify";

const forEachParallelDefault = 100;

export function readForEach(
  reading: Reading,
  { type, parallelMax }: { readonly type: StepType; readonly parallelMax: number | undefined },
): ForEachDefinition | undefined {
  const items = textField(reading, "for_each", expressionRule);
  const onFailure = choiceField(reading, "for_each_on_failure", ["cancel", "continue"]);
  if (items === undefined) {
    if (onFailure !== undefined && isUnset(reading, "for_each"))
      report(reading, "for_each_on_failure", "only goes with for_each");
    return undefined;
  }
  if (type !== "worker") {
    report(
      reading,
      "for_each",
      `only goes with worker steps, not with ${type}; a subworkflow or loop repeats others`,
    );
    return undefined;
  }
  return {
    items,
    parallelMax: parallelMax ?? forEachParallelDefault,
    onFailure: onFailure ?? "cancel",
  };
}

const messageMax = 16_384;

/** What a worker that passes on notifications gets as its input. */
export function readNotify(reading: Reading): JsonValue | undefined {
  const own = ownFields(reading, "notify", ["level", "message", "component", "trace_id", "details"]);
  if (own === undefined) return undefined;
  const level = choiceField(own, "level", ["info", "warn", "error"]) ?? "info";
  const message = textField(own, "message", { charactersMax: messageMax });
  if (isUnset(own, "message")) report(own, "message", "a notify step needs it");
  const component = textField(own, "component", expressionRule);
  const traceId = textField(own, "trace_id", expressionRule);
  const details = fieldOf(own, "details");
  if (message === undefined) return undefined;
  return {
    level,
    message,
    ...(component === undefined ? {} : { component }),
    ...(traceId === undefined ? {} : { trace_id: traceId }),
    ...(details === undefined ? {} : { details }),
  };
}

export function readStorage(reading: Reading): StorageDefinition | undefined {
  const own = ownFields(reading, "storage", ["operation", "key", "value"]);
  if (own === undefined) return undefined;
  const operation = choiceField(own, "operation", ["read", "write", "delete"]);
  if (isUnset(own, "operation")) report(own, "operation", "must be one of read, write, delete");
  const path = contextPathField(own, "key");
  if (isUnset(own, "key")) report(own, "key", "a storage step needs it: a path in ctx, as review.result");
  const value = fieldOf(own, "value");
  if (operation === "write" && value === undefined)
    report(own, "value", "a write needs it; to remove what is there, use the operation delete");
  if ((operation === "read" || operation === "delete") && value !== undefined)
    report(own, "value", `only goes with the operation write, not with ${operation}`);
  if (operation === undefined || path === undefined) return undefined;
  if (operation !== "write") return { operation, path };
  return value === undefined ? undefined : { operation, path, value };
}

export function readSubworkflow(reading: Reading): SubworkflowDefinition | undefined {
  const own = ownFields(reading, "subworkflow", ["workflow_id", "input_mapping", "output_mapping"]);
  if (own === undefined) return undefined;
  const workflow = textField(own, "workflow_id", idRule);
  if (isUnset(own, "workflow_id")) report(own, "workflow_id", "a subworkflow step needs it");
  const input = objectField(own, "input_mapping")?.fields;
  const output = objectField(own, "output_mapping")?.fields;
  if (workflow === undefined) return undefined;
  return {
    workflow,
    ...(input === undefined ? {} : { input }),
    ...(output === undefined ? {} : { output }),
  };
}

/** Which types check their input or output by a schema of their own. */
const schemaTypes: Readonly<Record<"input_schema" | "output_schema", readonly StepType[]>> = {
  input_schema: ["worker", "approval", "transform", "subworkflow"],
  output_schema: ["worker", "transform", "subworkflow"],
};

/** The schema as it stands; whether it can be used is decided for all schemas of a definition together. */
export function schemaField(
  reading: Reading,
  name: "input_schema" | "output_schema",
  type: StepType,
): JsonValue | undefined {
  const schema = fieldOf(reading, name);
  if (schema === undefined || schema === "") return undefined;
  if (schemaTypes[name].includes(type)) return schema;
  report(reading, name, `only goes with steps of type ${schemaTypes[name].join(", ")}, not with ${type}`);
  return undefined;
}

export function readResultPath(reading: Reading, type: StepType): readonly string[] | undefined {
  const path = pathField(reading, "result_data_path");
  if (path === undefined || type === "worker") return path;
  report(reading, "result_data_path", `only goes with worker steps, not with ${type}`);
  return undefined;
}
