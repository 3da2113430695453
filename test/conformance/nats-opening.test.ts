// Opening the bus on NATS: which servers are refused and why, encryption, streams set up otherwise, and what an examination says.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { jetstreamManager, RetentionPolicy, StorageType } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { examineNats as examine } from "../../src/adapters/nats/examine.ts";
import { isBelow } from "../../src/adapters/nats/link.ts";
import { type NatsBusOptions, openNatsBus } from "../../src/adapters/nats/nats-bus.ts";
import { systemClock, systemRandom } from "../../src/adapters/system/system.ts";
import { type NatsServer, startNatsServer } from "../../src/drills/servers/start-servers.ts";
import { BusHarness, done } from "../../src/testing/conformance/bus-harness.ts";
import { type LogLine, recordingLog } from "../support/simulated-ports.ts";

let server: NatsServer;
const lines: LogLine[] = [];

beforeAll(async () => {
  server = await startNatsServer();
});

afterAll(() => server.stop());

function options(more: Partial<NatsBusOptions> = {}): NatsBusOptions {
  return {
    urls: [server.url],
    prefix: "opening",
    clock: systemClock,
    random: systemRandom,
    log: recordingLog(lines),
    instance: "opening",
    ...more,
  };
}

/** The first words of a server of another version; nothing else of it is needed. */
async function serverOfVersion(version: string): Promise<{ readonly url: string; readonly server: Server }> {
  const info = { server_id: "x", version, proto: 1, headers: true, jetstream: true, max_payload: 1_048_576 };
  const stub = createServer((socket) => {
    socket.write(`INFO ${JSON.stringify(info)}\r\n`);
    socket.on("data", (data) => {
      if (data.includes("PING")) socket.write("PONG\r\n");
    });
    socket.on("error", () => {});
  });
  await new Promise<void>((resolve) => stub.listen(0, "127.0.0.1", resolve));
  const address = stub.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  return { url: `nats://127.0.0.1:${port}`, server: stub };
}

const examineNats = (given: NatsBusOptions, resultBytesMax = 262_144) =>
  examine({ ...given, resultBytesMax });

describe("a server is refused", () => {
  test("that cannot be reached, by its address without the password", async () => {
    const opening = openNatsBus(options({ urls: ["nats://me:secret@127.0.0.1:1"] }));
    await expect(opening).rejects.toMatchObject({
      code: "bus_unavailable",
      detail: expect.stringMatching(/^nats:\/\/127\.0\.0\.1:1: /),
    });
  });

  test("that is older than 2.9", async () => {
    const old = await serverOfVersion("2.8.4");
    const opening = openNatsBus(options({ urls: [old.url] }));
    await expect(opening).rejects.toMatchObject({
      code: "bus_unsuitable",
      detail: expect.stringMatching(/2\.8\.4 is older than 2\.9/),
    });
    const findings = await examineNats(options({ urls: [old.url] }));
    expect(findings).toMatchObject([
      { level: "fail", message: expect.stringMatching(/2\.8\.4/), remedy: expect.stringMatching(/2\.9/) },
    ]);
    old.server.close();
  });

  test("that runs without JetStream", async () => {
    const plain = await startNatsServer({ jetStream: false });
    const opening = openNatsBus(options({ urls: [plain.url] }));
    await expect(opening).rejects.toMatchObject({
      code: "bus_unsuitable",
      detail: expect.stringMatching(/JetStream/),
    });
    const findings = await examineNats(options({ urls: [plain.url] }));
    expect(findings).toContainEqual(expect.objectContaining({ subject: "nats jetstream", level: "fail" }));
    await plain.stop();
  });

  test.each([
    ["2.9.0", "2.9.0", false],
    ["2.8.4", "2.9.0", true],
    ["2.10.1", "2.9.0", false],
    ["3.0.0", "2.12.7", false],
    ["2.12.6", "2.12.7", true],
    ["v2.12.7-beta.1", "2.12.7", false],
    ["unknown", "2.9.0", true],
  ])("%s is below %s: %s", (version, least, expected) => {
    expect(isBelow(version, least)).toBe(expected);
  });
});

