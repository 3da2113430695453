// Locks in Redis itself: what a grant costs, what operators see there, and what is left when nobody uses a lock any more.
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createKeys, type TenantKeys } from "../../src/adapters/redis/keys.ts";
import { openRedisStore } from "../../src/adapters/redis/redis-store.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import { admissionLock, type LockName, type LockToken } from "../../src/domain/lock.ts";
import { type RedisServer, startRedisServer } from "../../src/drills/servers/start-servers.ts";
import { defaultStoreSettings, type Store } from "../../src/ports/store.ts";
import { call, Harness, only } from "../../src/testing/conformance/harness.ts";
import { silentLog } from "../support/silent-log.ts";

const prefix = "interlock";
const lock: LockName = { namespace: "public", name: "printer {1}: 50 %/ä" };
const listed = `public/${lock.name}`;

let server: RedisServer;
let store: Store;
let harness: Harness;
let keys: TenantKeys;

beforeAll(async () => {
  server = await startRedisServer();
  const settings = { ...defaultStoreSettings, sweepEveryMs: 0 };
  const common = { mode: "standalone", prefix, settings, clock: systemClock, log: silentLog } as const;
  store = await openRedisStore({ ...common, urls: [server.url] });
});
beforeEach(async () => {
  await server.command("FLUSHALL");
  harness = new Harness(store, systemClock, randomBytes(6).toString("hex"));
  keys = createKeys(prefix).forTenant(harness.tenant);
});
afterAll(async () => {
  await store?.close();
  await server?.stop();
});

function ask(token: LockToken, ticketMs = 30_000) {
  const { tenant } = harness;
  const request = { tenant, lock, token, instance: "host:1", ttlMs: 60_000, owner: "agent 7" };
  return store.acquireLock({ ...request, ticketMs }, call);
}

/** The commands that one call makes Redis run, by name. */
async function commandsOf(act: () => Promise<unknown>): Promise<readonly string[]> {
  await server.command("CONFIG", "RESETSTAT");
  await act();
  const lines = (await server.command<string>("INFO", "commandstats")).split("\r\n");
  return lines
    .flatMap((line) => {
      const [, name = "", calls = "0"] = /^cmdstat_([a-z]+)[^:]*:calls=(\d+)/.exec(line) ?? [];
      return /^(|evalsha|eval|config|info|hello|ping)$/.test(name)
        ? []
        : Array<string>(Number(calls)).fill(name);
    })
    .sort();
}

describe("what a grant costs", () => {
  const grant = ["get", "get", "get", "set", "set", "set", "time"];
  const release = ["del", "get", "get", "set", "time"];
  const queueRead = "zcard";
  const listing = ["zadd", "zadd", "zcard", "zcard"];

  test.each([
    { kind: "the lock of a run", name: { namespace: "run", name: "run_00_x" }, more: [], less: [] },
    { kind: "a tenant's admission lock", name: admissionLock, more: [queueRead], less: [queueRead] },
    {
      kind: "the lock of a job",
      name: { namespace: "job", name: "run_00_x:a@1" },
      more: [queueRead, ...listing],
      less: [queueRead, "zrem"],
    },
  ] as const)("$kind is granted, renewed and given back with no more than these", async (each) => {
    const { tenant } = harness;
    const token = harness.token();
    // Redis must know the scripts first.
    await harness.release(await harness.acquire(each.name, 60_000));
    const acquired = await commandsOf(() => harness.acquire(each.name, 60_000, token));
    expect(acquired).toEqual([...grant, ...each.more].sort());
    await store.renewLock({ tenant, lock: each.name, token, ttlMs: 60_000 }, call);
    const renewed = await commandsOf(() =>
      store.renewLock({ tenant, lock: each.name, token, ttlMs: 60_000 }, call),
    );
    expect(renewed).toEqual(["get", "get", "pexpire", "pexpire", "time"]);
    const released = await commandsOf(() => harness.release({ lock: each.name, token }));
    expect(released).toEqual([...release, ...each.less].sort());
  });
});

