// Reads YAML 1.2 so that it says exactly what JSON can say, and knows where in the text each part was written.
import { Composer, type Document, Lexer, LineCounter, type ParsedNode, Parser } from "yaml";
import { excerptOf } from "../excerpt.ts";
import type { JsonValue } from "../fingerprint.ts";
import type { Problem } from "./compiled.ts";
import { findNode, type YamlTargets, yamlDepthMax, yamlValue } from "./yaml-value.ts";

/** Counted from 1. */
export type TextPosition = { readonly line: number; readonly column: number };

/** A problem that is also known by its place in the text. */
export type LocatedProblem = Problem & Partial<TextPosition>;

type YamlReading =
  | {
      readonly kind: "yaml";
      readonly value: JsonValue;
      /** Where a place such as `steps.review.topic` was written; of what is missing, where it belongs. */
      placeOf(path: string): TextPosition | undefined;
    }
  | { readonly kind: "invalid"; readonly problems: readonly LocatedProblem[] };

/** As many as a definition may have as JSON. */
export const yamlBytesMax = 262_144;

/** Reading takes 5 us a token, whatever the text. Ordinary definitions have up to 94,000 in their 256 KiB. */
const tokensMax = 100_000;

const problemsMax = 20;

export function readYaml(text: string): YamlReading {
  const bytes = Buffer.byteLength(text);
  if (bytes > yamlBytesMax) {
    const message = `a text in YAML has at most ${yamlBytesMax} bytes, not ${bytes}`;
    return { kind: "invalid", problems: [{ path: "", message }] };
  }
  const lines = new LineCounter();
  const place = (offset: number): TextPosition => {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(1, line), column: Math.max(1, col) };
  };
  const invalid = (problems: readonly Found[]): YamlReading => ({
    kind: "invalid",
    problems: problems.slice(0, problemsMax).map(({ message, offset }) => ({
      path: "",
      message: excerptOf(message, 200),
      ...place(offset),
    })),
  });
  const tokens = readTokens(text, lines);
  if (tokens.kind === "invalid") return invalid([tokens]);
  const composed = withoutStackTraces(() => compose(tokens.tokens, text.length));
  if (composed.kind === "invalid") return invalid(composed.found);
  const { value, found, targets } = yamlValue(composed.contents, yamlBytesMax);
  if (found.length > 0) return invalid(found);
  return { kind: "yaml", value, placeOf: (path) => pathIn(composed.contents, targets, path, place) };
}

/** What is wrong, and at which character. */
export type Found = { readonly message: string; readonly offset: number };

function pathIn(
  contents: ParsedNode | null,
  targets: YamlTargets,
  path: string,
  place: (offset: number) => TextPosition,
): TextPosition | undefined {
  const offset = findNode(contents, targets, path);
  return offset === undefined ? undefined : place(offset);
}

type Token = ReturnType<Parser["next"]> extends Generator<infer Made> ? Made : never;

/**
 * Tokens are counted and their depth is measured before anything is made of them: the library composes by recursion, and
 * 100,000 brackets would end the whole process.
 */
function readTokens(
  text: string,
  lines: LineCounter,
): { readonly kind: "tokens"; readonly tokens: readonly Token[] } | ({ readonly kind: "invalid" } & Found) {
  const parser = new Parser(lines.addNewLine);
  lines.addNewLine(0);
  const tokens: Token[] = [];
  let count = 0;
  let brackets = 0;
  for (const lexeme of new Lexer().lex(text)) {
    count += 1;
    const { offset } = parser;
    if (count > tokensMax) {
      const message = `the text has too many parts, more than ${tokensMax}: send it as JSON`;
      return { kind: "invalid", message, offset };
    }
    if (lexeme === "[" || lexeme === "{") brackets += 1;
    else if (lexeme === "]" || lexeme === "}") brackets -= 1;
    if (brackets > tokenDepthMax) return { kind: "invalid", message: tooDeep, offset };
    tokens.push(...parser.next(lexeme));
    if (tokens.at(-1)?.type === "error") break;
  }
  tokens.push(...parser.end());
  const deep = firstBeyondDepth(tokens);
  if (deep === undefined) return { kind: "tokens", tokens };
  return { kind: "invalid", message: tooDeep, offset: deep };
}

const tooDeep = `nested deeper than ${yamlDepthMax}`;

/** As much of a token as its depth takes. */
type Nested = {
  readonly offset?: number;
  readonly value?: unknown;
  readonly items?: ReadonlyArray<{ readonly key?: unknown; readonly value?: unknown }>;
};

/** A few levels more than values may have: documents and keys count here, and the last word is that of the values. */
const tokenDepthMax = yamlDepthMax + 8;

function firstBeyondDepth(tokens: readonly Token[]): number | undefined {
  const open = tokens.map((token) => ({ token: token as Nested, depth: 0 }));
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { token, depth } = next;
    if (depth > tokenDepthMax) return token.offset ?? 0;
    const inner = [token.value, ...(token.items ?? []).flatMap(({ key, value }) => [key, value])];
    for (const one of inner) {
      if (typeof one === "object" && one !== null) open.push({ token: one, depth: depth + 1 });
    }
  }
  return undefined;
}

/**
 * The library makes an Error of everything that is wrong, and their stack traces would be seven eighths of the cost: 90,000
 * commas take 0.1 s instead of 0.8 s. Nothing else runs meanwhile.
 */
function withoutStackTraces<Value>(work: () => Value): Value {
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = 0;
  try {
    return work();
  } finally {
    Error.stackTraceLimit = limit;
  }
}

type Composed =
  | { readonly kind: "composed"; readonly contents: ParsedNode | null }
  | { readonly kind: "invalid"; readonly found: readonly Found[] };

function compose(tokens: readonly Token[], length: number): Composed {
  const composer = new Composer<ParsedNode>({
    version: "1.2",
    schema: "core",
    merge: false,
    resolveKnownTags: false,
    stringKeys: true,
    // Compared pair by pair there, which takes seconds for 50,000 keys.
    uniqueKeys: false,
    prettyErrors: false,
    logLevel: "silent",
  });
  const documents: Document.Parsed<ParsedNode>[] = [];
  for (const document of composer.compose(tokens, true, length)) {
    documents.push(document);
    if (documents.length > 1) {
      return {
        kind: "invalid",
        found: [{ message: "only one document is read", offset: document.range[0] }],
      };
    }
  }
  const [document] = documents;
  if (document === undefined) return { kind: "composed", contents: null };
  const found: Found[] = [...document.errors, ...document.warnings].map(({ code, message, pos }) => ({
    message: code === "NON_STRING_KEY" ? "a name must be a text" : message,
    offset: pos[0],
  }));
  if (document.directives.yaml.explicit === true && document.directives.yaml.version !== "1.2") {
    found.push({ message: "only YAML 1.2 is read", offset: 0 });
  }
  return found.length > 0 ? { kind: "invalid", found } : { kind: "composed", contents: document.contents };
}
