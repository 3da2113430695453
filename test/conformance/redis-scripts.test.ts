// What holds for every Lua script: an error has no effect, values survive, and Redis may forget or refuse scripts.
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createKeys } from "../../src/adapters/redis/keys.ts";
import { openRedisStore } from "../../src/adapters/redis/redis-store.ts";
import { readOperationSource } from "../../src/adapters/redis/scripts.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import type { Guard } from "../../src/domain/lock.ts";
import { type RedisServer, startRedisServer } from "../../src/drills/servers/start-servers.ts";
import { defaultStoreSettings, type Store } from "../../src/ports/store.ts";
import { call, Harness, key } from "../../src/testing/conformance/harness.ts";
import { commitOf, jobOf } from "../../src/testing/conformance/run-steps.ts";
import {
  performScenario,
  prefix,
  prepareScenario,
  type ScenarioName,
  scenarioNames,
  writingScenarios,
} from "../support/operation-scenarios.ts";
import { changedKeys, takeSnapshot } from "../support/redis-snapshot.ts";
import { silentLog } from "../support/silent-log.ts";

const options = {
  mode: "standalone",
  prefix,
  settings: { ...defaultStoreSettings, keysPerTenantMax: 2 },
  clock: systemClock,
  log: silentLog,
} as const;

let server: RedisServer;
let store: Store;

beforeAll(async () => {
  server = await startRedisServer();
  store = await openRedisStore({ ...options, urls: [server.url] });
});
afterAll(async () => {
  await store?.close();
  await server?.stop();
});

/** What one test leaves due must not be swept by another. */
beforeEach(() => server.command("FLUSHALL"));

const newHarness = (from = store) => new Harness(from, systemClock, randomBytes(6).toString("hex"));
const remove = (name: string) => server.command("DEL", name);
const prepare = (name: ScenarioName, harness: Harness) => prepareScenario(name, harness, remove);

describe("an error has no effect", () => {
  test.each(scenarioNames)("%s writes the keys it is known to write, and no others", async (name) => {
    const harness = newHarness();
    const scenario = await prepare(name, harness);
    const before = await takeSnapshot(server);
    const answer = await performScenario(harness, scenario);
    expect(answer.kind).toBe(scenario.kind);
    const written = [...scenario.writes, ...(scenario.removes ?? [])];
    expect(changedKeys(before, await takeSnapshot(server))).toEqual(written.sort());
  });

  // The sweep puts off what it cannot read: see redis-sweep.test.ts.
  test.each(writingScenarios.filter((name) => name !== "sweep"))(
    "%s fails before its first write when a key has the wrong type",
    async (name) => {
      const { writes } = await prepare(name, newHarness());
      for (const index of writes.keys()) {
        await server.command("FLUSHALL");
        const harness = newHarness();
        const scenario = await prepare(name, harness);
        const planted = scenario.writes[index] as string;
        await plantWrongType(planted);
        const before = await takeSnapshot(server);
        await expect(performScenario(harness, scenario), `wrong type at ${planted}`).rejects.toThrow(
          "WRONGTYPE",
        );
        expect(changedKeys(before, await takeSnapshot(server)), `wrong type at ${planted}`).toEqual([]);
      }
      await server.command("FLUSHALL");
    },
  );

  /** Only inboxes are lists. */
  async function plantWrongType(name: string): Promise<void> {
    await server.command("DEL", name);
    if (name.includes(":inbox:")) await server.command("SET", name, "not what the script expects");
    else await server.command("RPUSH", name, "not what the script expects");
  }

  test("a script that writes too early would be noticed", async () => {
    const early = `$&\nredis.call("ZADD", known.activeKey, now, runId)`;
    const admit = readOperationSource("admit").replace(/^ +local at, retake = .*\n.*$/m, early);
    const planted = await openRedisStore({ ...options, urls: [server.url], scripts: { admit } });
    const harness = newHarness(planted);
    const scenario = await prepare("admit", harness);
    const keys = createKeys(prefix).forTenant(harness.tenant);
    await server.command("DEL", keys.events);
    await server.command("RPUSH", keys.events, "not what the script expects");
    const before = await takeSnapshot(server);
    await expect(performScenario(harness, scenario)).rejects.toThrow("WRONGTYPE");
    expect(changedKeys(before, await takeSnapshot(server))).toEqual([keys.active]);
    await planted.close();
  });

  test("an event row that Redis refuses leaves nothing of an admission behind", async () => {
    const harness = newHarness();
    await harness.admit();
    // The last number that a stream can count to: it refuses the next row.
    const { events } = createKeys(prefix).forTenant(harness.tenant);
    await server.command("XADD", events, "0-18446744073709551615", "at", "0");
    const before = await takeSnapshot(server);
    await expect(harness.admit()).rejects.toThrow("too large");
    expect(changedKeys(before, await takeSnapshot(server))).toEqual([]);
  });

  test.each(scenarioNames)("%s past its notAfterMs is refused without effect", async (name) => {
    const harness = newHarness();
    const scenario = await prepare(name, harness);
    const before = await takeSnapshot(server);
    const now = await store.getTenant({ tenant: harness.tenant }, call);
    const notAfterMs = (now as { storeTimeMs: number }).storeTimeMs - 1;
    const answer = await performScenario(harness, scenario, { deadlineMs: 5_000, notAfterMs });
    expect(answer).toEqual({ kind: "unavailable", cause: "too_late" });
    expect(changedKeys(before, await takeSnapshot(server))).toEqual([]);
  });
});

