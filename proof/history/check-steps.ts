// Every step is completed once, by a report that was not refused; and a report that was accepted is the one that is recorded.
import { type Finding, standingOf } from "./finding.ts";
import { groupBy } from "./group-by.ts";
import { type Call, type FinalOf, type History, okAnswer } from "./history.ts";
import { parseJob } from "./run-evidence.ts";

type Report = Call<"report">;
type FinalRun = FinalOf<"run">;

export function checkSteps(history: History): Finding[] {
  const reports = history.callsOf("report");
  const byNonce = groupBy(reports, ({ operation }) => operation.nonce);
  const runs = history.finalsOf("run");
  return [
    ...runs.flatMap((run) => checkCompletedOnce(run)),
    ...runs.flatMap((run) => checkRecorded(run, byNonce)),
    ...checkAccepted(history, reports),
    ...checkAcceptedOnce(history, reports),
  ];
}

const whole = { fromUs: Number.NEGATIVE_INFINITY, toUs: Number.POSITIVE_INFINITY };

function checkCompletedOnce({ runId, completed, record }: FinalRun): Finding[] {
  return [...groupBy(completed, (step) => step)].flatMap(([step, times]) => {
    if (times.length === 1) return [];
    const sentence = `step ${step} of run ${runId} was completed ${times.length} times`;
    return [{ invariant: "INV-22", standing: "promised", sentence, records: [record] }];
  });
}

/** A repeated report may be refused, as long as the one before it was not. */
function checkRecorded(run: FinalRun, byNonce: ReadonlyMap<string, readonly Report[]>): Finding[] {
  return Object.entries(run.nonces).flatMap(([step, nonce]) => {
    const reports = byNonce.get(nonce) ?? [];
    const problem = problemOf(run.runId, step, reports);
    if (problem === undefined) return [];
    const sentence = `step ${step} of run ${run.runId} has recorded ${nonce}, which ${problem}`;
    const records = [run.record, ...reports.flatMap((report) => report.records)];
    return [{ invariant: "INV-22", standing: "promised", sentence, records }];
  });
}

function problemOf(runId: string, step: string, reports: readonly Report[]): string | undefined {
  if (reports.length === 0) return "nobody reported";
  const own = reports.filter(({ operation }) => {
    const job = parseJob(operation.jobId);
    return job?.runId === runId && job.step === step;
  });
  if (own.length === 0) return "was reported of another step";
  const succeeded = own.filter(({ operation: { status = "succeeded" } }) => status === "succeeded");
  if (succeeded.length === 0) return "was not reported as a success";
  return succeeded.every(({ completion }) => completion.kind === "fail") ? "was refused" : undefined;
}

function isAccepted(report: Report): boolean {
  return okAnswer(report, "report")?.outcome === "accepted";
}

/** An accepted report of a run that another entry has ended first may have come to nothing. */
function checkAccepted(history: History, reports: readonly Report[]): Finding[] {
  const finals = new Map(history.finalsOf("run").map((run) => [run.runId, run]));
  return reports.flatMap((report) => {
    const { jobId, nonce, status = "succeeded" } = report.operation;
    const job = parseJob(jobId);
    const run = job === undefined ? undefined : finals.get(job.runId);
    if (job === undefined || run === undefined || run.status === "missing") return [];
    if (!isAccepted(report) || status !== "succeeded") return [];
    const recorded = run.nonces[job.step];
    if (recorded === nonce || (recorded === undefined && run.status !== "succeeded")) return [];
    const standing = standingOf(history, { ...whole, fromUs: report.invokedAtUs });
    const sentence = `${nonce} was accepted for ${jobId}, and the step has recorded ${recorded ?? "nothing"}`;
    return [{ invariant: "INV-22", standing, sentence, records: [...report.records, run.record] }];
  });
}

function checkAcceptedOnce(history: History, reports: readonly Report[]): Finding[] {
  const accepted = groupBy(reports.filter(isAccepted), ({ operation }) => operation.jobId);
  return [...accepted].flatMap(([jobId, calls]) => {
    if (calls.length === 1) return [];
    const times = calls.map(({ invokedAtUs }) => invokedAtUs);
    const standing = standingOf(history, { fromUs: Math.min(...times), toUs: Math.max(...times) });
    const sentence = `${calls.length} reports of ${jobId} were accepted`;
    return [{ invariant: "INV-22", standing, sentence, records: calls.flatMap(({ records }) => records) }];
  });
}
