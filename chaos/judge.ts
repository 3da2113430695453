// What a chaos run comes to: what the checker finds in its history, what the run itself saw, and whether it saw enough.
import type { Verdict as HistoryVerdict } from "../proof/history/check-history.ts";
import type { HistoryRecord } from "../proof/history/record.ts";
import type { Summary } from "../proof/history/summarize.ts";
import type { ChaosOptions } from "./options.ts";
import type { ChaosRun } from "./run-chaos.ts";

export type Verdict = {
  /** Broken promises, each as a sentence. */
  readonly violations: readonly string[];
  /** What the durability of this run does not promise. */
  readonly excused: readonly string[];
  /** Why the run counts for nothing. */
  readonly voids: readonly string[];
};

export type Checked = { readonly verdict: HistoryVerdict; readonly summary: Summary };

export function judge(options: ChaosOptions, run: ChaosRun, { verdict, summary }: Checked): Verdict {
  const told = (standing: "promised" | "excused") =>
    verdict.findings
      .filter((finding) => finding.standing === standing)
      .map(({ invariant, sentence }) => `${invariant}: ${sentence}`);
  const late = options.judged === "everything" ? lateIn(run, summary) : [];
  return {
    violations: [
      ...told("promised"),
      ...wrongAnswers(run.records),
      ...poisoned(run),
      ...run.ownEnds,
      ...late,
    ],
    excused: told("excused"),
    voids: [...historyVoids(options, run, verdict), ...runVoids(options, run, summary)],
  };
}

/** Two failovers in a row, on a machine that has other things to do. */
const longestUnavailableMsMax = 40_000;

function lateIn({ isQuiet }: ChaosRun, { longestUnavailableMs }: Summary): string[] {
  return [
    ...(isQuiet ? [] : ["something had not ended a minute after the last fault"]),
    ...(longestUnavailableMs > longestUnavailableMsMax
      ? [`nothing succeeded for ${(longestUnavailableMs / 1_000).toFixed(0)} s`]
      : []),
  ];
}

/** The server has no right to these, whatever is done to it. A bare 408 is Node's own, for a request that was not read in time. */
function wrongAnswers(records: readonly HistoryRecord[]): string[] {
  const codes = records.flatMap((record) =>
    (record.type === "unknown" || record.type === "fail") &&
    /^(internal|unexpected_answer (?!408))/.test(record.code)
      ? [record.code]
      : [],
  );
  return [...new Set(codes)].map((code) => {
    const count = codes.filter((other) => other === code).length;
    return `${count} requests were answered with ${code}`;
  });
}

/** An entry that nobody could apply would be a bug of the engine: trouble with servers and processes is no reason. */
function poisoned({ deadLetters }: ChaosRun): string[] {
  return deadLetters
    .filter(({ reason }) => reason === "poisoned_entry")
    .map(({ tenant, id }) => `an entry was set aside in ${tenant}: ${id}`);
}

/** Where lateness is not judged, what was late was not read either. */
function historyVoids(
  { judged }: ChaosOptions,
  { isQuiet }: ChaosRun,
  verdict: HistoryVerdict,
): readonly string[] {
  if (isQuiet || judged === "everything") return verdict.voidReasons;
  return verdict.voidReasons.filter((reason) => !reason.includes("not read in the end"));
}

/** Every fault comes once before any comes twice: by then each has had its turn. */
const longRunMinutes = 5;
/** The load asks for more than ten times as many. */
const okPerSecondMin = 5;

function runVoids(
  { minutes, judged }: ChaosOptions,
  { hits, troubles }: ChaosRun,
  summary: Summary,
): string[] {
  const ok = Math.round(summary.okFraction * summary.operationsTotal);
  const struck = [...hits.values()].reduce((sum, count) => sum + count, 0);
  const unstruck = minutes < longRunMinutes ? [] : [...hits].filter(([, count]) => count === 0);
  const reasons = [
    ok < okPerSecondMin * minutes * 60 && `only ${ok} operations succeeded in ${minutes} minutes`,
    struck === 0 && "no fault hit anything",
    unstruck.length > 0 && `these faults never hit: ${unstruck.map(([name]) => name).join(", ")}`,
    // On a machine so slow that a failover takes longer than it may, the others are worth looking at all the same.
    ...(judged === "safety" ? [] : troubles.map((trouble) => `a fault went wrong: ${trouble}`)),
  ];
  return reasons.filter((reason) => reason !== false);
}
