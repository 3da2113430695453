// Opening the Redis store: servers that will not do are refused by name, and older partitions are migrated.
import { readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openRedisStore, type RedisStoreOptions } from "../../src/adapters/redis/redis-store.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import type { Fingerprint, ReservationDigest } from "../../src/domain/fingerprint.ts";
import type { LockToken } from "../../src/domain/lock.ts";
import { makeRunId, type RunId, unchanged } from "../../src/domain/run.ts";
import type { Partition, TenantId } from "../../src/domain/tenant.ts";
import { type RedisServer, startRedisServer } from "../../src/drills/servers/start-servers.ts";
import { defaultStoreSettings } from "../../src/ports/store.ts";
import { call } from "../../src/testing/conformance/harness.ts";
import { silentLog } from "../support/silent-log.ts";

const luaFolder = join(import.meta.dirname, "../../src/adapters/redis/lua");

let server: RedisServer;
beforeAll(async () => {
  server = await startRedisServer();
});
afterAll(() => server?.stop());

function open(changes: Partial<RedisStoreOptions> = {}) {
  return openRedisStore({
    urls: [server.url],
    mode: "standalone",
    prefix: "interlock",
    settings: defaultStoreSettings,
    clock: systemClock,
    log: silentLog,
    ...changes,
  });
}

