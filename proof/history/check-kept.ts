// What was acknowledged is there in the end, and whenever it is asked for: runs that were started, and ends that were asked for.
import { type Finding, standingOf } from "./finding.ts";
import { answeredAtUs, type Call, type History } from "./history.ts";
import { isEnded, type KnownRun, knownRunsOf } from "./run-evidence.ts";

export function checkKept(history: History): Finding[] {
  const runs = knownRunsOf(history);
  return [...checkFinalRuns(history, runs), ...checkReadings(history, runs), ...checkCancels(history)];
}

/** Runs that were acknowledged and not looked for in the end: nothing can be said of them. */
export function unreadRuns(history: History): string[] {
  const read = new Set(history.finalsOf("run").map(({ runId }) => runId));
  return [...knownRunsOf(history).keys()].filter((runId) => !read.has(runId));
}

function checkFinalRuns(history: History, runs: ReadonlyMap<string, KnownRun>): Finding[] {
  return history.finalsOf("run").flatMap(({ runId, status, record }) => {
    const run = runs.get(runId);
    if (run === undefined || status !== "missing") return [];
    const standing = standingOf(history, { fromUs: run.mayBeginUs, toUs: Number.POSITIVE_INFINITY });
    const sentence = `run ${runId} of ${run.tenant} was acknowledged and is not there in the end`;
    return [{ invariant: "INV-18", standing, sentence, records: [...run.records, record] }];
  });
}

function checkReadings(history: History, runs: ReadonlyMap<string, KnownRun>): Finding[] {
  const asked: readonly Call<"get" | "cancel">[] = [...history.callsOf("get"), ...history.callsOf("cancel")];
  return asked.flatMap((call) => {
    const { completion, operation, invokedAtUs, records } = call;
    const run = runs.get(operation.runId);
    const isNotFound = completion.kind === "fail" && completion.code === "run_not_found";
    if (!isNotFound || run === undefined || run.existsUs >= invokedAtUs) return [];
    const standing = standingOf(history, { fromUs: run.mayBeginUs, toUs: answeredAtUs(call) });
    const sentence = `${operation.operation} did not find run ${run.runId}, which had been acknowledged`;
    return [{ invariant: "INV-18", standing, sentence, records: [...run.records, ...records] }];
  });
}

function checkCancels(history: History): Finding[] {
  const finals = new Map(history.finalsOf("run").map((final) => [final.runId, final]));
  return history.callsOf("cancel").flatMap(({ completion, operation, invokedAtUs, records }) => {
    const final = finals.get(operation.runId);
    const isKept = final === undefined || final.status === "missing" || isEnded(final.status);
    if (completion.kind !== "ok" || isKept) return [];
    const standing = standingOf(history, { fromUs: invokedAtUs, toUs: Number.POSITIVE_INFINITY });
    const sentence = `the cancel of run ${operation.runId} was acknowledged, and the run is ${final.status} in the end`;
    return [{ invariant: "INV-18", standing, sentence, records: [...records, final.record] }];
  });
}
