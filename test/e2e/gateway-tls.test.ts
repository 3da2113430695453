// TLS at the gateway, with real handshakes: what is negotiated, certificates that change under load, and what is refused.
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, symlinkSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { type RequestOptions, request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, type TLSSocket } from "node:tls";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { certificateFindings } from "../../src/cli/data-findings.ts";
import type { Terminal } from "../../src/cli/terminal.ts";
import type { Config } from "../../src/config.ts";
import { loadConfig } from "../../src/load-config.ts";
import { type Certificates, makeCertificates } from "../support/certificates.ts";
import { type GatewayWorld, openGatewayWorld } from "../support/gateway-world.ts";
import { exchangeRaw, openConnection } from "../support/raw-connection.ts";

let one: Certificates;
let two: Certificates;
let folder: string;
let authorities: string;

beforeAll(() => {
  one = makeCertificates();
  two = makeCertificates();
  folder = mkdtempSync(join(tmpdir(), "interlock-gateway-tls-"));
  authorities = readFileSync(one.caFile, "utf8") + readFileSync(two.caFile, "utf8");
});

afterAll(() => {
  one.remove();
  two.remove();
  rmSync(folder, { recursive: true, force: true });
});

const open: GatewayWorld[] = [];

afterEach(async () => {
  await Promise.all(open.splice(0).map((world) => world.close()));
});

const tlsSettings = (certificateFile: string, keyFile: string): Partial<Config> => ({
  "gateway.tls.certificateFile": certificateFile,
  "gateway.tls.keyFile": keyFile,
});

async function openWorld(overrides: Partial<Config>): Promise<GatewayWorld> {
  const world = await openGatewayWorld({ "gateway.eventLoopDelayMs": 60_000, ...overrides });
  open.push(world);
  return world;
}

type Answer = { readonly status: number; readonly fingerprint: string; readonly protocol: string };

/** One request on a connection of its own. */
function ask({ url }: GatewayWorld, path: string, options: RequestOptions = {}): Promise<Answer> {
  const { port } = new URL(url);
  return new Promise((resolve, reject) => {
    const sent = request(
      { host: "127.0.0.1", port, path, ca: authorities, agent: false, ...options },
      (answer: IncomingMessage) => {
        const socket = answer.socket as TLSSocket;
        const fingerprint = socket.getPeerCertificate().fingerprint256;
        const protocol = socket.getProtocol() ?? "";
        answer.resume().on("end", () => resolve({ status: answer.statusCode ?? 0, fingerprint, protocol }));
      },
    );
    sent.on("error", reject);
    sent.end();
  });
}

async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  const endMs = performance.now() + 20_000;
  while (!(await holds())) {
    if (performance.now() > endMs) throw new Error(`still waiting: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Replaces a file as a careful program does: written beside it, then renamed. */
function replace(from: string, to: string): void {
  copyFileSync(from, `${to}.new`);
  renameSync(`${to}.new`, to);
}

describe("a gateway with a certificate", () => {
  test("speaks TLS 1.3 and 1.2 with forward secrecy, and nothing older", async () => {
    const world = await openWorld(tlsSettings(one.certFile, one.keyFile));
    expect(world.url).toMatch(/^https:\/\/127\.0\.0\.1:/);
    expect(await ask(world, "/livez")).toMatchObject({ status: 200, protocol: "TLSv1.3" });
    expect(await ask(world, "/livez", { maxVersion: "TLSv1.2" })).toMatchObject({ protocol: "TLSv1.2" });
    const weak = { ciphers: "DEFAULT:@SECLEVEL=0", minVersion: "TLSv1", maxVersion: "TLSv1.1" } as const;
    await expect(ask(world, "/livez", weak)).rejects.toThrow(/protocol version/i);
    const unsafe = { ciphers: "ECDHE-ECDSA-AES128-SHA", maxVersion: "TLSv1.2" } as const;
    await expect(ask(world, "/livez", unsafe)).rejects.toThrow(/handshake failure/i);
    expect(world.logged.join("\n")).toMatch(/certificate ends within 14 days.*"ends":"20\d\d-/);
  });

  test("does not negotiate a second time on a connection", async () => {
    const world = await openWorld(tlsSettings(one.certFile, one.keyFile));
    const port = Number(new URL(world.url).port);
    const socket = connect({ host: "127.0.0.1", port, ca: authorities, maxVersion: "TLSv1.2" });
    await new Promise((resolve) => socket.once("secureConnect", resolve));
    socket.on("error", () => {});
    const refused = await new Promise<boolean>((resolve) => {
      socket.once("close", () => resolve(true));
      socket.renegotiate({ rejectUnauthorized: true }, (error) => resolve(error !== null));
    });
    socket.destroy();
    expect(refused).toBe(true);
  });

  test("closes a connection that speaks plain HTTP, and takes nothing from it", async () => {
    const world = await openWorld(tlsSettings(one.certFile, one.keyFile));
    const plain = `GET /api/v1/status HTTP/1.1\r\nHost: x\r\nX-API-Key: ${world.acme.admin.text}\r\n\r\n`;
    const { text, end } = await exchangeRaw(world.url, plain);
    expect(end).toBe("closed");
    expect(text).not.toContain("HTTP/1.1 200");
    expect(world.gateway.inFlight()).toBe(0);
  });

  test("may listen where other machines reach it", async () => {
    const world = await openWorld({ ...tlsSettings(one.certFile, one.keyFile), "gateway.host": "0.0.0.0" });
    expect((await ask(world, "/livez")).status).toBe(200);
  });

  test("closes in time although a client never ends its handshake", async () => {
    const world = await openGatewayWorld({
      ...tlsSettings(one.certFile, one.keyFile),
      "gateway.drainMs": 200,
    });
    const silent = await openConnection(world.url);
    silent.on("error", () => {});
    silent.resume();
    expect((await ask(world, "/livez")).status).toBe(200);
    await world.close();
    await until("it is closed", () => silent.closed);
  });

  test("gives each address its share of connections, and counts requests on them as work", async () => {
    const world = await openWorld({
      ...tlsSettings(one.certFile, one.keyFile),
      "gateway.connectionsMax": 20,
      "gateway.connectionsPerAddressMax": 20,
    });
    const port = Number(new URL(world.url).port);
    const waiting = connect({ host: "127.0.0.1", port, ca: authorities });
    const body = JSON.stringify({
      worker_id: "w",
      topics: ["x"],
      poll_id: "p",
      max_jobs: 1,
      wait_ms: 20_000,
    });
    waiting.write(
      `POST /api/v1/jobs/poll HTTP/1.1\r\nHost: x\r\nX-API-Key: ${world.acme.worker.text}\r\n` +
        `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    await until("the poll waits", () => world.gateway.inFlight() === 1);
    const idle = await Promise.all(
      Array.from({ length: 18 }, async () =>
        (await openConnection(world.url)).on("error", () => {}).resume(),
      ),
    );
    await until("idle ones are closed", async () => {
      const { status } = await ask(world, "/livez", { localAddress: "127.0.0.2" });
      return status === 200 && idle.some((socket) => socket.closed);
    });
    expect(waiting.closed).toBe(false);
    for (const socket of [...idle, waiting]) socket.destroy();
  });
});

