// What a command prints: one JSON document for programs; tables, lists and sentences for people; notes beside both.

import type { Command } from "commander";
import type { Context } from "./context.ts";
import type { Terminal } from "./terminal.ts";
import { type Paint, paintFor, shortened, type Tone, visible } from "./text.ts";
import { wholeNumber } from "./values.ts";

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

export type Cell = string | number | undefined | { readonly text: string; readonly tone: Tone };

type Column = {
  readonly title: string;
  readonly align?: "left" | "right";
};

type TableOptions = {
  /** Of the terminal; without an end nothing is cut. */
  readonly columns: number;
  paint(tone: Tone, text: string): string;
};

const gap = "  ";
/** Below this a column tells nothing. */
const widthMin = 8;

export function tableLines(
  columns: readonly (string | Column)[],
  rows: ReadonlyArray<readonly Cell[]>,
  { columns: lineWidth, paint }: TableOptions,
): string[] {
  const heads = columns.map((column) => (typeof column === "string" ? { title: column } : column));
  const texts = rows.map((row) => heads.map((_, index) => textOf(row[index])));
  const needed = heads.map(({ title }, index) =>
    Math.max(widthOf(title), ...texts.map((row) => widthOf(row[index] ?? ""))),
  );
  const widths = fitted(needed, lineWidth - gap.length * (heads.length - 1));
  const line = (cells: readonly string[], tones: readonly Tone[]) =>
    cells
      .map((text, index) => {
        const width = widths[index] ?? 0;
        const cut = widthOf(text) > width ? shortened(text, width) : text;
        const space = " ".repeat(Math.max(0, width - widthOf(cut)));
        const painted = cut === "" ? "" : paint(tones[index] ?? "plain", cut);
        return heads[index]?.align === "right" ? space + painted : painted + space;
      })
      .join(gap)
      .trimEnd();
  const titles = heads.map(({ title }) => title.toUpperCase());
  return [
    line(
      titles,
      heads.map(() => "quiet"),
    ),
    ...texts.map((row, index) => line(row, (rows[index] ?? []).map(toneIn))),
  ];
}

/** The widest column gives way, place by place; never the first one, which holds what people copy: an id. */
function fitted(needed: readonly number[], available: number): number[] {
  const widths = [...needed];
  let over = widths.reduce((all, width) => all + width, 0) - available;
  for (; over > 0; over -= 1) {
    const width = Math.max(0, ...widths.slice(1));
    if (width <= widthMin) break;
    widths[widths.indexOf(width, 1)] = width - 1;
  }
  return widths;
}

function textOf(cell: Cell): string {
  if (cell === undefined) return "";
  return visible(typeof cell === "object" ? cell.text : String(cell));
}

function toneIn(cell: Cell): Tone {
  return typeof cell === "object" ? cell.tone : "plain";
}

/** East Asian characters and pictures take two places. */
function widthOf(text: string): number {
  let width = 0;
  for (const character of text)
    width +=
      /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Extended_Pictographic}]/u.test(
        character,
      )
        ? 2
        : 1;
  return width;
}

export type ListOptions = { readonly limit: number; readonly cursor?: string };

type ListedPage<Item> = { readonly items: readonly Item[]; readonly next_cursor: string | null };

/** What the server gives at most at a time. */
const pageMax = 500;

export function withListOptions(command: Command, limit = 50): Command {
  return command
    .option("-n, --limit <count>", "how many at most", wholeNumber, limit)
    .option("--cursor <cursor>", "continue an earlier list: its next_cursor");
}

export async function readList<Item>(
  { limit, cursor }: ListOptions,
  readPage: (page: { readonly limit: number; readonly cursor?: string }) => Promise<ListedPage<Item>>,
): Promise<ListedPage<Item>> {
  const items: Item[] = [];
  let next: string | null = cursor ?? null;
  do {
    const page = { limit: Math.max(1, Math.min(pageMax, limit - items.length)) };
    const read: ListedPage<Item> = await readPage(next === null ? page : { ...page, cursor: next });
    items.push(...read.items);
    next = read.next_cursor;
  } while (next !== null && items.length < limit);
  return { items, next_cursor: next };
}

type ShownList<Item> = { readonly none: string } & (
  | { readonly columns: readonly (string | Column)[]; row(item: Item): readonly Cell[] }
  | { lines(items: readonly Item[]): readonly string[] }
);

/** As a table, or as lines of another kind. */
export function showList<Item>({ output }: Context, list: ListedPage<Item>, shown: ShownList<Item>): void {
  const lines = () =>
    "lines" in shown
      ? shown.lines(list.items)
      : output.table(
          shown.columns,
          list.items.map((item) => shown.row(item)),
        );
  output.answer(list, () => (list.items.length === 0 ? [shown.none] : lines()));
  if (list.next_cursor !== null)
    output.note(`There are more: --limit ${list.items.length * 4} shows more of them.`);
}
