// Conditions in CEL, and JSON values whose texts hold `${...}` templates, ready to be evaluated; evaluation never throws.
import type { JsonValue } from "../fingerprint.ts";
import { atOnce, type Sliced } from "../slices.ts";
import type { Frame } from "./cel-evaluate.ts";
import {
  type Cel,
  itemsBytesMax,
  newOutput,
  type Output,
  readCel,
  takeBytes,
  takeName,
  toJson,
} from "./cel-language.ts";
import { kindOf, type Value } from "./cel-operations.ts";
import type { Reference } from "./cel-references.ts";
import type { Allowance, Evaluation, Problem, Scope } from "./compiled.ts";
import { type Fields, isFields, pathIn } from "./fields.ts";
import {
  charge,
  chargeWork,
  Failure,
  newBudget,
  newWork,
  pause,
  resultBytesMax,
  spend,
  type Work,
} from "./work-count.ts";

type ParsedExpression = {
  readonly source: string;
  readonly references: readonly LocatedReference[];
  evaluate(scope: Scope, work?: Allowance): Evaluation;
};

/** What is read, and in which text of the definition. */
export type LocatedReference = { readonly path: string; readonly reference: Reference };

export type ExpressionReading =
  | { readonly kind: "expression"; readonly expression: ParsedExpression }
  | { readonly kind: "invalid"; readonly problems: readonly Problem[] };

/** A condition may be written bare or as one whole template. It gives true or false; anything else is a failure. */
export function readCondition(text: string, path: string): ExpressionReading {
  return readText(text, path, {
    misfit: (type) =>
      type === "bool" ? undefined : `a condition gives true or false, this one gives ${type}`,
    answer: (value) =>
      typeof value === "boolean"
        ? { kind: "value", value }
        : { kind: "failed", message: `the condition gives ${kindOf(value)} instead of true or false` },
  });
}

/** What a switch compares with its cases: any value, but one that is there. */
export function readValue(text: string, path: string): ExpressionReading {
  return readText(text, path, {
    misfit: () => undefined,
    answer: (value, { output }) => ({ kind: "value", value: toJson(output, value, 0) }),
  });
}

/** What a `for_each` goes over: a list; anything else is a failure. */
export function readItems(text: string, path: string): ExpressionReading {
  return readText(text, path, {
    misfit: (type) =>
      type.startsWith("list") ? undefined : `for_each goes over a list, this one gives ${type}`,
    answer: (value, { output }) =>
      Array.isArray(value)
        ? { kind: "value", value: toJson(output, value, 0) }
        : { kind: "failed", message: `for_each goes over a list, not over ${kindOf(value)}` },
    resultBytesMax: itemsBytesMax,
  });
}

type TextUse = {
  /** What is wrong with a type that is known beforehand. */
  misfit(type: string): string | undefined;
  answer(value: Value, frame: OutputFrame): Evaluation;
  readonly resultBytesMax?: number;
};

function readText(text: string, path: string, use: TextUse): ExpressionReading {
  const reading = readCel(unwrapped(text));
  if (reading.kind === "invalid") return { kind: "invalid", problems: [{ path, message: reading.message }] };
  const { cel } = reading;
  const message = cel.type === "dyn" ? undefined : use.misfit(cel.type);
  if (message !== undefined) return { kind: "invalid", problems: [{ path, message }] };
  const evaluate = (scope: Scope, work?: Allowance) =>
    attempt(newFrame(scope, use.resultBytesMax), work, (frame) => {
      const value = run(cel, frame);
      if (value === undefined) return { kind: "failed", message: `${cel.source.trim()} is not there` };
      return use.answer(value, frame);
    });
  const references = cel.references.map((reference) => ({ path, reference }));
  return { kind: "expression", expression: { source: text, references, evaluate } };
}

/**
 * A text that is one template keeps the type of its value. Inside a longer text values are written out (objects as JSON).
 * A template that gives null or reads a plain path that is not there gives nothing: its key is dropped, in a list it
 * becomes null. That holds for longer texts too, because half a text ("rm -r /data/") is worse than none.
 */
export function readTemplates(value: JsonValue, path: string): ExpressionReading {
  return atOnce(readingTemplates(value, path, newWork()));
}

export function* readingTemplates(value: JsonValue, path: string, work: Work): Sliced<ExpressionReading> {
  const found: Found = { problems: [], references: [], work };
  const template = yield* parseTemplate(value, path, found);
  if (found.problems.length > 0) return { kind: "invalid", problems: found.problems };
  const evaluate = (scope: Scope, work?: Allowance) =>
    attempt(newFrame(scope), work, (frame) => give(template, frame));
  const source = JSON.stringify(value);
  return { kind: "expression", expression: { source, references: found.references, evaluate } };
}

