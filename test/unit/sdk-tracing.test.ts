// The trace context of a start on its way through the SDK and a gateway in which nobody records spans.
import { afterAll, beforeAll, expect, test } from "vitest";
import { createClient, type Worker, worker } from "../../src/sdk/index.ts";
import { type GatewayWorld, openGatewayWorld } from "../support/gateway-world.ts";
import { eventually } from "../support/sdk-world.ts";

let world: GatewayWorld;
const workers: Worker[] = [];

beforeAll(async () => {
  world = await openGatewayWorld();
});

afterAll(async () => {
  await Promise.all(workers.map((each) => each.stop({ graceMs: 0 })));
  await world.close();
});

type Sent = { readonly operation: string; readonly traceparent: string | null; readonly body: string };

/** A worker's client that notes what it sends. */
function listening() {
  const sent: Sent[] = [];
  const noting: typeof fetch = (url, init) => {
    const operation = new URL(String(url)).pathname.split("/").at(-1) ?? "";
    const traceparent = new Headers(init?.headers).get("traceparent");
    sent.push({ operation, traceparent, body: String(init?.body) });
    return fetch(url, init);
  };
  const client = createClient({ url: world.url, apiKey: world.acme.worker.text, fetch: noting });
  const sentBy = (operation: string) => sent.filter((each) => each.operation === operation);
  return { client, sentBy };
}

async function start(topic: string, traceparent?: string, headers?: Record<string, string>) {
  const admin = createClient({ url: world.url, apiKey: world.acme.admin.text });
  await admin.workflows.save({ id: topic, steps: { only: { topic } } });
  const { run_id } = await admin.runs.start(topic, {}, { traceparent, ...(headers && { headers }) });
  return { admin, run_id };
}

const traced = (digit: string, flags = "00") => `00-${digit.repeat(32)}-${digit.repeat(16)}-${flags}`;

test("what the caller sent reaches the worker unchanged, and comes back with heartbeats and the result", async () => {
  const { client, sentBy } = listening();
  const { admin, run_id } = await start("single", traced("9", "01"));
  const seen: unknown[] = [];
  workers.push(
    worker({
      client,
      topics: {
        async single(job) {
          seen.push(job.traceparent);
          job.progress({ half: true });
          await eventually("a heartbeat", () => sentBy("heartbeat").length > 0);
          return {};
        },
      },
    }),
  );
  expect((await admin.runs.wait(run_id)).status).toBe("succeeded");
  expect(seen).toEqual([traced("9", "01")]);
  expect(sentBy("heartbeat")[0]?.traceparent).toBe(traced("9", "01"));
  expect(sentBy("results").map(({ traceparent }) => traceparent)).toEqual([traced("9", "01")]);
  expect(sentBy("results")[0]?.body).not.toContain("traceparent");
});

test("results of different traces go together, each with its own", async () => {
  const { client, sentBy } = listening();
  const starts = [
    await start("several", traced("1")),
    await start("several", traced("2")),
    await start("several"),
  ];
  let ready: Array<() => void> = [];
  const handler = () =>
    new Promise<void>((resolve) => {
      ready = [...ready, resolve];
      if (ready.length === 3) for (const go of ready) go();
    });
  workers.push(worker({ client, topics: ["several"], handler }));
  for (const { admin, run_id } of starts) expect((await admin.runs.wait(run_id)).status).toBe("succeeded");
  const [only, ...others] = sentBy("results");
  const results = (JSON.parse(only?.body ?? "{}") as { results: Array<{ traceparent?: string }> }).results;
  expect([only?.traceparent, others]).toEqual([null, []]);
  expect(new Set(results.map(({ traceparent }) => traceparent))).toEqual(
    new Set([traced("1"), traced("2"), undefined]),
  );
});

test.each(["nonsense", traced("0"), `01${traced("3").slice(2)}`])(
  "a trace context that is none is passed over: %s",
  async (traceparent) => {
    const { client } = listening();
    const { admin, run_id } = await start("wrong", undefined, { traceparent });
    const seen: unknown[] = [];
    const wrong = worker({ client, topics: { wrong: (job) => seen.push(job.traceparent) } });
    workers.push(wrong);
    expect((await admin.runs.wait(run_id)).status).toBe("succeeded");
    await wrong.stop();
    expect(seen).toEqual([undefined]);
  },
);

test("a result with a trace context that is none is taken all the same", async () => {
  const { run_id } = await start("odd", traced("5"));
  const client = createClient({ url: world.url, apiKey: world.acme.worker.text });
  const asked = { worker_id: "w", topics: ["odd"], poll_id: "odd", max_jobs: 1, wait_ms: 5_000 };
  const { jobs } = await client.call("pollJobs", { body: asked });
  const [job] = jobs;
  if (job === undefined) throw new Error(`no job of ${run_id}`);
  const { job_id, claim_token, traceparent } = job;
  expect(traceparent).toBe(traced("5"));
  const result = { job_id, claim_token, status: "succeeded", output: null, traceparent: "nonsense" } as const;
  const answer = await client.call("reportResults", { body: { worker_id: "w", results: [result] } });
  expect(answer.results).toEqual([{ job_id, kind: "accepted" }]);
});
