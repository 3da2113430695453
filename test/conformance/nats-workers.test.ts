// Workers over NATS as a gateway and an engine meet them: only what their keys have signed has any effect, and is answered.
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { MemoryMetrics } from "../../src/adapters/memory-metrics.ts";
import { createMemoryStore } from "../../src/adapters/memory-store.ts";
import { createSigner } from "../../src/adapters/nats/messages.ts";
import { openNatsBus } from "../../src/adapters/nats/nats-bus.ts";
import { systemClock, systemRandom } from "../../src/adapters/system/system.ts";
import { type ControlPlane, createControlPlane, storeSettings } from "../../src/control-plane.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import { type NatsServer, startNatsServer } from "../../src/drills/servers/start-servers.ts";
import { createGateway, type Gateway } from "../../src/gateway/server.ts";
import { loadConfig } from "../../src/load-config.ts";
import type { Sender } from "../../src/ports/bus.ts";
import { acme, ann, only, work } from "../support/flow-world.ts";
import { createSender } from "../support/nats-flow.ts";
import { signedHeaders } from "../support/signed-headers.ts";
import { silentLog } from "../support/silent-log.ts";

const prefix = "served";
const globex = "globex" as TenantId;

let server: NatsServer;
let plane: ControlPlane;
let gateway: Gateway;
let worker: NatsConnection;
let sender: Sender;
let other: Sender;
const metrics = new MemoryMetrics(10);

beforeAll(async () => {
  server = await startNatsServer({ config: "max_payload: 131072" });
  const bus = await openNatsBus({
    ...{ urls: [server.url], prefix, instance: "served", metrics },
    ...{ clock: systemClock, random: systemRandom, log: silentLog },
  });
  const overrides = { "gateway.port": 0, "jobs.resultBytesMax": 50_000 } as const;
  const store = createMemoryStore({
    clock: systemClock,
    settings: storeSettings(loadConfig({ overrides }).config),
  });
  plane = await createControlPlane({ overrides, bus, ports: { store, log: silentLog, metrics } });
  gateway = createGateway({ ...plane, metricsText: () => "" });
  await gateway.listen();
  sender = await createSender(plane);
  other = await createSender(plane, globex);
  worker = await connect({ servers: `127.0.0.1:${server.port}`, inboxPrefix: inboxOf(sender) });
  const definition = { id: "one", steps: { a: work({ input: { given: "${input}" } }) } };
  only(await plane.api.saveWorkflow({ caller: ann, definition }), "saved");
});

afterAll(async () => {
  await worker?.close();
  await gateway?.close();
  await plane?.close();
  await server?.stop();
});

function inboxOf({ keyId }: Sender): string {
  return `${prefix}.answers.${keyId}`;
}

async function start(input: object): Promise<string> {
  return only(
    await plane.api.startWorkflow({ caller: ann, workflow: "one", input: input as never }),
    "admitted",
  ).runId;
}

async function statusOf(runId: string): Promise<string> {
  const answer = await plane.api.getRun({ tenant: acme, runId: runId as never });
  return only(answer, "run").run.header.status;
}

let polls = 0;

function pollBody(more: object = {}): string {
  polls += 1;
  return JSON.stringify({
    ...{ worker_id: "w", topics: ["work"], poll_id: `p${polls}`, max_jobs: 10, wait_ms: 0 },
    ...more,
  });
}

const pollSubject = `${prefix}.requests.acme.poll`;

type Part = {
  readonly status: number;
  readonly more?: true;
  readonly body: { readonly jobs?: readonly Job[] };
};
type Job = { readonly job_id: string; readonly claim_token: string; readonly input: unknown };

/** All parts of an answer; each must be signed by the worker's own key. */
async function ask(subject: string, body: string): Promise<readonly Part[]> {
  const reply = `${inboxOf(sender)}.${systemRandom.token()}`;
  const parts: Part[] = [];
  await new Promise<void>((resolve, reject) => {
    const cancel = systemClock.timer(10_000, () => reject(new Error("no answer within 10 s")));
    const subscription = worker.subscribe(reply, {
      callback: (_error, message) => {
        const signature = {
          value: message.headers?.get("Interlock-Signature") ?? "",
          expiresAtMs: Number(message.headers?.get("Interlock-Expires")),
        };
        const signed = { subject: message.subject, id: "", body: message.string() };
        const refusal = createSigner([sender.secretHash])?.refusal(signed, signature, Date.now());
        if (refusal !== undefined) reject(new Error(`the answer is ${refusal}`));
        const part = message.json<Part>();
        parts.push(part);
        if (part.more === true) return;
        cancel();
        subscription.unsubscribe();
        resolve();
      },
    });
    worker.publish(subject, body, { reply, headers: signedHeaders(sender, { subject, body }) });
  });
  return parts;
}

async function poll(more: object = {}): Promise<readonly Job[]> {
  return (await ask(pollSubject, pollBody(more))).flatMap(({ body }) => body.jobs ?? []);
}

