// The steps of a run by the engine's own records: what is done stays done, and what ended left nothing open (INV-22, 26).
import {
  readStepRecord,
  type StepRecord,
  type StepStatus,
  untouched,
} from "../../../src/domain/engine/records.ts";
import { makeJobId } from "../../../src/domain/job.ts";
import type { RunId } from "../../../src/domain/run.ts";
import type { TenantId } from "../../../src/domain/tenant.ts";
import type { StoreExecution } from "../../../src/testing/simulated-store.ts";
import { mustHold } from "../invariants/violation.ts";
import type { ChangeOf, JournaledRecords } from "./journaled-records.ts";

const openStatuses: readonly StepStatus[] = ["pending", "running", "waiting"];

/** INV-22: a step that has ended is not changed again, and attempts are counted one by one. */
export function judgeStep(
  { name }: StoreExecution,
  change: ChangeOf<"runRecord">,
  /** What the run may do after the retry of a dead letter: go on with what had failed, and with what that had taken back. */
  retried: "retried" | "never retried",
): void {
  const { before, after, scope, member } = change;
  if (after === undefined || before === undefined || !member.startsWith("step/")) return;
  const [was, is] = [readStepRecord(before.body), readStepRecord(after.body)];
  const what = () => `${name} took ${member} of ${scope} from ${shown(was)} to ${shown(is)}`;
  const mayGoOn = retried === "retried" && was.status !== "succeeded";
  mustHold(openStatuses.includes(was.status) || mayGoOn || before.body === after.body, "INV-22", what);
  mustHold(is.attempt === was.attempt || is.attempt === was.attempt + 1, "INV-22", what);
}

/** What must hold of a run that has ended and is still there. */
export function checkEndedRun(records: JournaledRecords, run: Ended & { readonly status: string }): void {
  const { tenant, runId } = run;
  const scope = `${tenant}/${runId}`;
  for (const { member, value } of records.scan("runRecord", scope, "step/", 1_000)) {
    if (!member.startsWith("step/")) break;
    const record = readStepRecord(value.body);
    const open = record.status === "running" || record.status === "waiting";
    mustHold(!open, "INV-17", () => `${runId} is ${run.status}, but ${member} is ${shown(record)}`);
    checkOutput(records, run, { step: member.slice(5), record });
  }
  checkCopies(records, run);
  for (const { value } of records.scan("job", scope, "", 1_000)) {
    const open =
      value.state === "held" ||
      value.state === "ready" ||
      value.state === "parked" ||
      value.state === "claimed";
    mustHold(!open, "INV-20", () => `${runId} is ${run.status}, but job ${value.jobId} is ${value.state}`);
  }
  for (const { member, value } of records.scan("approval", tenant, `${runId}:`, 1_000)) {
    if (!member.startsWith(`${runId}:`)) break;
    const body = records.get("runRecord", scope, `step/${value.step}`)?.body;
    const { status, attempt } = body === undefined ? untouched : readStepRecord(body);
    const what = () =>
      `${member} is ${value.state}, but its step is ${status} in a run that is ${run.status}`;
    mustHold(value.state !== "pending", "INV-26", what);
    // A run that was called off, or an entry set aside, shows: the step is cancelled or failed.
    if (!member.endsWith(`@${attempt}`)) continue;
    if (value.state === "approved") mustHold(!["timed_out", "denied"].includes(status), "INV-26", what);
    if (value.state === "rejected") mustHold(!["timed_out", "succeeded"].includes(status), "INV-26", what);
  }
}

/** A transform saw of another step exactly what that step's worker reported. */
function checkCopies(records: JournaledRecords, { tenant, runId }: Ended): void {
  const scope = `${tenant}/${runId}`;
  for (const { member, value } of records.scan("runRecord", scope, "output/", 1_000)) {
    if (!member.startsWith("output/")) break;
    const { output } = JSON.parse(value.body) as { readonly output: unknown };
    if (typeof output !== "object" || output === null || !("of" in output)) continue;
    const step = records.get("runRecord", scope, `step/${String(output.of)}`);
    const key = step === undefined ? undefined : readStepRecord(step.body).outputKey;
    if (key?.startsWith("result/") !== true) continue;
    const reported = records.get("runRecord", scope, key)?.body ?? "";
    const copied = "copied" in output ? JSON.stringify({ output: output.copied }) : "nothing";
    mustHold(copied === reported, "INV-22", () => `${member} of ${runId} saw ${copied}, not ${reported}`);
  }
}

type Ended = { readonly tenant: TenantId; readonly runId: RunId };

/** A worker's step has its output from the job of its last attempt, which was reported. */
function checkOutput(
  records: JournaledRecords,
  { tenant, runId }: Ended,
  { step, record }: { readonly step: string; readonly record: StepRecord },
): void {
  const { outputKey, attempt, status, takenOver } = record;
  if (status !== "succeeded" || takenOver === true || outputKey?.startsWith("result/") !== true) return;
  const scope = `${tenant}/${runId}`;
  const job = records.get("job", scope, makeJobId({ runId, step, attempt }));
  mustHold(
    job?.state === "reported" && records.get("runRecord", scope, outputKey) !== undefined,
    "INV-22",
    () => `step ${step} of ${runId} succeeded by ${outputKey}, but attempt ${attempt} is ${job?.state}`,
  );
}

function shown({ status, attempt }: StepRecord): string {
  return `${status}@${attempt}`;
}
