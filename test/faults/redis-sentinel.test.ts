// A master that hangs, is demoted or dies behind Sentinels: the store finds the new one by itself and sends nothing twice.
import { randomBytes } from "node:crypto";
import { setTimeout as wait } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openRedisStore, type RedisStoreOptions } from "../../src/adapters/redis/redis-store.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import { createControlPlane, examineServers } from "../../src/control-plane.ts";
import { type RedisGroup, startRedisGroup } from "../../src/drills/servers/redis-failover.ts";
import {
  type RedisServer,
  startRedisSentinel,
  startRedisServer,
} from "../../src/drills/servers/start-servers.ts";
import type { Clock } from "../../src/ports/ports.ts";
import { defaultStoreSettings, type Store } from "../../src/ports/store.ts";
import { call, Harness } from "../../src/testing/conformance/harness.ts";
import { startFaultProxy } from "../support/fault-proxy.ts";
import { silentLog } from "../support/silent-log.ts";

const deadlineMs = 300;
/** As the guide has them. */
const watcherRights = [
  "watcher",
  "reset",
  "on",
  ">watch-secret",
  "+sentinel|master",
  "+ping",
  "+client|setname",
];

type Place = Pick<RedisGroup, "urls" | "masterName">;

function open(place: Place, changes: Partial<RedisStoreOptions> = {}): Promise<Store> {
  return openRedisStore({
    urls: place.urls,
    mode: "sentinel",
    masterName: place.masterName,
    prefix: "interlock",
    settings: defaultStoreSettings,
    clock: systemClock,
    log: silentLog,
    ...changes,
  });
}

const newHarness = (store: Store) => new Harness(store, systemClock, randomBytes(6).toString("hex"));

/** Admits until one is admitted, and tells how long that took. */
async function untilWorking(store: Store): Promise<number> {
  const startMs = performance.now();
  for (;;) {
    const harness = newHarness(store);
    const { kind } = await store.admit({ tenant: harness.tenant, run: harness.newRun() }, { deadlineMs });
    if (kind === "admitted") return performance.now() - startMs;
    if (performance.now() - startMs > 20_000) throw new Error(`the store still answers ${kind}`);
    await wait(20);
  }
}

describe("three Sentinels", () => {
  let group: RedisGroup;
  beforeAll(async () => {
    group = await startRedisGroup({ sentinels: 3 });
  });
  afterAll(() => group?.stop());

  test("one of them that answers is enough to open", async () => {
    const gone = await startRedisServer();
    await gone.stop();
    const store = await open(group, { urls: [gone.url, group.urls[0] as string] });
    await newHarness(store).admit();
    await store.close();
  });

  test("the settings of a process lead to the master, and auto waits for its replicas", async () => {
    const overrides = {
      "store.kind": "redis",
      "store.redisMode": "sentinel",
      "store.redisMaster": group.masterName,
      "store.redisUrls": group.urls.join(","),
    } as const;
    const detail = expect.stringContaining("store.durability replicated needs 1");
    const waiting = createControlPlane({ overrides, ports: { log: silentLog } });
    await expect(waiting).rejects.toMatchObject({ code: "store_unsuitable", detail });
    const settings = { ...overrides, "store.durability": "process" } as const;
    const plane = await createControlPlane({ overrides: settings, ports: { log: silentLog } });
    await newHarness(plane.ports.store).admit();
    await plane.close();
    const findings = await examineServers(plane.config);
    const { port } = await group.master();
    expect(findings).toContainEqual({
      subject: `redis 127.0.0.1:${port}`,
      level: "ok",
      message: "is a master",
    });
  });

  test("a name that they do not know is refused, with the setting", async () => {
    const detail = expect.stringMatching(/No such master with that name: set store\.redisMaster/);
    const opening = open(group, { masterName: "another" });
    await expect(opening).rejects.toMatchObject({ code: "store_unsuitable", detail });
  });

  test("the address of a server in place of a Sentinel's is refused, with the mode", async () => {
    const { url } = await group.master();
    const detail = expect.stringContaining(
      "it is no Sentinel: store.redisMode sentinel needs their addresses",
    );
    const opening = open(group, { urls: [url] });
    await expect(opening).rejects.toMatchObject({ code: "store_unsuitable", detail });
  });

  test("a server that they name, but that says it is a replica, is not used", async () => {
    const { port } = await group.replica();
    const stale = await startRedisSentinel([`sentinel monitor stale 127.0.0.1 ${port} 1`]);
    const detail = `127.0.0.1:${port} is named as the master, but says that it is a slave`;
    const opening = open({ urls: [stale.url], masterName: "stale" });
    await expect(opening).rejects.toMatchObject({ code: "store_unavailable", detail });
    await stale.stop();
  });

  test("the data's password goes to the data's servers and never to a Sentinel", async () => {
    const master = await group.master();
    await master.command("ACL", "SETUSER", "data", "on", ">data-secret", "~*", "+@all");
    const sentinel = group.sentinels[0] as RedisServer;
    await sentinel.command("ACL", "SETUSER", ...watcherRights);
    await sentinel.command("ACL", "LOG", "RESET");
    const urls = [`redis://watcher:watch-secret@127.0.0.1:${sentinel.port}`];
    const store = await open(group, { urls, user: "data", password: "data-secret" });
    await newHarness(store).admit();
    await store.close();
    expect(await sentinel.command("ACL", "LOG")).toEqual([]);
    const refused = open(group, { urls, user: "data", password: "guess" });
    const message = await refused.catch((reason: unknown) => String(reason));
    expect(message).toContain("WRONGPASS");
    expect(message).not.toMatch(/secret|guess/);
  });

  test("a master that hangs is replaced, the store works again without a restart, and nothing old is sent again", async () => {
    const store = await open(group);
    try {
      const master = await group.master();
      const harness = newHarness(store);
      const before = await harness.admit();
      expect(await master.command("WAIT", "1", "5000")).toBe(1);
      master.pause();
      const asked = await store.admit({ tenant: harness.tenant, run: harness.newRun() }, { deadlineMs });
      expect(asked.kind).toBe("unknown");
      const tookMs = await untilWorking(store);
      console.log(`the store worked ${Math.round(tookMs)} ms after its master hung (down-after 1000 ms)`);
      expect(await group.untilReplaced(master)).not.toBe(master);
      const active = await store.listActive({ tenant: harness.tenant, limit: 10 }, call);
      expect(active).toMatchObject({ kind: "listed", runIds: [before] });
    } finally {
      await store.close();
    }
  });
});

