// What doctor says of Redis servers: each thing that is wrong is found on a real server, with what to do about it.
import { setTimeout as wait } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ExamineOptions, examineRedis, knownFlaw } from "../../src/adapters/redis/examine.ts";
import { leastRights } from "../../src/adapters/redis/least-rights.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import { type RedisGroup, startRedisGroup } from "../../src/drills/servers/redis-failover.ts";
import { type RedisServer, startRedisServer } from "../../src/drills/servers/start-servers.ts";
import type { Finding } from "../../src/ports/ports.ts";

let group: RedisGroup;
let server: RedisServer;
beforeAll(async () => {
  group = await startRedisGroup({ sentinels: 1, args: ["--appendonly", "yes"] });
  server = await group.master();
  await server.command(...leastRights("interlock", "interlock", "secret").split(" "));
});
afterAll(() => group?.stop());

function examine(changes: Partial<ExamineOptions> = {}): Promise<readonly Finding[]> {
  return examineRedis({
    urls: [server.url],
    mode: "standalone",
    prefix: "interlock",
    durability: "process",
    clock: systemClock,
    ...changes,
  });
}

const least = { user: "interlock", password: "secret" } as const;
const remarks = (findings: readonly Finding[], level: Finding["level"]) =>
  findings.filter((finding) => finding.level === level).map(({ message }) => message);
const about = (findings: readonly Finding[], pattern: RegExp) =>
  findings.find(({ message }) => pattern.test(message));

describe("a server as it should be", () => {
  test("has nothing wrong but its age, also for the user with the least rights, who is told what it cannot see", async () => {
    const findings = await examine(least);
    expect(remarks(findings, "fail")).toEqual([]);
    expect(remarks(findings, "warn").filter((message) => !message.startsWith("version"))).toEqual([]);
    const seen = remarks(findings, "ok").join("; ");
    expect(seen).toMatch(/appendonly is on; this user may not see appendfsync/);
    expect(seen).toMatch(/is a master/);
    expect(seen).toMatch(/its clock is \d+ ms (behind|ahead of) ours/);
    expect(seen).toMatch(/its user is interlock/);
    expect(new Set(findings.map(({ subject }) => subject))).toEqual(
      new Set([`redis 127.0.0.1:${server.port}`]),
    );
  });

  test("every finding that is not ok says what to do, and none holds a password", async () => {
    const findings = await examine({
      urls: [`redis://interlock:secret@127.0.0.1:${server.port}`],
      durability: "replicated",
    });
    const silent = findings.filter(({ level, remedy }) => level !== "ok" && remedy === undefined);
    expect(silent).toEqual([]);
    expect(JSON.stringify(findings)).not.toContain("secret");
  });
});

