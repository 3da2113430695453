// Reads a workflow definition: all its problems at once, each with its place, or the definition in the product's own words.

import { hash } from "node:crypto";
import canonicalize from "canonicalize";
import type { JsonValue } from "../fingerprint.ts";
import type { RiskClass } from "../lock.ts";
import { atOnce, type Sliced } from "../slices.ts";
import type { Problem } from "./compiled.ts";
import {
  choiceField,
  fieldOf,
  isFields,
  listField,
  objectField,
  type Reading,
  refuseUnknown,
  report,
  secondsField,
  textField,
} from "./fields.ts";
import { type FlowControl, flowControlFields, readFlowControl } from "./flow-control.ts";
import { readSchema, type SchemaMode, type SchemaUse } from "./json-schema.ts";
import { readStep, type StepDefinition } from "./step-definition.ts";
import { problemsOfReads, readExpressions, type StepExpressions, writersIn } from "./step-expressions.ts";
import { idRule, timeoutSecondsMax } from "./step-fields.ts";
import { readGraph, type StepGraph, type ValidGraph } from "./step-graph.ts";
import { stepPath } from "./step-links.ts";
import { countOf, isTooMuch, newWork, pause, problemOfWork, spend, type Work } from "./work-count.ts";

export type Definition = {
  readonly id?: string;
  readonly orgId?: string;
  readonly teamId?: string;
  readonly name?: string;
  readonly description?: string;
  /** Free text of its author; the product tells versions apart by their hash. */
  readonly version?: string;
  readonly createdBy?: string;
  readonly risk: RiskClass;
  readonly timeoutMs?: number;
  readonly inputSchema?: JsonValue;
  readonly flowControl?: FlowControl;
  readonly steps: ReadonlyMap<string, StepDefinition>;
  readonly graph: ValidGraph;
  readonly expressions: ReadonlyMap<string, StepExpressions>;
};

type DefinitionReading =
  | {
      readonly kind: "valid";
      readonly definition: Definition;
      /** How much work reading it took. */
      readonly count: number;
    }
  | {
      readonly kind: "invalid";
      readonly problems: readonly Problem[];
      /** Reading it takes more work than is allowed; the first problem says what costs most. */
      readonly tooCostly?: true;
    };

export const definitionBytesMax = 262_144;

const stepsMax = 1_000;

/** Of all steps together: making one ready takes about half a millisecond. */
const stepSchemasMax = 200;

/** More than anybody reads; a definition full of the same mistake must not make an answer of megabytes. */
const problemsMax = 200;

export function readDefinition(value: JsonValue, mode: SchemaMode = "new"): DefinitionReading {
  return atOnce(readingDefinition(value, mode));
}

/** Work by work, with pauses between. What was stored is read by the rules that it was saved by. */
export function* readingDefinition(value: JsonValue, mode: SchemaMode): Sliced<DefinitionReading> {
  if (!isFields(value)) return invalid([{ path: "", message: "a definition is an object" }]);
  const bytes = Buffer.byteLength(JSON.stringify(value));
  if (bytes > definitionBytesMax) {
    return invalid([
      { path: "", message: `a definition has at most ${definitionBytesMax} bytes, not ${bytes}` },
    ]);
  }
  const work = newWork(mode);
  spend(work, "text", bytes / 16);
  const reading: Reading = { path: "", fields: value, problems: [] };
  const header = readHeader(reading, work);
  const steps = yield* readSteps(reading, work);
  const problems = [...reading.problems, ...(yield* problemsOfSchemas(steps, work))];
  problems.push(...problemsOfNames(header.id, steps));
  const between = yield* readBetween(steps, work);
  for (const problem of between.problems) problems.push(problem);
  if (isTooMuch(work)) return { ...invalid([problemOfWork(work), ...problems]), tooCostly: true };
  if (problems.length > 0 || between.graph === undefined) return invalid(problems);
  const { graph, expressions } = between;
  return { kind: "valid", definition: { ...header, steps, graph, expressions }, count: countOf(work) };
}

/** The canonical form (RFC 8785): the same definition is stored once, however it was written. */
export function definitionText(value: JsonValue): string {
  const text = canonicalize(value);
  if (text === undefined) throw new Error("a definition always has a canonical form");
  return text;
}

export function definitionHash(text: string): string {
  return hash("sha256", text);
}

function invalid(problems: readonly Problem[]): Extract<DefinitionReading, { kind: "invalid" }> {
  if (problems.length <= problemsMax) return { kind: "invalid", problems };
  const rest = { path: "", message: `and ${problems.length - problemsMax} more problems` };
  return { kind: "invalid", problems: [...problems.slice(0, problemsMax), rest] };
}

const headerFields = [
  "id",
  "org_id",
  "team_id",
  "name",
  "description",
  "version",
  "created_by",
  "created_at",
  "updated_at",
  "timeout_sec",
  "input_schema",
  "parameters",
  "config",
  "policy_override",
  "risk",
  ...flowControlFields,
  "steps",
];

function readHeader(reading: Reading, work: Work): Header {
  refuseUnknown(reading, headerFields);
  const override = fieldOf(reading, "policy_override");
  if (override !== undefined && override !== "") {
    report(reading, "policy_override", "not supported yet: its rules would not be kept");
  }
  for (const item of listField(reading, "parameters") ?? []) {
    if (!isFields(item)) report(reading, "parameters", "must be a list of objects");
  }
  objectField(reading, "config");
  const timeoutMs = secondsField(reading, "timeout_sec", timeoutSecondsMax);
  const inputSchema = fieldOf(reading, "input_schema");
  if (inputSchema !== undefined) {
    reading.problems.push(...problemsOfSchema(inputSchema, inputSchemaPlace, work));
  }
  const flowControl = readFlowControl(reading, work);
  return {
    ...headerTexts(reading),
    risk: choiceField(reading, "risk", ["high", "standard", "low"]) ?? "standard",
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
    ...(inputSchema === undefined ? {} : { inputSchema }),
    ...(flowControl === undefined ? {} : { flowControl }),
  };
}

