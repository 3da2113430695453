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
export type { StreamedEvent } from "./event-source.ts";
export {
  type Confirmation,
  confirmWith,
  type FencedRequest,
  type FenceGuard,
  type FenceGuardOptions,
  type FenceRefusal,
  fenceGuard,
} from "./fence/fence-guard.ts";
export { fenceHeaders } from "./fence/fence-headers.ts";
export { type FenceStore, type FenceVerdict, memoryFenceStore } from "./fence/fence-store.ts";
export type { Followed, FollowOptions, TenantEvent, TimelineEvent } from "./follow.ts";
export type { Approval, AuditRecord, AuditVerdict, DeadLetter } from "./groups/care.ts";
export type { AnyLock, HeldLock } from "./groups/locks.ts";
export type { DryRun, Explanation, RunSummary, StartedRun, StartOptions, Step } from "./groups/runs.ts";
export type { Definition, Workflow } from "./groups/workflows.ts";
export { type Lease, LockLost, type LockOptions, withLock } from "./locks/with-lock.ts";
export type { Listing, Page } from "./pages.ts";
export { hasEnded, type Run, type WaitOptions, WaitTimeout } from "./wait-for-run.ts";
export { type Handler, type Job, JobFailed, JobStopped, type StopReason } from "./worker/job.ts";
export type { WorkerTrouble } from "./worker/trouble.ts";
export {
  type Handlers,
  type StopOptions,
  type StopReport,
  stopOnSignals,
  type Worker,
  type WorkerOptions,
  worker,
} from "./worker/worker.ts";
export {
  defineWorkflow,
  type HandlersOf,
  type OutputsOf,
  type WorkflowDefinition,
  type WorkflowFields,
} from "./workflow/define-workflow.ts";
export { Expression, expression, type Ref } from "./workflow/reference.ts";
export { type Builder, type Step as WorkflowStep, type Typed, type } from "./workflow/steps.ts";