test("a server that the guide would not advise is used with a warning", async () => {
  lines.length = 0;
  const bus = await openNatsBus(options());
  expect(lines).toContainEqual(
    expect.objectContaining({ level: "warn", message: "the NATS server has known weaknesses" }),
  );
  await bus.close();
});

test("a server that can be reached is found among others that cannot", async () => {
  const bus = await openNatsBus(options({ urls: ["nats://127.0.0.1:1", server.url] }));
  expect(await bus.publish("results", { subject: "a", body: "a" })).toEqual({ kind: "published" });
  await bus.close();
});

describe("streams that somebody has set up otherwise", () => {
  async function manager() {
    const connection = await connect({ servers: `127.0.0.1:${server.port}` });
    return { connection, manager: await jetstreamManager(connection) };
  }

  test("are put right where the server allows it, and left alone in what the bus does not depend on", async () => {
    const outside = await manager();
    const name = "right_checks";
    await outside.manager.streams.add({
      name,
      subjects: ["right.checks.>"],
      retention: RetentionPolicy.Workqueue,
      storage: StorageType.File,
      max_msgs_per_subject: 5,
    });
    const bus = await openNatsBus(options({ prefix: "right" }));
    const { config } = await outside.manager.streams.info(name);
    expect(config).toMatchObject({ max_msgs_per_subject: 1, storage: "file", retention: "workqueue" });
    const findings = await examineNats(options({ prefix: "right" }));
    expect(findings).toContainEqual(
      expect.objectContaining({
        subject: `nats stream ${name}`,
        level: "warn",
        message: expect.stringMatching(/storage/),
      }),
    );
    await bus.close();
    await outside.connection.close();
  });

  test("are refused by name where it does not", async () => {
    const outside = await manager();
    await outside.manager.streams.add({ name: "wrong_hints", subjects: ["wrong.hints.>"] });
    const opening = openNatsBus(options({ prefix: "wrong" }));
    await expect(opening).rejects.toMatchObject({
      code: "bus_unsuitable",
      detail: expect.stringMatching(/wrong_hints.*retention/),
    });
    const findings = await examineNats(options({ prefix: "wrong" }));
    expect(findings).toContainEqual(
      expect.objectContaining({
        subject: "nats stream wrong_hints",
        level: "fail",
        remedy: expect.stringMatching(/nats stream rm/),
      }),
    );
    await outside.connection.close();
  });
});

test("an examination says what is well, what is missing, and what to do about it", async () => {
  const missing = await examineNats(options({ prefix: "nobody" }));
  expect(missing).toContainEqual(
    expect.objectContaining({
      subject: "nats stream nobody_hints",
      level: "warn",
      message: expect.stringMatching(/not there/),
    }),
  );
  const bus = await openNatsBus(options({ prefix: "fine" }));
  const fine = await examineNats(options({ prefix: "fine", signingKeys: ["a key of sixteen characters"] }));
  expect(fine.filter(({ level }) => level === "ok").map(({ subject }) => subject)).toEqual([
    expect.stringMatching(/^nats nats:/),
    "nats jetstream",
    "nats stream fine_hints",
    "nats stream fine_notices",
    "nats stream fine_checks",
    "nats stream fine_results",
  ]);
  expect(fine.filter(({ level }) => level === "warn")).toMatchObject([
    { message: expect.stringMatching(/known weaknesses/) },
    { subject: "nats prefixes", message: expect.not.stringMatching(/\bfine\b/) },
  ]);
  expect([...missing, ...fine].every(({ level, remedy }) => level === "ok" || remedy !== undefined)).toBe(
    true,
  );
  await bus.close();
});

test("an examination says when a message is too small for the results that workers may report", async () => {
  const findings = await examineNats(options({ prefix: "small" }), 2_000_000);
  expect(findings).toContainEqual({
    subject: "nats max_payload",
    level: "warn",
    message: "a message holds 1048576 bytes, and workers may report results of 2000000",
    remedy: "Set max_payload of the servers to 2008192 at least, or lower jobs.resultBytesMax.",
  });
  const subjects = (await examineNats(options({ prefix: "small" }))).map(({ subject }) => subject);
  expect(subjects).not.toContain("nats max_payload");
});

