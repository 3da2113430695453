// Reads what belongs to single types of steps that do work: for_each, notify, storage, subworkflow, and schemas.
import type { JsonValue } from "../fingerprint.ts";
import type { OnChildFailure, StepType } from "./compiled.ts";
import { ownFields } from "./control-steps.ts";
import { choiceField, fieldOf, isUnset, objectField, type Reading, report, textField } from "./fields.ts";
import { contextPathField, expressionRule, idRule, pathField } from "./step-fields.ts";

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
