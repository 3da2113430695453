// The public API: what programs that embed Interlock may use. Everything else may change without notice.
export type { Config } from "./config.ts";
export type { StartAnswer, StartRequest, StartWorkflowRequest } from "./control/admission/start-run.ts";
export type { DecideAnswer, DecideRequest } from "./control/approvals/decide-approval.ts";
export type { Caller, Trouble, WriteTrouble } from "./control/caller.ts";
export type { ControlApi } from "./control/create-api.ts";
export type { CancelAnswer } from "./control/engine/deliver-entry.ts";
export {
  type InProcessJob,
  type InProcessWorker,
  type InProcessWorkerOptions,
  type JobHandler,
  PermanentFailure,
} from "./control/jobs/in-process-worker.ts";
export type { ClaimedJob } from "./control/jobs/offers.ts";
export type { PollAnswer, PollRequest } from "./control/jobs/poll-jobs.ts";
export type { ReportAnswer } from "./control/jobs/report-result.ts";
export type { ResultReport } from "./control/jobs/result-entry.ts";
export type { Beat, BeatResult, WorkerInfo } from "./control/jobs/workers.ts";
export type { NewKey } from "./control/keys/api-keys.ts";
export type { AcquireLockAnswer, AcquireLockRequest } from "./control/locks/acquire-public-lock.ts";
export {
  admissionLockTerms,
  approvalLockTerms,
  jobLockTerms,
  type LeaseTerms,
  runLockTerms,
} from "./control/locks/lease-terms.ts";
export type {
  BreakLockAnswer,
  BreakLockRequest,
  LockPage,
  ReleaseLockAnswer,
  ReleaseLockRequest,
  RenewLockAnswer,
  RenewLockRequest,
  TenantLock,
} from "./control/locks/public-locks.ts";
export { type Lease, type LeaseOutcome, withLease } from "./control/locks/with-lease.ts";
export type { RunDetails } from "./control/runs/read-run.ts";
export { type ControlPlane, type ControlPlaneOptions, createControlPlane } from "./control-plane.ts";
export type { DispatchAnswer, DispatchJob, DispatchVerdict } from "./domain/dispatch.ts";
export {
  digestOf,
  type FingerprintedRequest,
  fingerprintOf,
  type JsonValue,
  type KeyReading,
  type ReservationDigest,
  readIdempotencyKey,
} from "./domain/fingerprint.ts";
export type { Fence, Guard, LockName, LockToken, RiskClass } from "./domain/lock.ts";
export { parseRunId, type RunId, type RunRecord, type RunStatus, type TerminalStatus } from "./domain/run.ts";
export { type JsonReading, readJson } from "./domain/strict-json.ts";
export { parseTenantId, type TenantId, type TenantSettings } from "./domain/tenant.ts";
export { type ErrorCode, errors, InterlockError } from "./errors.ts";
export { loadConfig } from "./load-config.ts";
export type { DispatchCheck, Ports } from "./ports/ports.ts";
export { type Span, type SpanFacts, type SpanKind, silentTracer, type Tracer } from "./ports/ports.ts";
export type { Answer, Store } from "./ports/store.ts";
