// The public API: what programs that embed Interlock may use. Everything else may change without notice.
export type { Config } from "./config.ts";
export type { StartAnswer, StartRequest } from "./control/admission/start-run.ts";
export type * from "./control/control-api.ts";
export {
  type InProcessJob,
  type InProcessWorker,
  type InProcessWorkerOptions,
  type JobHandler,
  PermanentFailure,
} from "./control/jobs/in-process-worker.ts";
export {
  admissionLockTerms,
  approvalLockTerms,
  jobLockTerms,
  type LeaseTerms,
  runLockTerms,
} from "./control/locks/lease-terms.ts";
export type * from "./control/locks/lock-api.ts";
export { type Lease, type LeaseOutcome, withLease } from "./control/locks/with-lease.ts";
export { type ControlPlane, type ControlPlaneOptions, createControlPlane } from "./control-plane.ts";
export type { DispatchAnswer, DispatchJob, DispatchVerdict } from "./domain/dispatch.ts";
export { type FingerprintedRequest, fingerprintOf, type JsonValue } from "./domain/fingerprint.ts";
export type { Fence, Guard, LockName, LockToken, RiskClass } from "./domain/lock.ts";
export {
  digestOf,
  type KeyReading,
  type ReservationDigest,
  readIdempotencyKey,
} from "./domain/reservation.ts";
export { parseRunId, type RunId, type RunRecord, type RunStatus, type TerminalStatus } from "./domain/run.ts";
export { type JsonReading, readJson } from "./domain/strict-json.ts";
export { parseTenantId, type TenantId, type TenantSettings } from "./domain/tenant.ts";
export { type ErrorCode, errors, InterlockError } from "./errors.ts";
export { loadConfig } from "./load-config.ts";
export type { DispatchCheck, Ports } from "./ports/ports.ts";
export { type Span, type SpanFacts, type SpanKind, silentTracer, type Tracer } from "./ports/ports.ts";
export type { Answer, Store } from "./ports/store.ts";
