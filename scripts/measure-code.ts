// npm run measure:code: how much code there is to hold in the head, as a table.
//   npm run measure:code -- [--compare <git ref>]   another version beside it, from a temporary worktree
//   npm run measure:code -- --list                  the files and exports behind the last rows
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";
import type { Path, Paths } from "./measure-paths.ts";
import {
  readSourceGraph,
  type SourceGraph,
  smallSingleImporterFiles,
  unusedExports,
} from "./source-graph.ts";

type Rows = readonly (readonly [name: string, value: number])[];

const root = dirname(import.meta.dirname);

const { values } = parseArgs({ options: { compare: { type: "string" }, list: { type: "boolean" } } });

if (values.list) printLists();
else if (values.compare === undefined) printTable(["", "now"], [rowsOf(root)]);
else printTable(["", values.compare, "now"], [rowsAt(values.compare), rowsOf(root)]);

/** The counts of another version: checked out beside this one, with packages of its own. */
function rowsAt(reference: string): Rows {
  const folder = mkdtempSync(join(tmpdir(), "interlock-compare-"));
  const git = (...words: string[]) => execFileSync("git", words, { cwd: root, stdio: "pipe" });
  try {
    git("worktree", "add", "--detach", join(folder, "checkout"), reference);
    return rowsOf(join(folder, "checkout"));
  } finally {
    git("worktree", "remove", "--force", join(folder, "checkout"));
    rmSync(folder, { recursive: true, force: true });
  }
}

function rowsOf(checkout: string): Rows {
  const graph = readSourceGraph(checkout);
  const paths = measurePaths(checkout);
  return [
    ...sizeRows(graph, "product", graph.product),
    ...sizeRows(
      graph,
      "- of these Lua",
      graph.product.filter((path) => path.endsWith(".lua")),
    ),
    ...sizeRows(
      graph,
      "- of these src/testing",
      graph.product.filter((path) => path.startsWith("src/testing/")),
    ),
    ...pathRows("a start", paths.start),
    ...pathRows("a result", paths.result),
    ...pathRows("a decision", paths.decision),
    ["single-importer files under 40 lines", smallSingleImporterFiles(graph).length],
    ["exports unused outside their file", unusedExports(graph).length],
  ];
}

function sizeRows({ textOf }: SourceGraph, name: string, files: readonly string[]): Rows {
  const lines = files.reduce((sum, path) => sum + textOf(path).split("\n").length - 1, 0);
  return [
    [`${name}: files`, files.length],
    [`${name}: lines`, lines],
  ];
}

function pathRows(name: string, { called, frames, storeCalls }: Path): Rows {
  const filesOf = (functions: Path["called"]) => new Set(functions.map(({ file }) => file)).size;
  const asyncOf = (functions: Path["called"]) => functions.filter(({ isAsync }) => isAsync).length;
  return [
    [`${name}: files called`, filesOf(called)],
    [`${name}: files on the stack to the store`, filesOf(frames)],
    [`${name}: asynchronous functions called`, asyncOf(called)],
    [`${name}: asynchronous frames on the stack to the store`, asyncOf(frames)],
    [`${name}: store calls`, storeCalls],
  ];
}

/** The server runs in a process of its own, with the checkout's packages. */
function measurePaths(checkout: string): Paths {
  const program = [process.execPath, "--import", "tsx", join(root, "scripts/measure-paths.ts"), checkout];
  const output = execFileSync(process.execPath, ["scripts/with-setup.mjs", "--", ...program], {
    cwd: checkout,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
    maxBuffer: 16_777_216,
  });
  return JSON.parse(output.trimEnd().split("\n").at(-1) ?? "") as Paths;
}

function printTable(titles: readonly string[], columns: readonly Rows[]): void {
  const rows = (columns[0] as Rows).map(([name], index) => [
    name,
    ...columns.map((column) => (column[index] as Rows[number])[1].toLocaleString("en")),
  ]);
  for (const [name = "", ...cells] of [titles, ...rows])
    console.log(name.padEnd(58) + cells.map((cell) => cell.padStart(12)).join(""));
}

function printLists(): void {
  const graph = readSourceGraph(root);
  console.log(["Single-importer files under 40 lines:", ...smallSingleImporterFiles(graph)].join("\n  "));
  console.log(["Exports unused outside their file:", ...unusedExports(graph)].join("\n  "));
}