describe("a certificate that changes", () => {
  const fingerprintOf = async (world: GatewayWorld) => (await ask(world, "/livez")).fingerprint;
  const notUsed = (world: GatewayWorld) =>
    world.logged.filter((line) => line.includes("the new certificate is not used")).length;

  test("is taken over under load without a failed request, and half a change keeps the old one", async () => {
    const certFile = join(folder, "server.pem");
    const keyFile = join(folder, "server.key");
    copyFileSync(one.certFile, certFile);
    copyFileSync(one.keyFile, keyFile);
    const world = await openWorld(tlsSettings(certFile, keyFile));
    const before = await fingerprintOf(world);
    let isDone = false;
    const statuses: number[] = [];
    const load = Array.from({ length: 3 }, async () => {
      while (!isDone) statuses.push((await ask(world, "/livez")).status);
    });
    replace(two.certFile, certFile);
    await until("the mismatch was seen", () => notUsed(world) === 1);
    expect(await fingerprintOf(world)).toBe(before);
    replace(two.keyFile, keyFile);
    await until("the new one is used", async () => (await fingerprintOf(world)) !== before);
    isDone = true;
    await Promise.all(load);
    expect(statuses.length).toBeGreaterThan(5);
    expect(new Set(statuses)).toEqual(new Set([200]));
    expect(notUsed(world)).toBe(1);
  });

  test("is found behind a link that is moved, as Kubernetes does it", async () => {
    const secrets = join(folder, "secrets");
    for (const [name, { certFile, keyFile }] of Object.entries({ one, two })) {
      mkdirSync(join(secrets, name), { recursive: true });
      copyFileSync(certFile, join(secrets, name, "tls.crt"));
      copyFileSync(keyFile, join(secrets, name, "tls.key"));
    }
    const data = join(secrets, "data");
    symlinkSync("one", data);
    const world = await openWorld(tlsSettings(join(data, "tls.crt"), join(data, "tls.key")));
    const before = await fingerprintOf(world);
    symlinkSync("two", `${data}.new`);
    renameSync(`${data}.new`, data);
    await until("the new one is used", async () => (await fingerprintOf(world)) !== before);
  });
});

test.each([
  ["a key of another certificate", () => tlsSettings(one.certFile, two.keyFile), /does not belong/],
  ["a key as certificate", () => tlsSettings(one.keyFile, one.keyFile), /no PEM certificate/],
  ["a certificate as key", () => tlsSettings(one.certFile, one.certFile), /no PEM key/],
  ["a file that is not there", () => tlsSettings("/nowhere.pem", one.keyFile), /nowhere\.pem/],
  ["a certificate without a key", () => tlsSettings(one.certFile, ""), /needed together/],
])("%s is refused at the start", async (_name, settings, message) => {
  await expect(openGatewayWorld(settings())).rejects.toThrow(message);
});

test("doctor says whether the pair fits and when it ends", () => {
  const dayMs = 24 * 3_600_000;
  const find = (settings: Partial<Config>, inDays = 0) => {
    const { config } = loadConfig({ overrides: settings });
    const terminal = { folder, nowMs: () => Date.now() + inDays * dayMs } as Terminal;
    return certificateFindings(terminal, config).map(({ level, message }) => `${level}: ${message}`);
  };
  expect(find({})).toEqual([]);
  const pair = tlsSettings(one.certFile, one.keyFile);
  expect(find(pair)).toEqual([expect.stringMatching(/^warn: ends within 14 days, at 20\d\d-/)]);
  expect(find(pair, -30)).toEqual([expect.stringMatching(/^ok: fits its key/)]);
  expect(find(pair, 3)).toEqual([expect.stringMatching(/^fail: ended at/)]);
  expect(find(tlsSettings(one.certFile, two.keyFile))).toEqual([
    "fail: the key does not belong to the certificate",
  ]);
  expect(find(tlsSettings("nowhere", one.keyFile))).toEqual(["fail: it or its key cannot be read"]);
});