describe("what is wrong", () => {
  test("the default user is warned of with the line that makes a better one, and so is one with all rights", async () => {
    expect(about(await examine(), /its user is default, without a password/)).toMatchObject({
      level: "warn",
      remedy: leastRights("interlock", "interlock", "<password>"),
    });
    await server.command("ACL", "SETUSER", "mighty", "on", ">secret", "~*", "&*", "+@all");
    const findings = await examine({ user: "mighty", password: "secret" });
    expect(about(findings, /its user mighty has more rights than it needs/)?.level).toBe("warn");
    expect(about(findings, /appendfsync everysec: a power cut loses up to a second/)?.level).toBe("ok");
  });

  test("settings of the server that lose data are found", async () => {
    const settings = [
      ["maxmemory-policy", "allkeys-lru", "noeviction", "fail", /maxmemory-policy is allkeys-lru/],
      ["appendonly", "no", "yes", "warn", /appendonly is off/],
      ["appendfsync", "no", "everysec", "warn", /appendfsync is no/],
    ] as const;
    for (const [name, wrong, right, level, pattern] of settings) {
      await server.command("CONFIG", "SET", name, wrong);
      const findings = await examine();
      await server.command("CONFIG", "SET", name, right);
      expect(about(findings, pattern), name).toMatchObject({ level, remedy: expect.stringContaining(right) });
    }
  });

  test("replicas are held against the durability", async () => {
    const replicated = { ...least, durability: "replicated" } as const;
    expect(about(await examine(replicated), /min-replicas-to-write is 0/)).toMatchObject({
      level: "fail",
      remedy: expect.stringContaining("CONFIG SET min-replicas-to-write 1"),
    });
    await server.command("CONFIG", "SET", "min-replicas-to-write", "1");
    expect(about(await examine(replicated), /one replica/)?.level).toBe("warn");
    await group.cutReplication();
    expect(about(await examine(replicated), /no replica copies it/)?.level).toBe("fail");
    await server.command("CONFIG", "SET", "min-replicas-to-write", "0");
    await server.command("ACL", "SETUSER", "copier", "on");
  });

  test("a replica that is connected and acknowledges nothing is named, as a failure where answers wait for it", async () => {
    await group.untilReplicated();
    const replica = await group.replica();
    replica.pause();
    try {
      const silent = /^replica 127\.0\.0\.1:\d+ is connected, but has acknowledged nothing for \d+ s/;
      const look = async (durability: "process" | "replicated") => {
        for (;;) {
          const found = about(await examine({ ...least, durability }), silent);
          if (found !== undefined) return found;
          await wait(100);
        }
      };
      await server.command("CONFIG", "SET", "min-replicas-to-write", "1");
      expect(await look("replicated")).toMatchObject({
        level: "fail",
        message: expect.stringMatching(/changes are answered as unknown$/),
        remedy: expect.stringContaining(String(replica.port)),
      });
      expect(await look("process")).toMatchObject({ level: "warn" });
    } finally {
      replica.resume();
      await server.command("CONFIG", "SET", "min-replicas-to-write", "0");
      await group.untilReplicated();
    }
  });

  test("a replica in place of a master, and a server that is not there", async () => {
    const replica = await group.replica();
    expect(about(await examine({ urls: [replica.url] }), /does not take writes/)?.level).toBe("fail");
    const gone = await startRedisServer();
    await gone.stop();
    const [finding, ...others] = await examine({ urls: [gone.url] });
    expect(finding).toMatchObject({ level: "fail", message: expect.stringContaining("ECONNREFUSED") });
    expect(others).toEqual([]);
  });

  test("clocks more than half a second apart are told, in both directions", async () => {
    for (const wrongMs of [-5_000, 5_000]) {
      const clock = { ...systemClock, wallMs: () => systemClock.wallMs() + wrongMs };
      const finding = about(await examine({ clock }), /its clock is \d+ ms/);
      expect(finding?.level).toBe("warn");
      expect(finding?.message).toMatch(wrongMs < 0 ? /ahead of ours/ : /behind ours/);
    }
  });

  test("Sentinels are examined as well: one is too few, and one that is gone is named", async () => {
    const gone = await startRedisServer();
    await gone.stop();
    const urls = [...group.urls, gone.url];
    const findings = await examine({ urls, mode: "sentinel", masterName: group.masterName });
    expect(about(findings, /knows 1 Sentinels \(quorum 1\) and 1 replicas/)?.level).toBe("warn");
    expect(findings.find(({ subject }) => subject === `sentinel 127.0.0.1:${gone.port}`)?.level).toBe("warn");
    expect(about(findings, /store.durability is process: a failover loses/)?.level).toBe("warn");
  });
});

describe("versions", () => {
  test("with a known flaw of Lua are told from those that have it repaired", () => {
    const flaw = (fields: Record<string, string>) => knownFlaw((field) => fields[field]);
    for (const version of ["7.0.15", "7.2.10", "7.4.5", "8.0.3", "8.2.1", "8.6.2"]) {
      expect(flaw({ redis_version: version }), version).toMatch(/CVE-20/);
    }
    for (const version of ["7.2.11", "7.4.6", "7.4.10", "8.6.3", "8.8.0", "9.0.0"]) {
      expect(flaw({ redis_version: version }), version).toBeUndefined();
    }
    expect(flaw({ redis_version: "7.2.4", valkey_version: "8.1.3" })).toMatch(/fixed in 8\.1\.4/);
    expect(flaw({ redis_version: "7.2.4", valkey_version: "8.1.4" })).toBeUndefined();
  });
});
