// Spans over the OpenTelemetry API: nothing without an SDK, and with one exactly what was asked for.
import { SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  ParentBasedSampler,
  SimpleSpanProcessor,
  TraceIdRatioBasedSampler,
} from "@opentelemetry/sdk-trace-base";
import { afterEach, expect, test } from "vitest";
import { createOpenTelemetryTracer } from "../../src/adapters/opentelemetry-tracer.ts";
import { parseTraceparent, readTraceparent } from "../../src/domain/network-address.ts";

const traceId = "0af7651916cd43dd8448eb211c80319c";
const spanId = "b7ad6b7169203331";
const recorded = `00-${traceId}-${spanId}-01`;

function openProvider(sampler = new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(1) })) {
  const exporter = new InMemorySpanExporter();
  const provider = new BasicTracerProvider({ sampler, spanProcessors: [new SimpleSpanProcessor(exporter)] });
  return { provider, spans: () => exporter.getFinishedSpans() };
}

afterEach(() => trace.disable());

test("without an SDK there is no span, and one that is registered later is found", () => {
  const tracer = createOpenTelemetryTracer();
  expect(tracer.startSpan("early", "server", recorded)).toBeUndefined();
  const { provider, spans } = openProvider();
  trace.setGlobalTracerProvider(provider);
  tracer.startSpan("late", "server", undefined)?.end();
  expect(spans().map(({ name }) => name)).toEqual(["late"]);
});

test("a span is a child of the parent that is named, and names itself to its children", () => {
  const { provider, spans } = openProvider();
  const tracer = createOpenTelemetryTracer(provider);
  const parent = tracer.startSpan("startRun", "server", recorded);
  const child = tracer.startSpan("job build", "producer", parent?.traceparent);
  child?.note({ run: "r", attempt: 2, method: "POST" });
  child?.end();
  parent?.end("failed");
  const [first, second] = spans();
  expect(first).toMatchObject({
    name: "job build",
    kind: SpanKind.PRODUCER,
    attributes: { "interlock.run_id": "r", "interlock.attempt": 2, "http.request.method": "POST" },
    status: { code: SpanStatusCode.UNSET },
  });
  expect(second).toMatchObject({ kind: SpanKind.SERVER, status: { code: SpanStatusCode.ERROR } });
  expect(second?.parentSpanContext).toMatchObject({ traceId, spanId, isRemote: true });
  expect(first?.parentSpanContext?.spanId).toBe(second?.spanContext().spanId);
  expect(parent?.traceparent).toBe(`00-${traceId}-${second?.spanContext().spanId}-01`);
});

test("what is no trace context begins a trace of its own", () => {
  const { provider, spans } = openProvider();
  const tracer = createOpenTelemetryTracer(provider);
  const wrong = ["", "nonsense", recorded.toUpperCase(), `01${recorded.slice(2)}`, `${recorded}-more`];
  const zeros = [recorded.replace(traceId, "0".repeat(32)), recorded.replace(spanId, "0".repeat(16))];
  for (const text of [...wrong, ...zeros]) {
    expect([text, parseTraceparent(text), readTraceparent(text)]).toEqual([text, undefined, undefined]);
    tracer.startSpan("alone", "server", text)?.end();
  }
  expect(spans()).toHaveLength(7);
  expect(spans().filter(({ parentSpanContext }) => parentSpanContext !== undefined)).toEqual([]);
  expect(readTraceparent(["00"])).toBeUndefined();
});

test("a trace that its caller does not record is not recorded, and its children are told so", () => {
  const { provider, spans } = openProvider();
  const span = createOpenTelemetryTracer(provider).startSpan("quiet", "server", `00-${traceId}-${spanId}-00`);
  span?.note({ tenant: "acme" });
  span?.end();
  expect(span?.traceparent).toMatch(new RegExp(`^00-${traceId}-[0-9a-f]{16}-00$`));
  expect(spans()).toEqual([]);
});

test("a span that was discarded is not told, even if it ends", () => {
  const { provider, spans } = openProvider();
  const span = createOpenTelemetryTracer(provider).startSpan("pollJobs", "server", undefined);
  span?.discard();
  span?.end();
  expect(spans()).toEqual([]);
});
