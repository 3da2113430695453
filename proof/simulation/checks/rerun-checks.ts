// Reruns: what they take over is what the earlier run has done, word for word.
import { factsRecordKey } from "../../../src/domain/engine/keys.ts";
import { readFacts, readStepRecord } from "../../../src/domain/engine/records.ts";
import type { RunId } from "../../../src/domain/run.ts";
import type { TenantId } from "../../../src/domain/tenant.ts";
import { mustHold } from "../invariants/violation.ts";
import type { JournaledRecords } from "./journaled-records.ts";

type Run = { readonly tenant: TenantId; readonly runId: RunId };

/** The run whose steps this one has taken over. */
export function rerunOf(records: JournaledRecords, { tenant, runId }: Run): RunId | undefined {
  return sourceOf(records, `${tenant}/${runId}`);
}

/** A result that no worker of this run has reported: the same one as in the earlier run, if that is still there. */
export function isTakenOver(
  records: JournaledRecords,
  { scope, member, body }: { readonly scope: string; readonly member: string; readonly body: string },
): boolean {
  const of = sourceOf(records, scope);
  if (of === undefined) return false;
  const source = scope.slice(0, scope.indexOf("/") + 1) + of;
  const earlier = records.get("runRecord", source, member);
  return earlier === undefined || earlier.body === body;
}

/** To be called when it has ended: while the earlier run is there, both say the same of what was taken over. */
export function checkRerun(records: JournaledRecords, { tenant, runId }: Run): void {
  const of = rerunOf(records, { tenant, runId });
  if (of === undefined) return;
  for (const { member, value } of records.scan("runRecord", `${tenant}/${runId}`, "step/", 1_000)) {
    if (!member.startsWith("step/")) break;
    const { takenOver, outputKey, status } = readStepRecord(value.body);
    const earlier = records.get("runRecord", `${tenant}/${of}`, member);
    if (takenOver !== true || earlier === undefined) continue;
    const was = readStepRecord(earlier.body);
    const [ours, theirs] = [runId, of].map((each) =>
      outputKey === undefined ? undefined : records.get("runRecord", `${tenant}/${each}`, outputKey)?.body,
    );
    mustHold(
      status === was.status && outputKey === was.outputKey && ours === theirs,
      "reruns",
      () => `${member} of ${runId} is ${status} with ${ours}; in ${of} it is ${was.status} with ${theirs}`,
    );
  }
}

function sourceOf(records: JournaledRecords, scope: string): RunId | undefined {
  const facts = records.get("runRecord", scope, factsRecordKey)?.body;
  return facts === undefined ? undefined : readFacts(facts).rerun?.of;
}
