// The permissions that the guide lists are enough for each role, and not more than enough.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { examineNats } from "../../src/adapters/nats/examine.ts";
import { type NatsBusOptions, openNatsBus } from "../../src/adapters/nats/nats-bus.ts";
import { systemClock, systemRandom } from "../../src/adapters/system/system.ts";
import { type NatsServer, startNatsServer } from "../../src/drills/servers/start-servers.ts";
import { busStreams } from "../../src/ports/bus.ts";
import { BusHarness, bodies, done } from "../../src/testing/conformance/bus-harness.ts";
import { signedHeaders } from "../support/signed-headers.ts";
import { silentLog } from "../support/silent-log.ts";

const guide = readFileSync(join(import.meta.dirname, "../../docs/guide/nats.md"), "utf8");
const users = (/```conf\n([\s\S]*?)```/.exec(guide)?.[1] ?? "")
  .replace("$CONTROL_PLANE_PASSWORD", "control-secret")
  .replace("$ACME_WORKER_PASSWORD", "worker-secret");

let server: NatsServer;

beforeAll(async () => {
  server = await startNatsServer({ config: users });
});

afterAll(() => server.stop());

function options(login: string): NatsBusOptions {
  return {
    urls: [server.url.replace("//", `//${login}@`)],
    prefix: "interlock",
    clock: systemClock,
    random: systemRandom,
    log: silentLog,
    instance: "permissions",
  };
}

const controlPlane = "control-plane:control-secret";
const worker = "acme-worker:worker-secret";

/** Says whether the server lets this user do it: it answers every refusal on the connection. */
async function isRefused(login: string, act: (connection: NatsConnection) => void): Promise<boolean> {
  const [user = "", pass = ""] = login.split(":");
  const connection = await connect({ servers: `127.0.0.1:${server.port}`, user, pass });
  const errors: string[] = [];
  const following = (async () => {
    for await (const status of connection.status())
      if (status.type === "error") errors.push(status.error.message);
  })();
  act(connection);
  await connection.flush();
  await connection.close();
  await following;
  return errors.some((message) => /permissions violation/i.test(message));
}

const publishing = (subject: string) => (connection: NatsConnection) => connection.publish(subject, "{}");
const listening = (subject: string) => (connection: NatsConnection) => {
  connection.subscribe(subject, { callback: () => {} });
};

describe("the control plane's user", () => {
  test("can do all that the bus does: four streams, retries, announcements, and what the examination asks", async () => {
    const [here, there] = [
      await openNatsBus(options(controlPlane)),
      await openNatsBus(options(controlPlane)),
    ];
    const harness = new BusHarness(here, systemClock, there);
    const listeners = busStreams.map((stream) =>
      harness.listen(
        ({ deliveries }) => (deliveries === 1 ? { kind: "retry", delayMs: 10, because: "" } : done),
        {
          stream,
        },
      ),
    );
    for (const stream of busStreams) await harness.publishOn(stream, stream, "acme/job");
    await harness.until(() => listeners.every(({ heard }) => heard.length === 2));
    expect(listeners.map(({ heard }) => bodies(heard)[1])).toEqual([...busStreams]);
    const heard: string[] = [];
    there.listen("events", (body) => heard.push(body));
    await harness.until(() => {
      here.announce("events", "acme");
      return heard.length > 0;
    });
    const findings = await examineNats({ ...options(controlPlane), resultBytesMax: 262_144 });
    expect(findings.filter(({ level }) => level === "fail")).toEqual([]);
    expect(
      findings.filter(({ subject, level }) => subject.startsWith("nats stream") && level === "ok"),
    ).toHaveLength(4);
    await Promise.all(listeners.map((listener) => listener.stop()));
    await Promise.all([here.close(), there.close()]);
  });

  test.each([
    "$JS.API.STREAM.PURGE.interlock_results",
    "$JS.API.STREAM.DELETE.interlock_hints",
    "$JS.API.STREAM.CREATE.other_hints",
    "$JS.API.CONSUMER.DELETE.interlock_results.engine",
    "other.results.acme.job",
  ])("may not publish to %s", async (subject) => {
    expect(await isRefused(controlPlane, publishing(subject))).toBe(true);
  });

  test.each(["interlock.results.>", "_INBOX.>", ">"])("may not listen to %s", async (subject) => {
    expect(await isRefused(controlPlane, listening(subject))).toBe(true);
  });
});

