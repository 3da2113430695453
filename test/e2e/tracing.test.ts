// One trace from the request that starts a run to its last result, over a real gateway and with a real tracing SDK in the process.
import { context, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { parseTraceparent } from "../../src/domain/network-address.ts";
import { defaultStoreSettings } from "../../src/ports/store.ts";
import { createClient, JobFailed, type Worker, worker } from "../../src/sdk/index.ts";
import { acme, type GatewayWorld, openGatewayWorld } from "../support/gateway-world.ts";
import { eventually } from "../support/sdk-world.ts";
import { type StoreHost, startStoreHost } from "../support/stores.ts";

const exporter = new InMemorySpanExporter();
const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });

const traceId = "c0ffee00c0ffee00c0ffee00c0ffee00";
const callersSpan = "1234567890abcdef";
const fromCaller = `00-${traceId}-${callersSpan}-01`;

describe.each(["memory", "redis"] as const)("with the store %s", (storeName) => {
  let host: StoreHost;
  let world: GatewayWorld;
  let started: Worker[] = [];

  beforeAll(async () => {
    // As `node --import ./tracing.mjs` would have done before anything of the product is loaded.
    trace.setGlobalTracerProvider(provider);
    host = await startStoreHost(storeName);
    world = await openGatewayWorld({ "jobs.gatherMs": 0 }, await host.open(defaultStoreSettings));
  });
  afterEach(async () => {
    await Promise.all(started.map((each) => each.stop({ graceMs: 0 })));
    started = [];
    exporter.reset();
  });
  afterAll(async () => {
    await world.close();
    await host.close();
    trace.disable();
  });

  const clientOf = (role: "admin" | "worker") =>
    createClient({ url: world.url, apiKey: world.acme[role].text });

  /** As a worker would that has a tracing SDK of its own. */
  function ownSpan(name: string, traceparent: string | undefined) {
    const parts = parseTraceparent(traceparent ?? "");
    if (parts === undefined) throw new Error(`no trace context: ${traceparent}`);
    const { traceId: id, spanId, flags } = parts;
    const parent = { traceId: id, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true };
    const inside = trace.setSpanContext(context.active(), parent);
    provider.getTracer("a worker").startSpan(name, { kind: SpanKind.CONSUMER }, inside).end();
  }

  const spansOf = (id: string) =>
    exporter.getFinishedSpans().filter((span) => span.spanContext().traceId === id);

  test("a run of two steps, one of them tried twice, is one trace with exact parents", async () => {
    const client = clientOf("admin");
    await client.workflows.save({
      id: "traced",
      steps: {
        one: { topic: "one", retry: { max_retries: 1, initial_backoff_sec: 0.01 } },
        two: { topic: "two", depends_on: ["one"] },
      },
    });
    const handle = (job: { step: string; attempt: number; traceparent: string | undefined }) => {
      ownSpan(`work ${job.step}@${job.attempt}`, job.traceparent);
      if (job.step === "one" && job.attempt === 1)
        throw new JobFailed("a first failure", { retryable: true });
      return { secret: "an output" };
    };
    started.push(
      worker({ client: clientOf("worker"), topics: ["one", "two"], handler: handle, onTrouble: () => {} }),
    );
    const input = { secret: "an input" };
    const run = await client.runs.start("traced", input, { traceparent: fromCaller });
    const ended = await client.runs.wait(run.run_id);
    expect(ended.status).toBe("succeeded");
    // The run has ended before its last result is answered.
    await eventually("the last span", () => told(spansOf(traceId), "reportResults").length === 3);
    // Whether a timer finds the run free is chance: only then nobody has to drain it.
    const certain = spansOf(traceId).filter(({ name }) => name !== "apply");
    const tree = treeOf(certain, callersSpan);
    expect(tree).toEqual([
      "startRun",
      "  admission atomic admitted",
      "  job one one@1",
      "    reportResults 200",
      "      result one@1 handoff accepted",
      "    work one@1",
      "  job one one@2",
      "    reportResults 200",
      "      result one@2 handoff accepted",
      "    work one@2",
      "  job two two@1",
      "    reportResults 200",
      "      result two@1 handoff accepted",
      "    work two@1",
    ]);
    const [root] = told(spansOf(traceId), "startRun");
    expect(root?.kind).toBe(SpanKind.SERVER);
    expect(root?.attributes).toEqual({
      "http.request.method": "POST",
      "http.route": "/api/v1/workflows/{id}/runs",
      "http.response.status_code": 200,
      "interlock.tenant": acme,
    });
    const [job] = told(spansOf(traceId), "job two");
    expect(job?.kind).toBe(SpanKind.PRODUCER);
    expect(job?.attributes).toEqual({
      "interlock.tenant": acme,
      "interlock.run_id": run.run_id,
      "interlock.step_id": "two",
      "interlock.attempt": 1,
      "interlock.topic": "two",
      "interlock.waited_ms": expect.any(Number),
    });
  });

  test("a poll has a span when it brings jobs, and none when it does not", async () => {
    const client = clientOf("admin");
    await client.workflows.save({ id: "polled", steps: { only: { topic: "polled" } } });
    const asked = { worker_id: "w", topics: ["polled"], max_jobs: 5, wait_ms: 0 };
    await clientOf("worker").call("pollJobs", { body: { ...asked, poll_id: "nothing" } });
    await client.runs.start("polled", {});
    await clientOf("worker").call("pollJobs", { body: { ...asked, poll_id: "one", wait_ms: 5_000 } });
    const polls = await eventually("the poll's span", () => {
      const found = told(exporter.getFinishedSpans(), "pollJobs");
      return found.length > 0 && found;
    });
    expect(polls.map(({ attributes }) => attributes["interlock.count"])).toEqual([1]);
  });

  test("a run that nobody traces begins a trace of its own, in which its jobs are", async () => {
    const client = clientOf("admin");
    await client.workflows.save({ id: "alone", steps: { only: { topic: "alone" } } });
    await client.runs.start("alone", {}, { headers: { traceparent: "nonsense" } });
    const [root] = told(exporter.getFinishedSpans(), "startRun");
    const { jobs } = await clientOf("worker").call("pollJobs", {
      body: { worker_id: "w", topics: ["alone"], poll_id: "alone", max_jobs: 1, wait_ms: 5_000 },
    });
    expect(root?.parentSpanContext).toBeUndefined();
    expect(parseTraceparent(jobs[0]?.traceparent ?? "")?.traceId).toBe(root?.spanContext().traceId);
  });

  test("results of different traces that are reported together each stay in their own", async () => {
    const client = clientOf("admin");
    await client.workflows.save({ id: "together", steps: { only: { topic: "together" } } });
    const traces = ["a".repeat(32), "b".repeat(32)];
    for (const id of traces) {
      await client.runs.start("together", {}, { traceparent: `00-${id}-${callersSpan}-01` });
    }
    let waiting: Array<() => void> = [];
    const handler = () =>
      new Promise<void>((resolve) => {
        waiting = [...waiting, resolve];
        if (waiting.length === 2) for (const go of waiting) go();
      });
    started.push(worker({ client: clientOf("worker"), topics: ["together"], handler }));
    for (const id of traces) {
      const results = await eventually("its result", () => {
        const found = told(spansOf(id), "result");
        return found.length > 0 && found;
      });
      const [job] = told(spansOf(id), "job together");
      expect(results.map(({ parentSpanContext }) => parentSpanContext?.spanId)).toEqual([
        job?.spanContext().spanId,
      ]);
    }
  });

  test("a run that its owner begins or goes on with tells of the commit", async () => {
    const client = clientOf("admin");
    const steps = Object.fromEntries(Array.from({ length: 70 }, (_, at) => [`s${at}`, { topic: "many" }]));
    await client.workflows.save({ id: "large", steps });
    const run = await client.runs.start("large", {}, { traceparent: fromCaller });
    const [apply] = await eventually("the commit", () => {
      const found = told(spansOf(traceId), "apply");
      return found.length > 0 && found;
    });
    const [root] = told(spansOf(traceId), "startRun");
    expect(apply?.parentSpanContext?.spanId).toBe(root?.spanContext().spanId);
    expect(apply?.attributes).toMatchObject({
      "interlock.run_id": run.run_id,
      "interlock.outcome": "committed",
    });
    await client.runs.cancel(run.run_id);
    await client.runs.wait(run.run_id);
  });

  test("the work of a function in the same process is part of the trace, too", async () => {
    const client = clientOf("admin");
    await client.workflows.save({
      id: "inside",
      steps: { only: { topic: "inside" }, say: { type: "notify", input: { message: "done" } } },
    });
    const seen: unknown[] = [];
    const inside = world.plane.startWorker({
      tenant: acme,
      name: "inside",
      topics: ["inside"],
      concurrency: 1,
      handler: ({ traceparent }) => seen.push(traceparent),
    });
    const run = await client.runs.start("inside", {}, { traceparent: fromCaller });
    await client.runs.wait(run.run_id);
    await inside.stop();
    await eventually("both results", () => told(spansOf(traceId), "result").length === 2);
    const [job] = told(spansOf(traceId), "job inside");
    const certain = spansOf(traceId).filter(({ name }) => name !== "apply");
    expect(seen).toEqual([`00-${traceId}-${job?.spanContext().spanId}-01`]);
    expect(treeOf(certain, callersSpan)).toEqual([
      "startRun",
      "  admission atomic admitted",
      "  job inside only@1",
      "    result only@1 handoff accepted",
      "  job interlock.notify say@1",
      "    result say@1 handoff accepted",
    ]);
  });

  test("what is refused or fails says so, and a request without a valid key makes no span", async () => {
    const { ask } = world;
    const body = { worker_id: "w", results: [{ job_id: "nonsense", claim_token: "t", status: "succeeded" }] };
    await ask("POST", "/api/v1/jobs/results", { key: "il_nobody", body });
    await ask("POST", "/api/v1/workflows/unheard-of/runs", { key: world.acme.admin, body: {} });
    world.setStore("unavailable");
    await ask("POST", "/api/v1/locks/acquire", {
      key: world.acme.worker,
      body: { resource: "r", owner: "o", ttl_ms: 1_000 },
    });
    world.setStore("answering");
    const asked = ["startRun", "reportResults", "acquireLock"];
    const said = exporter
      .getFinishedSpans()
      .filter(({ name }) => asked.includes(name))
      .map(({ name, attributes, status }) => [name, attributes["http.response.status_code"], status.code]);
    expect(said).toEqual([
      ["startRun", 404, SpanStatusCode.UNSET],
      ["acquireLock", 503, SpanStatusCode.ERROR],
    ]);
  });

  test("no span tells a payload, a token or a key", async () => {
    const client = clientOf("admin");
    await client.workflows.save({ id: "secretive", steps: { only: { topic: "secretive" } } });
    const handler = () => ({ answer: "output-that-nobody-may-see" });
    started.push(worker({ client: clientOf("worker"), topics: ["secretive"], handler }));
    const run = await client.runs.start(
      "secretive",
      { question: "input-that-nobody-may-see" },
      { traceparent: fromCaller, idempotencyKey: "key-that-nobody-may-see" },
    );
    await client.runs.wait(run.run_id);
    await eventually("the result", () => told(spansOf(traceId), "reportResults").length > 0);
    const all = exporter.getFinishedSpans();
    const text = JSON.stringify(
      all.map(({ name, attributes, events, status }) => [name, attributes, events, status]),
    );
    const keys = Object.values(world.acme).map((key) => key.text);
    for (const secret of ["nobody-may-see", "claim", ...keys]) expect(text).not.toContain(secret);
    const allowed = /^(http\.(request\.method|route|response\.status_code)|interlock\.[a-z_]+)$/;
    expect(
      all.flatMap(({ attributes }) => Object.keys(attributes)).filter((name) => !allowed.test(name)),
    ).toEqual([]);
  });
});

const told = (spans: readonly ReadableSpan[], name: string) => spans.filter((span) => span.name === name);

/** The spans below one, indented by their depth; those of one parent by name and attempt. */
function treeOf(spans: readonly ReadableSpan[], parent: string, depth = 0): readonly string[] {
  const children = spans
    .filter((span) => span.parentSpanContext?.spanId === parent)
    .map((span) => ({ line: lineOf(span), id: span.spanContext().spanId }))
    .sort((left, right) => left.line.localeCompare(right.line));
  return children.flatMap(({ line, id }) => ["  ".repeat(depth) + line, ...treeOf(spans, id, depth + 1)]);
}

function lineOf({ name, attributes }: ReadableSpan): string {
  const step = attributes["interlock.step_id"];
  const attempt = step === undefined ? undefined : `${step}@${attributes["interlock.attempt"]}`;
  const status = name === "startRun" ? undefined : attributes["http.response.status_code"];
  const words = [name, attempt, attributes["interlock.strategy"], attributes["interlock.outcome"], status];
  return words.filter((word) => word !== undefined).join(" ");
}
