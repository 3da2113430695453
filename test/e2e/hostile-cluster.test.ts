// Two gateways on one Redis and one NATS server, and everybody who means harm: foreign streams, hostile names, replayed and
// altered messages, bodies byte by byte, heads without end, metrics with other people's words.
import { connect, headers, type Msg, type NatsConnection } from "@nats-io/transport-node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createPrometheusMetrics } from "../../src/adapters/prometheus-metrics.ts";
import { type ControlPlane, createControlPlane } from "../../src/control-plane.ts";
import type { KeyRole } from "../../src/domain/api-key.ts";
import { platformTenant, type TenantId } from "../../src/domain/tenant.ts";
import {
  type NatsServer,
  type RedisServer,
  startNatsServer,
  startRedisServer,
} from "../../src/drills/servers/start-servers.ts";
import { createGateway, type Gateway } from "../../src/gateway/server.ts";
import { createClient } from "../../src/sdk/index.ts";
import { openEvents } from "../support/event-client.ts";
import { exchangeRaw, openConnection, statusesIn } from "../support/raw-connection.ts";
import { eventually } from "../support/sdk-world.ts";
import { silentLog } from "../support/silent-log.ts";

type Member = { readonly plane: ControlPlane; readonly gateway: Gateway; readonly url: string };

let redis: RedisServer;
let nats: NatsServer;
let intruder: NatsConnection;
let left: Member;
let right: Member;

async function open(instance: string): Promise<Member> {
  const metrics = createPrometheusMetrics(100);
  const plane = await createControlPlane({
    overrides: {
      "store.kind": "redis",
      "store.redisUrls": redis.url,
      "bus.kind": "nats",
      "bus.natsUrls": nats.url,
      "bus.signingKeys": "a-key-that-only-the-tests-know",
      "gateway.lingerMs": 0,
      "gateway.metricsAccess": "loopback",
      "gateway.headersTimeoutMs": 2_000,
      "gateway.requestTimeoutMs": 4_000,
    },
    ports: { log: silentLog, instance, metrics },
  });
  const gateway = createGateway({ ...plane, version: "test", metricsText: () => metrics.text() });
  return { plane, gateway, url: (await gateway.listen({ port: 0 })).url };
}

beforeAll(async () => {
  [redis, nats] = await Promise.all([startRedisServer(), startNatsServer()]);
  intruder = await connect({ servers: `127.0.0.1:${nats.port}` });
  [left, right] = [await open("left"), await open("right")];
});
afterAll(async () => {
  await Promise.all([left, right].map((member) => member?.gateway.close()));
  await Promise.all([left, right].map((member) => member?.plane.close()));
  await intruder?.close();
  await Promise.all([redis?.stop(), nats?.stop()]);
});

async function keyOf(tenant: string, role: KeyRole): Promise<string> {
  await left.plane.api.createTenant({ actor: "setup", tenant: tenant as TenantId, settings: {} });
  const made = await left.plane.api.createKey({
    by: "setup",
    tenant: tenant as TenantId,
    role,
    name: `${role} of ${tenant}`,
  });
  if (made.kind !== "created") throw new Error(made.kind);
  return made.text;
}

const clientOf = ({ url }: Member, apiKey: string) => createClient({ url, apiKey });

test("a stream at one gateway tells nothing of what another tenant does at the other", async () => {
  const secret = "word-of-acme-alone";
  const ours = clientOf(left, await keyOf("acme", "admin"));
  const foreignKey = await keyOf("globex", "admin");
  const theirs = clientOf(right, foreignKey);
  for (const client of [ours, theirs])
    await client.workflows.save({ id: "guarded", steps: { ok: { type: "approval" } } });
  const streams = await Promise.all(
    [left, right].map(({ url }) =>
      openEvents(`${url}/api/v1/events/stream?from=start`, { key: foreignKey, lastEventId: "0" }),
    ),
  );
  const started = await ours.runs.start("guarded", { secret }, { idempotencyKey: secret });
  await ours.locks.acquire({ resource: secret, owner: secret, ttl_ms: 60_000 });
  await ours.workflows.save({ id: secret, steps: { one: { topic: secret } } });
  const own = await theirs.runs.start("guarded", {});
  for (const stream of streams) {
    await stream.until("their own run is told", (events) =>
      events.some(({ data }) => data.run_id === own.run_id),
    );
    stream.close();
    expect(stream.text()).not.toContain(secret);
    expect(stream.text()).not.toContain(started.run_id);
    expect(stream.text()).not.toContain("acme");
  }
  for (const { url } of [left, right]) {
    const foreign = await openEvents(`${url}/api/v1/workflow-runs/${started.run_id}/events`, {
      key: foreignKey,
      lastEventId: "1",
    });
    expect(foreign.status).toBe(404);
  }
});