function unwrapped(text: string): string {
  const cut = splitTemplates(text.trim());
  if (cut.kind === "invalid" || cut.parts.length !== 1) return text;
  const [part] = cut.parts;
  return part?.kind === "template" ? part.source : text;
}

/** One budget for a whole value, however many templates it holds. */
function newFrame(scope: Scope, bytesMax = resultBytesMax): Frame & { readonly output: Output } {
  return { scope, budget: newBudget(), variables: [], output: newOutput(bytesMax) };
}

type OutputFrame = ReturnType<typeof newFrame>;

function attempt(
  frame: OutputFrame,
  work: Allowance | undefined,
  evaluate: (frame: OutputFrame) => Evaluation,
): Evaluation {
  try {
    return evaluate(frame);
  } catch (failure) {
    if (failure instanceof Failure) return { kind: "failed", message: failure.message };
    // The stack or the memory gave out: bounded by the limits above, but a run must not break by it.
    return {
      kind: "failed",
      message: failure instanceof Error ? failure.message : "the evaluation broke off",
    };
  } finally {
    const { bytesMax, bytesLeft } = frame.output;
    if (work !== undefined) chargeWork(work, frame.budget, bytesMax - Math.max(0, bytesLeft));
  }
}

/** Every part of an expression is evaluated once, but for those that a comprehension repeats and charges itself. */
function run(cel: Cel, frame: Frame): Value | undefined {
  charge(frame.budget, cel.nodes);
  return cel.run(frame);
}

type Template =
  | { readonly kind: "literal"; readonly value: JsonValue; readonly bytes: number }
  | { readonly kind: "cel"; readonly cel: Cel }
  | { readonly kind: "text"; readonly parts: readonly (string | Cel)[] }
  | { readonly kind: "list"; readonly items: readonly Template[] }
  | { readonly kind: "object"; readonly entries: readonly (readonly [string, Template])[] };

type Found = { readonly problems: Problem[]; readonly references: LocatedReference[]; readonly work: Work };

function* parseTemplate(value: JsonValue, path: string, found: Found): Sliced<Template> {
  if (typeof value === "string") return yield* parseText(value, path, found);
  if (value === null || typeof value !== "object") return literal(value);
  spend(found.work, "expressions", 1);
  yield* pause(found.work);
  return isFields(value) ? yield* parseObject(value, path, found) : yield* parseList(value, path, found);
}

function* parseList(values: readonly JsonValue[], path: string, found: Found): Sliced<Template> {
  const items: Template[] = [];
  for (const [index, item] of values.entries()) {
    items.push(yield* parseTemplate(item, `${path}[${index}]`, found));
    spend(found.work, "expressions", 0.5);
    if (index % 1_000 === 999) yield* pause(found.work);
  }
  const literals = items.filter((item) => item.kind === "literal");
  if (literals.length < items.length) return { kind: "list", items };
  const bytes = literals.reduce((sum, item) => sum + item.bytes + 1, 1);
  return { kind: "literal", value: literals.map((item) => item.value), bytes: Math.max(2, bytes) };
}

function* parseObject(value: Fields, path: string, found: Found): Sliced<Template> {
  const entries: (readonly [string, Template])[] = [];
  for (const [name, member] of Object.entries(value)) {
    const place = pathIn(path, name);
    if (name === "__proto__") found.problems.push({ path: place, message: "this name is not allowed" });
    entries.push([name, yield* parseTemplate(member, place, found)]);
    spend(found.work, "expressions", 1);
  }
  const literals = entries.flatMap(([name, member]) => (member.kind === "literal" ? [{ name, member }] : []));
  if (literals.length < entries.length) return { kind: "object", entries };
  const bytes = literals.reduce((sum, { name, member }) => sum + bytesOf(name) + member.bytes + 2, 1);
  // Not the value itself: its texts may hold escapes.
  const filled = Object.fromEntries(literals.map(({ name, member }) => [name, member.value]));
  return { kind: "literal", value: filled, bytes: Math.max(2, bytes) };
}

function literal(value: JsonValue): Template {
  return { kind: "literal", value, bytes: bytesOf(value) };
}

const bytesOf = (value: JsonValue): number => Buffer.byteLength(JSON.stringify(value));

/** A text without templates is only looked through. */
const textCost = (text: string): number => text.length / 16;