describe("unsuitable servers", () => {
  test("an eviction policy that would evict locks is refused, with its name", async () => {
    await server.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru");
    try {
      const detail = `127.0.0.1:${server.port}: maxmemory_policy is allkeys-lru, and must be noeviction`;
      await expect(open()).rejects.toMatchObject({ code: "store_unsuitable", detail });
    } finally {
      await server.command("CONFIG", "SET", "maxmemory-policy", "noeviction");
    }
  });

  test("a server that does not know script flags is refused, with its version", async () => {
    const old = await startOldRedis("6.2.14");
    const detail = expect.stringContaining("redis_version is 6.2.14, and must be at least 7");
    await expect(open({ urls: [old.url] })).rejects.toMatchObject({ code: "store_unsuitable", detail });
    await old.stop();
  });

  test("a single server opened as a Cluster is refused", async () => {
    const detail = expect.stringContaining("cluster support disabled");
    await expect(open({ mode: "cluster" })).rejects.toMatchObject({ code: "store_unsuitable", detail });
  });

  test("a server that refuses connections is named without its credentials", async () => {
    const gone = await startRedisServer();
    await gone.stop();
    for (const mode of ["standalone", "cluster"] as const) {
      const opening = open({ urls: [`redis://user:secret@127.0.0.1:${gone.port}`], mode });
      const error = await opening.catch((reason: unknown) => reason as Error);
      expect(error).toMatchObject({
        code: "store_unavailable",
        detail: `127.0.0.1:${gone.port}: connect ECONNREFUSED 127.0.0.1:${gone.port}`,
      });
      expect(String(error)).not.toContain("secret");
    }
  });

  test("an address that is no URL is refused without repeating it", async () => {
    const opening = open({ urls: ["redis://user:secret@"] });
    await expect(opening).rejects.toMatchObject({
      code: "config_invalid",
      detail: expect.not.stringContaining("secret"),
    });
  });

  test("a wrong password is refused, and the right one opens", async () => {
    await server.command("ACL", "SETUSER", "operator", "on", ">secret", "~*", "+@all");
    const url = (password: string) => `redis://operator:${password}@127.0.0.1:${server.port}`;
    const detail = expect.stringMatching(/WRONGPASS.*: correct store\.redisUser and store\.redisPassword/);
    await expect(open({ urls: [url("guess")] })).rejects.toMatchObject({ code: "store_unsuitable", detail });
    await (await open({ urls: [url("secret")] })).close();
  });
  test("a user who may not run a command of the scripts is refused, with the command", async () => {
    const files = readdirSync(luaFolder, { recursive: true, encoding: "utf8" });
    const sources = files
      .filter((name) => name.endsWith(".lua"))
      .map((name) => readFileSync(join(luaFolder, name), "utf8"));
    // Called at once, or put into a list of commands to be called later.
    const command = /(?:redis\.call\(|\{\s*)"([A-Z]+)"/g;
    const used = new Set(
      sources.flatMap((text) => [...text.matchAll(command)].map(([, name]) => name as string)),
    );
    expect(used.size).toBeGreaterThan(10);
    // Only a migration looks at the names of all keys: a user without that right can do everything else.
    expect(used.delete("SCAN")).toBe(true);
    for (const name of used) {
      await server.command("ACL", "SETUSER", "limited", "on", ">secret", "~*", "+@all", `-${name}`);
      const opening = open({ urls: [`redis://limited:secret@127.0.0.1:${server.port}`] });
      const detail = `the user of the address may not run ${name}`;
      // Asking for the time is the first thing that a script does.
      const refused = name === "TIME" ? {} : { detail };
      await expect(opening, name).rejects.toMatchObject({ code: "store_unsuitable", ...refused });
      await server.command("ACL", "DELUSER", "limited");
    }
  });
});

describe("schema version", () => {
  test("a user who may not look at all names is refused a migration, and changes nothing", async () => {
    await server.command("FLUSHALL");
    for (const command of readFixture("redis-schema-1.txt")) await server.command(...command);
    await server.command("ACL", "SETUSER", "limited", "on", ">secret", "~*", "+@all", "-SCAN");
    const opening = open({ urls: [`redis://limited:secret@127.0.0.1:${server.port}`] });
    const detail = "the user of the address may not run SCAN";
    await expect(opening).rejects.toMatchObject({ code: "store_unsuitable", detail });
    expect(await server.command("GET", schema("p47"))).toBe("1");
    await server.command("ACL", "DELUSER", "limited");
  });

  const ourVersion = "2";
  const schema = (partition: string) => `interlock:{${partition}}:schema`;

  test("every partition of a new store gets our version", async () => {
    await server.command("FLUSHALL");
    await (await open()).close();
    const keys = await server.command<string[]>("KEYS", "interlock:{p*}:schema");
    expect(keys).toHaveLength(64);
    expect(new Set(await server.command<string[]>("MGET", ...keys))).toEqual(new Set([ourVersion]));
  });

  test("a partition written by a newer version is refused and left alone", async () => {
    await server.command("SET", schema("p17"), "99");
    const detail = `p17 has schema version 99, and this program knows ${ourVersion}`;
    await expect(open()).rejects.toMatchObject({ code: "store_schema_newer", detail });
    expect(await server.command("GET", schema("p17"))).toBe("99");
    await server.command("DEL", schema("p17"));
  });

  test("a version that is no number is refused as corrupt", async () => {
    await server.command("SET", schema("p17"), "one");
    await expect(open()).rejects.toMatchObject({ code: "store_corrupt" });
    await server.command("DEL", schema("p17"));
  });

  test.each([0, 1])("a partition written by version %d is migrated and goes on working", async (version) => {
    await server.command("FLUSHALL");
    for (const command of readFixture(`redis-schema-${version}.txt`)) await server.command(...command);
    const store = await open();
    expect(await server.command("GET", schema("p47"))).toBe(ourVersion);
    const tenant = "acme" as TenantId;
    const settings = { maxConcurrentRuns: 2, stopped: false };
    expect(await store.getTenant({ tenant }, call)).toMatchObject({ record: { settings, version: 1 } });
    const ended = await store.loadRun({ tenant, runId: "run_47_ended0001" as RunId }, call);
    expect(ended).toMatchObject({
      header: { status: "succeeded", version: 1, definition: "", updatedAtMs: 1_763_180_000_300 },
      records: [{ key: "input/run", body: '{"list": []}' }],
    });
    const admit = (digest: string, fingerprint: string, unique: string) => {
      const key = { digest: digest as ReservationDigest, fingerprint: fingerprint as Fingerprint };
      const change = { ...unchanged, status: "pending", timeline: "[]" } as const;
      const base = { workflow: "deploy", definition: "d", actor: "a", change, start: "applied" } as const;
      return store.admit({ tenant, run: { ...base, runId: makeRunId(tenant, unique), key } }, call);
    };
    const replayed = { kind: "replayed", runId: "run_47_ended0001", status: "succeeded" };
    expect(await admit("0aa1", "v1:1111", "again001")).toMatchObject(replayed);
    expect(await admit("0aa2", "v1:other", "again002")).toMatchObject({ kind: "idempotency_key_reused" });
    expect(await admit("0aa3", "v1:3333", "second01")).toMatchObject({ kind: "admitted", active: 2 });
    expect(await admit("0aa4", "v1:4444", "third001")).toMatchObject({ kind: "max_concurrent_runs_reached" });
    const lock = { namespace: "public", name: "printer" } as const;
    const request = { tenant, lock, token: "t1" as LockToken, instance: "host:1", ttlMs: 1_000 };
    const { fence } = (await store.acquireLock(request, call)) as { fence: number };
    expect(fence).toBeGreaterThan(1_763_180_000_000_001);
    const { events } = (await store.readEvents({ tenant, after: 3, limit: 10 }, call)) as {
      events: readonly { sequence: number }[];
    };
    expect(events.map((event) => event.sequence)).toEqual([4, 5]);
    const { runs } = (await store.listRuns({ tenant, limit: 10 }, call)) as { runs: readonly object[] };
    expect(runs).toMatchObject([
      { runId: "run_47_second01" },
      { runId: "run_47_ended0001" },
      { runId: "run_47_active001", status: "pending" },
    ]);
    // From now on it has the usual retention; its key stays.
    const retention = ["interlock:{p47}:due", "retention acme run_47_ended0001"] as const;
    const inMs = Number(await server.command("ZSCORE", ...retention)) - systemClock.wallMs();
    expect(inMs / 86_400_000).toBeCloseTo(7, 1);
    await server.command("ZADD", retention[0], "XX", "1", retention[1]);
    const swept = await store.sweep({ partition: 47 as Partition }, call);
    expect(swept).toMatchObject({ kind: "swept", repairs: [] });
    expect(await server.command("EXISTS", "interlock:{p47}:run:acme:run_47_ended0001")).toBe(0);
    expect(await admit("0aa1", "v1:1111", "again003")).toMatchObject(replayed);
    expect(await server.command("ZCARD", "interlock:{p47}:keyed:acme")).toBe(3);
    await store.close();
  });
});

function readFixture(name: string): string[][] {
  const text = readFileSync(join(import.meta.dirname, "../fixtures", name), "utf8");
  return text
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) =>
      [...line.matchAll(/"(?:[^"\\]|\\.)*"|\S+/g)].map(([word]) =>
        word.startsWith('"') ? (JSON.parse(word) as string) : word,
      ),
    );
}

/** Answers HELLO and INFO as an older server would: no such server can be installed beside the real one. */
async function startOldRedis(version: string) {
  const info = `redis_version:${version}\r\nredis_mode:standalone\r\nmaxmemory_policy:noeviction\r\n`;
  const listener = createServer((socket) => {
    socket.on("error", () => {});
    socket.on("data", (chunk) => {
      for (const command of chunk.toString().split(/(?=\*\d+\r\n)/)) {
        if (command.includes("HELLO")) socket.write("%1\r\n+proto\r\n:3\r\n");
        else socket.write(`$${info.length}\r\n${info}\r\n`);
      }
    });
  });
  await new Promise<void>((resolve) => {
    listener.listen(0, "127.0.0.1", resolve);
  });
  const address = listener.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  return {
    url: `redis://127.0.0.1:${port}`,
    stop: () => new Promise<void>((resolve) => listener.close(() => resolve())),
  };
}
