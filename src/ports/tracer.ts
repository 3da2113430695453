// Tells whoever watches from outside what a request caused, span by span, through processes and workers.

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
  /** W3C trace context: whoever goes on with the work gets it, and what that does becomes a child of this span. */
  readonly traceparent: string;
  note(facts: SpanFacts): void;
  /** Once. `failed`: by our fault, not by the caller's. */
  end(how?: "failed"): void;
  /** Nothing happened that is worth telling: its end will not be told either. */
  discard(): void;
};

export type Tracer = {
  /**
   * Parents are named, never looked up in what surrounds the call: a run outlives every request and every process. Undefined
   * while nobody records spans: then nothing is made for one, and whoever asked hands its own parent on.
   */
  startSpan(name: string, kind: SpanKind, parent: string | undefined): Span | undefined;
};

/** For those whom nobody watches. */
export const silentTracer: Tracer = { startSpan: () => undefined };
