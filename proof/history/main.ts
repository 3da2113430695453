// Checks recorded histories: npm run chaos:check -- FILE... [--json FILE]
// Ends with 0 when all are good, 1 when a promise was broken, 2 for a wrong call or an unreadable file, 3 when one proves nothing.
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { checkHistory, type Verdict } from "./check-history.ts";
import type { Finding } from "./finding.ts";
import { type ReadHistory, readHistory } from "./read-history.ts";
import { summarize, summaryLines } from "./summarize.ts";

const usage = "npm run chaos:check -- FILE... [--json FILE]";

/** Told in full of each invariant; the others are only counted. */
const toldMax = 5;
const recordsMax = 8;

class UsageError extends Error {}

try {
  process.exitCode = main(readArguments(process.argv.slice(2)));
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  console.error(`${error.message}\nUsage: ${usage}`);
  process.exitCode = 2;
}

type Arguments = { readonly files: readonly string[]; readonly json: string | undefined };

function main({ files, json }: Arguments): number {
  const reports = files.map((file) => {
    const { history } = read(file);
    const verdict = checkHistory(history);
    const summary = summarize(history, verdict);
    console.log([`== ${file}`, ...findingLines(verdict.findings), ...summaryLines(summary)].join("\n"));
    return { file, summary, findings: verdict.findings, undecided: verdict.undecided };
  });
  if (json !== undefined) writeFileSync(json, `${JSON.stringify(reports, undefined, 2)}\n`);
  return exitCodeOf(reports.map(({ summary }) => summary.verdict));
}

function exitCodeOf(verdicts: ReadonlyArray<Verdict["kind"]>): number {
  if (verdicts.includes("broken")) return 1;
  return verdicts.includes("void") ? 3 : 0;
}

function readArguments(args: string[]): Arguments {
  try {
    const options = { json: { type: "string" } } as const;
    const { positionals, values } = parseArgs({ args, options, allowPositionals: true });
    if (positionals.length === 0) throw new UsageError("Which history?");
    return { files: positionals, json: values.json };
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error), { cause: error });
  }
}

function read(file: string): Extract<ReadHistory, { readonly kind: "history" }> {
  let told: ReadHistory;
  try {
    told = readHistory(file);
  } catch (error) {
    throw new UsageError(`Cannot read ${file}: ${error instanceof Error ? error.message : String(error)}`, {
      cause: error,
    });
  }
  if (told.kind === "unreadable") throw new UsageError(`${file}, line ${told.line}: ${told.problem}`);
  return told;
}

function findingLines(findings: readonly Finding[]): string[] {
  const told = new Map<string, number>();
  return findings.flatMap(({ invariant, standing, sentence, records }) => {
    const name = `${invariant} ${standing}`;
    const before = told.get(name) ?? 0;
    told.set(name, before + 1);
    if (before >= toldMax) return [];
    const more = records.length - recordsMax;
    return [
      `${invariant} (${standing}): ${sentence}`,
      ...records.slice(0, recordsMax).map((record) => `    ${JSON.stringify(record)}`),
      ...(more > 0 ? [`    and ${more} more`] : []),
    ];
  });
}