test("two installations on one server do not hear each other, and an examination names the other", async () => {
  const [first, second] = [
    await openNatsBus(options({ prefix: "one" })),
    await openNatsBus(options({ prefix: "two" })),
  ];
  const listeners = [first, second].map((bus) => new BusHarness(bus, systemClock).listen(() => done));
  const harness = new BusHarness(first, systemClock);
  await harness.publish("for one", "acme/job");
  await harness.until(() => listeners[0]?.heard.length === 1);
  await harness.quiet();
  expect(listeners[1]?.heard).toEqual([]);
  expect(await examineNats(options({ prefix: "one" }))).toContainEqual({
    subject: "nats prefixes",
    level: "warn",
    message: expect.stringMatching(/another store\.prefix.*\btwo\b/),
    remedy: expect.stringMatching(/give every process store\.prefix one\./),
  });
  await Promise.all([first.close(), second.close()]);
});

describe("an encrypted connection", () => {
  let folder: string;
  let encrypted: NatsServer;
  const file = (name: string) => join(folder, name);
  const openssl = (...args: string[]) => execFileSync("openssl", args, { cwd: folder, stdio: "pipe" });
  const encryptedUrl = () => `tls://localhost:${encrypted.port}`;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "interlock-nats-tls-"));
    const curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
    openssl(
      "req",
      "-x509",
      ...curve,
      "-keyout",
      "ca.key",
      "-out",
      "ca.pem",
      "-subj",
      "/CN=Test CA",
      "-days",
      "2",
    );
    for (const name of ["server", "client"]) {
      openssl("req", ...curve, "-keyout", `${name}.key`, "-out", `${name}.csr`, "-subj", `/CN=${name}`);
      const extension = ["-extfile", "names.txt"];
      execFileSync("sh", ["-c", "printf 'subjectAltName=DNS:localhost' > names.txt"], { cwd: folder });
      const signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", ...extension];
      openssl("x509", "-req", "-in", `${name}.csr`, "-out", `${name}.pem`, ...signed);
    }
    openssl(
      "req",
      "-x509",
      ...curve,
      "-keyout",
      "o.key",
      "-out",
      "other.pem",
      "-subj",
      "/CN=Other CA",
      "-days",
      "2",
    );
    const tls = `cert_file: "${file("server.pem")}", key_file: "${file("server.key")}", ca_file: "${file("ca.pem")}"`;
    encrypted = await startNatsServer({ config: `tls { ${tls}, verify: true }` });
  });

  afterAll(async () => {
    await encrypted.stop();
    rmSync(folder, { recursive: true });
  });

  const withFiles = (more: Partial<NatsBusOptions> = {}) =>
    options({
      urls: [encryptedUrl()],
      tlsCaFile: file("ca.pem"),
      tlsCertFile: file("client.pem"),
      tlsKeyFile: file("client.key"),
      ...more,
    });

  test("carries messages, with the authority and the certificate that were named", async () => {
    const bus = await openNatsBus(withFiles());
    const harness = new BusHarness(bus, systemClock);
    const listener = harness.listen(() => done);
    await harness.publish("secret");
    await harness.until(() => listener.heard.length === 1);
    await bus.close();
    expect((await examineNats(withFiles()))[0]).toMatchObject({ level: "ok" });
  });

  test.each([
    ["a server of another authority", () => withFiles({ tlsCaFile: file("other.pem") })],
    [
      "no certificate of our own where the server wants one",
      () => options({ urls: [encryptedUrl()], tlsCaFile: file("ca.pem") }),
    ],
    ["a file that is not there", () => withFiles({ tlsCaFile: file("missing.pem") })],
    [
      "a server that is not encrypted, although the address asks for it",
      () => options({ urls: [server.url.replace("nats:", "tls:")] }),
    ],
  ])("is not made with %s", async (_title, given) => {
    await expect(openNatsBus(given())).rejects.toMatchObject({
      code: "bus_unsuitable",
      detail: expect.stringMatching(/bus\.(tls|natsUrls)/),
    });
  });
});
