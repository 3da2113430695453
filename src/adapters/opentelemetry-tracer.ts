// Spans by way of the OpenTelemetry API: without an SDK in the process nothing is made, and a question costs some 20 ns.
import {
  type Span as ApiSpan,
  SpanKind as ApiSpanKind,
  type Tracer as ApiTracer,
  type Attributes,
  type Context,
  ROOT_CONTEXT,
  SpanStatusCode,
  type TracerProvider,
  trace,
} from "@opentelemetry/api";
import { makeTraceparent, parseTraceparent } from "../domain/network-address.ts";
import type { Span, SpanFacts, SpanKind, Tracer } from "../ports/ports.ts";

/** The name of the instrumentation scope. */
const scope = "interlock";

/** By default that of the SDK which the process has registered, now or later. */
export function createOpenTelemetryTracer(provider?: TracerProvider): Tracer {
  let found = provider?.getTracer(scope);
  return {
    startSpan(name, kind, parent) {
      found ??= registeredTracer();
      if (found === undefined) return undefined;
      return new ApiBackedSpan(found.startSpan(name, { kind: kinds[kind] }, contextOf(parent)));
    },
  };
}

/** What the API hands out until an SDK is registered makes spans that nobody sees, at the price of several objects each. */
function registeredTracer(): ApiTracer | undefined {
  const provider: TracerProvider & Partial<StandIn> = trace.getTracerProvider();
  return provider.getDelegateTracer === undefined
    ? provider.getTracer(scope)
    : provider.getDelegateTracer(scope);
}

/** The API's own provider, before which the SDK's is put; known by its method, since the SDK may bring another copy of the API. */
type StandIn = { getDelegateTracer(name: string): ApiTracer | undefined };

const kinds: Readonly<Record<SpanKind, ApiSpanKind>> = {
  server: ApiSpanKind.SERVER,
  internal: ApiSpanKind.INTERNAL,
  producer: ApiSpanKind.PRODUCER,
};

/** Whatever is not a trace context begins a trace of its own. */
function contextOf(parent: string | undefined): Context {
  const parts = parent === undefined ? undefined : parseTraceparent(parent);
  if (parts === undefined) return ROOT_CONTEXT;
  const { traceId, spanId, flags } = parts;
  const traceFlags = Number.parseInt(flags, 16);
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags, isRemote: true });
}

class ApiBackedSpan implements Span {
  readonly traceparent: string;
  readonly #span: ApiSpan;
  #isDiscarded = false;

  constructor(span: ApiSpan) {
    this.#span = span;
    const { traceId, spanId, traceFlags } = span.spanContext();
    this.traceparent = makeTraceparent({ traceId, spanId, flags: traceFlags.toString(16).padStart(2, "0") });
  }

  note(facts: SpanFacts): void {
    const attributes: Attributes = {};
    for (const [fact, value] of Object.entries(facts)) attributes[names[fact as keyof SpanFacts]] = value;
    this.#span.setAttributes(attributes);
  }

  end(how?: "failed"): void {
    if (this.#isDiscarded) return;
    if (how === "failed") this.#span.setStatus({ code: SpanStatusCode.ERROR });
    this.#span.end();
  }

  /** A span that never ends is never exported. */
  discard(): void {
    this.#isDiscarded = true;
  }
}

/** Those of HTTP as the semantic conventions spell them. */
const names: Readonly<Record<keyof SpanFacts, string>> = {
  method: "http.request.method",
  route: "http.route",
  status: "http.response.status_code",
  tenant: "interlock.tenant",
  run: "interlock.run_id",
  step: "interlock.step_id",
  attempt: "interlock.attempt",
  topic: "interlock.topic",
  waitedMs: "interlock.waited_ms",
  strategy: "interlock.strategy",
  outcome: "interlock.outcome",
  count: "interlock.count",
};
