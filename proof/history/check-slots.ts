// When everything is quiet, no slot is taken, and none is missing.
import type { Finding } from "./finding.ts";
import { groupBy } from "./group-by.ts";
import type { History } from "./history.ts";
import { isEnded, knownRunsOf } from "./run-evidence.ts";

export function checkSlots(history: History): Finding[] {
  const started = knownRunsOf(history);
  const open = history
    .finalsOf("run")
    .filter(({ runId, status }) => started.has(runId) && status !== "missing" && !isEnded(status));
  const openOf = groupBy(open, ({ tenant }) => tenant);
  return history.finalsOf("tenant").flatMap(({ tenant, activeRuns, record }): Finding[] => {
    const runs = openOf.get(tenant) ?? [];
    const records = [record, ...runs.map((run) => run.record)];
    if (runs.length > activeRuns) {
      const sentence = `${runs.length} runs of ${tenant} have not ended, and ${activeRuns} slots are taken`;
      return [{ invariant: "INV-2", standing: "promised", sentence, records }];
    }
    if (activeRuns === 0) return [];
    const sentence = `${activeRuns} slots of ${tenant} are taken in the end`;
    return [{ invariant: "INV-3", standing: "promised", sentence, records }];
  });
}
