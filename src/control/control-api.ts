// Everything that may be asked of a control plane, as one table of functions: the gateway and embedding programs use it.

import type { DutyRule, Person } from "../domain/api-key.ts";
import type { Approval, ApprovalState, Decider, Decision } from "../domain/approval.ts";
import type { EventRow } from "../domain/audit.ts";
import type { JsonValue } from "../domain/fingerprint.ts";
import type { Job, JobId } from "../domain/job.ts";
import type { Fingerprint } from "../domain/reservation.ts";
import type { RunHeader, RunId, RunRecord, RunStatus, TerminalStatus } from "../domain/run.ts";
import type { TenantChanges, TenantId, TenantRecord, TenantSettings, Usage } from "../domain/tenant.ts";
import type { CompiledDefinition } from "../domain/workflow/compiled.ts";
import type { StartAnswer } from "./admission/start-run.ts";
import type { AuditApi } from "./audit/audit-api.ts";
import type { CanaryApi } from "./canaries/canary-api.ts";
import type { DeadLetterApi } from "./dead-letters/dead-letter-api.ts";
import type { Feed, FeedStart } from "./events/feed.ts";
import type { TimelineRow } from "./events/tail.ts";
import type { ClaimedJob } from "./jobs/offers.ts";
import type { PollAnswer, PollRequest } from "./jobs/poll-jobs.ts";
import type { ReportAnswer, ResultReport } from "./jobs/report-result.ts";
import type { Beat, BeatResult } from "./jobs/workers.ts";
import type { KeyApi } from "./keys/key-api.ts";
import type { LockApi } from "./locks/lock-api.ts";
import type { PolicyApi } from "./policies/policy-api.ts";
import type { PoolApi } from "./pools/pool-api.ts";
import type { WhyAnswer } from "./runs/explain-run.ts";
import type { RunApi } from "./runs/run-api.ts";
import type { WorkflowApi } from "./workflows/workflow-api.ts";

export type { NewKey } from "./keys/key-api.ts";
export type { Beat, BeatResult, ClaimedJob, PollAnswer, PollRequest, ReportAnswer, ResultReport };

/** Who asks: `credential` is the id of the key, `actor` what stands in records and rows. */
export type Caller = {
  readonly tenant: TenantId;
  readonly actor: string;
  readonly credential?: string;
  /** Who is behind the key; without one only actors are compared. */
  readonly person?: Person;
  /** What an approval keeps of whoever decides it. */
  readonly decider?: Decider;
};

/** The store could not answer: `unknown` may have had its effect, `unavailable` had none. */
export type Trouble =
  | { readonly kind: "unavailable"; readonly cause: string }
  | { readonly kind: "unknown"; readonly cause: string };

/** A write that acts for a key finds at the store that the key was revoked: it had no effect. */
export type WriteTrouble = Trouble | { readonly kind: "unauthenticated" };

export type StartWorkflowRequest = {
  readonly caller: Caller;
  readonly workflow: string;
  readonly input: JsonValue;
  readonly key?: { readonly text: string; readonly fingerprint: Fingerprint };
  /** W3C trace context: what the run does becomes part of that trace, and workers are told. */
  readonly traceparent?: string;
};

export type RunDetails = {
  readonly header: RunHeader;
  readonly records: readonly RunRecord[];
  readonly definition: CompiledDefinition | undefined;
};

export type CancelAnswer =
  | { readonly kind: "cancelling" }
  | { readonly kind: "already_ended"; readonly status: TerminalStatus }
  | { readonly kind: "not_found" }
  | WriteTrouble;

export type DecideRequest = {
  readonly caller: Caller;
  readonly approvalId: string;
  readonly decision: Decision;
  /** The hash that was shown; absent means: whatever is pending now (the hash is then read first). */
  readonly hash?: string;
  readonly reason?: string;
};

export type DecideAnswer =
  | { readonly kind: "decided"; readonly approval: Approval }
  /** The same decision was made before: the same record. */
  | { readonly kind: "repeated"; readonly approval: Approval }
  | { readonly kind: "approval_already_decided"; readonly approval: Approval }
  | { readonly kind: "approval_expired" }
  | { readonly kind: "approval_changed" }
  /** `rule` is absent when the very same key asked. */
  | { readonly kind: "self_approval"; readonly rule?: DutyRule }
  | { readonly kind: "run_ended" }
  | { readonly kind: "approval_not_found" }
  | { readonly kind: "unauthenticated" }
  /** Strategy `lock` only. */
  | { readonly kind: "approval_lock_busy"; readonly retryAfterSeconds: number }
  | Trouble;

export type WorkerInfo = {
  readonly tenant: TenantId;
  readonly worker: string;
  readonly topics: readonly string[];
  readonly places: number;
  readonly labels: Readonly<Record<string, string>>;
  readonly capabilities: readonly string[];
  readonly pool: string;
  readonly running: number;
  /** What it works on; only some when there are many. */
  readonly jobs: readonly JobId[];
  readonly lastSeenMsAgo: number;
};

