// Reads a history from a file of JSON lines, and says which line is not one of its records.
import { readFileSync } from "node:fs";
import { assembleHistory, type History } from "./history.ts";
import type { HistoryRecord } from "./record.ts";

export type ReadHistory =
  | { readonly kind: "history"; readonly history: History }
  | { readonly kind: "unreadable"; readonly line: number; readonly problem: string };

export function readHistory(path: string): ReadHistory {
  return parseHistory(readFileSync(path));
}

const lineEnd = 0x0a;

/** Line by line out of the bytes: a history may be larger than the longest text. */
export function parseHistory(bytes: Buffer): ReadHistory {
  const records: HistoryRecord[] = [];
  const lines: number[] = [];
  for (let from = 0, line = 1; from < bytes.length; line += 1) {
    const found = bytes.indexOf(lineEnd, from);
    const to = found === -1 ? bytes.length : found;
    const text = bytes.toString("utf8", from, to).trim();
    from = to + 1;
    if (text === "") continue;
    const parsed = parseRecord(text);
    if (typeof parsed === "string") return { kind: "unreadable", line, problem: parsed };
    records.push(parsed);
    lines.push(line);
  }
  const assembled = assembleHistory(records);
  if (assembled.kind === "history") return assembled;
  return { kind: "unreadable", line: lines[assembled.place] ?? 1, problem: assembled.problem };
}

/** The record, or what is wrong with it. */
function parseRecord(text: string): HistoryRecord | string {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return "not JSON";
  }
  return problemOfRecord(value) ?? (value as HistoryRecord);
}

type Plain = "text" | "number" | "boolean" | "optional text" | "optional number" | "numbers" | "texts";
type Shape = Plain | Variants | { readonly listOf: Fields | "text" };
type Fields = Readonly<Record<string, Shape>>;
/** Its field `by` says which fields it has besides. */
type Variants = { readonly by: string; readonly are: Readonly<Record<string, Fields>> };

const job = { jobId: "text", runId: "text", step: "text", attempt: "number" } as const;

const answer: Variants = {
  by: "kind",
  are: {
    run: { runId: "text", replayed: "boolean" },
    status: { status: "text" },
    decided: { decision: "text" },
    claimed: { jobs: { listOf: job } },
    report: { outcome: "text" },
    lock: { fence: "number" },
    set: { elements: { listOf: "text" } },
    done: {},
  },
};

const operation: Variants = {
  by: "operation",
  are: {
    start: {
      tenant: "text",
      workflow: "text",
      key: "optional text",
      fingerprint: "text",
      gates: "optional text",
    },
    cancel: { tenant: "text", runId: "text" },
    get: { tenant: "text", runId: "text" },
    set_limit: { tenant: "text", limit: "number" },
    decide: { tenant: "text", approvalId: "text", decision: "text", by: "text" },
    claim: { tenant: "text", worker: "text" },
    report: { tenant: "text", jobId: "text", nonce: "text", status: "optional text" },
    acquire: { tenant: "text", lock: "text", ttlMs: "optional number" },
    release: { tenant: "text", lock: "text", fence: "number" },
    read_set: { set: "text" },
  },
};

const final: Variants = {
  by: "of",
  are: {
    run: {
      tenant: "text",
      runId: "text",
      status: "text",
      completed: { listOf: "text" },
      nonces: "texts",
    },
    key: { tenant: "text", key: "text", runId: "text" },
    approval: { tenant: "text", approvalId: "text", state: "text" },
    set: { set: "text", elements: { listOf: "text" } },
    tenant: { tenant: "text", activeRuns: "number", queued: "optional number" },
    dead_letters: { tenant: "text", count: "number" },
  },
};

const completed = { id: "text", atUs: "number" } as const;

const record: Variants = {
  by: "type",
  are: {
    begin: {
      format: "number",
      startedAt: "text",
      seed: "number",
      durability: "text",
      limits: "numbers",
      attemptsMax: "number",
    },
    invoke: { id: "text", client: "text", atUs: "number" },
    ok: { ...completed, answer },
    fail: { ...completed, code: "text" },
    unknown: { ...completed, code: "text" },
    fault: { name: "text", target: "text", phase: "text", atUs: "number" },
    effect: { worker: "text", jobId: "text", nonce: "text", phase: "text", atUs: "number" },
    write: {
      set: "text",
      fence: "number",
      writer: "text",
      element: "text",
      accepted: "boolean",
      atUs: "number",
    },
    final: {},
  },
};

/** Operations and final readings stand in the record itself. */
function problemOfRecord(value: unknown): string | undefined {
  const problem = problemOf(value, record);
  if (problem !== undefined) return problem;
  const { type, answer: told, format } = value as Readonly<Record<string, unknown>>;
  if (type === "invoke") return problemOf(value, operation);
  if (type === "final") return problemOf(value, final);
  if (type === "fail" && told !== undefined) return problemOf(told, answer);
  return type === "begin" && format !== 1 ? `format is ${JSON.stringify(format)}` : undefined;
}

function problemOf(value: unknown, { by, are }: Variants): string | undefined {
  if (typeof value !== "object" || value === null) return "not an object";
  const fields = value as Readonly<Record<string, unknown>>;
  const name = fields[by];
  if (typeof name !== "string" || !Object.hasOwn(are, name)) return `${by} is ${JSON.stringify(name)}`;
  return problemOfFields(fields, are[name] as Fields);
}

function problemOfFields(value: Readonly<Record<string, unknown>>, fields: Fields): string | undefined {
  for (const [name, shape] of Object.entries(fields)) {
    const problem = problemOfField(value[name], shape);
    if (problem !== undefined) return `${name}: ${problem}`;
  }
  return undefined;
}

function problemOfField(value: unknown, shape: Shape): string | undefined {
  if (typeof shape === "object") {
    return "by" in shape ? problemOf(value, shape) : problemOfList(value, shape.listOf);
  }
  return fits[shape](value) ? undefined : `${JSON.stringify(value)} is not what it must be (${shape})`;
}

const isText = (value: unknown) => typeof value === "string";
const isNumber = (value: unknown) => typeof value === "number";
const isMapOf = (value: unknown, fit: (item: unknown) => boolean) =>
  typeof value === "object" && value !== null && Object.values(value).every(fit);

const fits: Readonly<Record<Plain, (value: unknown) => boolean>> = {
  text: isText,
  number: isNumber,
  boolean: (value) => typeof value === "boolean",
  "optional text": (value) => value === undefined || isText(value),
  "optional number": (value) => value === undefined || isNumber(value),
  numbers: (value) => isMapOf(value, isNumber),
  texts: (value) => isMapOf(value, isText),
};

function problemOfList(value: unknown, of: Fields | "text"): string | undefined {
  if (!Array.isArray(value)) return "not a list";
  for (const item of value as readonly unknown[]) {
    const isObject = typeof item === "object" && item !== null;
    if (of === "text" ? typeof item !== "string" : !isObject) return `${JSON.stringify(item)} in it`;
    if (of === "text") continue;
    const problem = problemOfFields(item as Readonly<Record<string, unknown>>, of);
    if (problem !== undefined) return problem;
  }
  return undefined;
}
