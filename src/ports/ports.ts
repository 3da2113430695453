// Everything that a flow may use from outside itself, handed over as its first argument; all but the store and the bus are here.
import type { Head } from "../domain/audit.ts";
import type { DispatchAnswer, DispatchJob } from "../domain/dispatch.ts";
import type { Sliced } from "../domain/slices.ts";
import type { Partition, TenantId } from "../domain/tenant.ts";
import type { CompiledDefinition } from "../domain/workflow/compiled.ts";
import type { SentDefinition, Verdict } from "../domain/workflow/judge.ts";
import type { CounterName, GaugeName, HistogramName, LabelsOf } from "../metrics.ts";
import type { Store } from "./store.ts";

/** `Uses` is the part of the store that a flow is handed, such as `StoreOf<"locks">`: all of it unless the flow says which. */
export type Ports<Uses = Store> = {
  readonly store: Uses;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly tracer: Tracer;
  /** Judges definitions elsewhere; without one the process itself does. */
  readonly judge?: DefinitionJudge;
  /** Makes a stored definition ready to run; without it every process does so by itself. */
  readonly compile?: DefinitionCompiler;
  /** Names this process to operators: it stands in every lock it holds. */
  readonly instance: string;
  /** What is wrong with the settings of the store's server although it answers, in words for everybody. */
  readonly storeTrouble?: () => string | undefined;
  /** The partitions by the server that holds them: those of one can be looked at in one call. Absent where one has all. */
  readonly storeShards?: () => readonly Shard[];
  /** Absent where nothing outlives the process: what it has sealed itself is remembered all the same. */
  readonly anchors?: AuditAnchors;
};

/** The partitions that one server of the store holds. */
export type Shard = readonly Partition[];

/** Time: monotonic to measure durations, wall only to show people and to notice a suspended machine. */
export type Clock = {
  monotonicMs(): number;
  wallMs(): number;
  /** Resolves after `ms`, or at once when the signal is or becomes aborted; never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Calls back once after `ms` unless cancelled. */
  timer(ms: number, callback: () => void): CancelTimer;
  /** Lets other work of this process go first: between slices of work that would hold it up for long. */
  yield(): Promise<void>;
};

export type CancelTimer = () => void;

/** Randomness: ownership tokens that cannot be guessed, unique ids, and jitter. */
export type Random = {
  /** At least 128 bits, letters and digits only. */
  token(): string;
  /** Uniform in [0, 1). */
  fraction(): number;
};

/** What an operator reads: a fixed message to search for, and fields that vary. */
export type Log = {
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
};

export type LogFields = Readonly<Record<string, string | number | boolean | undefined>>;

/** Typed from the table in src/metrics.ts, so that a wrong label does not compile. */
export type Metrics = {
  count<Name extends CounterName>(name: Name, labels: LabelsOf<Name>): void;
  observe<Name extends HistogramName>(name: Name, labels: LabelsOf<Name>, value: number): void;
  set<Name extends GaugeName>(name: Name, labels: LabelsOf<Name>, value: number): void;
};

/** Undefined where the text was written by a program that knew more than this one. */
export type DefinitionCompiler = (text: string) => Sliced<CompiledDefinition | undefined>;

/** Judges definitions as callers send them, so that reading one delays nobody else. */
export type DefinitionJudge = {
  judge(tenant: TenantId, sent: SentDefinition): Promise<JudgeAnswer>;
  /** What waits is answered `overloaded`. */
  close(): Promise<void>;
};

export type JudgeAnswer = Verdict | NotJudged;

type NotJudged =
  /** As many definitions of this tenant wait as may. */
  | { readonly kind: "too_many_requests"; readonly detail: string }
  /** As many wait as may, it took too long, or the thread ended. */
  | { readonly kind: "overloaded"; readonly cause: string };

/** The newest heads of audit trails, kept outside the store: rewriting the store does not change them. */
export type AuditAnchors = {
  read(tenant: TenantId): Head | undefined;
  /** Replaces the tenant's former head, which the new one must contain. */
  note(tenant: TenantId, head: Head): void;
  /** Resolves when everything that was noted is kept. */
  close(): Promise<void>;
};

/**
 * Says whether workers may have a job of high risk. It may take its time: it is asked by one process at a time, under the job's
 * lock. The signal is aborted when its time is up or the lock is lost: what it says then counts no more. Whatever it throws is
 * trouble, never a verdict: the job stays held and the check is asked again.
 */
export type DispatchCheck = (
  job: DispatchJob,
  options: { readonly signal: AbortSignal },
) => Promise<DispatchAnswer>;

/** What an examination of a server, its settings or its clock found, and what to do about it. */
export type Finding = {
  /** What was looked at, as an operator calls it: `redis 10.0.0.5:6379`, `nats stream interlock_hints`. */
  readonly subject: string;
  /** `ok` as it should be; `warn` works, but less safely or slower than it could; `fail` does not work. */
  readonly level: "ok" | "warn" | "fail";
  readonly message: string;
  /** What to do, as a command or a setting where there is one; for `warn` and `fail`. */
  readonly remedy?: string;
};

/** What a span may say. A closed list: neither payloads nor keys have a name here. */
export type SpanFacts = {
  readonly method?: string;
  readonly route?: string;
  readonly status?: number;
  readonly tenant?: string;
  readonly run?: string;
  readonly step?: string;
  readonly attempt?: number;
  readonly topic?: string;
  /** How long the job was waiting for a worker. */
  readonly waitedMs?: number;
  readonly strategy?: string;
  /** How it ended, in the words of the operation. */
  readonly outcome?: string;
  /** Jobs of an answer, or entries of a commit. */
  readonly count?: number;
};

/** `server` answers somebody's request, `producer` hands work to somebody else. */
export type SpanKind = "server" | "internal" | "producer";

export type Span = {
  /** W3C trace context: the work that follows gets it and becomes a child of this span. */
  readonly traceparent: string;
  note(facts: SpanFacts): void;
  /** Once. `failed`: by our fault, not by the caller's. */
  end(how?: "failed"): void;
  /** Drops the span: nothing happened that is worth recording. */
  discard(): void;
};

export type Tracer = {
  /**
   * Parents are named, never looked up in what surrounds the call: a run outlives every request and every process. Undefined
   * while nobody records spans: nothing is made then, and the caller passes its own parent on.
   */
  startSpan(name: string, kind: SpanKind, parent: string | undefined): Span | undefined;
};

/** For those whom nobody watches. */
export const silentTracer: Tracer = { startSpan: () => undefined };
