// A run's change as arguments of a script, in the order that lua/parts/plan-change.lua describes.
import type { JobSpec } from "../../domain/job.ts";
import { type ChildRun, isTerminal, type RunChange } from "../../domain/run.ts";
import type { StoreSettings } from "../../ports/store.ts";
import { approvalArgs } from "./approval-format.ts";
import { jobTail, workerWord } from "./job-format.ts";
import { encode, plain, unencoded } from "./keys.ts";
import { packEntry, recordField } from "./run-format.ts";
import { credentialWord, jsonWord, optionalWord, wholeMs } from "./script-call.ts";

/** Most admissions and many commits write records only: the rest is left out then. */
export function changeArgs(commitId: string, change: RunChange, settings: StoreSettings): string[] {
  const { records, status, timeline } = change;
  const extent = extentOf(change);
  const args = [
    status,
    isTerminal(status) ? "ends" : "",
    jsonWord(commitId),
    timeline,
    String(records.length),
    extent,
    String(settings.timelineRowsMax),
    String(settings.runRetentionMs),
    keyRetention(settings),
    String(settings.proveEveryMs),
  ];
  for (const { key, body } of records) args.push(recordField(key), body);
  if (extent !== "") pushMore(args, change, settings);
  if (extent === "tree") args.push(...treeArgs(change, settings));
  return args;
}

function extentOf(change: RunChange): "tree" | "more" | "" {
  if (change.children.length > 0 || change.cancelChildren.length > 0) return "tree";
  const more =
    change.jobs.length > 0 ||
    change.voidJobs.length > 0 ||
    change.releaseJobs.length > 0 ||
    change.clearTimers.length > 0 ||
    change.timers.length > 0 ||
    change.approvals.length > 0 ||
    change.closeApprovals.length > 0 ||
    change.deadLetters.length > 0;
  return more ? "more" : "";
}

/** A key in Redis lives for a millisecond at least. */
function keyRetention({ keyRetentionMs }: StoreSettings): string {
  return keyRetentionMs === undefined ? "" : String(Math.max(1, Math.floor(keyRetentionMs)));
}

function pushMore(args: string[], change: RunChange, settings: StoreSettings): void {
  const { jobs, voidJobs, clearTimers, timers, approvals, closeApprovals, deadLetters, releaseJobs } = change;
  const groups = [jobs, voidJobs, clearTimers, timers, approvals, closeApprovals, deadLetters, releaseJobs];
  for (const group of groups) args.push(String(group.length));
  args.push(String(Math.min(settings.republishAfterMs, settings.republishAfterMaxMs)));
  args.push(String(settings.deadLetterRetentionMs));
  for (const job of jobs) args.push(...jobArgs(job));
  args.push(...voidJobs, ...releaseJobs.map(({ jobId }) => jobId), ...clearTimers);
  for (const { timerId, dueAtMs } of timers) {
    args.push(plain("timer id", timerId), wholeMs("dueAtMs", dueAtMs));
  }
  for (const request of approvals) args.push(...approvalArgs(request));
  for (const { approvalId, state } of closeApprovals) args.push(approvalId, state);
  for (const { id, reason, body } of deadLetters) args.push(id, reason, body);
}

/** As lua/parts/judge-tree.lua describes it: scripts find it from the end. */
function treeArgs({ children, cancelChildren }: RunChange, { runsPerRootMax }: StoreSettings): string[] {
  const args = [String(runsPerRootMax), String(children.length), String(cancelChildren.length)];
  for (const child of children) args.push(...childArgs(child));
  for (const runId of cancelChildren) args.push(unencoded("run id", runId));
  return [...args, String(args.length)];
}

function childArgs({ runId, workflow, definition, step, attempt, records }: ChildRun): string[] {
  return [
    unencoded("run id", runId),
    workflow,
    definition,
    jsonWord(step),
    String(attempt),
    packEntry({ kind: "started", entryId: runId }),
    String(records.length),
    ...records.flatMap(({ key, body }) => [recordField(key), body]),
  ];
}

function jobArgs(spec: JobSpec): string[] {
  const { jobId, topic } = spec;
  const claim = spec.held === true ? undefined : spec.claim;
  return [
    plain("job id", jobId),
    encode(topic),
    jobTail(spec),
    spec.held === true ? "held" : optionalWord(claim?.token),
    claim === undefined ? "-" : workerWord(claim),
    claim === undefined ? "0" : wholeMs("leaseMs", claim.leaseMs),
    credentialWord(claim?.credential),
  ];
}
