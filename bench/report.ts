// What a benchmark leaves behind: a flat list of named numbers as JSON, and tables for people.
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

export type Metric = { readonly name: string; readonly value: number; readonly unit: string };

/** A metric with the value of each slice that it was made from: their spread tells how far to trust it. */
export type Measured = Metric & { readonly slices: readonly number[] };

/** Finds what must have been measured, by its name. */
export type Lookup = { value(name: string): number; slices(name: string): readonly number[] };

export function lookupIn(measured: readonly Measured[]): Lookup {
  const byName = new Map(measured.map((metric) => [metric.name, metric]));
  const find = (name: string) => {
    const metric = byName.get(name);
    if (metric === undefined || !Number.isFinite(metric.value)) throw new Error(`${name} was not measured`);
    return metric;
  };
  return { value: (name) => find(name).value, slices: (name) => find(name).slices };
}

export function writeMetrics(path: string, metrics: readonly Metric[]): void {
  const rows = metrics.map(({ name, value, unit }) => `  ${JSON.stringify({ name, value, unit })}`);
  writeResult(path, `[\n${rows.join(",\n")}\n]\n`);
}

export function writeResult(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}

/** The first column is text and stands left; the others are numbers and stand right. */
export function formatTable(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = header.map((_, column) =>
    Math.max(...[header, ...rows].map((row) => (row[column] ?? "").length)),
  );
  const line = (row: readonly string[]) =>
    row
      .map((cell, column) => {
        const width = widths[column] ?? 0;
        return column === 0 ? cell.padEnd(width) : cell.padStart(width);
      })
      .join("  ");
  const rule = widths.map((width) => "-".repeat(width)).join("  ");
  return [line(header), rule, ...rows.map(line)].join("\n");
}

export function formatRange(values: readonly number[]): string {
  return `${formatNumber(Math.min(...values))} to ${formatNumber(Math.max(...values))}`;
}

/** Three digits that matter; large numbers whole, with separators. */
export function formatNumber(value: number): string {
  const digits = value >= 100 || Number.isInteger(value) ? 0 : value >= 10 ? 1 : 2;
  return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}
