// The track record in docs/reliability.md: one row per run that was asked to be kept, written by the commands themselves.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** What keeps a row from being written; its message is for the person who asked. */
export class TrackRecordError extends Error {}

/** What every row begins with; `src` is the hash of that folder, by which pieces of a long run on the same code add up. */
const shared = ["date", "commit", "src", "command"] as const;

const columns = {
  simulation: [
    ...shared,
    ...(["seeds", "events", "virtual hours", "faults", "operations", "violations"] as const),
  ],
  chaos: [
    ...shared,
    ...(["minutes", "durability", "faults", "kinds", "operations", "unknown", "violations"] as const),
  ],
  soak: [...shared, ...(["minutes", "store", "starts", "operations", "trimmed", "verdict"] as const)],
  mutation: [...shared, ...(["area", "mutants", "killed", "survived", "equivalent", "seed"] as const)],
  "planted bugs": [...shared, ...(["bugs", "planted", "caught", "missed"] as const)],
  "repeated tests": [...shared, ...(["rounds", "passed", "failed"] as const)],
} as const;

/** Columns whose numbers add up over the rows. */
const summed: { readonly [Table in TrackRecordTable]: ReadonlyArray<(typeof columns)[Table][number]> } = {
  simulation: ["seeds", "events", "virtual hours", "faults", "operations", "violations"],
  chaos: ["minutes", "faults", "operations", "unknown", "violations"],
  soak: ["minutes", "starts", "operations", "trimmed"],
  mutation: ["mutants", "killed", "survived", "equivalent"],
  "planted bugs": ["planted", "caught", "missed"],
  "repeated tests": ["rounds", "passed", "failed"],
};

type TrackRecordTable = keyof typeof columns;

type TrackRecordRow<Table extends TrackRecordTable> = Readonly<
  Record<(typeof columns)[Table][number], string | number>
>;

/** The commit that a row names, and what is not in it. */
export type SourceVersion = {
  /** With `+changes` when the files differ from it. */
  readonly commit: string;
  /** The hash of `src/`: the same in all commits that leave the product as it is. */
  readonly src: string;
  readonly changed: readonly string[];
};

const page = join("docs", "reliability.md");

/** Refuses when files under these folders are not committed: the row would name a commit that did not run. */
export function readSourceVersion(
  root: string,
  folders: readonly string[],
  changes: "refused" | "allowed",
): SourceVersion {
  const git = (...words: string[]) => execFileSync("git", words, { cwd: root, encoding: "utf8" });
  const head = git("rev-parse", "--short=10", "HEAD").trim();
  const changed = git("status", "--porcelain", "--", ...folders)
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => line.slice(3));
  if (changed.length > 0 && changes === "refused") {
    const names = changed.length > 3 ? [...changed.slice(0, 3), `${changed.length - 3} more`] : changed;
    throw new TrackRecordError(
      `A row of the track record names a commit, but ${names.join(", ")} ${changed.length === 1 ? "is" : "are"} not committed.`,
    );
  }
  const src = git("rev-parse", "--short=10", "HEAD:src").trim();
  return {
    commit: changed.length > 0 ? `${head}+changes` : head,
    src: changed.some((path) => path.startsWith("src/")) ? `${src}+changes` : src,
    changed,
  };
}

export function appendTrackRecord<Table extends TrackRecordTable>(
  root: string,
  table: Table,
  row: TrackRecordRow<Table>,
): void {
  const path = join(root, page);
  writeFileSync(path, withRow(readFileSync(path, "utf8"), table, row));
}

/** The page with the row at the end of its table, and the sums below it; nothing else is touched. */
export function withRow<Table extends TrackRecordTable>(
  text: string,
  table: Table,
  row: TrackRecordRow<Table>,
): string {
  const { begin, end } = markersOf(table);
  const [before, rest, ...more] = text.split(begin);
  const [inside, after, ...others] = (rest ?? "").split(end);
  if (
    before === undefined ||
    inside === undefined ||
    after === undefined ||
    more.length + others.length > 0
  ) {
    throw new TrackRecordError(`${page} must have "${begin}" and after it "${end}", once each.`);
  }
  const [head = "", line = ""] = emptyTable(table).split("\n");
  if (!inside.startsWith(`\n${head}\n${line}\n`)) {
    throw new TrackRecordError(`The table of the ${table} in ${page} must begin with: ${head}`);
  }
  const cells = columns[table].map((column) => inCell(row[column as keyof TrackRecordRow<Table>]));
  const earlier = inside.split("\n").slice(3).filter(isRow);
  const lines = [...earlier, asLine(cells)];
  return `${before}${begin}\n${[head, line, ...lines].join("\n")}\n\n${sumsOf(table, lines)}\n${end}${after}`;
}

/** What the rows add up to: those on the same `src/` as the last one, and all of them. */
function sumsOf(table: TrackRecordTable, lines: readonly string[]): string {
  const rows = lines.map(cellsOf);
  const names: readonly string[] = columns[table];
  const src = rows.at(-1)?.[names.indexOf("src")];
  const sum = (chosen: ReadonlyArray<readonly string[]>) => {
    const totals = summed[table].map((column) => {
      const numbers = chosen.map((cells) => Number(cells[names.indexOf(column)]?.replaceAll(",", "")));
      return `${inCell(numbers.reduce((total, number) => total + number, 0))} ${column}`;
    });
    return `${chosen.length} ${chosen.length === 1 ? "row" : "rows"}, ${totals.join(", ")}`;
  };
  const same = rows.filter((cells) => cells[names.indexOf("src")] === src);
  return `- on \`src\` ${src}: ${sum(same)}\n- in all: ${sum(rows)}`;
}

export function emptyTable(table: TrackRecordTable): string {
  return [asLine(columns[table]), asLine(columns[table].map(() => "---"))].join("\n");
}

/** What stands around each table. */
export function markersOf(table: TrackRecordTable): { readonly begin: string; readonly end: string } {
  return {
    begin: `<!-- track record of the ${table}: rows are appended by its command -->`,
    end: `<!-- end of the track record of the ${table} -->`,
  };
}

/** The day of a moment, in UTC. */
export function dayOf(wallMs: number): string {
  return new Intl.DateTimeFormat("sv-SE", { timeZone: "UTC" }).format(wallMs);
}

function inCell(value: string | number): string {
  const text = typeof value === "number" ? value.toLocaleString("en-US") : value;
  return text.replaceAll("|", "\\|").replaceAll("\n", " ");
}

function isRow(line: string): boolean {
  return line.startsWith("| ");
}

/** The cells of a line, as `asLine` and `inCell` wrote them. */
function cellsOf(line: string): readonly string[] {
  return line.slice("| ".length, -" |".length).split(" | ");
}

function asLine(cells: readonly string[]): string {
  return `| ${cells.join(" | ")} |`;
}