export type ControlApi = {
  startWorkflow(request: StartWorkflowRequest, signal?: AbortSignal): Promise<StartAnswer>;
  /** Why a run does not move, or how it ended. */
  explainRun(tenant: TenantId, runId: RunId): Promise<WhyAnswer>;
  listRuns(
    tenant: TenantId,
    page: {
      readonly before?: RunId;
      readonly limit: number;
      readonly status?: RunStatus;
      readonly workflow?: string;
    },
  ): Promise<
    { readonly kind: "listed"; readonly runs: readonly RunHeader[]; readonly next?: RunId } | Trouble
  >;
  readTimeline(
    tenant: TenantId,
    runId: RunId,
    page: { readonly after: number; readonly limit: number },
  ): Promise<
    | {
        readonly kind: "timeline";
        readonly version: number;
        readonly rows: ReadonlyArray<{
          readonly version: number;
          readonly atMs: number;
          readonly body: string;
        }>;
      }
    | { readonly kind: "not_found" }
    | Trouble
  >;
  cancelRun(caller: Caller, runId: RunId, reason: string): Promise<CancelAnswer>;
  /** Cancels first if needed and waits a few seconds for the end; `not_ended` when that was not enough. */
  deleteRun(
    caller: Caller,
    runId: RunId,
  ): Promise<
    | { readonly kind: "deleted" }
    | { readonly kind: "not_found" }
    | { readonly kind: "not_ended" }
    | WriteTrouble
  >;

  pollJobs(request: PollRequest, signal?: AbortSignal): Promise<PollAnswer>;
  heartbeat(
    caller: Caller,
    worker: string,
    beats: readonly Beat[],
  ): Promise<{ readonly kind: "judged"; readonly answers: readonly BeatResult[] } | Trouble>;
  reportResult(caller: Caller, report: ResultReport): Promise<ReportAnswer>;
  getJob(
    tenant: TenantId,
    jobId: JobId,
  ): Promise<{ readonly kind: "job"; readonly job: Job } | { readonly kind: "not_found" } | Trouble>;
  listReadyJobs(
    tenant: TenantId,
    topic: string,
    limit: number,
  ): Promise<
    | {
        readonly kind: "listed";
        readonly jobs: ReadonlyArray<Pick<Job, "jobId" | "runId" | "topic" | "createdAtMs">>;
      }
    | Trouble
  >;
  /** Workers that any process has seen lately. */
  listWorkers(tenant: TenantId): readonly WorkerInfo[];

  listApprovals(
    tenant: TenantId,
    page: { readonly before?: string; readonly limit: number; readonly state?: ApprovalState },
  ): Promise<
    { readonly kind: "listed"; readonly approvals: readonly Approval[]; readonly next?: string } | Trouble
  >;
  /** What is being approved: the canonical text whose hash the decision names. */
  approvalContext(
    tenant: TenantId,
    approvalId: string,
  ): Promise<
    | { readonly kind: "context"; readonly approval: Approval; readonly shown: string }
    | { readonly kind: "not_found" }
    | Trouble
  >;
  decideApproval(request: DecideRequest): Promise<DecideAnswer>;

  readEvents(
    tenant: TenantId,
    page: { readonly after: number; readonly limit: number },
  ): Promise<
    | {
        readonly kind: "events";
        readonly events: readonly EventRow[];
        /** The numbers of the oldest row that is kept and of the newest. */
        readonly first: number;
        readonly last: number;
      }
    | Trouble
  >;
  /** A tenant's rows as they come; `last` is the number of the newest. The caller closes the feed. */
  followEvents(
    tenant: TenantId,
    start: FeedStart,
  ): Promise<{ readonly kind: "open"; readonly feed: Feed<EventRow>; readonly last: number } | Trouble>;
  /** A run's timeline as it grows, to the run's end. `ended`: the caller has already got all there is. */
  followRun(
    tenant: TenantId,
    runId: RunId,
    start: FeedStart,
  ): Promise<
    | { readonly kind: "open"; readonly feed: Feed<TimelineRow>; readonly last: number }
    | { readonly kind: "ended" }
    | { readonly kind: "not_found" }
    | Trouble
  >;

  /** Which run a start's key maps to. */
  lookUpKey(
    tenant: TenantId,
    key: string,
  ): Promise<
    | { readonly kind: "idempotency_key_unbound" }
    | { readonly kind: "pending"; readonly runId: RunId }
    | { readonly kind: "bound"; readonly runId: RunId; readonly finalStatus?: TerminalStatus }
    | Trouble
  >;

  createTenant(
    actor: string,
    tenant: TenantId,
    settings: TenantSettings,
  ): Promise<{ readonly kind: "created" } | { readonly kind: "exists" } | Trouble>;
  getTenant(tenant: TenantId): Promise<
    | {
        readonly kind: "tenant";
        readonly record: TenantRecord;
        readonly active: number;
        readonly used: Usage;
      }
    | { readonly kind: "not_found" }
    | Trouble
  >;
  listTenants(page: {
    readonly after: string;
    readonly limit: number;
  }): Promise<{ readonly kind: "listed"; readonly tenants: readonly TenantId[] } | Trouble>;
  /** How many streams of the tenant one process serves at once. */
  streamsMax(tenant: TenantId): Promise<number>;
  /** Merges the fields given; `undefined` in `changes` removes a field. `expectedVersion` guards against lost updates. */
  changeTenant(
    actor: string,
    tenant: TenantId,
    changes: TenantChanges,
    expectedVersion?: number,
  ): Promise<
    | { readonly kind: "saved"; readonly record: TenantRecord }
    | { readonly kind: "version_conflict"; readonly version: number }
    | { readonly kind: "not_found" }
    | WriteTrouble
  >;
  /** Its keys go first, so that nothing can begin in it; what has ended in it is kept as long as of any tenant. */
  removeTenant(
    actor: string,
    tenant: TenantId,
  ): Promise<
    | { readonly kind: "removed" }
    | { readonly kind: "active"; readonly active: number }
    | { readonly kind: "not_found" }
    | Trouble
  >;

  /** Whether the store answers now. */
  ready(): Promise<boolean>;
} & RunApi &
  KeyApi &
  LockApi &
  WorkflowApi &
  PoolApi &
  PolicyApi &
  CanaryApi &
  AuditApi &
  DeadLetterApi;
