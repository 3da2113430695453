// What a command says: one JSON document for programs, tables and sentences for people, notes beside both.
import { type Cell, type Column, tableLines } from "./table.ts";
import type { Terminal } from "./terminal.ts";
import { type Paint, paintFor } from "./text.ts";

export type Output = {
  readonly isJson: boolean;
  readonly paint: Paint;
  /** The command's answer: the value as JSON, or the lines. */
  answer(value: unknown, lines: () => readonly string[]): void;
  /** One of many answers: the value as one line of JSON, or the lines. */
  item(value: unknown, lines: () => readonly string[]): void;
  /** For people only, on standard error: what is under way, what to do next. */
  note(...lines: string[]): void;
  /** For people only, among the answer. */
  line(...lines: string[]): void;
  table(columns: readonly (string | Column)[], rows: ReadonlyArray<readonly Cell[]>): string[];
  /** Names with values, one a line; what has no value is left out. */
  facts(facts: ReadonlyArray<readonly [name: string, value: Cell]>): string[];
};

export function createOutput(terminal: Terminal, format: "json" | "text"): Output {
  const { stdout, stderr, env } = terminal;
  const paint = paintFor(stdout, env);
  const isJson = format === "json";
  const write = (lines: readonly string[]) => {
    if (lines.length > 0) stdout.write(`${lines.join("\n")}\n`);
  };
  return {
    isJson,
    paint,
    answer: (value, lines) => write(isJson ? [JSON.stringify(value, null, 2)] : lines()),
    item: (value, lines) => write(isJson ? [JSON.stringify(value)] : lines()),
    note: (...lines) => {
      if (!isJson) stderr.write(`${lines.join("\n")}\n`);
    },
    line: (...lines) => {
      if (!isJson) write(lines);
    },
    table: (columns, rows) => tableLines(columns, rows, { columns: stdout.columns, paint }),
    facts(facts) {
      const known = facts.filter(([, value]) => value !== undefined && value !== "");
      const width = Math.max(0, ...known.map(([name]) => name.length));
      return known.map(([name, value]) => {
        const tone = typeof value === "object" ? value.tone : "plain";
        const text = typeof value === "object" ? value.text : String(value);
        return `${paint("quiet", name.padEnd(width))}  ${paint(tone, text)}`;
      });
    },
  };
}
