// Encrypted connections to Redis: the right authority opens, anything else is refused with what to do about it.
import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startRedisCluster } from "../../proof/servers/redis-cluster.ts";
import { openRedisStore, type RedisStoreOptions } from "../../src/adapters/redis/redis-store.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import {
  freePort,
  type RedisServer,
  startRedisSentinel,
  startRedisServer,
} from "../../src/drills/servers/start-servers.ts";
import { defaultStoreSettings, type Store } from "../../src/ports/store.ts";
import { Harness } from "../../src/testing/conformance/harness.ts";
import { type Certificates, makeCertificates } from "../support/certificates.ts";
import { silentLog } from "../support/silent-log.ts";

let ours: Certificates;
let others: Certificates;
let server: RedisServer;
let tlsPort: number;

beforeAll(async () => {
  ours = makeCertificates();
  others = makeCertificates();
  tlsPort = await freePort();
  server = await startRedisServer(tlsArgs(tlsPort, "no"));
});
afterAll(async () => {
  await server?.stop();
  ours?.remove();
  others?.remove();
});

function tlsArgs(port: number, clients: "yes" | "no"): string[] {
  return [
    ...["--tls-port", String(port), "--tls-auth-clients", clients, "--tls-ca-cert-file", ours.caFile],
    ...["--tls-cert-file", ours.certFile, "--tls-key-file", ours.keyFile],
  ];
}

function open(changes: Partial<RedisStoreOptions> = {}): Promise<Store> {
  return openRedisStore({
    urls: [`rediss://127.0.0.1:${tlsPort}`],
    mode: "standalone",
    prefix: "interlock",
    tls: { caFile: ours.caFile },
    settings: defaultStoreSettings,
    clock: systemClock,
    log: silentLog,
    ...changes,
  });
}

function admitOne(store: Store): Promise<unknown> {
  return new Harness(store, systemClock, randomBytes(6).toString("hex")).admit();
}

async function works(opening: Promise<Store>): Promise<void> {
  const store = await opening;
  await admitOne(store);
  await store.close();
}

/** A connection that breaks off may heal: all else is a matter of settings. */
const refusal = (pattern: RegExp) => ({
  code: pattern.source.startsWith(": if this") ? "store_unavailable" : "store_unsuitable",
  detail: expect.stringMatching(new RegExp(`^127\\.0\\.0\\.1:\\d+: .*${pattern.source}`, "s")),
});

describe("one server", () => {
  test("the authority that signed its certificate opens it", async () => {
    await works(open());
  });

  test("another authority is refused, and so is none: each says to set store.tlsCaFile", async () => {
    const wanted = refusal(
      /: set store\.tlsCaFile to the certificate of the authority that signed the server's$/,
    );
    await expect(open({ tls: { caFile: others.caFile } })).rejects.toMatchObject(wanted);
    await expect(open({ tls: {} })).rejects.toMatchObject(wanted);
  });

  test("a certificate for another name is refused, although its authority is the right one", async () => {
    const wanted = refusal(/: address the server by a name or IP that its certificate holds$/);
    const opening = open({ urls: [`rediss://localhost:${tlsPort}`] });
    await expect(opening).rejects.toMatchObject({
      ...wanted,
      detail: expect.stringMatching(/its certificate holds$/),
    });
  });

  test("a connection without encryption to its TLS port is refused, and says what to try", async () => {
    const opening = open({ urls: [`redis://127.0.0.1:${tlsPort}`] });
    await expect(opening).rejects.toMatchObject(
      refusal(/: if this is a TLS port, use rediss:\/\/ in store\.redisUrls$/),
    );
  });

  test("an encrypted connection to its plain port is refused, and says what to try", async () => {
    const opening = open({ urls: [`rediss://127.0.0.1:${server.port}`] });
    await expect(opening).rejects.toMatchObject(
      refusal(/: if this port does not speak TLS, use its TLS port, or redis:\/\/ in store\.redisUrls$/),
    );
  });

  test("one that asks for a certificate of ours gets it, and its refusal says which settings are missing", async () => {
    const port = await freePort();
    const strict = await startRedisServer(tlsArgs(port, "yes"));
    const urls = [`rediss://127.0.0.1:${port}`];
    const { caFile, certFile, keyFile } = ours;
    try {
      await works(open({ urls, tls: { caFile, certFile, keyFile } }));
      const wanted = refusal(/: set store\.tlsCertFile and store\.tlsKeyFile$/);
      await expect(open({ urls })).rejects.toMatchObject(wanted);
    } finally {
      await strict.stop();
    }
  });

  test("a file that is missing or no PEM file is named with its setting", async () => {
    const missing = join(dirname(ours.caFile), "missing.pem");
    await expect(open({ tls: { caFile: missing } })).rejects.toMatchObject({
      code: "config_invalid",
      detail: `store.tlsCaFile: ${missing} cannot be read (ENOENT)`,
    });
    const text = join(dirname(ours.caFile), "text");
    writeFileSync(text, "no certificate");
    await expect(open({ tls: { caFile: ours.caFile, keyFile: text } })).rejects.toMatchObject({
      code: "config_invalid",
      detail: `store.tlsKeyFile: ${text} is not a PEM file`,
    });
  });
});

describe("several servers", () => {
  test("the nodes of a Cluster are found and used over TLS", async () => {
    const cluster = await startRedisCluster(["--tls-cluster", "yes"], (port) => tlsArgs(port, "no"));
    try {
      const store = await open({ mode: "cluster", urls: [`rediss://127.0.0.1:${cluster.tlsPorts[0]}`] });
      // Enough tenants for all three masters.
      for (let index = 0; index < 12; index += 1) await admitOne(store);
      for (const node of cluster.servers) {
        const clients = await node.command<string>("CLIENT", "LIST", "TYPE", "normal");
        const port = cluster.tlsPorts[cluster.servers.indexOf(node)];
        expect(clients).toMatch(new RegExp(`laddr=127\\.0\\.0\\.1:${port} .*name=interlock `));
        expect(clients).not.toMatch(new RegExp(`laddr=127\\.0\\.0\\.1:${node.port} .*name=interlock `));
      }
      await store.close();
    } finally {
      await cluster.stop();
    }
  });

  test("Sentinels are asked over TLS, and so is the master that they name", async () => {
    const port = await freePort();
    const [master, sentinelPort] = [await startRedisServer(tlsArgs(port, "no")), await freePort()];
    const { certFile, keyFile, caFile } = ours;
    const sentinel = await startRedisSentinel([
      ...[`tls-port ${sentinelPort}`, "tls-auth-clients no", "tls-replication yes"],
      ...[`tls-cert-file ${certFile}`, `tls-key-file ${keyFile}`, `tls-ca-cert-file ${caFile}`],
      `sentinel monitor secure 127.0.0.1 ${port} 1`,
    ]);
    try {
      const urls = [`rediss://127.0.0.1:${sentinelPort}`];
      await works(open({ mode: "sentinel", masterName: "secure", urls }));
    } finally {
      await sentinel.stop();
      await master.stop();
    }
  });
});
