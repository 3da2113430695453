// No step is tried more often than it may be, and the dead letters in the end are those of steps that may have run out of attempts.
import type { Finding } from "./finding.ts";
import { groupBy } from "./group-by.ts";
import { type FinalOf, type History, okAnswer } from "./history.ts";

export function checkDeliveries(history: History): Finding[] {
  return [...checkAttempts(history), ...checkDeadLetters(history)];
}

function checkAttempts(history: History): Finding[] {
  const { attemptsMax } = history.setting;
  return history.callsOf("claim").flatMap((call) =>
    (okAnswer(call, "claimed")?.jobs ?? []).flatMap(({ attempt, jobId }) => {
      if (attempt <= attemptsMax) return [];
      const sentence = `${jobId} is attempt ${attempt}, and a step may have ${attemptsMax}`;
      return [{ invariant: "INV-23", standing: "promised", sentence, records: call.records } as const];
    }),
  );
}

type Tried = { readonly runId: string; readonly step: string; attempts: Set<number> };

function checkDeadLetters(history: History): Finding[] {
  const runs = new Map(history.finalsOf("run").map((run) => [run.runId, run]));
  return history.finalsOf("dead_letters").flatMap(({ tenant, count, record }) => {
    const { least, most } = deadLettersOf(history, tenant, runs);
    if (least <= count && count <= most) return [];
    const sentence = `${tenant} has ${count} dead letters, and there must be ${least} to ${most}`;
    return [{ invariant: "INV-23", standing: "promised", sentence, records: [record] }];
  });
}

/**
 * A step may be dead if it was not completed and the attempts that nobody saw fit into the claims whose answers were lost. It is
 * certainly dead if its last attempt was given, its run failed, and no other step can have been what failed it.
 */
function deadLettersOf(
  history: History,
  tenant: string,
  runs: ReadonlyMap<string, FinalOf<"run">>,
): { readonly least: number; readonly most: number } {
  const { attemptsMax } = history.setting;
  const calls = history.callsOf("claim").filter(({ operation }) => operation.tenant === tenant);
  const lost = calls.filter(({ completion }) => completion.kind === "unknown").length;
  const answers = calls.map((call) => okAnswer(call, "claimed")?.jobs ?? []);
  const jobsMax = answers.reduce((most, jobs) => Math.max(most, jobs.length), 1);
  const tried = new Map<string, Tried>();
  for (const { runId, step, attempt } of answers.flat()) {
    const name = `${runId} ${step}`;
    const seen = tried.get(name) ?? { runId, step, attempts: new Set() };
    seen.attempts.add(attempt);
    tried.set(name, seen);
  }
  const open = [...tried.values()].filter(
    ({ runId, step }) => runs.get(runId)?.completed.includes(step) !== true,
  );
  const certain = [...groupBy(open, ({ runId }) => runId)].filter(([runId, [first, ...others]]) => {
    const isLast = first?.attempts.has(attemptsMax) === true && others.length === 0;
    return isLast && runs.get(runId)?.status === "failed";
  });
  // Those of which nobody saw anything.
  const unseen = Math.floor((lost * jobsMax) / attemptsMax);
  return { least: lost === 0 ? certain.length : 0, most: open.length + unseen };
}
