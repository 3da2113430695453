// The table of the stage: what each kind of input cost at its worst place.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { factors, type Row, told } from "./judge.ts";

const folder = join(import.meta.dirname, "results");

/** One line per kind of input, at the operation where it cost most; the costliest first. */
export function tableOf(rows: readonly Row[]): string {
  const worst = new Map<string, Row>();
  for (const row of rows) {
    const known = worst.get(row.input.kind);
    const cost = (each: Row) => (each.cpuMs.size === factors.length ? 0 : -1e6) + (each.cpuMs.get(8) ?? 0);
    if (known === undefined || cost(row) > cost(known)) worst.set(row.input.kind, row);
  }
  const lines = [...worst.values()]
    .sort((left, right) => (right.cpuMs.get(8) ?? 0) - (left.cpuMs.get(8) ?? 0))
    .map((row) => {
      const { input, cpuMs, blockMs, status } = row;
      const cost = (factor: number) => (cpuMs.has(factor) ? told(cpuMs.get(factor) ?? 0) : "-");
      const growth = (cpuMs.get(8) ?? Number.NaN) / (cpuMs.get(1) ?? Number.NaN);
      return [
        input.kind,
        `${Math.floor(input.largest)} ${input.unit}`,
        ...factors.map(cost),
        Number.isNaN(growth) ? "-" : told(growth),
        told(blockMs),
        status,
        `${input.operation} ${input.place}`,
      ];
    });
  const heads = [
    "input",
    "8x is",
    "1x ms",
    "2x ms",
    "4x ms",
    "8x ms",
    "growth",
    "block ms",
    "answer",
    "worst at",
  ];
  const widths = heads.map((head, index) =>
    Math.max(head.length, ...lines.map((line) => String(line[index]).length)),
  );
  const isText = (index: number) => index === 0 || index === heads.length - 1;
  return [heads, ...lines]
    .map((cells) =>
      cells
        .map((cell, index) =>
          isText(index) ? cell.padEnd(widths[index] ?? 0) : cell.padStart(widths[index] ?? 0),
        )
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

export function problemsOf(rows: readonly Row[]): readonly string[] {
  return rows
    .filter(({ problems }) => problems.length > 0)
    .map(({ input, problems, cpuMs }) => {
      const costs = factors
        .map((factor) => (cpuMs.has(factor) ? told(cpuMs.get(factor) ?? 0) : "-"))
        .join(" / ");
      return `${input.operation}, ${input.place}, ${input.kind} (8x is ${Math.floor(input.largest)} ${input.unit}; ${costs} ms): ${problems.join("; ")}`;
    });
}

/** Kept beside the tests, not in the repository. */
export function writeTable(name: string, text: string): string {
  mkdirSync(folder, { recursive: true });
  const path = join(folder, `${name}.txt`);
  writeFileSync(path, `${text}\n`);
  return path;
}
