// A Cluster of three masters: one of them hangs, dies or hands a slot over, and the partitions of the others do not mind.
import { randomBytes } from "node:crypto";
import { setTimeout as wait } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type RedisCluster, startRedisCluster } from "../../proof/servers/redis-cluster.ts";
import type { Durability } from "../../src/adapters/redis/durability.ts";
import { createKeys } from "../../src/adapters/redis/keys.ts";
import { openRedisStore } from "../../src/adapters/redis/redis-store.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import type { RedisServer } from "../../src/drills/servers/start-servers.ts";
import type { NewRun } from "../../src/ports/admission-operations.ts";
import { defaultStoreSettings, type Store } from "../../src/ports/store.ts";
import { call, Harness, key } from "../../src/testing/conformance/harness.ts";
import { prefix } from "../support/operation-scenarios.ts";
import { silentLog } from "../support/silent-log.ts";

const deadlineMs = 300;
const slackMs = 700;

let cluster: RedisCluster;
let store: Store;

/** One address is enough: the other masters are found through it. */
function open(from: RedisCluster, durability: Durability = "process"): Promise<Store> {
  return openRedisStore({
    durability,
    urls: from.urls.slice(0, 1),
    mode: "cluster",
    prefix,
    settings: defaultStoreSettings,
    clock: systemClock,
    log: silentLog,
  });
}

beforeAll(async () => {
  cluster = await startRedisCluster();
  store = await open(cluster);
});
afterAll(async () => {
  for (const server of cluster?.servers ?? []) server.resume();
  await store?.close();
  await cluster?.stop();
});

const keysOf = (tenant: TenantId) => createKeys(prefix).forTenant(tenant);
const newHarness = (from = store) => new Harness(from, systemClock, randomBytes(6).toString("hex"));

/** A tenant whose partition the given server holds. */
async function harnessOn(server: RedisServer): Promise<Harness> {
  for (;;) {
    const harness = newHarness();
    if ((await cluster.holderOf(keysOf(harness.tenant).tenant)) === server) return harness;
  }
}

async function untilWorking({ store: asked, tenant }: Harness): Promise<void> {
  const endMs = performance.now() + 15_000;
  for (;;) {
    const { kind } = await asked.getTenant({ tenant }, { deadlineMs });
    if (kind === "tenant") return;
    if (performance.now() > endMs) throw new Error(`the store still answers ${kind}`);
    await wait(20);
  }
}

describe("durability replicated", () => {
  test("is refused while one master of the Cluster writes without replicas, by its name", async () => {
    const [first, ...others] = cluster.servers as [RedisServer, ...RedisServer[]];
    const want = (server: RedisServer, replicas: string) =>
      server.command("CONFIG", "SET", "min-replicas-to-write", replicas);
    for (const other of others) await want(other, "1");
    try {
      const detail = expect.stringMatching(`^127\\.0\\.0\\.1:${first.port}: min-replicas-to-write is 0`);
      const opening = open(cluster, "replicated");
      await expect(opening).rejects.toMatchObject({ code: "store_unsuitable", detail });
    } finally {
      for (const other of others) await want(other, "0");
    }
  });

  test("waits for the replica of the master that holds the partition: one that is silent concerns no other", async () => {
    const own = await startRedisCluster(["--min-replicas-to-write", "1", "--repl-diskless-sync-delay", "0"]);
    try {
      const replicas = await Promise.all(own.servers.map((master) => own.addReplica(master)));
      const store = await open(own, "replicated");
      const [quiet, other] = await Promise.all(
        own.servers.slice(0, 2).map(async (server) => {
          for (;;) {
            const harness = newHarness(store);
            if ((await own.holderOf(keysOf(harness.tenant).tenant)) === server) return harness;
          }
        }),
      );
      const start = async ({ tenant }: Harness, run: NewRun) =>
        (await store.admit({ tenant, run }, call)).kind;
      for (const harness of [quiet, other] as Harness[]) {
        const run = harness.newRun();
        await expect.poll(() => start(harness, run)).toBe("admitted");
      }
      replicas[0]?.pause();
      expect(await start(quiet as Harness, (quiet as Harness).newRun())).toBe("unknown");
      expect(await start(other as Harness, (other as Harness).newRun())).toBe("admitted");
      replicas[0]?.resume();
      await store.close();
    } finally {
      await own.stop();
    }
  });
});