const resultOf = ({ job_id, claim_token }: Job, more: object = {}) =>
  JSON.stringify({
    worker_id: "w",
    job_id,
    claim_token,
    status: "succeeded",
    output: { done: true },
    ...more,
  });

const resultSubject = (jobId: string) => `${prefix}.results.acme.${jobId}`;

/** Publishes a result and waits for what the engine says of it. */
async function report(job: Job, more: object = {}): Promise<Record<string, unknown>> {
  const [subject, body] = [resultSubject(job.job_id), resultOf(job, more)];
  const answerTo = `${inboxOf(sender)}.${systemRandom.token()}`;
  const subscription = worker.subscribe(answerTo, { max: 1 });
  await worker.request(subject, body, {
    timeout: 5_000,
    headers: signedHeaders(sender, { subject, body, answerTo }),
  });
  for await (const message of subscription) return message.json();
  throw new Error("the connection was closed");
}

async function until(condition: () => Promise<boolean> | boolean): Promise<void> {
  const deadlineMs = systemClock.monotonicMs() + 10_000;
  while (!(await condition())) {
    if (systemClock.monotonicMs() > deadlineMs) throw new Error(`not within 10 s: ${condition}`);
    await systemClock.sleep(5);
  }
}

const refusedTotal = (reason: string) => metrics.total("bus_messages_refused_total", { reason });

describe("a worker over NATS", () => {
  test("polls, keeps its claim, reports, and hears that the result is accepted", async () => {
    const runId = await start({ name: "Ada" });
    const [job] = await poll({ wait_ms: 5_000 });
    if (job === undefined) throw new Error("no job");
    expect(job.input).toEqual({ given: { name: "Ada" } });
    const beats = JSON.stringify({
      worker_id: "w",
      jobs: [{ job_id: job.job_id, claim_token: job.claim_token, progress: 0.5 }],
    });
    const [beat] = await ask(`${prefix}.requests.acme.heartbeat`, beats);
    expect(beat).toMatchObject({ status: 200, body: { jobs: [{ kind: "extended", stop: false }] } });
    expect(await report(job)).toEqual({ job_id: job.job_id, kind: "accepted" });
    await until(async () => (await statusOf(runId)) === "succeeded");
    expect((await report(job)).kind).toBe("accepted");
    expect(await report(job, { output: "other" })).toMatchObject({ kind: "duplicate", applied: false });
    expect(metrics.total("bus_requests_total", { operation: "pollJobs", status: "200" })).toBeGreaterThan(0);
  });

  test("can report by a request, too: for a stream that takes nothing", async () => {
    const runId = await start({});
    const [job] = await poll({ wait_ms: 5_000 });
    if (job === undefined) throw new Error("no job");
    const { worker_id, ...result } = JSON.parse(resultOf(job));
    const body = JSON.stringify({ worker_id, results: [result] });
    const [answer] = await ask(`${prefix}.requests.acme.report`, body);
    expect(answer).toMatchObject({ status: 200, body: { results: [{ kind: "accepted" }] } });
    await until(async () => (await statusOf(runId)) === "succeeded");
  });

  test("is told as over HTTP what is wrong with its request", async () => {
    const [unreadable] = await ask(pollSubject, "{");
    expect(unreadable).toMatchObject({ status: 400, body: { code: "invalid_request" } });
    const [unknown] = await ask(pollSubject, pollBody({ surprise: 1 }));
    expect(unknown).toMatchObject({ status: 400, body: { code: "invalid_request" } });
  });

  test("gets jobs that do not fit into one message in several, and a job that fits into none fails and says why", async () => {
    const runs = await Promise.all([1, 2, 3].map((name) => start({ name, text: "x".repeat(50_000) })));
    await until(
      async () =>
        only(await plane.api.listReadyJobs({ tenant: acme, topic: "work", limit: 10 }), "listed").jobs
          .length === 3,
    );
    const parts = await ask(pollSubject, pollBody());
    expect(parts.map(({ more }) => more)).toEqual([true, undefined]);
    const jobs = parts.flatMap(({ body }) => body.jobs ?? []);
    expect(jobs).toHaveLength(3);
    for (const job of jobs) expect((await report(job)).kind).toBe("accepted");
    for (const runId of runs) await until(async () => (await statusOf(runId)) === "succeeded");
    const tooLarge = await start({ text: "x".repeat(140_000) });
    expect(await poll({ wait_ms: 5_000 })).toEqual([]);
    await until(async () => (await statusOf(tooLarge)) === "failed");
    const run = only(await plane.api.getRun({ tenant: acme, runId: tooLarge as never }), "run");
    expect(JSON.stringify(run)).toContain("raise max_payload of the NATS server");
  });

  test("reports a result that is too large, and is told so", async () => {
    await start({});
    const [job] = await poll({ wait_ms: 5_000 });
    if (job === undefined) throw new Error("no job");
    expect(await report(job, { output: "x".repeat(60_000) })).toMatchObject({
      kind: "refused",
      because: "payload_too_large",
    });
    expect((await report(job)).kind).toBe("accepted");
  });
});