describe("what operators see", () => {
  test("a lock names its owner, and its queue the tokens in their order", async () => {
    const [holder, ...waiting] = [harness.token(), harness.token(), harness.token()];
    const { fence } = only(await ask(holder as LockToken), "acquired");
    for (const token of waiting) await ask(token);
    const { places } = keys.queue(lock);
    expect(await server.command("GET", keys.lock(lock))).toBe(`${holder} host:1 ${fence} "agent\u00017"`);
    expect(await server.command("ZRANGE", places, "0", "-1")).toEqual(waiting);
    expect(await server.command("ZRANGE", keys.locks, "0", "-1")).toEqual([listed]);
  });

  test("a grant made before there were owners and queues is listed, handed on and broken as any other", async () => {
    const { tenant } = harness;
    const value = "old-token host:1 1700000000000000";
    await server.command("SET", keys.lock(lock), value, "PX", "60000");
    await server.command("SET", keys.grant(lock), `${value} held`, "PX", "660000");
    const held = only(await store.inspectLock({ tenant, lock }, call), "held");
    expect(held).toMatchObject({ instance: "host:1", fence: 1_700_000_000_000_000, waiting: 0 });
    const next = harness.token();
    only(await ask(next), "busy");
    const broken = { tenant, lock, fence: held.fence, actor: "olivia", reason: "old" };
    expect(only(await store.breakLock(broken, call), "broken").granted?.token).toBe(next);
  });
});

describe("when nobody uses a lock any more", () => {
  const visit = `lock `;
  const dueLocks = async () =>
    (await server.command<string[]>("ZRANGE", keys.due, "0", "-1")).filter((each) => each.startsWith(visit));

  /** As if its time had come. */
  async function sweepLocks(): Promise<void> {
    for (const member of await dueLocks()) await server.command("ZADD", keys.due, "XX", "1", member);
    only(await store.sweep({ partition: harness.partition }, call), "swept");
  }

  test("one whose holder died leaves the list when the sweep visits it, and one that is held stays", async () => {
    const other: LockName = { namespace: "job", name: "run_00_x:a@1" };
    await harness.acquire(lock, 60_000);
    await harness.acquire(other, 60_000);
    await server.command("DEL", keys.lock(lock));
    expect(await dueLocks()).toHaveLength(2);
    await sweepLocks();
    expect(await server.command("ZRANGE", keys.locks, "0", "-1")).toEqual([`job/${other.name}`]);
    expect(await dueLocks()).toEqual([`lock ${harness.tenant} job/${other.name}`]);
    await server.command("DEL", keys.lock(other));
    await sweepLocks();
    expect(await server.command("EXISTS", keys.locks)).toBe(0);
    expect(await dueLocks()).toEqual([]);
  });

  test("a lock has one visit planned, however often it is taken", async () => {
    for (let times = 0; times < 3; times += 1) await harness.release(await harness.acquire(lock, 60_000));
    expect(await dueLocks()).toHaveLength(1);
  });

  test("everything of a queue expires by itself", async () => {
    const { token } = await harness.acquire(lock, 60_000);
    const [leaving, staying] = [harness.token(), harness.token()];
    for (const each of [leaving, staying]) await ask(each, 3_600_000);
    await harness.release({ lock, token: leaving });
    const { places, tickets, ends, endings } = keys.queue(lock);
    for (const name of [places, tickets, ends, endings]) {
      const leftMs = await server.command<number>("PTTL", name);
      expect(leftMs, name).toBeGreaterThan(55_000);
      expect(leftMs, name).toBeLessThanOrEqual(61_000);
    }
    // A place is kept for a minute at most, whatever was asked for.
    const endsAtMs = Number(await server.command("ZSCORE", ends, staying));
    expect(endsAtMs).toBeLessThanOrEqual((await harness.now()) + 60_000);
    await harness.release({ lock, token });
  });

  test("of what has ended on a lock, the last thousand are remembered", async () => {
    const { token } = await harness.acquire(lock, 60_000);
    const { endings } = keys.queue(lock);
    for (let index = 0; index < 1_000; index += 1)
      await server.command("ZADD", endings, String(9_000_000_000_000 + index), `left token-${index}`);
    const leaving = harness.token();
    await ask(leaving);
    await harness.release({ lock, token: leaving });
    expect(await server.command("ZCARD", endings)).toBe(1_000);
    await harness.release({ lock, token });
  });
});