function* parseText(text: string, path: string, found: Found): Sliced<Template> {
  const { problems, references, work } = found;
  spend(work, "expressions", textCost(text));
  const cut = splitTemplates(text);
  if (cut.kind === "invalid") {
    problems.push({ path, message: cut.message });
    return literal(text);
  }
  const parts: (string | Cel)[] = [];
  for (const part of cut.parts) {
    if (part.kind === "text") {
      parts.push(part.text);
      continue;
    }
    const reading = readCel(part.source);
    spend(work, "expressions", celCost(part.source));
    yield* pause(work);
    if (reading.kind === "invalid") problems.push({ path, message: reading.message });
    else for (const reference of reading.cel.references) references.push({ path, reference });
    parts.push(reading.kind === "invalid" ? "" : reading.cel);
  }
  const [only, ...others] = parts;
  if (only === undefined || others.length > 0) return { kind: "text", parts };
  return typeof only === "string" ? literal(only) : { kind: "cel", cel: only };
}

/** Measured with 250 KiB of the costliest: 1 us a character, and 2 us for each expression. */
export const celCost = (source: string): number => 2 + source.length;

function give(template: Template, frame: OutputFrame): Evaluation {
  const value = fill(template, frame, 0);
  return value === undefined ? { kind: "nothing" } : { kind: "value", value };
}

function fill(template: Template, frame: OutputFrame, depth: number): JsonValue | undefined {
  switch (template.kind) {
    case "literal":
      takeBytes(frame.output, template.bytes);
      return template.value;
    case "cel": {
      const value = run(template.cel, frame);
      return value === undefined || value === null ? undefined : toJson(frame.output, value, depth);
    }
    case "text":
      return fillText(template.parts, frame, depth);
    case "list":
      takeBytes(frame.output, 2 + template.items.length);
      return template.items.map((item) => fill(item, frame, depth + 1) ?? null);
    case "object":
      return fillObject(template.entries, frame, depth);
  }
}

function fillObject(
  entries: Extract<Template, { kind: "object" }>["entries"],
  frame: OutputFrame,
  depth: number,
): JsonValue {
  takeBytes(frame.output, 2);
  const filled: [string, JsonValue][] = [];
  for (const [name, member] of entries) {
    const value = fill(member, frame, depth + 1);
    if (value === undefined) continue;
    takeName(frame.output, name);
    filled.push([name, value]);
  }
  return Object.fromEntries(filled);
}

function fillText(parts: readonly (string | Cel)[], frame: OutputFrame, depth: number): string | undefined {
  let text = "";
  for (const part of parts) {
    if (typeof part === "string") {
      takeBytes(frame.output, Buffer.byteLength(part));
      text += part;
      continue;
    }
    const value = run(part, frame);
    if (value === undefined || value === null) return undefined;
    const json = toJson(frame.output, value, depth);
    text += typeof json === "string" ? json : JSON.stringify(json);
  }
  return text;
}

type TextPart =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "template"; readonly source: string };

type TextReading =
  | { readonly kind: "parts"; readonly parts: readonly TextPart[] }
  | { readonly kind: "invalid"; readonly message: string };

function splitTemplates(text: string): TextReading {
  const parts: TextPart[] = [];
  let literal = "";
  let at = 0;
  while (at < text.length) {
    const next = text.indexOf("${", at);
    if (next === -1) break;
    if (next > at && text[next - 1] === "$") {
      literal += `${text.slice(at, next - 1)}\${`;
      at = next + 2;
      continue;
    }
    const end = templateEnd(text, next + 2);
    if (end === undefined) {
      return {
        kind: "invalid",
        message: `the template that starts at character ${next + 1} has no closing brace`,
      };
    }
    literal += text.slice(at, next);
    if (literal !== "") parts.push({ kind: "text", text: literal });
    literal = "";
    parts.push({ kind: "template", source: text.slice(next + 2, end) });
    at = end + 1;
  }
  literal += text.slice(at);
  if (literal !== "" || parts.length === 0) parts.push({ kind: "text", text: literal });
  return { kind: "parts", parts };
}

/** Where the brace stands that closes a template: braces inside quotes, comments and object literals do not count. */
function templateEnd(text: string, start: number): number | undefined {
  let open = 1;
  let at = start;
  while (at < text.length) {
    const character = text[at];
    if (character === '"' || character === "'") {
      at = quoteEnd(text, at);
      continue;
    }
    if (character === "/" && text[at + 1] === "/") {
      const lineEnd = text.indexOf("\n", at);
      if (lineEnd === -1) return undefined;
      at = lineEnd;
    } else if (character === "{") {
      open += 1;
    } else if (character === "}") {
      open -= 1;
      if (open === 0) return at;
    }
    at += 1;
  }
  return undefined;
}

/** The place after a quoted text, which may be in triple quotes; a backslash always covers the next character. */
function quoteEnd(text: string, start: number): number {
  const quote = text.slice(start, start + 1);
  const closing = text.startsWith(quote.repeat(3), start) ? quote.repeat(3) : quote;
  let at = start + closing.length;
  while (at < text.length) {
    if (text.startsWith(closing, at)) return at + closing.length;
    at += text[at] === "\\" ? 2 : 1;
  }
  return text.length;
}
