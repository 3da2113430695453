// What makes a history void, what its summary says, which line of a file is unreadable, and how the command ends.
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, describe, expect, test } from "vitest";
import { checkHistory } from "../../proof/history/check-history.ts";
import { assembleHistory, type History } from "../../proof/history/history.ts";
import { parseHistory } from "../../proof/history/read-history.ts";
import type { HistoryRecord } from "../../proof/history/record.ts";
import { summarize, summaryLines } from "../../proof/history/summarize.ts";
import { generateHistory } from "../support/generated-history.ts";
import { made, ok, recordsOf, start } from "./history-sketches.ts";

const good = generateHistory({
  seed: 1,
  operations: 2_000,
  clients: 8,
  unknownFraction: 0.1,
  cancelledTenants: 2,
});
const broken = recordsOf([
  ok({ from: 1, to: 2 }, start("k"), made("a")),
  ok({ from: 3, to: 4 }, start("k"), made("b")),
]);

function historyOf(records: readonly HistoryRecord[]): History {
  const assembled = assembleHistory(records);
  if (assembled.kind === "broken") throw new Error(assembled.problem);
  return assembled.history;
}

const voidReasonsOf = (records: readonly HistoryRecord[]) => {
  const { kind, voidReasons } = checkHistory(historyOf(records));
  return { kind, reasons: voidReasons.join("\n") };
};

describe("a history is void", () => {
  test("not when everything was tried, broken and read", () => {
    expect(voidReasonsOf(good)).toEqual({ kind: "good", reasons: "" });
  });

  const isCompletion = (record: HistoryRecord) => record.type === "ok" || record.type === "fail";
  const without = (isGone: (record: HistoryRecord) => boolean) => good.filter((record) => !isGone(record));
  const ids = new Set(
    good.flatMap((record) => (record.type === "invoke" && record.operation === "decide" ? [record.id] : [])),
  );
  const cases: ReadonlyArray<readonly [string, readonly HistoryRecord[], RegExp]> = [
    [
      "when too little succeeded",
      without((record) => isCompletion(record) && Number(record.id.slice(3)) % 5 !== 0),
      /operations succeeded, and 30 % must/,
    ],
    ["without any operation", good.slice(0, 1), /0 of 0 operations succeeded/],
    ["without a fault", without(({ type }) => type === "fault"), /^no fault was recorded$/],
    [
      "when nothing succeeded during a fault",
      good.map((record) => (record.type === "fault" ? { ...record, atUs: 1e12 } : record)),
      /^no operation succeeded during a fault$/,
    ],
    [
      "when a kind of operation never succeeded",
      without((record) => "id" in record && ids.has(record.id)),
      /^no decide succeeded$/,
    ],
    [
      "when runs were not read",
      without((record) => record.type === "final" && record.of === "run"),
      /acknowledged runs were not read/,
    ],
    [
      "when keys were not read",
      without((record) => record.type === "final" && record.of === "key"),
      /keys were not read/,
    ],
    [
      "when sets were not read",
      without((record) => record.type === "final" && record.of === "set"),
      /^the sets set were not read/,
    ],
    [
      "when slots were not read",
      without((record) => record.type === "final" && record.of === "tenant"),
      /^the slots of .* were not read/,
    ],
  ];
  test.each(cases)("%s", (_, records, reason) => {
    const { kind, reasons } = voidReasonsOf(records);
    expect(kind).toBe("void");
    expect(reasons).toMatch(reason);
  });

  test("but what is broken is told first", () => {
    expect(voidReasonsOf(broken).kind).toBe("broken");
  });
});

test("a refusal that tells nothing is unknown, although it was recorded as a refusal", () => {
  const operation = start("k");
  const { calls } = historyOf([
    ...recordsOf([]),
    { type: "invoke", id: "a", client: "c", atUs: 1, ...operation },
    { type: "fail", id: "a", atUs: 2, code: "outcome_unknown" },
  ]);
  expect(calls.map(({ completion }) => completion.kind)).toEqual(["unknown", "unknown"]);
});

test("the summary counts operations, faults and findings, and says how long nothing succeeded", () => {
  const records = [
    ...broken,
    { type: "fault", name: "pause worker", target: "w", phase: "begin", atUs: 1 },
    { type: "fault", name: "pause worker", target: "w", phase: "end", atUs: 2 },
    ...recordsOf([ok({ from: 9_000, to: 9_004 }, start("m"), made("c"))])
      .slice(1)
      .map((record) => ("id" in record ? { ...record, id: `later ${record.id}` } : record)),
  ] as readonly HistoryRecord[];
  const history = historyOf(records);
  const summary = summarize(history, checkHistory(history));
  expect(summary).toMatchObject({
    verdict: "broken",
    operations: { start: { ok: 3, fail: 0, unknown: 0 }, decide: { ok: 0, fail: 0, unknown: 2 } },
    operationsTotal: 5,
    faults: { "pause worker": 1 },
    findings: { "INV-6": { promised: 1, excused: 0 } },
    longestUnavailableMs: 9,
    latencies: { start: { p50Ms: 0.001, p99Ms: 0.004, maxMs: 0.004 } },
  });
  const text = summaryLines(summary).join("\n");
  expect(text).toContain("start: 3 ok, 0 refused, 0 unknown");
  expect(text).toContain("INV-6 is broken 1 times as promised");
});

