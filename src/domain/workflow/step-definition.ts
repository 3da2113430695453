// Reads one step of a definition. What does not belong to its type is refused here, rather than left out silently.
import type { Amounts } from "../budgets.ts";
import type { JsonValue } from "../fingerprint.ts";
import type { RetryPolicy, StepType } from "./compiled.ts";
import {
  type ForEachDefinition,
  type LoopDefinition,
  notifyTopic,
  type ParallelDefinition,
  readForEach,
  readLoop,
  readNotify,
  readParallel,
  readParallelMax,
  readResultPath,
  readStorage,
  readSubworkflow,
  readSwitch,
  type StorageDefinition,
  type SubworkflowDefinition,
  type SwitchDefinition,
  schemaField,
} from "./control-steps.ts";
import {
  choiceField,
  fieldOf,
  isFields,
  isUnset,
  labelsField,
  type Reading,
  refuseUnknown,
  report,
  secondsField,
  textField,
} from "./fields.ts";
import { readEstimate } from "./flow-limits.ts";
import {
  contextPathField,
  type DelayDefinition,
  expressionRule,
  idRule,
  readDelay,
  readMeta,
  readRetry,
  readSeparateDuties,
  stepIdsField,
  timeoutSecondsMax,
} from "./step-fields.ts";

export type StepDefinition = {
  readonly id: string;
  readonly type: StepType;
  readonly name: string;
  /** As written; what a switch adds is known to the links between steps. */
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
  readonly separateDuties: boolean;
  readonly inputSchema?: JsonValue;
  readonly outputSchema?: JsonValue;
  readonly resultPath?: readonly string[];
  /** What its job is expected to use, in millionths by unit. */
  readonly estimate?: Amounts;
} & TypedParts;

/** What belongs to one type of step only. */
type TypedParts = {
  readonly delay?: DelayDefinition;
  readonly forEach?: ForEachDefinition;
  readonly switch?: SwitchDefinition;
  readonly parallel?: ParallelDefinition;
  readonly loop?: LoopDefinition;
  readonly storage?: StorageDefinition;
  readonly subworkflow?: SubworkflowDefinition;
};

const knownFields = [
  "id",
  "name",
  "type",
  "worker_id",
  "topic",
  "depends_on",
  "condition",
  "for_each",
  "for_each_on_failure",
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
  "estimate",
  "delay_sec",
  "delay_until",
  "route_labels",
  "policy_gate",
  "separate_duties",
];

export function readStep(reading: Reading, id: string): StepDefinition {
  refuseUnknown(reading, knownFields);
  refuseUnsupported(reading);
  const type = readType(reading);
  const ownId = textField(reading, "id", idRule);
  if (ownId !== undefined && ownId !== id)
    report(reading, "id", `must be "${id}", the name the step stands under`);
  textField(reading, "worker_id", { charactersMax: 256 });
  return {
    id,
    type,
    name: textField(reading, "name", { charactersMax: 256 }) ?? id,
    dependsOn: stepIdsField(reading, "depends_on"),
    labels: labelsField(reading, "route_labels"),
    capabilities: readMeta(reading),
    retry: readRetry(reading),
    separateDuties: readSeparateDuties(reading, type),
    ...present({
      condition: readGate(reading, type),
      input: readInput(reading, type),
      topic: readTopic(reading, type),
      onError: textField(reading, "on_error", { charactersMax: 64 }),
      outputPath: contextPathField(reading, "output_path"),
      inputSchema: schemaField(reading, "input_schema", type),
      outputSchema: schemaField(reading, "output_schema", type),
      resultPath: readResultPath(reading, type),
      estimate: readJobEstimate(reading, type),
      ...readTimes(reading, type),
      ...readTyped(reading, type),
    }),
  };
}

type Present<Fields> = { readonly [Name in keyof Fields]?: Exclude<Fields[Name], undefined> };

/** Without the fields that are not set. */
function present<Fields extends object>(fields: Fields): Present<Fields> {
  return Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== undefined),
  ) as Present<Fields>;
}

/** Fields whose silent loss would change what a workflow checks or produces. Hints that change nothing are let pass. */
const refusedFields: readonly (readonly [name: string, why: string])[] = [
  ["output_schema_id", "not supported: put the schema itself into output_schema"],
  ["input_schema_id", "not supported: put the schema itself into input_schema"],
];

function refuseUnsupported(reading: Reading): void {
  for (const [name, why] of refusedFields) if (!isUnset(reading, name)) report(reading, name, why);
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
  switch: "switch",
  parallel: "parallel",
  loop: "loop",
  delay: "delay",
  notify: "notify",
  transform: "transform",
  storage: "storage",
  subworkflow: "subworkflow",
};

function readType(reading: Reading): StepType {
  const name = textField(reading, "type", { charactersMax: 64 }) ?? "worker";
  if (Object.hasOwn(typeNames, name)) return typeNames[name] ?? "worker";
  report(reading, "type", `must be one of ${Object.keys(typeNames).join(", ")}`);
  return "worker";
}

/** When the step runs at all; a switch uses the field for the value that it compares. */
function readGate(reading: Reading, type: StepType): string | undefined {
  if (type === "switch") return undefined;
  const condition = textField(reading, "condition", expressionRule);
  if (type === "condition" && condition === undefined)
    report(reading, "condition", "a condition step needs it");
  return condition;
}

/** These types have fields of their own under `input`. */
const typesWithOwnInput: readonly StepType[] = ["switch", "parallel", "loop", "storage", "subworkflow"];

function readInput(reading: Reading, type: StepType): JsonValue | undefined {
  if (type === "notify") return readNotify(reading);
  if (typesWithOwnInput.includes(type)) return undefined;
  const input = fieldOf(reading, "input");
  if (input !== undefined && !isFields(input)) report(reading, "input", "must be an object");
  if (input === undefined && type === "transform") report(reading, "input", "a transform step needs it");
  return input;
}

function readTopic(reading: Reading, type: StepType): string | undefined {
  const topic = textField(reading, "topic", { ...idRule, charactersMax: 128 });
  return topic ?? (type === "notify" ? notifyTopic : undefined);
}

function readJobEstimate(reading: Reading, type: StepType): Amounts | undefined {
  if (type !== "worker" && fieldOf(reading, "estimate") !== undefined)
    report(reading, "estimate", "only goes with steps whose work a worker does");
  return readEstimate(reading);
}

/** The timeout of a delay step that says nothing else is the delay itself. */
function readTimes(reading: Reading, type: StepType) {
  const timeoutMs = secondsField(reading, "timeout_sec", timeoutSecondsMax);
  const delay = readDelay(reading, type, timeoutMs);
  const isTimeoutTheDelay =
    type === "delay" && fieldOf(reading, "delay_sec") === undefined && delay?.kind === "for";
  return { delay, timeoutMs: isTimeoutTheDelay ? undefined : timeoutMs };
}

function readTyped(reading: Reading, type: StepType) {
  const parallelMax = readParallelMax(reading);
  return {
    forEach: readForEach(reading, { type, parallelMax }),
    switch: type === "switch" ? readSwitch(reading) : undefined,
    parallel: type === "parallel" ? readParallel(reading, parallelMax) : undefined,
    loop: type === "loop" ? readLoop(reading) : undefined,
    storage: type === "storage" ? readStorage(reading) : undefined,
    subworkflow: type === "subworkflow" ? readSubworkflow(reading) : undefined,
  };
}