type Header = Omit<Definition, "steps" | "graph" | "expressions">;

export const inputSchemaPlace: SchemaUse = { schema: "input_schema", value: "input" };

function headerTexts(reading: Reading): Omit<Header, "risk" | "timeoutMs" | "inputSchema" | "flowControl"> {
  const texts = {
    id: textField(reading, "id", idRule),
    orgId: textField(reading, "org_id", { charactersMax: 256 }),
    teamId: textField(reading, "team_id", { charactersMax: 256 }),
    name: textField(reading, "name", { charactersMax: 256 }),
    description: textField(reading, "description", { charactersMax: 16_384 }),
    version: textField(reading, "version", { charactersMax: 256 }),
    createdBy: textField(reading, "created_by", { charactersMax: 256 }),
  };
  return Object.fromEntries(Object.entries(texts).filter(([, text]) => text !== undefined));
}

/** Of a step without anything special: 25 us. */
const stepCost = 25;

function* readSteps(outer: Reading, work: Work): Sliced<ReadonlyMap<string, StepDefinition>> {
  const reading = objectField(outer, "steps");
  const ids = Object.keys(reading?.fields ?? {});
  const steps = new Map<string, StepDefinition>();
  if (reading === undefined) {
    if (fieldOf(outer, "steps") === undefined) report(outer, "steps", "a definition needs steps");
    return steps;
  }
  if (ids.length < 1 || ids.length > stepsMax) {
    report(outer, "steps", `has 1 to ${stepsMax} steps, not ${ids.length}`);
    return steps;
  }
  for (const id of ids) {
    if (id.length > idRule.charactersMax || !idRule.pattern.test(id)) {
      report(reading, id, `a step's id has at most ${idRule.charactersMax} ${idRule.meaning}`);
    }
    const step = objectField(reading, id);
    if (step === undefined && fieldOf(reading, id) === undefined) report(reading, id, "must be an object");
    if (step === undefined) continue;
    steps.set(id, readStep(step, id));
    spend(work, "steps", stepCost);
    yield* pause(work);
  }
  return steps;
}

/** The schemas of a step, and where they stand. */
export function schemasOf({ id, inputSchema, outputSchema }: StepDefinition) {
  const place = (value: SchemaUse["value"]) => ({ schema: `${stepPath(id)}.${value}_schema`, value });
  return {
    ...(inputSchema === undefined ? {} : { input: { schema: inputSchema, place: place("input") } }),
    ...(outputSchema === undefined ? {} : { output: { schema: outputSchema, place: place("output") } }),
  };
}

function* problemsOfSchemas(
  steps: ReadonlyMap<string, StepDefinition>,
  work: Work,
): Sliced<readonly Problem[]> {
  const schemas = [...steps.values()].flatMap((step) => Object.values(schemasOf(step)));
  if (schemas.length > stepSchemasMax) {
    const message = `have ${schemas.length} schemas together, ${stepSchemasMax} are allowed`;
    return [{ path: "steps", message }];
  }
  const problems: Problem[] = [];
  for (const { schema, place } of schemas) {
    problems.push(...problemsOfSchema(schema, place, work));
    yield* pause(work);
    if (isTooMuch(work)) break;
  }
  return problems;
}

/** A step of reading a schema takes about 20 ns. */
const schemaStepsPerUnit = 50;

function problemsOfSchema(schema: JsonValue, place: SchemaUse, work: Work): readonly Problem[] {
  const reading = readSchema(schema, place, work.mode);
  spend(work, "schemas", reading.kind === "schema" ? reading.cost / schemaStepsPerUnit : 0);
  return reading.kind === "invalid" ? reading.problems : [];
}

/** A workflow that begins itself would never end; longer circles are stopped by the depth of a run's children. */
function problemsOfNames(
  id: string | undefined,
  steps: ReadonlyMap<string, StepDefinition>,
): readonly Problem[] {
  return [...steps.values()].flatMap((step) =>
    id === undefined || step.subworkflow?.workflow !== id
      ? []
      : [{ path: `${stepPath(step.id)}.input.workflow_id`, message: "a workflow cannot run itself" }],
  );
}

/** While the graph is wrong, nobody knows who runs before whom: only names are checked. */
const unknownGraph: StepGraph = {
  isBefore: () => true,
  isInside: () => true,
  outermost: () => undefined,
  repeats: () => true,
};

type Between = {
  readonly problems: readonly Problem[];
  readonly graph?: ValidGraph;
  readonly expressions: ReadonlyMap<string, StepExpressions>;
};

function* readBetween(steps: ReadonlyMap<string, StepDefinition>, work: Work): Sliced<Between> {
  const reading = yield* readGraph(steps, work);
  const problems: Problem[] = reading.kind === "invalid" ? [...reading.problems] : [];
  const graph = reading.kind === "graph" ? reading.graph : unknownGraph;
  const writers = writersIn(steps);
  const expressions = new Map<string, StepExpressions>();
  for (const step of steps.values()) {
    const read = yield* readExpressions(step, { repeats: graph.repeats(step.id), work });
    expressions.set(step.id, read);
    for (const expression of Object.values(read).flat()) {
      const found = yield* problemsOfReads({ id: step.id, steps, graph, writers }, expression, work);
      for (const problem of found) problems.push(problem);
    }
    if (isTooMuch(work)) break;
  }
  return { problems, expressions, ...(reading.kind === "graph" ? { graph: reading.graph } : {}) };
}
