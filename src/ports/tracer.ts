// Spans: what a request caused, through processes and workers, for tracing tools.

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
