// How a worker gets into NATS, and what its program learns when it does not.
import { createServer, type Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { makeKeyText } from "../../src/domain/api-key.ts";
import { type NatsServer, startNatsServer } from "../../src/drills/servers/start-servers.ts";
import { type WorkerOptions, type WorkerTrouble, worker } from "../../src/sdk/index.ts";
import { complaints, jobOf, openBusScene, startBusPeer } from "../support/bus-peer.ts";
import { makeCertificates } from "../support/certificates.ts";
import { eventually } from "../support/sdk-world.ts";

const apiKey = makeKeyText({ keyId: "acme.key", secret: "5e".repeat(24) });

/** Workers of three kinds: one as the guide says, one that may not poll, one that may not hear. */
const users = `authorization { users: [
  { user: peer, password: peer-secret }
  { user: worker, password: "worker:secret@1", permissions: {
      publish: ["*.requests.acme.*", "*.results.acme.>"], subscribe: ["*.answers.acme.>"] } }
  { user: mute, password: mute-secret, permissions: { publish: ["*.results.acme.>"], subscribe: ["*.answers.acme.>"] } }
  { user: deaf, password: deaf-secret, permissions: { publish: ["*.requests.acme.*"], subscribe: ["nothing"] } }
] }`;

let server: NatsServer;
/** Without users. */
let open: NatsServer;

beforeAll(async () => {
  server = await startNatsServer({ config: users });
  open = await startNatsServer();
});
afterAll(async () => {
  await server.stop();
  await open.stop();
});

const urlOf = (login: string) => server.url.replace("//", `//${login}@`);

/** What `finished` rejects with. */
async function refusal(options: Partial<WorkerOptions>): Promise<string> {
  const topics = { hello: () => null };
  const started = worker({ apiKey, topics, onTrouble: () => {}, pollWaitMs: 0, ...options });
  return started.finished.then(
    () => "stopped",
    (error: unknown) => String(error),
  );
}

describe.concurrent("the login", () => {
  test("may be in the address or beside it, and three permissions are enough", async ({ onTestFinished }) => {
    const login = { user: "peer", pass: "peer-secret" };
    const peer = await startBusPeer(server, { login });
    onTestFinished(() => peer.close());
    await peer.takeResults();
    const { prefix } = peer;
    const ways = [
      { servers: urlOf("worker:worker%3Asecret%401"), prefix },
      { servers: [server.url], user: "worker", password: "worker:secret@1", prefix },
    ];
    for (const [index, bus] of ways.entries()) {
      peer.offer(jobOf(String(index)));
      const started = worker({ bus, apiKey: peer.apiKey, topics: { hello: () => null } });
      await eventually("the result", () => peer.results.length === index + 1);
      await started.stop();
    }
  });

  test("that is wrong ends the worker, and its password is not told", async () => {
    const error = await refusal({ bus: urlOf("worker:wrong-secret") });
    expect(error).toMatch(/authorization violation.*the password/i);
    expect(error).not.toContain("wrong-secret");
  });

  test("of somebody who may not poll, or may not hear answers, ends the worker and names the subject", async () => {
    expect(await refusal({ bus: urlOf("mute:mute-secret") })).toMatch(
      /Permissions Violation for Publish to "interlock.requests.acme.poll"/,
    );
    expect(await refusal({ bus: urlOf("deaf:deaf-secret") })).toMatch(
      /Permissions Violation for Subscription to "interlock.answers.acme.key/,
    );
  });

  test("by a file that is not there ends the worker and names it", async () => {
    const bus = { servers: server.url, credentialsFile: "/nowhere/worker.creds" };
    expect(await refusal({ bus })).toContain("/nowhere/worker.creds");
  });
});

test.concurrent("a worker speaks TLS with the authority that it is given, and ends without it", async ({
  onTestFinished,
}) => {
  const certificates = makeCertificates(["localhost"]);
  const { caFile, certFile, keyFile } = certificates;
  const config = `tls { cert_file: "${certFile}", key_file: "${keyFile}" }`;
  const encrypted = await startNatsServer({ config });
  onTestFinished(async () => {
    await encrypted.stop();
    certificates.remove();
  });
  const servers = `tls://localhost:${encrypted.port}`;
  expect(await refusal({ bus: servers })).toMatch(/certificate/);
  const troubles: WorkerTrouble[] = [];
  const started = worker({
    bus: { servers, tls: { caFile } },
    apiKey,
    topics: { hello: () => null },
    onTrouble: (trouble) => troubles.push(trouble),
  });
  await eventually("it is connected", () => /no gateway listens/.test(complaints(troubles)));
  await started.stop();
});

test.concurrent("something that accepts connections and says nothing is told, and keeps no connection", async () => {
  const sockets = new Set<Socket>();
  const mute = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.on("close", () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => {
    mute.listen(0, "127.0.0.1", resolve);
  });
  const { port } = mute.address() as { readonly port: number };
  const troubles: WorkerTrouble[] = [];
  const started = worker({
    bus: `nats://127.0.0.1:${port}`,
    apiKey,
    topics: { hello: () => null },
    onTrouble: (trouble) => {
      troubles.push(trouble);
      mute.close();
    },
  });
  await eventually("it complains", () => troubles.length > 0);
  expect(complaints(troubles)).toContain("no greeting within 5000 ms");
  await eventually("no connection is left", () => sockets.size === 0);
  await started.stop();
});

describe.concurrent("without a control plane", () => {
  test("a worker says that no gateway listens, and what may be wrong", async ({ onTestFinished }) => {
    const { peer, work, troubles } = await openBusScene(open, onTestFinished);
    const started = work({ bus: { servers: open.url, prefix: "nobody" } });
    await eventually("it complains", () => troubles.length > 1);
    expect(complaints(troubles)).toMatch(/no gateway listens.*INTERLOCK_PREFIX/);
    await started.stop();
    expect(peer.polls).toEqual([]);
  });

  test("a worker survives a restart of NATS between the job and its result", async ({ onTestFinished }) => {
    const own = await startNatsServer();
    onTestFinished(() => own.stop());
    const { peer, work, troubles } = await openBusScene(own, onTestFinished);
    peer.offer(jobOf("Ada"));
    let finish = () => {};
    const done = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const started = work({ topics: { hello: () => done } });
    await eventually("it works", () => started.running() === 1);
    await own.kill();
    await eventually("it complains", () => troubles.length > 0);
    finish();
    await own.restart();
    await eventually("the result", () => peer.results[0], 20_000);
    expect(await started.stop()).toMatchObject({ handedBack: [], abandoned: [] });
  });

  test("a worker that starts before NATS begins when it is there", async ({ onTestFinished }) => {
    const own = await startNatsServer();
    onTestFinished(() => own.stop());
    await own.kill();
    const troubles: WorkerTrouble[] = [];
    const started = worker({
      bus: own.url,
      apiKey,
      topics: { hello: () => null },
      onTrouble: (trouble) => troubles.push(trouble),
    });
    await eventually("it complains", () => /cannot be reached/.test(complaints(troubles)));
    await own.restart();
    await eventually("it is connected", () => /no gateway listens/.test(complaints(troubles)));
    await started.stop();
  });
});

describe("what cannot be right is thrown at once", () => {
  const topics = { hello: () => null };
  const bus = "nats://127.0.0.1:4222";
  const wrong: ReadonlyArray<readonly [string, Partial<WorkerOptions>, RegExp]> = [
    ["no API key", { bus, apiKey: "" }, /needs an API key.*INTERLOCK_API_KEY/],
    ["a key that was cut", { bus, apiKey: apiKey.slice(0, -1) }, /checksum/],
    ["a key with a letter changed", { bus, apiKey: apiKey.replace("acme", "acne") }, /checksum/],
    ["an HTTP address", { bus: "http://user:secret@host" }, /nats:\/\/ or tls:\/\/.*"http:\/\/host"/],
    ["no server", { bus: { servers: [] } }, /names no server/],
    ["a prefix with a dot", { bus: { servers: bus, prefix: "inter.lock" } }, /INTERLOCK_PREFIX/],
    ["both ways at once", { bus, url: "http://127.0.0.1:7300" }, /either over the bus/],
  ];
  test.each(wrong)("%s", (_, options, message) => {
    const make = () => worker({ apiKey, topics, ...options });
    expect(make).toThrow(TypeError);
    expect(make).toThrow(message);
  });
});
