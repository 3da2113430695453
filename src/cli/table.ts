// A table for people: columns as wide as they need, the widest cut to the terminal, and no lines around it.
import { shortened, type Tone, visible } from "./text.ts";

export type Cell = string | number | undefined | { readonly text: string; readonly tone: Tone };

export type Column = {
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
