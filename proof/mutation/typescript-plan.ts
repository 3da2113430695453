// What the judge and its workers tell each other: which mutants there are, and rows in a file, so that nothing is lost with a process.
import { appendFileSync, closeSync, existsSync, fstatSync, openSync, readSync } from "node:fs";
import { join } from "node:path";

export type Plan = {
  /** Where the rows are. */
  readonly folder: string;
  /** Its mutants in the order of their numbers. */
  readonly ids: readonly string[];
  /** The file of each. */
  readonly files: readonly string[];
  /**
   * For a mutant that test after test does not notice: what these take without it, after which it has survived. Those that
   * import its module themselves are not counted.
   */
  readonly eachMsMax: number;
  /** The tests of a mutant may take so long, or some times as long as usual: without an end they would not be noticed. */
  readonly limitMsMin: number;
  /** The one test file for each mutant that is named here. */
  readonly only: Readonly<Record<string, string>>;
};

declare module "vitest" {
  interface ProvidedContext {
    mutationPlan: Plan;
  }
}

/** Each names the test file, and with `id` a mutant. */
export type Row =
  /** What passes a mutant's place; without them its tests do not notice it. */
  | { readonly kind: "reached"; readonly test: string; readonly ids: readonly string[] }
  | {
      readonly kind: "began";
      readonly test: string;
      readonly id: string;
      readonly pid: number;
      readonly limitMs: number;
      readonly atMs: number;
    }
  /** `costMs` is what its tests take of the processor without a mutant. */
  | { readonly kind: "passed"; readonly test: string; readonly id: string; readonly costMs: number }
  | {
      readonly kind: "failed" | "late" | "died";
      readonly test: string;
      readonly id: string;
      readonly by: string;
    }
  /** Its tests fail without a mutant: it says nothing. */
  | { readonly kind: "broken"; readonly test: string; readonly cause: string }
  | { readonly kind: "done"; readonly test: string; readonly tookMs: number };

const rowsOf = ({ folder }: Plan) => join(folder, "rows.jsonl");

export function addRow(plan: Plan, row: Row): void {
  appendFileSync(rowsOf(plan), `${JSON.stringify(row)}\n`);
}

export function readRows(plan: Plan): readonly Row[] {
  return newRows(plan)();
}

/** Each call answers with the rows that were added since the last one, by whichever process. */
export function newRows(plan: Plan): () => readonly Row[] {
  const path = rowsOf(plan);
  let at = 0;
  return () => {
    if (!existsSync(path)) return [];
    const file = openSync(path, "r");
    const bytes = Buffer.alloc(fstatSync(file).size - at);
    readSync(file, bytes, 0, bytes.length, at);
    closeSync(file);
    // Another process may be in the middle of its row.
    const end = bytes.lastIndexOf("\n") + 1;
    at += end;
    const lines = bytes.toString("utf8", 0, end).split("\n");
    return lines.filter((line) => line !== "").map((line) => JSON.parse(line) as Row);
  };
}

export function isKill(row: Row): row is Extract<Row, { readonly by: string }> {
  return row.kind === "failed" || row.kind === "late" || row.kind === "died";
}

/** Whether a test, by its text, imports the file. The conformance suites ask a store, whatever it is made of. */
export function isOwnTest(text: string, file: string): boolean {
  if (text.includes(`/${file}"`)) return true;
  return file.includes("/operations/") && text.includes("testing/conformance/");
}