describe("one master of three", () => {
  test("hangs: its partitions are unknown in time, the others work, and it is used again when it answers", async () => {
    const [first, second, third] = await Promise.all(cluster.servers.map(harnessOn));
    const others = [first, third] as Harness[];
    const hung = second as Harness;
    for (const harness of [...others, hung]) await harness.admit();
    (cluster.servers[1] as RedisServer).pause();
    const startMs = performance.now();
    const asked = store.getTenant({ tenant: hung.tenant }, { deadlineMs });
    for (const harness of others) await harness.admit();
    expect((await asked).kind).toBe("unknown");
    expect(performance.now() - startMs).toBeLessThan(deadlineMs + slackMs);
    for (const harness of others) {
      await harness.admit();
      const counted = await store.countActive({ tenant: harness.tenant }, call);
      expect(counted).toMatchObject({ kind: "counted", active: 3 });
    }
    const refused = await store.getTenant({ tenant: hung.tenant }, { deadlineMs });
    expect(["unknown", "unavailable"]).toContain(refused.kind);
    (cluster.servers[1] as RedisServer).resume();
    await untilWorking(hung);
    await hung.admit();
    const counted = await store.countActive({ tenant: hung.tenant }, call);
    expect(counted).toMatchObject({ kind: "counted", active: 2 });
  });

  test("dies: its partitions are unavailable, the others work, and it is used again when it is back", async () => {
    const [, , third] = cluster.servers as [RedisServer, RedisServer, RedisServer];
    const dead = await harnessOn(third);
    const alive = await harnessOn(cluster.servers[0] as RedisServer);
    await third.kill();
    const answer = await store.getTenant({ tenant: dead.tenant }, { deadlineMs });
    expect(["unknown", "unavailable"]).toContain(answer.kind);
    await alive.admit();
    await third.restart();
    await untilWorking(dead);
    await dead.admit();
  });

  test("dies and is replaced by its replica: the store finds the new master by itself", async () => {
    const own = await startRedisCluster(["--cluster-node-timeout", "1000"]);
    const failing = await open(own);
    try {
      const master = own.servers[1] as RedisServer;
      await own.addReplica(master);
      let harness = newHarness(failing);
      while ((await own.holderOf(keysOf(harness.tenant).tenant)) !== master) harness = newHarness(failing);
      const runId = await harness.admit();
      expect(await master.command("WAIT", "1", "1000")).toBe(1);
      await master.kill();
      await untilWorking(harness);
      const loaded = await failing.loadRun({ tenant: harness.tenant, runId }, call);
      expect(loaded).toMatchObject({ kind: "run", header: { runId } });
      await harness.admit();
    } finally {
      await failing.close();
      await own.stop();
    }
  });
});

describe("a slot that moves", () => {
  test("is followed: first by asking the new master, then for good, and nothing is lost", async () => {
    const [from, to] = cluster.servers as [RedisServer, RedisServer];
    const harness = await harnessOn(from);
    const { tenant } = harness;
    const runId = await harness.admit(harness.newRun({ key: key("k") }));
    const slot = String(await from.command("CLUSTER", "KEYSLOT", keysOf(tenant).tenant));
    const [fromId, toId] = await Promise.all(
      [from, to].map((node) => node.command<string>("CLUSTER", "MYID")),
    );
    await to.command("CLUSTER", "SETSLOT", slot, "IMPORTING", String(fromId));
    await from.command("CLUSTER", "SETSLOT", slot, "MIGRATING", String(toId));

    // Half of the tenant's keys are gone from the old master: a script that needs both halves is refused, not run.
    await migrate(from, to, [keysOf(tenant).tenant]);
    const half = await store.admit({ tenant, run: harness.newRun() }, call);
    expect(half).toMatchObject({ kind: "unavailable", cause: expect.stringMatching(/^TRYAGAIN/) });

    const left = await from.command<string[]>("CLUSTER", "GETKEYSINSLOT", slot, "1000");
    await migrate(from, to, left);
    // The old master still owns the slot and has nothing in it: it says to ask the new one.
    const loaded = await store.loadRun({ tenant, runId }, call);
    expect(loaded).toMatchObject({ kind: "run", header: { runId } });

    for (const node of [to, from, cluster.servers[2] as RedisServer]) {
      await node.command("CLUSTER", "SETSLOT", slot, "NODE", String(toId));
    }
    expect(await store.countActive({ tenant }, call)).toMatchObject({ kind: "counted", active: 1 });
    await harness.admit();
    const replayed = await store.admit({ tenant, run: harness.newRun({ key: key("k") }) }, call);
    expect(replayed).toMatchObject({ kind: "replayed", runId });
  });
});

async function migrate(from: RedisServer, to: RedisServer, keys: readonly string[]): Promise<void> {
  await from.command("MIGRATE", "127.0.0.1", String(to.port), "", "0", "5000", "KEYS", ...keys);
}
