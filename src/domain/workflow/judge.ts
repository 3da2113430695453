// Judges a definition as it was sent: reads its text, compares whose it says it is, and gives all that saving it needs.
import { isUtf8 } from "node:buffer";
import { excerptOf } from "../excerpt.ts";
import type { JsonValue } from "../fingerprint.ts";
import type { WorkflowLimits } from "../gates.ts";
import { atOnce, beyondLimits, readingLimits } from "../slices.ts";
import { readJson } from "../strict-json.ts";
import { type TenantId, tenantNames } from "../tenant.ts";
import type { Problem } from "./compiled.ts";
import { definitionBytesMax, definitionHash, definitionText, readDefinition } from "./definition.ts";
import { type Fields, isFields } from "./fields.ts";
import { limitsIn, namedGatesIn } from "./flow-control.ts";
import { stepPath } from "./step-links.ts";
import { type LocatedProblem, readYaml, type TextPosition } from "./yaml-text.ts";

/** As a request brings it: nobody has looked into it yet. */
export type DefinitionText = { readonly bytes: Uint8Array; readonly format: "json" | "yaml" };

export type SentDefinition = JsonValue | DefinitionText;

export type Verdict =
  | {
      readonly kind: "valid";
      readonly id: string;
      /** The id stands in what was sent. */
      readonly isNamed: boolean;
      /** What is stored, with the id. */
      readonly text: string;
      readonly hash: string;
      readonly steps: number;
      /** The workflows that its steps run, and where they are named. */
      readonly runs: ReadonlyArray<{ readonly workflow: string } & ProblemPosition>;
      /** The gates that it shares with other workflows, and where they are named. */
      readonly namedGates: ReadonlyArray<{ readonly name: string } & ProblemPosition>;
      readonly limits: WorkflowLimits;
      readonly count: number;
    }
  | Refused;

/** Each by its error code. */
type Refused =
  | { readonly kind: "workflow_invalid"; readonly problems: readonly LocatedProblem[] }
  /** Reading it takes more work than is allowed, the same on every machine. */
  | { readonly kind: "workflow_too_costly"; readonly problems: readonly LocatedProblem[] }
  /** Not JSON or YAML, or beyond what bodies may hold. */
  | {
      readonly kind: "invalid_request";
      readonly detail: string;
      readonly problems?: readonly LocatedProblem[];
    }
  | { readonly kind: "tenant_mismatch"; readonly detail: string };

type ProblemPosition = { readonly path: string } & Partial<TextPosition>;

/** A definition has a quarter of it as compact JSON; the rest is for indentation and escapes. */
const textBytesMax = 4 * definitionBytesMax;

/** Refused without looking into it. */
export function tooLong(sent: SentDefinition): Verdict | undefined {
  if (!isText(sent) || sent.bytes.length <= textBytesMax) return undefined;
  const message = `a definition has at most ${definitionBytesMax} bytes; this text has ${sent.bytes.length}`;
  return { kind: "workflow_invalid", problems: [{ path: "", message }] };
}

export function newWorkflowId(token: string): string {
  return `wf-${token.slice(0, 20)}`;
}

type JudgeOptions = {
  readonly tenant: TenantId;
  /** For a definition that has none. */
  newId(): string;
};

export function judgeDefinition(sent: SentDefinition, { tenant, newId }: JudgeOptions): Verdict {
  const refused = tooLong(sent);
  if (refused !== undefined) return refused;
  const read = isText(sent) ? readText(sent) : { kind: "read" as const, value: sent, placeOf: placeUnknown };
  if (read.kind === "invalid_request") return read;
  const { value, placeOf } = read;
  const foreign = isText(sent) && isFields(value) ? foreignField(value, tenant) : undefined;
  if (foreign !== undefined) {
    return { kind: "tenant_mismatch", detail: `${foreign} names another tenant` };
  }
  const reading = readDefinition(value);
  if (reading.kind === "invalid") {
    const problems = reading.problems.map((problem) => shown(problem, placeOf));
    return { kind: reading.tooCostly ? "workflow_too_costly" : "workflow_invalid", problems };
  }
  const { definition, count } = reading;
  const id = definition.id ?? newId();
  // The id is part of what is stored: a run pinned to the definition knows its workflow by it.
  const text = definitionText({ ...(value as Fields), id });
  const runs = [...definition.steps.values()].flatMap((step) => {
    if (step.subworkflow === undefined) return [];
    const path = `${stepPath(step.id)}.input.workflow_id`;
    return [{ workflow: step.subworkflow.workflow, path, ...placeOf(path) }];
  });
  const namedGates = namedGatesIn(definition.flowControl).map((gate) => ({ ...gate, ...placeOf(gate.path) }));
  const limits = limitsIn(definition.flowControl);
  const hash = definitionHash(text);
  const isNamed = definition.id !== undefined;
  const found = { runs, namedGates, limits, count };
  return { kind: "valid", id, isNamed, text, hash, steps: definition.steps.size, ...found };
}

function isText(sent: SentDefinition): sent is DefinitionText {
  return isFields(sent as JsonValue) && (sent as Partial<DefinitionText>).bytes instanceof Uint8Array;
}

type PlaceOf = (path: string) => TextPosition | undefined;
const placeUnknown: PlaceOf = () => undefined;

type Read =
  | { readonly kind: "read"; readonly value: JsonValue; readonly placeOf: PlaceOf }
  | (Verdict & { readonly kind: "invalid_request" });

/** No text at all counts as an empty object: what it lacks is then named field by field. */
function readText({ bytes, format }: DefinitionText): Read {
  if (bytes.length === 0) return { kind: "read", value: {}, placeOf: placeUnknown };
  if (!isUtf8(bytes)) return { kind: "invalid_request", detail: "the body is not UTF-8" };
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");
  const read = format === "yaml" ? readYamlText(text) : readJsonText(text);
  if (read.kind === "invalid_request") return read;
  const beyond = atOnce(beyondLimits(read.value));
  return beyond === undefined ? read : { kind: "invalid_request", detail: beyond };
}

function readJsonText(text: string): Read {
  const reading = readJson(text, readingLimits);
  if (reading.kind === "json") return { kind: "read", value: reading.value, placeOf: placeUnknown };
  const detail = reading.kind === "beyond" ? reading.why : `the body is not valid JSON: ${reading.why}`;
  return { kind: "invalid_request", detail };
}

function readYamlText(text: string): Read {
  const reading = readYaml(text);
  if (reading.kind === "yaml") return { kind: "read", value: reading.value, placeOf: reading.placeOf };
  const { problems } = reading;
  const [first] = problems;
  const place = first?.line === undefined ? "" : ` (line ${first.line}, column ${first.column})`;
  return {
    kind: "invalid_request",
    detail: `the body is not valid YAML: ${first?.message}${place}`,
    problems,
  };
}

/** The tenant comes from the key: whatever else names one must name the same. */
function foreignField(fields: Fields, tenant: TenantId): string | undefined {
  return tenantNames.find((name) => Object.hasOwn(fields, name) && fields[name] !== tenant);
}

/** Names may be as long as the definition; an answer need not repeat all of it. */
function shown({ path, message }: Problem, placeOf: PlaceOf): LocatedProblem {
  return { path: excerptOf(path, 600), message: excerptOf(message, 600), ...placeOf(path) };
}
