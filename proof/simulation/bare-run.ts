// Runs without a workflow, for tests of what does not depend on one: they begin, change and end on request.
import type { Guard } from "../../src/domain/lock.ts";
import { type RunChange, type RunId, type RunStatus, unchanged } from "../../src/domain/run.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import type { RequestOf } from "../../src/ports/store.ts";

/** A change of the status and of nothing else. */
export function bareChange(status: RunStatus): RunChange {
  return { ...unchanged, status, timeline: `{"status":"${status}"}` };
}

/** What a start asks for besides who and where. */
export const bareStart = {
  workflow: "bare",
  definition: "none",
  change: bareChange("pending"),
  start: "applied",
} as const;

type BareCommit = {
  readonly tenant: TenantId;
  readonly runId: RunId;
  readonly status: RunStatus;
  /** Recognises a repeat; by default as if there were only one commit. */
  readonly commitId?: string;
  /** By default that of a run just admitted. */
  readonly expectedVersion?: number;
};

/** The commit that takes a run to a status: a guarded write for `lease.write`, or for the store with a guard. */
export function bareCommit(commit: BareCommit): Omit<RequestOf<"commit">, "guard"> {
  const { tenant, runId, status, commitId = "bare commit", expectedVersion = 1 } = commit;
  return { tenant, runId, commitId, expectedVersion, consumed: 0, change: bareChange(status) };
}

export function bareCommitUnder(guard: Guard, commit: BareCommit): RequestOf<"commit"> {
  return { ...bareCommit(commit), guard };
}
