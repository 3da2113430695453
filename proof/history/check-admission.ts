// Whether all answers about a tenant's admissions fit one order, for tenants whose runs nothing ends but a cancel.
import { createAdmissionModel } from "./admission-model.ts";
import { admissionOf } from "./admission-operations.ts";
import { type Checked, type Finding, standingOf, type Undecided } from "./finding.ts";
import { groupBy } from "./group-by.ts";
import type { Call, History } from "./history.ts";
import { linearize } from "./linearize.ts";
import { isEnded, observationsOf, parseJob } from "./run-evidence.ts";

export function checkAdmissions(history: History, stepsMax?: number): Checked {
  const findings: Finding[] = [];
  const undecided: Undecided[] = [];
  for (const tenant of cancelledTenants(history)) {
    const { operations, calls, isAmbiguous, ...options } = admissionOf(history, tenant);
    if (isAmbiguous) {
      const sentence = `the admissions of ${tenant}: runs were seen that keys may have made which nobody has read`;
      undecided.push({ invariant: "INV-19", sentence });
      continue;
    }
    const order = linearize(createAdmissionModel(options), operations, stepsMax);
    if (order.kind === "undecided") {
      const sentence = `the order of ${operations.length} operations of ${tenant} after ${order.steps} steps`;
      undecided.push({ invariant: "INV-19", sentence });
    } else if (order.kind === "violation") {
      const stuck = order.stuckOn.flatMap((index) => calls[index] ?? []);
      const toUs = Math.max(...order.stuckOn.map((index) => operations[index]?.completion?.atUs ?? 0));
      findings.push({
        invariant: "INV-19",
        standing: standingOf(history, { fromUs: Number.NEGATIVE_INFINITY, toUs }),
        sentence: `the answers about ${tenant} fit no order; where the longest one ends, none of these can come next`,
        records: stuck.flatMap(({ records }) => records),
      });
    }
  }
  return { findings, undecided };
}

/** Runs that work, decisions or time may end are ended at moments that nobody is told. */
function cancelledTenants(history: History): string[] {
  const tenantOf = new Map(history.finalsOf("run").map(({ runId, tenant }) => [runId, tenant]));
  const others = new Set<string | undefined>();
  const worked: ReadonlyArray<Call<"report" | "decide">> = [
    ...history.callsOf("report"),
    ...history.callsOf("decide"),
  ];
  for (const { operation } of worked) others.add(operation.tenant);
  for (const { runId, status } of observationsOf(history)) {
    if (isEnded(status) && status !== "cancelled") others.add(tenantOf.get(runId));
  }
  for (const { jobId } of history.effects) others.add(tenantOf.get(parseJob(jobId)?.runId ?? ""));
  const tenants = groupBy(history.callsOf("start"), ({ operation }) => operation.tenant);
  return [...tenants.keys()].filter((tenant) => !others.has(tenant));
}
