// What a recorded history is made of: one JSON object a line, written by clients, workers, the sink and the nemesis of one machine.

/** Microseconds on one monotonic clock that all recorders share: the order of two records in time is real. */
type AtUs = { readonly atUs: number };

/** `unknown`: no answer, or one that does not tell. It may have happened at any time after its invocation, or never. */
export type HistoryRecord =
  | ({ readonly type: "begin" } & Setting)
  | ({ readonly type: "invoke"; readonly id: string; readonly client: string } & AtUs & Operation)
  | ({ readonly type: "ok"; readonly id: string; readonly answer: Answer } & AtUs)
  | ({ readonly type: "fail"; readonly id: string; readonly code: string; readonly answer?: Answer } & AtUs)
  | ({ readonly type: "unknown"; readonly id: string; readonly code: string } & AtUs)
  /** The name of a failover begins with `failover`: with durability `process` it excuses what it lost. */
  | ({
      readonly type: "fault";
      readonly name: string;
      readonly target: string;
      readonly phase: "begin" | "end";
    } & AtUs)
  | ({ readonly type: "effect" } & Effect & AtUs)
  | ({ readonly type: "write" } & SinkWrite & AtUs)
  | ({ readonly type: "final" } & Final);

/** The first line. */
export type Setting = {
  readonly format: 1;
  readonly startedAt: string;
  readonly seed: number;
  /** What the store promises of acknowledged answers. */
  readonly durability: "process" | "replicated";
  readonly limits: Readonly<Record<string, number>>;
  /** The largest attempt that any step may reach: failures, lost claims and hand-backs each begin another. */
  readonly attemptsMax: number;
};

/** `id` of an invocation is that of its completion. A repeated request is an invocation of its own. */
export type Operation =
  | {
      readonly operation: "start";
      readonly tenant: string;
      readonly workflow: string;
      readonly key?: string;
      /** Equal for equal requests. */
      readonly fingerprint: string;
      /** The gates of the run with their limits, which nobody changes: `<gate>=<limit>`, with spaces between. */
      readonly gates?: string;
    }
  | { readonly operation: "cancel" | "get"; readonly tenant: string; readonly runId: string }
  | { readonly operation: "set_limit"; readonly tenant: string; readonly limit: number }
  | {
      readonly operation: "decide";
      readonly tenant: string;
      readonly approvalId: string;
      readonly decision: "approved" | "rejected";
      readonly by: string;
    }
  | { readonly operation: "claim"; readonly tenant: string; readonly worker: string }
  /** `nonce` stands in what is reported, and in no other report. */
  | {
      readonly operation: "report";
      readonly tenant: string;
      readonly jobId: string;
      readonly nonce: string;
      /** What is reported; a nonce that was not reported as `succeeded` stands in no step. */
      readonly status?: "succeeded" | "failed" | "handed_back";
    }
  /** Without `ttlMs` the lock may expire at any time. */
  | { readonly operation: "acquire"; readonly tenant: string; readonly lock: string; readonly ttlMs?: number }
  | { readonly operation: "release"; readonly tenant: string; readonly lock: string; readonly fence: number }
  /** Of the external sink. */
  | { readonly operation: "read_set"; readonly set: string };

export type Answer =
  | { readonly kind: "run"; readonly runId: string; readonly replayed: boolean }
  | { readonly kind: "status"; readonly status: string }
  | { readonly kind: "decided"; readonly decision: "approved" | "rejected" }
  | { readonly kind: "claimed"; readonly jobs: readonly ClaimedJob[] }
  | { readonly kind: "report"; readonly outcome: "accepted" | "duplicate" }
  | { readonly kind: "lock"; readonly fence: number }
  | { readonly kind: "set"; readonly elements: readonly string[] }
  | { readonly kind: "done" };

export type ClaimedJob = {
  readonly jobId: string;
  readonly runId: string;
  readonly step: string;
  readonly attempt: number;
};

/** Work on a job in the world outside; `nonce` is that of its report. */
export type Effect = {
  readonly worker: string;
  readonly jobId: string;
  readonly nonce: string;
  readonly phase: "begin" | "end";
};

/** Told by the sink itself, which keeps the largest fence of each set and takes nothing older. */
export type SinkWrite = {
  readonly set: string;
  readonly fence: number;
  readonly writer: string;
  readonly element: string;
  readonly accepted: boolean;
};

/** What is read when everything is healed and quiet. */
export type Final =
  | {
      readonly of: "run";
      readonly tenant: string;
      readonly runId: string;
      /** `missing` when the store does not know it. */
      readonly status: string;
      /** The steps in the order of their completion, twice what was completed twice; and what each recorded. */
      readonly completed: readonly string[];
      readonly nonces: Readonly<Record<string, string>>;
    }
  /** Of every key that was sent; `runId` is empty when it is bound to none. */
  | { readonly of: "key"; readonly tenant: string; readonly key: string; readonly runId: string }
  | { readonly of: "approval"; readonly tenant: string; readonly approvalId: string; readonly state: string }
  | { readonly of: "set"; readonly set: string; readonly elements: readonly string[] }
  | { readonly of: "tenant"; readonly tenant: string; readonly activeRuns: number; readonly queued?: number }
  | { readonly of: "dead_letters"; readonly tenant: string; readonly count: number };