describe("a master that is replaced while it answers", () => {
  test("is left by a failover that the Sentinels were asked for, and no refused start exists", async () => {
    const group = await startRedisGroup({ sentinels: 1 });
    const store = await open(group);
    try {
      const master = await group.master();
      const harness = newHarness(store);
      const answers = new Map<string, string>();
      let going = true;
      const load = (async () => {
        while (going) {
          const run = harness.newRun();
          const { kind } = await store.admit({ tenant: harness.tenant, run }, { deadlineMs });
          answers.set(run.runId, kind);
          await wait(5);
        }
      })();
      await group.sentinels[0]?.command("SENTINEL", "FAILOVER", group.masterName);
      await group.untilReplaced(master);
      await untilWorking(store);
      going = false;
      await load;
      const active = await store.listActive({ tenant: harness.tenant, limit: 100_000 }, call);
      const existing = new Set<string>(active.kind === "listed" ? active.runIds : []);
      const inVain = [...answers].filter(([runId, kind]) => kind === "unavailable" && existing.has(runId));
      expect(inVain).toEqual([]);
      expect(existing.size).toBeGreaterThan(0);
    } finally {
      await store.close();
      await group.stop();
    }
  });

  test("answers READONLY, which writes nothing and lets the store look for the master at once", async () => {
    const group = await startRedisGroup({ sentinels: 1 });
    // Without the regular question: only the refusal can make the store look.
    const clock: Clock = {
      ...systemClock,
      timer: (ms, callback) => (ms === 1_000 ? () => {} : systemClock.timer(ms, callback)),
    };
    const store = await open(group, { clock });
    try {
      const sentinel = group.sentinels[0] as RedisServer;
      const [master, replica] = [await group.master(), await group.replica()];
      await sentinel.command("SENTINEL", "REMOVE", group.masterName);
      await replica.command("REPLICAOF", "NO", "ONE");
      await master.command("REPLICAOF", "127.0.0.1", String(replica.port));
      const [host, quorum] = ["127.0.0.1", "1"];
      await sentinel.command("SENTINEL", "MONITOR", group.masterName, host, String(replica.port), quorum);
      const harness = newHarness(store);
      const request = { tenant: harness.tenant, run: harness.newRun() };
      const refused = await store.admit(request, { deadlineMs });
      expect(refused).toMatchObject({ kind: "unavailable", cause: expect.stringMatching(/^READONLY/) });
      await untilWorking(store);
      expect(await store.countActive({ tenant: harness.tenant }, call)).toMatchObject({ active: 0 });
      expect(await store.admit(request, call)).toMatchObject({ kind: "admitted", active: 1 });
    } finally {
      await store.close();
      await group.stop();
    }
  });
});

describe("a connection that is cut after a command was executed", () => {
  test("loses the answer, and the command is not sent again: it was executed once", async () => {
    const server = await startRedisServer();
    const proxy = await startFaultProxy(server.port);
    const place = { masterName: "cut" };
    const sentinel = await startRedisSentinel([`sentinel monitor cut 127.0.0.1 ${proxy.port} 1`]);
    const store = await open({ ...place, urls: [sentinel.url] });
    try {
      const harness = newHarness(store);
      await harness.admit();
      // A script that the server does not have yet would be sent twice.
      await store.countActive({ tenant: harness.tenant }, call);
      const executed = async () => {
        const stats = await server.command<string>("INFO", "commandstats");
        const calls = ["evalsha", "eval"].map(
          (name) => new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(stats)?.[1],
        );
        return calls.reduce((sum, count) => sum + Number(count ?? 0), 0);
      };
      const before = await executed();
      const run = harness.newRun();
      const swallowed = proxy.swallowNextReply((request) => request.includes(run.runId));
      const lost = await store.admit({ tenant: harness.tenant, run }, call);
      expect(lost.kind).toBe("unknown");
      await swallowed;
      // Whatever was sent again would be there before the answer to this.
      expect(await store.countActive({ tenant: harness.tenant }, call)).toMatchObject({ active: 2 });
      expect(await executed()).toBe(before + 2);
    } finally {
      await store.close();
      await sentinel.stop();
      await proxy.close();
      await server.stop();
    }
  });
});
