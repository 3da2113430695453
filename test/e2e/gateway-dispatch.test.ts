// The dispatch check over the wire: a real server, a real check behind a URL, and jobs of high risk between them.
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { explanation } from "../../src/api/explanation-schemas.ts";
import { type GatewayWorld, openGatewayWorld } from "../support/gateway-world.ts";

let world: GatewayWorld;
let server: Server;
let answer: (response: ServerResponse, question: { readonly run_id: string }) => void;
const asked: string[] = [];

const says =
  (body: object, status = 200) =>
  (response: ServerResponse): void => {
    response.writeHead(status).end(JSON.stringify(body));
  };

beforeAll(async () => {
  const decide = async (request: IncomingMessage, response: ServerResponse) => {
    const question = JSON.parse(await text(request)) as { readonly run_id: string };
    expect(request.headers.authorization).toBe("Bearer opaque");
    asked.push(question.run_id);
    answer(response, question);
  };
  server = createServer((request, response) => void decide(request, response));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  world = await openGatewayWorld({
    "dispatch.checkUrl": `http://127.0.0.1:${port}/check`,
    "dispatch.token": "opaque",
    "dispatch.checkTimeoutMs": 200,
    "dispatch.holdMs": 50,
  });
  const body = { id: "pay", risk: "high", steps: { charge: { topic: "charge" } } };
  expect((await world.ask("POST", "/api/v1/workflows", { key: world.acme.admin, body })).status).toBe(201);
});

afterAll(async () => {
  await world.close();
  server.closeAllConnections();
  server.close();
});

beforeEach(() => {
  answer = says({ verdict: "allow" });
});

async function start(): Promise<string> {
  const sent = { key: world.acme.operator, body: { order: 42 } };
  return String((await world.ask("POST", "/api/v1/workflows/pay/runs", sent)).json.run_id);
}

let polls = 0;

async function poll(waitMs = 0) {
  polls += 1;
  const body = { worker_id: "w", poll_id: `p-${polls}`, max_jobs: 1, wait_ms: waitMs, topics: ["charge"] };
  const received = await world.ask("POST", "/api/v1/jobs/poll", { key: world.acme.worker, body });
  return received.json.jobs as Array<{ job_id: string; claim_token: string }>;
}

async function finish({ job_id, claim_token }: { job_id: string; claim_token: string }): Promise<void> {
  const body = { worker_id: "w", results: [{ job_id, claim_token, status: "succeeded", output: {} }] };
  await world.ask("POST", "/api/v1/jobs/results", { key: world.acme.worker, body });
}

async function read(path: string) {
  return (await world.ask("GET", `/api/v1${path}`, { key: world.acme.viewer })).json;
}

async function why(runId: string) {
  return explanation.parse(await read(`/workflow-runs/${runId}/why`));
}

/** Asks until the answer is as wanted, for ten seconds at most. */
async function until<Value>(ask: () => Promise<Value>, isIt: (value: Value) => boolean): Promise<Value> {
  const deadlineMs = performance.now() + 10_000;
  for (;;) {
    const value = await ask();
    if (isIt(value)) return value;
    if (performance.now() > deadlineMs) throw new Error(`still ${JSON.stringify(value)}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

const statusOf = async (runId: string) => (await read(`/workflow-runs/${runId}`)).status;

test("a job of high risk goes to its worker once the check allows it", async () => {
  const waiting = poll(10_000);
  const runId = await start();
  const [job] = await waiting;
  expect(job?.job_id).toBe(`${runId}:charge@1`);
  expect(asked).toEqual([runId]);
  await finish(job as NonNullable<typeof job>);
  await until(
    () => statusOf(runId),
    (status) => status === "succeeded",
  );
});

test("a job that the check holds is shown as held, with the reason, until it may go", async () => {
  answer = says({ verdict: "hold", reason: "the budget owner has not answered" });
  const runId = await start();
  const explained = await until(
    () => why(runId),
    ({ summary }) => summary.includes("the budget owner has not answered"),
  );
  expect(explained.waiting_for[0]).toMatchObject({ kind: "job_held", because: "held_by_check" });
  expect((await read(`/jobs/${encodeURIComponent(`${runId}:charge@1`)}`)).state).toBe("held");
  expect(await poll()).toEqual([]);
  answer = says({ verdict: "allow" });
  const [job] = await poll(10_000);
  await finish(job as NonNullable<typeof job>);
});

test("a job that the check denies ends its run as denied, with the reason", async () => {
  answer = says({ verdict: "deny", reason: "no charges on Fridays" });
  const runId = await start();
  await until(
    () => statusOf(runId),
    (status) => status === "denied",
  );
  expect((await read(`/workflow-runs/${runId}`)).error).toMatchObject({
    step_id: "charge",
    code: "dispatch_denied",
    message: "no charges on Fridays",
  });
  expect(await poll()).toEqual([]);
});

test.each([
  ["an error", says({ verdict: "allow" }, 500), "HTTP 500"],
  ["an answer that is none", says({ verdict: "sure" }), "its answer is none of allow, deny and hold"],
  ["silence", () => {}, "no answer within 200 ms"],
] as const)(
  "%s lets no job go: it is asked again, and /why says what is wrong",
  async (_what, broken, cause) => {
    answer = broken;
    const runId = await start();
    await until(
      () => why(runId),
      ({ summary }) => summary.includes(`the dispatch check failed: ${cause}`),
    );
    expect(await poll()).toEqual([]);
    answer = says({ verdict: "allow" });
    const [job] = await poll(10_000);
    expect(job?.job_id).toBe(`${runId}:charge@1`);
    await finish(job as NonNullable<typeof job>);
    const metrics = await world.ask("GET", "/metrics", { key: world.platform });
    expect(metrics.text).toMatch(/interlock_dispatch_checks_total\{verdict="failed"\} [1-9]/);
  },
);