async function workerAndGateway() {
  const sender = { keyId: "acme.k1", secretHash: "ab".repeat(32) };
  const gateway = await openNatsBus(options(controlPlane));
  gateway.serve({
    senderOf: async (keyId) => (keyId === sender.keyId ? sender : undefined),
    answer: async ({ request, sender: keyId }) => [`${request} of ${keyId}`],
  });
  const connection = await connect({
    servers: `127.0.0.1:${server.port}`,
    user: "acme-worker",
    pass: "worker-secret",
    inboxPrefix: "interlock.answers.acme.k1",
  });
  const request = (subject: string, body: string) => signedHeaders(sender, { subject, body });
  return { gateway, connection, request };
}

describe("a worker's user", () => {
  test("can report the results of its own tenant, and nobody else's", async () => {
    const engine = await openNatsBus(options(controlPlane));
    const harness = new BusHarness(engine, systemClock);
    const listener = harness.listen(() => done);
    const connection = await connect({
      servers: `127.0.0.1:${server.port}`,
      user: "acme-worker",
      pass: "worker-secret",
      inboxPrefix: "interlock.answers.acme.k1",
    });
    const acknowledged = await connection.request("interlock.results.acme.job", "a result");
    expect(acknowledged.json()).toMatchObject({ stream: "interlock_results" });
    await harness.until(() => listener.heard.length === 1);
    expect(listener.heard[0]?.subject).toBe("acme/job");
    await Promise.all([engine.close(), connection.close()]);
  });

  test("can ask a gateway, and hears the answer", async () => {
    const { gateway, connection, request } = await workerAndGateway();
    const reply = await connection.request("interlock.requests.acme.poll", "{}", {
      timeout: 5_000,
      headers: request("interlock.requests.acme.poll", "{}"),
    });
    expect(reply.string()).toBe("poll of acme.k1");
    await Promise.all([gateway.close(), connection.close()]);
  });

  test.each([
    "interlock.results.other.job",
    "interlock.results.acme=2Eother.job",
    "interlock.results.acme",
    "interlock.requests.other.poll",
    "interlock.answers.acme.k1.x",
    "interlock.hints.acme.work.job",
    "interlock.announce.events",
    "$JS.API.INFO",
    "$JS.API.STREAM.PURGE.interlock_results",
    "$JS.API.CONSUMER.MSG.NEXT.interlock_results.engine",
    "$JS.ACK.interlock_results.engine.1.1.1.1.0",
    "_INBOX_interlock.any",
  ])("may not publish to %s", async (subject) => {
    expect(await isRefused(worker, publishing(subject))).toBe(true);
  });

  test.each([
    "interlock.>",
    "interlock.announce.*",
    "interlock.requests.acme.*",
    "interlock.answers.other.>",
    "_INBOX_interlock.>",
    "$JS.>",
  ])("may not listen to %s", async (subject) => {
    expect(await isRefused(worker, listening(subject))).toBe(true);
  });

  test("is refused as a control plane, with the reason", async () => {
    const opening = openNatsBus(options(worker));
    await expect(opening).rejects.toMatchObject({
      code: "bus_unsuitable",
      message: expect.stringMatching(/permission/i),
    });
  });
});

test("a wrong password is told from a server that cannot be reached, and not repeated in the message", async () => {
  const opening = openNatsBus(options("control-plane:wrong-secret"));
  await expect(opening).rejects.toMatchObject({ code: "bus_unsuitable" });
  await expect(opening).rejects.not.toThrow("wrong-secret");
});
