// What `interlock/sdk` offers: a client, workers, locks, fences and typed workflows. It imports nothing of the server.
export type { Caller, ClientOptions } from "./caller.ts";
export { type Client, createClient, waitForRun } from "./client.ts";
export { InterlockApiError, InterlockConnectionError, type Problem } from "./client-errors.ts";
export type {
  Answer,
  Body,
  CallOperation,
  CallOptions,
  Operation,
  Params,
  ProblemCode,
  Query,
  RetryLimits,
  StreamOperation,
  StreamOptions,
  Success,
} from "./contract.ts";
export {
  type Builder,
  defineWorkflow,
  Expression,
  expression,
  type HandlersOf,
  type OutputsOf,
  type Ref,
  type Step as WorkflowStep,
  type Typed,
  type,
  type WorkflowDefinition,
  type WorkflowFields,
} from "./define-workflow.ts";
export {
  type Confirmation,
  confirmWith,
  type FencedRequest,
  type FenceGuard,
  type FenceGuardOptions,
  type FenceRefusal,
  type FenceStore,
  type FenceVerdict,
  fenceGuard,
  fenceHeaders,
  memoryFenceStore,
} from "./fence.ts";
export type { Followed, FollowOptions, StreamedEvent, TenantEvent, TimelineEvent } from "./follow.ts";
export type {
  AnyLock,
  Approval,
  AuditRecord,
  AuditVerdict,
  DeadLetter,
  HeldLock,
  Listing,
  Page,
} from "./groups/care.ts";
export type {
  Definition,
  DryRun,
  Explanation,
  RunSummary,
  StartedRun,
  StartOptions,
  Step,
  Workflow,
} from "./groups/runs.ts";
export { hasEnded, type Run, type WaitOptions, WaitTimeout } from "./wait-for-run.ts";
export { type Lease, LockLost, type LockOptions, withLock } from "./with-lock.ts";
export type { BusOptions } from "./worker/bus-access.ts";
export type { WaitingResult } from "./worker/bus-results.ts";
export { type Handler, type Job, JobFailed, JobStopped, type StopReason, type Usage } from "./worker/job.ts";
export type { WorkerTrouble } from "./worker/results.ts";
export {
  type Handlers,
  type StopOptions,
  type StopReport,
  stopOnSignals,
  type Worker,
  type WorkerOptions,
  worker,
} from "./worker/worker.ts";