describe("what is not genuine changes nothing and is counted:", () => {
  const expired = () => Date.now() - 1_000;
  const hostile: ReadonlyArray<
    readonly [string, string, (subject: string, body: string) => Parameters<typeof signedHeaders>]
  > = [
    [
      "unsigned",
      "unsigned",
      (subject, body) => [sender, { subject, body, wrong: { "Interlock-Signature": "" } }],
    ],
    [
      "without a key",
      "unsigned",
      (subject, body) => [sender, { subject, body, wrong: { "Interlock-Key": "" } }],
    ],
    [
      "forged",
      "forged",
      (subject, body) => [
        { ...sender, secretHash: "ab".repeat(32) },
        { subject, body },
      ],
    ],
    ["changed", "forged", (subject, body) => [sender, { subject, body: `${body} ` }]],
    ["moved from another subject", "forged", (subject, body) => [sender, { subject: `${subject}x`, body }]],
    ["late", "expired", (subject, body) => [sender, { subject, body, expiresAtMs: expired() }]],
    ["believed for ever", "forged", (subject, body) => [sender, { subject, body, expiresAtMs: 4e15 }]],
    ["another tenant's", "foreign", (subject, body) => [other, { subject, body }]],
    [
      "of an unknown key",
      "unknown_key",
      (subject, body) => [
        { ...sender, keyId: "acme.nobody" },
        { subject, body },
      ],
    ],
    [
      "of another version",
      "wrong_version",
      (subject, body) => [sender, { subject, body, wrong: { "Interlock-Protocol": "2" } }],
    ],
  ];

  test.each(hostile)("a result that is %s", async (_name, reason, signed) => {
    const runId = await start({});
    const [job] = await poll({ wait_ms: 5_000 });
    if (job === undefined) throw new Error("no job");
    const [subject, body] = [resultSubject(job.job_id), resultOf(job)];
    const before = refusedTotal(reason);
    await worker.request(subject, body, { timeout: 5_000, headers: signedHeaders(...signed(subject, body)) });
    await until(() => refusedTotal(reason) === before + 1);
    expect(await statusOf(runId)).toBe("running");
    expect((await report(job)).kind).toBe("accepted");
  });

  test.each(hostile)("a poll that is %s", async (_name, reason, signed) => {
    const before = refusedTotal(reason);
    const body = pollBody();
    const reply = `${inboxOf(sender)}.${systemRandom.token()}`;
    worker.publish(pollSubject, body, { reply, headers: signedHeaders(...signed(pollSubject, body)) });
    await until(() => refusedTotal(reason) === before + 1);
  });

  test.each([
    "$JS.API.STREAM.DELETE.served_results",
    "served.results.acme.x",
    "served.answers.globex.k.x",
    `served.announce.${"x".repeat(60)}`,
    "served.answers.acme.k",
    "served.answers.acme.>",
  ])("a poll whose answer is to go to %s", async (reply) => {
    const before = refusedTotal("wrong_address");
    const body = pollBody();
    worker.publish(pollSubject, body, {
      reply,
      headers: signedHeaders(sender, { subject: pollSubject, body }),
    });
    await until(() => refusedTotal("wrong_address") === before + 1);
  });

  test("a result whose answer is to go elsewhere", async () => {
    await start({});
    const [job] = await poll({ wait_ms: 5_000 });
    if (job === undefined) throw new Error("no job");
    const [subject, body] = [resultSubject(job.job_id), resultOf(job)];
    const before = refusedTotal("wrong_address");
    const answerTo = "served.announce.events";
    await worker.request(subject, body, {
      timeout: 5_000,
      headers: signedHeaders(sender, { subject, body, answerTo }),
    });
    await until(() => refusedTotal("wrong_address") === before + 1);
    expect((await report(job)).kind).toBe("accepted");
  });

  test("a key that may not take jobs, and one that was revoked", async () => {
    const viewer = only(
      await plane.api.createKey({ by: "test", tenant: acme, role: "viewer", name: "v" }),
      "created",
    );
    const before = refusedTotal("unknown_key");
    const body = pollBody();
    const reply = `${inboxOf(sender)}.x`;
    const send = (key: Sender) =>
      worker.publish(pollSubject, body, {
        reply,
        headers: signedHeaders(key, { subject: pollSubject, body }),
      });
    send(viewer.key);
    await until(() => refusedTotal("unknown_key") === before + 1);
    const revoked = await createSender(plane);
    only(await plane.api.revokeKey({ by: "test", tenant: acme, keyId: revoked.keyId }), "revoked");
    send(revoked);
    await until(() => refusedTotal("unknown_key") === before + 2);
  });
});
