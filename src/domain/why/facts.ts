// What is known of a run when somebody asks why it does not move: gathered by a flow, explained by pure functions.
import type { Approval } from "../approval.ts";
import type { RunState, StepError, StepRecord } from "../engine/records.ts";
import type { Job, JobId } from "../job.ts";
import type { Qualities } from "../requirements.ts";
import type { RunHeader, RunId } from "../run.ts";
import type { TenantSettings } from "../tenant.ts";
import type { SlotHolder } from "./explanation.ts";

/** One answer of the store. What it did not answer is shown as unanswered, never as "there is none". */
export type Part<Value> =
  | { readonly kind: "known"; readonly value: Value }
  | { readonly kind: "absent" }
  | { readonly kind: "unanswered" };

/** An open step, with what belongs to its attempt under way. */
export type StepFacts = {
  /** `<id>`, or `<id>[<index>]` for an item of a for_each. */
  readonly stepId: string;
  readonly record: StepRecord;
  readonly job?: Part<Job>;
  /** Of a held job: who asks the dispatch check about it now. */
  readonly jobLock?: Part<LockFacts>;
  readonly approval?: Part<Approval>;
  readonly childRun?: { readonly runId: RunId; readonly header: Part<RunHeader> };
  /** Why its attempt before this one failed. */
  readonly lastError?: { readonly message: string; readonly code?: string };
};

/** A worker that this process has seen within the last two minutes. */
export type WorkerFacts = Qualities & {
  readonly worker: string;
  readonly topics: readonly string[];
  readonly running: number;
  readonly jobs: readonly JobId[];
  readonly lastSeenMsAgo: number;
  /** Absent means the default one. */
  readonly pool?: string;
  /** Places not yet promised of its polls that wait now; absent when it is not asking for jobs. */
  readonly free?: number;
};

export type LockFacts =
  | { readonly kind: "free" }
  | {
      readonly kind: "held";
      readonly instance: string;
      readonly owner?: string;
      readonly heldForMs: number;
      readonly expiresInMs: number;
    };

export type SlotFacts = { readonly active: number; readonly limit?: number; readonly stopped: boolean };

/** The tenant's limits on running jobs, and how many run where they apply. */
export type PlaceFacts = {
  readonly limits: Pick<TenantSettings, "topics" | "pools">;
  readonly topics: ReadonlyMap<string, number>;
  readonly pools: ReadonlyMap<string, number>;
};

/** A dead letter that the failure of the run has left. */
export type LetterFacts = {
  readonly id: string;
  readonly state: "open" | "retried";
  readonly reason: string;
};

type Everything = {
  readonly header: RunHeader;
  /** The store's. */
  readonly nowMs: number;
  /** Absent before the run was started, or when its record cannot be read. */
  readonly run?: RunState;
  readonly slots: Part<SlotFacts>;
  /** Parts of the picture that the store did not answer, in words. */
  readonly unanswered: readonly string[];
};

export type LiveRunFacts = Everything & {
  readonly lock: Part<LockFacts>;
  /** Those looked at: at most a few dozen of the open ones. */
  readonly steps: readonly StepFacts[];
  readonly workers: readonly WorkerFacts[];
  /** Absent when the tenant has no limits on running jobs, or the store did not tell. */
  readonly places?: PlaceFacts;
  /** Where workers are told from: what other processes see is not known here. */
  readonly instance: string;
};

export type EndedRunFacts = Everything & {
  /** The step that decided the end, with its error. */
  readonly failedStep?: { readonly stepId: string; readonly record: StepRecord; readonly error?: ErrorText };
  readonly letter: Part<LetterFacts>;
  /** The runs that hold the slots, when none is free for this one. */
  readonly holders?: Part<readonly SlotHolder[]>;
};

type ErrorText = Partial<StepError> & { readonly message: string };