describe("values survive", () => {
  test("record bodies come back byte for byte", async () => {
    const bodies = [
      "[]",
      "{}",
      '{"a":[],"b":{}}',
      '{"n":12345678901234567890,"x":1e400}',
      "",
      "\u0000\n é 💥",
    ];
    const records = bodies.map((body, index) => ({ key: `input/${index}`, body }));
    const harness = newHarness();
    const runId = await harness.admit(harness.newRun({ records }));
    const loaded = await store.loadRun({ tenant: harness.tenant, runId }, call);
    expect(loaded).toMatchObject({ kind: "run", records });
  });

  test("a run with more records than fit one command is written and read whole", async () => {
    const records = Array.from({ length: 1_000 }, (_, index) => ({
      key: `step/${String(index).padStart(4, "0")}`,
      body: `{"index":${index}}`,
    }));
    const harness = newHarness();
    const { tenant } = harness;
    const runId = await harness.admit(harness.newRun({ records }));
    expect(await store.loadRun({ tenant, runId }, call)).toMatchObject({ kind: "run", records });
    const named = { tenant, runId, records: [...records.map((record) => record.key), "step/none"] };
    expect(await store.loadRun(named, call)).toMatchObject({ kind: "run", records });
  });

  test("fences and times near the largest whole number stay exact", async () => {
    const harness = newHarness();
    const { tenant } = harness;
    const large = Number.MAX_SAFE_INTEGER - 1_000;
    const fenceKey = createKeys(prefix).forTenant(tenant).fence;
    await server.command("SET", fenceKey, String(large));
    const runId = await harness.admit();
    const guard: Guard = await harness.acquire({ namespace: "run", name: runId }, 60_000);
    expect(guard.fence).toBe(large + 1);
    const held = await store.inspectLock({ tenant, lock: guard.lock }, call);
    expect(held).toMatchObject({ kind: "held", fence: large + 1 });
    const job = jobOf(runId, { claim: harness.claim(), deadlineAtMs: large });
    const change = { jobs: [job], timers: [{ timerId: "late", dueAtMs: large }] };
    const request = commitOf(harness, runId, guard, { change });
    for (let times = 0; times < 2; times += 1)
      expect(await store.commit(request, call)).toMatchObject({ claims: [{ fence: large + 2 }] });
    const read = await store.getJob({ tenant, jobId: job.jobId }, call);
    expect(read).toMatchObject({ job: { deadlineAtMs: large, claim: { fence: large + 2 } } });
    await harness.end(runId, "failed");
    const loaded = await store.loadRun({ tenant, runId }, call);
    const { endedAtMs } = (loaded as { header: { endedAtMs: number } }).header;
    const rows = await store.readEvents({ tenant, after: 2, limit: 1 }, call);
    expect(rows).toMatchObject({ events: [{ sequence: 3, atMs: endedAtMs }] });
    await server.command("DEL", fenceKey);
  });

  test("a lock says in Redis itself who holds it", async () => {
    const harness = newHarness();
    const guard = await harness.acquire({ namespace: "public", name: "printer" }, 60_000);
    const keys = createKeys(prefix).forTenant(harness.tenant);
    const value = `${guard.token} host:1 ${guard.fence}`;
    expect(await server.command("GET", keys.lock(guard.lock))).toBe(value);
    expect(await server.command("GET", keys.grant(guard.lock))).toBe(`${value} held`);
    expect(await server.command("PTTL", keys.lock(guard.lock))).toBeGreaterThan(50_000);
    expect(await server.command("PTTL", keys.grant(guard.lock))).toBeGreaterThan(650_000);
  });

  test("only the last event rows are shown, whatever the stream still holds", async () => {
    const settings = { ...options.settings, eventsPerTenantMax: 3 };
    const few = await openRedisStore({ ...options, settings, urls: [server.url] });
    const harness = newHarness(few);
    for (let run = 0; run < 5; run += 1) await harness.admit();
    const rows = await few.readEvents({ tenant: harness.tenant, after: 0, limit: 10 }, call);
    expect(rows).toMatchObject({ events: [{ sequence: 3 }, { sequence: 4 }, { sequence: 5 }] });
    await few.close();
  });
});

