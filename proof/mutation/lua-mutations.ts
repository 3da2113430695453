// The mutations of a Lua script: one small change each, of a comparison, a constant, a text, a condition, a write or a return.

import { lineFinder, type Mutation } from "./mutation.ts";

/** In the order in which survivors are looked at: what a dropped write breaks is seldom harmless. */
export const luaKinds = [
  "write dropped",
  "return removed",
  "condition negated",
  "comparison changed",
  "and or",
  "arguments swapped",
  "constant changed",
  "text changed",
] as const;
type MutationKind = (typeof luaKinds)[number];

type Token = { readonly text: string; readonly from: number; readonly to: number };

const tokenPattern =
  /--\[\[[\s\S]*?\]\]|--[^\n]*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[A-Za-z_]\w*|\d[\d.]*|\.\.\.?|[=~<>]=|[^\s\w]/g;

function tokensOf(source: string): Token[] {
  const body = source.startsWith("#!") ? source.indexOf("\n") : 0;
  return [...source.matchAll(tokenPattern)]
    .filter(({ 0: text, index }) => index >= body && !text.startsWith("--"))
    .map(({ 0: text, index }) => ({ text, from: index, to: index + text.length }));
}

export function luaMutations(file: string, source: string): readonly Mutation[] {
  const lineAt = lineFinder(source);
  const tokens = tokensOf(source);
  const found: Mutation[] = [];
  const add = (kind: MutationKind, first: Token, to: number, text: string) => {
    found.push({ file, kind, line: lineAt(first.from), from: first.from, to, text });
  };
  for (const [at, token] of tokens.entries()) {
    for (const text of comparisons[token.text] ?? []) add("comparison changed", token, token.to, text);
    if (token.text === "and") add("and or", token, token.to, "or");
    if (token.text === "or") add("and or", token, token.to, "and");
    for (const text of otherNumbers(token.text)) add("constant changed", token, token.to, text);
    if (isMeaningful(tokens, at)) add("text changed", token, token.to, `${token.text.slice(0, -1)}~"`);
    if (token.text === "if" || token.text === "elseif") {
      const then = tokens[closing(tokens, at + 1, ["then"])] as Token;
      const condition = source.slice(token.to, then.from).trim();
      add("condition negated", token, then.from, `${token.text} not (${condition}) `);
    }
    const end = statementEnd(tokens, at);
    const isReturn = token.text === "return" && tokens[at - 1]?.text === "then";
    if (end !== undefined) add(isReturn ? "return removed" : "write dropped", token, end, "");
    const swapped = swappedArguments(source, tokens, at);
    if (swapped !== undefined) add("arguments swapped", swapped.first, swapped.to, swapped.text);
  }
  return found;
}

/** Over the edge by one, and the other way round. */
const comparisons: Readonly<Record<string, readonly string[]>> = {
  "<": ["<=", ">="],
  "<=": ["<", ">"],
  ">": [">=", "<="],
  ">=": [">", "<"],
  "==": ["~="],
  "~=": ["=="],
};

function otherNumbers(text: string): readonly string[] {
  if (!/^\d+$/.test(text)) return [];
  const next = String(BigInt(text) + 1n);
  return text === "0" || text === "1" ? [next] : [next, "0"];
}

/**
 * Key parts, status words, fields and kinds. Names of commands and their options, patterns and formats break a script at once: what
 * they are is no decision.
 */
function isMeaningful(tokens: readonly Token[], at: number): boolean {
  const { text } = tokens[at] as Token;
  if (!/^".+"$/.test(text) || /[%^$\\]/.test(text) || /^"[A-Z]+"$/.test(text)) return false;
  return !["-inf", "+inf", "("].includes(text.slice(1, -1));
}

const writeCommands = /^"(SET|DEL|UNLINK|HSET|HDEL|ZADD|ZREM|RPUSH|LTRIM|LSET|XADD|PEXPIRE|XTRIM)"$/;