test("names that mean something to NATS or Redis reach only whom they name", async () => {
  // Joined by dots, the topic and the tenant of one pair spell those of the other.
  const pairs = [
    { tenant: "umbrella", topic: "x.y" },
    { tenant: "umbrella.x", topic: "y" },
    { tenant: "umbrella.x.y", topic: "run-lock" },
  ];
  const jobs: string[] = [];
  for (const { tenant, topic } of pairs) {
    const client = clientOf(left, await keyOf(tenant, "admin"));
    await client.workflows.save({ id: "named", steps: { one: { topic } } });
    jobs.push((await client.runs.start("named", {})).run_id);
  }
  for (const [index, { tenant }] of pairs.entries()) {
    const client = clientOf(right, await keyOf(tenant, "worker"));
    const topics = pairs.map(({ topic }) => topic);
    const asked = { worker_id: "w", topics, poll_id: `p${index}`, max_jobs: 10, wait_ms: 5_000 };
    const polled = await client.call("pollJobs", { body: asked });
    expect(polled.jobs.map(({ run_id }) => run_id)).toEqual([jobs[index]]);
  }
  const [first, second] = [
    clientOf(left, await keyOf("umbrella", "worker")),
    clientOf(right, await keyOf("umbrella.x", "worker")),
  ];
  for (const resource of ["*", ">", "interlock.>", "{p00}", "..", "%2e", "ünïcode", "$JS.API.>"]) {
    const lock = { resource, owner: resource, ttl_ms: 60_000 };
    const [mine, other] = [await first.locks.acquire(lock), await second.locks.acquire(lock)];
    expect(mine.token).not.toBe(other.token);
    expect((await first.locks.get(resource)).owner).toBe(resource);
    await first.locks.release({ resource, token: mine.token });
    expect((await second.locks.get(resource)).fence).toBe(other.fence);
  }
  for (const resource of ["a b", "\u202egnp.", "a\nb"]) {
    const acquired = first.locks.acquire({ resource, owner: "o", ttl_ms: 60_000 });
    await expect(acquired, JSON.stringify(resource)).rejects.toMatchObject({ status: 400 });
  }
  const refused = ["a*b", "a>b", "a b", "", "a\nb", "a\u0000b", ".".repeat(200)];
  for (const topic of refused) {
    const saved = first.workflows.save({ id: "bad", steps: { one: { topic } } });
    await expect(saved, JSON.stringify(topic)).rejects.toMatchObject({ status: expect.any(Number) });
  }
});

test("messages that are replayed, altered or moved change nothing", async () => {
  const client = clientOf(left, await keyOf("initech", "admin"));
  await client.workflows.save({ id: "work", steps: { one: { topic: "work" } } });
  const heard: Msg[] = [];
  const subscription = intruder.subscribe("interlock.>", {
    callback: (_error, message) => void heard.push(message),
  });
  await intruder.flush();
  const { run_id } = await client.runs.start("work", {});
  const worker = clientOf(right, await keyOf("initech", "worker"));
  const asked = { worker_id: "w", topics: ["work"], poll_id: "p", max_jobs: 1, wait_ms: 5_000 };
  const { jobs } = await worker.call("pollJobs", { body: asked });
  const { job_id, claim_token } = jobs[0] ?? { job_id: "", claim_token: "" };
  const result = { job_id, claim_token, status: "succeeded", output: { n: 1 } } as const;
  await worker.call("reportResults", { body: { worker_id: "w", results: [result] } });
  expect((await client.runs.wait(run_id)).status).toBe("succeeded");
  await eventually("messages were heard", () => heard.length > 0);
  subscription.unsubscribe();
  const before = await client.events.page({ limit: 500 });
  for (const { subject, data, headers: own } of heard) {
    const altered = Buffer.from(data);
    if (altered.length > 0) altered[altered.length >> 1] = (altered[altered.length >> 1] ?? 0) ^ 1;
    const unsigned = headers();
    const send = (to: string, body: Uint8Array, given = own) =>
      intruder.publish(to, body, given === undefined ? {} : { headers: given });
    for (let again = 0; again < 3; again += 1) send(subject, data);
    send(subject, altered);
    send(subject, data, unsigned);
    send(subject.replace("initech", "globex"), data);
    send(`${subject}.*.>`.replaceAll("*.>", "x"), data);
  }
  await intruder.flush();
  // Processes that hear them go on: a new run passes through both gateways.
  const second = await client.runs.start("work", {});
  const polled = await worker.call("pollJobs", { body: { ...asked, poll_id: "p2" } });
  expect(polled.jobs.map((job) => job.run_id)).toEqual([second.run_id]);
  const after = await client.events.page({ limit: 500 });
  const ofFirst = (page: typeof after) => page.items.filter((row) => row.run_id === run_id);
  expect(ofFirst(after)).toEqual(ofFirst(before));
});

