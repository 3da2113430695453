// Puts the parts of a history, which several processes have written, into one file in the order of time.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Final, HistoryRecord, Setting } from "../proof/history/record.ts";

export type Parts = {
  readonly folder: string;
  readonly setting: Setting;
  readonly finals: readonly Final[];
};

export function mergeHistory({ folder, setting, finals }: Parts, file: string): readonly HistoryRecord[] {
  const parts = readdirSync(folder).filter((name) => name.endsWith(".jsonl"));
  const timed = parts
    .flatMap((name) => readRecords(join(folder, name)))
    .filter((record) => record.type !== "begin" && record.type !== "final")
    .sort((left, right) => left.atUs - right.atUs);
  const records: HistoryRecord[] = [
    { type: "begin", ...setting },
    ...timed,
    ...finals.map((final) => ({ type: "final" as const, ...final })),
  ];
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, records.map((record) => `${JSON.stringify(record)}\n`).join(""));
  return records;
}

/** A killed process may have left the beginning of a line; one that was started again goes on behind it. */
export function readRecords(file: string): readonly HistoryRecord[] {
  return readFileSync(file, "utf8")
    .split("\n")
    .flatMap((line) => {
      const record = recordIn(line);
      return record === undefined ? [] : [record];
    });
}

function recordIn(line: string): HistoryRecord | undefined {
  try {
    return JSON.parse(line) as HistoryRecord;
  } catch {
    return undefined;
  }
}