describe("an unreadable file is told by its line", () => {
  const [begin] = recordsOf([]);
  const invoke = { type: "invoke", id: "a", client: "c", atUs: 5, ...start("k") };
  const done = { type: "ok", id: "a", atUs: 6, answer: { kind: "run", runId: "r", replayed: false } };
  const cases: ReadonlyArray<readonly [string, readonly unknown[], number, RegExp]> = [
    ["not JSON", [begin, invoke, "{"], 3, /not JSON/],
    ["not an object", [begin, 7], 2, /not an object/],
    ["of an unknown type", [begin, { type: "guess" }], 2, /type is "guess"/],
    ["an unknown operation", [begin, { ...invoke, operation: "guess" }], 2, /operation is "guess"/],
    ["without a time", [begin, { ...invoke, atUs: undefined }], 2, /atUs/],
    ["with a wrong answer", [begin, invoke, { ...done, answer: { kind: "run", runId: 3 } }], 3, /runId/],
    [
      "another operation's answer",
      [begin, invoke, { ...done, answer: { kind: "done" } }],
      3,
      /cannot be answered/,
    ],
    ["without a begin", [invoke], 1, /first record/],
    ["with two", [begin, invoke, begin], 3, /second `begin`/],
    ["of another format", [{ ...begin, format: 2 }], 1, /format/],
    ["invoked twice", [begin, invoke, invoke], 3, /second invocation/],
    ["completed twice", [begin, invoke, done, done], 4, /completed twice/],
    ["never invoked", [begin, done], 2, /never invoked/],
    ["ended before it began", [begin, invoke, { ...done, atUs: 4 }], 3, /ended before/],
  ];
  test.each(cases)("%s", (_, records, line, problem) => {
    const text = records.map((record) => (record === "{" ? record : JSON.stringify(record))).join("\n");
    const told = parseHistory(Buffer.from(text));
    expect(told).toMatchObject({ kind: "unreadable", line });
    expect(told.kind === "unreadable" ? told.problem : "").toMatch(problem);
  });

  test("empty lines and the order of lines do not matter", () => {
    const text = [begin, "", done, invoke, ""].map((record) => (record === "" ? "" : JSON.stringify(record)));
    expect(parseHistory(Buffer.from(text.join("\n"))).kind).toBe("history");
  });
});

describe("the command", () => {
  const folder = mkdtempSync(join(tmpdir(), "interlock-history-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  const save = (name: string, records: readonly unknown[]) => {
    const path = join(folder, name);
    writeFileSync(path, records.map((record) => JSON.stringify(record)).join("\n"));
    return path;
  };
  const main = join(import.meta.dirname, "../../proof/history/main.ts");
  const run = async (...args: readonly string[]) => {
    const command = promisify(execFile)(process.execPath, ["--import", "tsx", main, ...args]);
    const { stdout, stderr, code } = await command.then(
      (told) => ({ ...told, code: 0 }),
      (error: { stdout: string; stderr: string; code: number }) => error,
    );
    return { text: stdout + stderr, code };
  };

  test("ends with 0 for a good history, and writes what it found", async () => {
    const json = join(folder, "report.json");
    const { code, text } = await run(save("good.jsonl", good), "--json", json);
    expect([code, text]).toEqual([0, expect.stringContaining("No promise was broken.")]);
    expect(JSON.parse(readFileSync(json, "utf8"))).toMatchObject([
      { summary: { verdict: "good" }, findings: [] },
    ]);
  });

  test("ends with 1 when a promise was broken, with the records that show it", async () => {
    const { code, text } = await run(save("fine.jsonl", good), save("broken.jsonl", broken));
    expect(code).toBe(1);
    expect(text).toMatch(/INV-6 \(promised\): key k of work .*\n {4}\{"type":"invoke","id":"0"/);
  });

  test("ends with 2 for a wrong call and for an unreadable file, whose line it names", async () => {
    expect(await run("--json")).toMatchObject({
      code: 2,
      text: expect.stringContaining("Usage: npm run chaos:check"),
    });
    const { code, text } = await run(save("bad.jsonl", [...broken, { type: "guess" }]));
    expect([code, text]).toEqual([
      2,
      expect.stringContaining(`bad.jsonl, line ${broken.length + 1}: type is`),
    ]);
  });

  test("ends with 3 for a history that proves nothing", async () => {
    const { code, text } = await run(save("void.jsonl", broken.slice(0, 1)));
    expect([code, text]).toEqual([3, expect.stringContaining("void: no fault was recorded")]);
  });
});