test("bodies byte by byte and heads without end hold up nobody else", async () => {
  const key = await keyOf("acme", "operator");
  const head = [
    "POST /api/v1/workflows/guarded/runs HTTP/1.1",
    "Host: x",
    `X-API-Key: ${key}`,
    "Content-Type: application/json",
    "Content-Length: 100000",
    "",
    "",
  ].join("\r\n");
  const slow = await Promise.all(
    Array.from({ length: 100 }, (_, index) => openConnection(index % 2 === 0 ? left.url : right.url)),
  );
  for (const [index, socket] of slow.entries()) {
    socket.on("error", () => {});
    socket.resume();
    socket.write(index % 4 < 2 ? `${head}{` : head.slice(0, 40));
  }
  const trickle = setInterval(() => {
    for (const socket of slow) if (socket.writable) socket.write(" ");
  }, 200);
  try {
    const client = clientOf(right, key);
    for (let round = 0; round < 20; round += 1) expect((await client.status()).tenant).toBe("acme");
    const long = `GET /livez HTTP/1.1\r\nHost: x\r\nX-Long: ${"a".repeat(100_000)}\r\n\r\n`;
    expect(statusesIn((await exchangeRaw(left.url, long)).text)).toEqual([431]);
    const many = Array.from({ length: 3_000 }, (_, index) => `X-${index}: 1`).join("\r\n");
    const refused = await exchangeRaw(left.url, `GET /livez HTTP/1.1\r\nHost: x\r\n${many}\r\n\r\n`);
    expect(statusesIn(refused.text)).toEqual([431]);
    await eventually("slow requests were cut", () => slow.every((socket) => socket.destroyed), 15_000);
  } finally {
    clearInterval(trickle);
    for (const socket of slow) socket.destroy();
  }
});

test("nobody's words become lines or labels of the metrics", async () => {
  const key = await keyOf("acme", "worker");
  const hostile = 'x"} 1\ninterlock_injected_total 99\n# HELP';
  const client = clientOf(left, key);
  await client.locks.acquire({ resource: "r", owner: "o", ttl_ms: 1_000 });
  for (const path of [`/api/v1/jobs/${encodeURIComponent(hostile)}`, `/${encodeURIComponent(hostile)}`]) {
    await fetch(left.url + path, {
      headers: { "x-api-key": key, "x-request-id": "a", traceparent: encodeURIComponent(hostile) },
    });
  }
  const text = await (await fetch(`${left.url}/metrics`)).text();
  expect(text).not.toContain("injected");
  const line = /^(#.*|[a-zA-Z_:][a-zA-Z0-9_:]*(\{([a-zA-Z_]+="([^"\\\n]|\\.)*",?)*\})? \S+)$/;
  expect(text.split("\n").filter((row) => row !== "" && !line.test(row))).toEqual([]);
});

test("an unknown key and a wrong secret take the same time to refuse", async () => {
  const good = await keyOf("acme", "viewer");
  const [, id = "", secret = ""] = /^ilk_(.+)_([0-9a-f]+)_[0-9a-f]{8}$/.exec(good) ?? [];
  const { makeKeyText } = await import("../../src/domain/api-key.ts");
  const flipped = `${secret.slice(0, -1)}${secret.endsWith("0") ? "1" : "0"}`;
  const texts = {
    wrong: () => makeKeyText({ keyId: id, secret: flipped }),
    unknown: (round: number) =>
      makeKeyText({ keyId: `acme.${round.toString(16).padStart(16, "0")}`, secret }),
  };
  const times = { wrong: [] as number[], unknown: [] as number[] };
  for (let round = 0; round < 1_500; round += 1) {
    // In turn, and each first as often as the other: whatever else the machine does happens to both.
    const order = round % 2 === 0 ? (["wrong", "unknown"] as const) : (["unknown", "wrong"] as const);
    for (const kind of order) {
      const text = texts[kind](round);
      const startedMs = performance.now();
      expect((await right.plane.api.authenticate({ text })).kind).toBe("unauthenticated");
      times[kind].push(performance.now() - startedMs);
    }
  }
  // The chance that one takes longer than the other; a difference that an attacker can use lies far from a half.
  expect(Math.abs(0.5 - chanceOfMore(times.wrong, times.unknown))).toBeLessThan(0.12);
});

function chanceOfMore(left: readonly number[], right: readonly number[]): number {
  const sorted = [...right].sort((a, b) => a - b);
  const below = (value: number) => {
    let [low, high] = [0, sorted.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((sorted[middle] ?? 0) < value) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  return left.reduce((sum, value) => sum + below(value), 0) / (left.length * sorted.length);
}

test("platform keys of one gateway are revoked for the other within seconds", async () => {
  const made = await left.plane.api.createKey({
    by: "setup",
    tenant: platformTenant,
    role: "platform",
    name: "short",
  });
  if (made.kind !== "created") throw new Error(made.kind);
  const client = clientOf(right, made.text);
  expect((await client.status()).role).toBe("platform");
  await clientOf(left, made.text).keys.revoke(made.key.keyId);
  await eventually(
    "the other gateway refuses it",
    async () => {
      const answer = await fetch(`${right.url}/api/v1/status`, { headers: { "x-api-key": made.text } });
      return answer.status === 401;
    },
    10_000,
  );
});