describe("Redis forgets or refuses", () => {
  test("scripts forgotten between calls are sent again", async () => {
    for (const name of scenarioNames) {
      const harness = newHarness();
      const scenario = await prepare(name, harness);
      await server.command("SCRIPT", "FLUSH");
      expect((await performScenario(harness, scenario)).kind).toBe(scenario.kind);
    }
  });

  test("without memory nothing new begins, and what ends, releases or brings results still works", async () => {
    const prepared = async (names: readonly ScenarioName[]) => {
      const found = [];
      for (const name of names) {
        const harness = newHarness();
        found.push({ name, harness, scenario: await prepare(name, harness) });
      }
      return found;
    };
    const begins = ["acquireLock", "admit", "createRun", "claimJobs", "putDocument"] as const;
    const starts = await prepared(begins);
    const goes = await prepared([
      ...(["releaseLock", "cancelReservation", "heartbeatJobs", "takeRun", "deleteRun"] as const),
      ...(["removeDocument", "breakLock", "sweep"] as const),
      ...scenarioNames.filter((name) => /^(deliver|commit)/.test(name)),
    ]);
    await server.command("CONFIG", "SET", "maxmemory", "1");
    try {
      for (const { name, harness, scenario } of starts) {
        const refused = await performScenario(harness, scenario);
        expect(refused, name).toMatchObject({ kind: "unavailable", cause: expect.stringMatching(/^OOM/) });
      }
      for (const { name, harness, scenario } of goes)
        expect((await performScenario(harness, scenario)).kind, name).toBe(scenario.kind);
    } finally {
      await server.command("CONFIG", "SET", "maxmemory", "0");
    }
    for (const { harness, scenario } of starts)
      expect((await performScenario(harness, scenario)).kind).toBe(scenario.kind);
  });

  test("a script can be swapped when the store is opened", async () => {
    const admit = readOperationSource("admit").replace("limit and known.active >= limit", "false");
    const planted = await openRedisStore({ ...options, urls: [server.url], scripts: { admit } });
    const harness = newHarness(planted);
    await harness.set({ maxConcurrentRuns: 1 });
    await harness.admit();
    await harness.admit(harness.newRun({ key: key("over the limit") }));
    await planted.close();
  });

  test("instances and ids that the keys cannot hold are the caller's mistake", async () => {
    const harness = newHarness();
    const { tenant } = harness;
    const lock = { namespace: "public", name: "printer" } as const;
    const request = { tenant, lock, token: harness.token(), ttlMs: 1_000 };
    await expect(store.acquireLock({ ...request, instance: "host 1" }, call)).rejects.toThrow("instance");
    const tooShort = { ...request, instance: "host:1", ttlMs: 0 };
    await expect(store.acquireLock(tooShort, call)).rejects.toThrow("ttlMs");
  });
});
