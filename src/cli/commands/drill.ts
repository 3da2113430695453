// interlock drill: runs a runbook as a program, against an instance of its own or a deployment, and says whether it went as expected.
import { mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { Option } from "commander";
import { formatTime } from "../../domain/engine/rfc3339.ts";
import { catalogue } from "../../drills/catalogue.ts";
import {
  type Drill,
  DrillImpossible,
  type DrillName,
  drillNames,
  type ResultPath,
} from "../../drills/drill.ts";
import { reportPage } from "../../drills/report.ts";
import type { DrillRun } from "../../drills/run-drill.ts";
import type { Where } from "../../drills/target/open-target.ts";
import { product } from "../../load-config.ts";
import { type Cli, type Context, NoKeyError } from "../context.ts";
import { UsageError } from "../run-program.ts";
import { shellWord } from "../terminal.ts";
import { wholeNumber } from "../values.ts";

export function addDrillCommand({ program, does }: Cli): void {
  program
    .command("drill")
    .description("run a runbook as a program; without a name, list them")
    .argument("[names...]", "which; or all")
    .addOption(
      new Option("--on <what>", "what it starts for itself, when no --url names a deployment")
        .choices(["embedded", "cluster"])
        .default("embedded"),
    )
    .option("--quick", "small numbers and short times: less than 20 s")
    .option("--requests <count>", "how many requests or results a burst has", wholeNumber)
    .addOption(
      new Option(
        "--path <path>",
        "how results are reported (lock-busy-waves); both ways, unless it says so",
      ).choices(["http", "bus"]),
    )
    .option("--sweep", "try a grid of settings as well (admission-burst)")
    .option("--fault <command>", "with --url: the shell command that breaks what the drill is about")
    .option("--mend <command>", "with --url: the shell command that repairs it")
    .option("--report <folder>", "write an HTML page with plots, and the raw data as JSON")
    .addHelpText(
      "after",
      "\nExamples:\n  interlock drill stale-owner --quick\n  interlock drill admission-burst --requests 1000 --report ./report\n" +
        "  interlock drill store-restart --on cluster\n  interlock drill worker-loss --url https://interlock.example --key-file platform.key",
    )
    .action(does(drill));
}

type DrillCommandOptions = {
  readonly on: "embedded" | "cluster";
  readonly quick?: true;
  readonly requests?: number;
  readonly path?: ResultPath;
  readonly sweep?: true;
  readonly fault?: string;
  readonly mend?: string;
  readonly report?: string;
};

async function drill(
  context: Context,
  names: readonly string[],
  options: DrillCommandOptions,
): Promise<void> {
  if (names.length === 0) return listDrills(context);
  const wanted = names.includes("all") ? drillNames : names.map(known);
  const where = whereOf(context, options);
  const runs: DrillRun[] = [];
  for (const name of wanted) {
    const run = await runOne(context, await catalogue[name](), { ...options, where });
    if (run === "interrupted") return context.end("interrupted");
    runs.push(run);
    if (!context.output.isJson) context.output.line(...runLines(context, run));
    if (options.report !== undefined) writeReport(context, { ...options, report: options.report }, run);
  }
  if (context.output.isJson) context.output.answer(runs.length === 1 ? runs[0] : runs, () => []);
  else if (runs.length > 1) context.output.line(...summaryLines(context, runs));
  if (runs.some(({ verdict }) => verdict === "not met")) context.end("failed");
}

function known(name: string): DrillName {
  const found = drillNames.find((each) => each === name);
  if (found === undefined)
    throw new UsageError(`There is no drill ${name}. There are ${drillNames.join(", ")}.`);
  return found;
}

/** Only an address that was named is taken for a deployment: a drill disturbs what it is run against. */
function whereOf(context: Context, { on }: DrillCommandOptions): Where {
  const isNamed = context.options.url !== undefined || (context.terminal.env.INTERLOCK_URL ?? "") !== "";
  if (!isNamed) return { kind: on };
  const { url, apiKey } = context.found("platform");
  if (apiKey === undefined) throw new NoKeyError();
  return { kind: "deployment", url, apiKey };
}

async function listDrills({ output }: Context): Promise<void> {
  const drills = await Promise.all(drillNames.map((name) => catalogue[name]()));
  output.answer(
    drills.map(({ name, question, expectation, steps }) => ({ name, question, expectation, steps })),
    () =>
      output.table(
        ["drill", "question"],
        drills.map(({ name, question }) => [name, question]),
      ),
  );
}

async function runOne(
  { terminal, output }: Context,
  chosen: Drill,
  { where, quick, sweep, requests, path, fault, mend }: DrillCommandOptions & { readonly where: Where },
): Promise<DrillRun | "interrupted"> {
  output.note(output.paint("strong", chosen.name), `  ${chosen.question}`);
  const stopping = new AbortController();
  // The second Ctrl-C is no longer listened to, and ends the program without cleaning up.
  const leave = terminal.onInterrupt(() => {
    stopping.abort();
    leave();
  });
  const startedMs = terminal.nowMs();
  // Loaded here alone: the server takes half a second that no other command should.
  const { runDrill } = await import("../../drills/run-drill.ts");
  try {
    const run = await runDrill(chosen, {
      where,
      size: quick === true ? "quick" : "full",
      sweep: sweep === true,
      ...(requests === undefined ? {} : { requests }),
      ...(path === undefined ? {} : { path }),
      ...(fault === undefined ? {} : { fault }),
      ...(mend === undefined ? {} : { mend }),
      signal: stopping.signal,
      progress: (line) =>
        output.note(`  ${((terminal.nowMs() - startedMs) / 1000).toFixed(1).padStart(6)} s  ${line}`),
    });
    return stopping.signal.aborted ? "interrupted" : run;
  } catch (error) {
    if (stopping.signal.aborted) return "interrupted";
    if (error instanceof DrillImpossible) throw new UsageError(error.message);
    throw error;
  } finally {
    leave();
  }
}

function runLines({ output }: Context, run: DrillRun): string[] {
  const lines = run.tables.flatMap(({ title, columns, rows }) => [
    "",
    output.paint("strong", title),
    ...output.table(
      columns.map((column, index) => ({
        title: column,
        align: typeof rows[0]?.[index] === "number" ? ("right" as const) : ("left" as const),
      })),
      rows,
    ),
  ]);
  return [
    ...lines,
    "",
    ...output.table(
      ["holds", "what", "expected", "seen"],
      run.checks.map(({ what, expected, seen, holds }) => [
        holds ? { text: "yes", tone: "good" } : { text: "NO", tone: "bad" },
        what,
        expected,
        seen,
      ]),
    ),
    "",
    verdictLine(output, run),
  ];
}

function verdictLine(output: Context["output"], run: DrillRun): string {
  const tone = run.verdict === "met" ? "good" : "bad";
  const took = `${(run.tookMs / 1000).toFixed(1)} s on ${run.target}`;
  return `${output.paint(tone, `${run.name}: expectation ${run.verdict}`)} (${took})`;
}

function summaryLines({ output }: Context, runs: readonly DrillRun[]): string[] {
  return ["", ...runs.map((run) => verdictLine(output, run))];
}

function writeReport(
  context: Context,
  options: DrillCommandOptions & { readonly report: string },
  run: DrillRun,
): void {
  const target = resolve(context.terminal.typedFolder, options.report);
  mkdirSync(target, { recursive: true });
  const time = formatTime(run.startedAtMs)
    .replace("T", " ")
    .replace(/:\d\d(\.\d+)?Z$/, " UTC");
  const facts = { command: commandOf(context, run.name, options), version: product().version, time };
  writeFileSync(join(target, `${run.name}.html`), reportPage(run, facts));
  writeFileSync(join(target, `${run.name}.json`), `${JSON.stringify({ ...facts, ...run })}\n`);
  context.output.note(`  report: ${join(options.report, `${run.name}.html`)}`);
}

/** What makes the same report again; never a key. */
function commandOf({ options: { url } }: Context, name: string, options: DrillCommandOptions): string {
  const { on, quick, requests, path, sweep, fault, mend, report } = options;
  const words = [
    ...["interlock", "drill", name],
    ...(url === undefined ? ["--on", on] : ["--url", url]),
    ...(quick === true ? ["--quick"] : []),
    ...(requests === undefined ? [] : ["--requests", String(requests)]),
    ...(path === undefined ? [] : ["--path", path]),
    ...(sweep === true ? ["--sweep"] : []),
    ...(fault === undefined ? [] : ["--fault", fault]),
    ...(mend === undefined ? [] : ["--mend", mend]),
    ...(report === undefined ? [] : ["--report", report]),
  ];
  return words.map(shellWord).join(" ");
}