/** Where the statement ends that begins here, if it is a write or an early return. */
function statementEnd(tokens: readonly Token[], at: number): number | undefined {
  const text = (ahead: number) => tokens[at + ahead]?.text ?? "";
  const begins = beginsStatement(tokens, at);
  if (text(0) === "return" && text(-1) === "then") {
    return tokens[closing(tokens, at + 1, ["end", "else", "elseif"])]?.from;
  }
  if (!begins) return undefined;
  if (text(0) === "redis" && text(2) === "call" && (writeCommands.test(text(4)) || text(4) === "unpack")) {
    return tokens[closing(tokens, at + 4, [")"])]?.to;
  }
  // list[#list + 1] = { ... }
  const isAppended = text(1) === "[" && text(2) === "#" && text(3) === text(0) && text(7) === "=";
  if (!isAppended) return undefined;
  if (text(8) === "{") return tokens[closing(tokens, at + 9, ["}"])]?.to;
  return endOfLine(tokens, at + 8);
}

/** For values that are no table: they end where the next statement begins, or the block. */
function endOfLine(tokens: readonly Token[], from: number): number | undefined {
  let depth = 0;
  for (let at = from; at < tokens.length; at += 1) {
    const { text } = tokens[at] as Token;
    if (["(", "{", "["].includes(text)) depth += 1;
    if ([")", "}", "]"].includes(text)) depth -= 1;
    if (depth === 0 && at > from && beginsStatement(tokens, at)) return tokens[at - 1]?.to;
    if (depth === 0 && ["end", "else", "elseif"].includes(text)) return tokens[at - 1]?.to;
  }
  return tokens.at(-1)?.to;
}

const operators = [
  "=",
  "(",
  ",",
  "return",
  "and",
  "or",
  "not",
  "{",
  "..",
  "+",
  "-",
  "*",
  "/",
  "[",
  "#",
  ".",
  ":",
  "in",
];
const openers = ["then", "do", "else", "end", "repeat", ")", "}", "]", "break"];

function beginsStatement(tokens: readonly Token[], at: number): boolean {
  const before = tokens[at - 1]?.text;
  const { text } = tokens[at] as Token;
  if (!/^[A-Za-z_]/.test(text) || ["and", "or", "then", "do", "end", "not"].includes(text)) return false;
  if (before === undefined || openers.includes(before)) return true;
  if (
    operators.includes(before) ||
    ["<", ">", "<=", ">=", "==", "~=", "if", "elseif", "while", "until", "local", "function", "for"].includes(
      before,
    )
  )
    return false;
  return true;
}

/** The index of the first of these that is not inside brackets or blocks which open later. */
function closing(tokens: readonly Token[], from: number, ends: readonly string[]): number {
  let depth = 0;
  for (let at = from; at < tokens.length; at += 1) {
    const { text } = tokens[at] as Token;
    if (depth === 0 && ends.includes(text)) return at;
    if (["(", "{", "[", "function", "do", "repeat"].includes(text) || text === "if") depth += 1;
    if ([")", "}", "]", "end", "until"].includes(text)) depth -= 1;
  }
  return tokens.length - 1;
}

/** The last two arguments of a call to Redis with at least three: score and member, field and value, first and last. */
function swappedArguments(source: string, tokens: readonly Token[], at: number) {
  const text = (ahead: number) => tokens[at + ahead]?.text ?? "";
  if (text(0) !== "redis" || text(2) !== "call" || text(3) !== "(") return undefined;
  const parts: { first: number; last: number }[] = [];
  let first = at + 4;
  for (let end = first; ; ) {
    end = closing(tokens, first, [",", ")"]);
    parts.push({ first, last: end - 1 });
    if (tokens[end]?.text !== ",") break;
    first = end + 1;
  }
  const [left, right] = parts.slice(-2);
  if (parts.length < 4 || left === undefined || right === undefined) return undefined;
  const slice = (part: typeof left) =>
    source.slice((tokens[part.first] as Token).from, (tokens[part.last] as Token).to);
  if (slice(left) === slice(right)) return undefined;
  const [start, end] = [tokens[left.first] as Token, tokens[right.last] as Token];
  const between = source.slice((tokens[left.last] as Token).to, (tokens[right.first] as Token).from);
  return { first: start, to: end.to, text: slice(right) + between + slice(left) };
}
