// Durability `replicated` on a real primary and its replica: what is held back, for how many commands, and what is refused.
import { randomBytes } from "node:crypto";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { openRedisStore, type RedisStoreOptions } from "../../src/adapters/redis/redis-store.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import { type RedisGroup, startRedisGroup } from "../../src/drills/servers/redis-failover.ts";
import type { RedisServer } from "../../src/drills/servers/start-servers.ts";
import { defaultStoreSettings, type OperationName, type Store } from "../../src/ports/store.ts";
import { call, Harness, key } from "../../src/testing/conformance/harness.ts";
import { deliveryOf, resultOf, runWithClaim } from "../../src/testing/conformance/run-steps.ts";
import {
  performScenario,
  prefix,
  prepareScenario,
  writingOperations,
} from "../support/operation-scenarios.ts";
import { silentLog } from "../support/silent-log.ts";

const replicaWaitMs = 100;

let group: RedisGroup;
let primary: RedisServer;
let replica: RedisServer;
let store: Store;
/** On the same servers, but it waits for nobody: it prepares what the other is asked for. */
let hasty: Store;

function open(changes: Partial<RedisStoreOptions> = {}): Promise<Store> {
  return openRedisStore({
    urls: [primary.url],
    mode: "standalone",
    prefix,
    durability: "replicated",
    replicaWaitMs,
    settings: defaultStoreSettings,
    clock: systemClock,
    log: silentLog,
    ...changes,
  });
}

beforeAll(async () => {
  group = await startRedisGroup({ sentinels: 0, args: ["--min-replicas-to-write", "1"] });
  [primary, replica] = [await group.master(), await group.replica()];
  store = await open();
  hasty = await open({ durability: "process" });
});
afterEach(async () => {
  replica.resume();
  await group.untilReplicated();
});
afterAll(async () => {
  replica?.resume();
  await store?.close();
  await hasty?.close();
  await group?.stop();
});

const newHarness = (from: Store) => new Harness(from, systemClock, randomBytes(6).toString("hex"));

async function callsOf(command: string): Promise<number> {
  const stats = await primary.command<string>("INFO", "commandstats");
  return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
}

describe("opening", () => {
  test("a server that writes without replicas is refused, with the command that changes it", async () => {
    await primary.command("CONFIG", "SET", "min-replicas-to-write", "0");
    try {
      const remedy = `redis-cli -h 127.0.0.1 -p ${primary.port} CONFIG SET min-replicas-to-write 1`;
      const detail = expect.stringContaining(`store.durability replicated needs 1: ${remedy}`);
      await expect(open()).rejects.toMatchObject({ code: "store_unsuitable", detail });
    } finally {
      await primary.command("CONFIG", "SET", "min-replicas-to-write", "1");
    }
  });
});

describe("WAIT", () => {
  test("costs one command for each call alone, and a few for hundreds at once; reads cost none", async () => {
    // On a busy machine a replica may take its time: nothing here is about that.
    const patient = await open({ replicaWaitMs: 5_000 });
    const harness = newHarness(patient);
    await harness.admit();
    const measured: string[] = [];
    const waitsFor = async (what: string, act: () => Promise<unknown>) => {
      const before = await callsOf("wait");
      await act();
      const waits = (await callsOf("wait")) - before;
      measured.push(`${what}: ${waits}`);
      return waits;
    };
    const alone = await waitsFor("20 starts, one after another", async () => {
      for (let index = 0; index < 20; index += 1) await harness.admit();
    });
    const together = await waitsFor("400 starts at once", () =>
      Promise.all(Array.from({ length: 400 }, () => harness.admit())),
    );
    const reading = await waitsFor("100 reads", () =>
      Promise.all(Array.from({ length: 100 }, () => store.countActive({ tenant: harness.tenant }, call))),
    );
    console.log(`WAIT commands for ${measured.join(", ")}`);
    expect(alone).toBe(20);
    expect(together).toBeGreaterThan(0);
    expect(together).toBeLessThan(40);
    expect(reading).toBe(0);
    await patient.close();
  });
});

describe("a replica that says nothing", () => {
  /** As the table in the guide has it. */
  const promises: readonly OperationName[] = [
    ...(["admit", "reserve", "createRun", "deleteRun", "deliver", "commit", "claimJobs"] as const),
    ...(["setTenant", "putDocument", "removeDocument", "moveQueued"] as const),
    ...(["acquireLock", "renewLock", "releaseLock", "breakLock"] as const),
  ];
  test.each(writingOperations)("makes %s unknown if its answer is a promise, and no other", async (name) => {
    const harness = newHarness(hasty);
    const scenario = await prepareScenario(name, harness, (removed) => primary.command("DEL", removed));
    replica.pause();
    const answer = await performScenario(new Harness(store, systemClock, "x"), scenario, call);
    const { request } = scenario;
    const isOwnLock = "lock" in request && request.lock.namespace !== "public";
    if (promises.includes(name) && !isOwnLock) {
      expect(answer).toMatchObject({
        kind: "unknown",
        cause: `executed, but no replica acknowledged it within ${replicaWaitMs} ms`,
      });
      replica.resume();
      // Decided when repeated: it has its effect, or had it.
      const again = () => performScenario(new Harness(store, systemClock, "x"), scenario, call);
      await expect.poll(async () => (await again()).kind).not.toMatch(/^(unknown|unavailable)$/);
    } else {
      expect(answer.kind).toBe(scenario.kind);
    }
  });

  test("holds back also the answer that repeats what another process was told to be unknown", async () => {
    const other = await open();
    const harness = newHarness(store);
    const { tenant } = harness;
    const run = harness.newRun({ key: key("k") });
    // A connection that has been quiet since before: its own last change has long been copied.
    const { tenant: theirs } = newHarness(other);
    await other.countActive({ tenant: theirs }, call);
    replica.pause();
    expect((await store.admit({ tenant, run }, call)).kind).toBe("unknown");
    const second = { tenant, run: harness.newRun({ key: key("k") }) };
    expect((await other.admit(second, call)).kind).toBe("unknown");
    replica.resume();
    const repeated = () => other.admit(second, call);
    await expect.poll(repeated).toMatchObject({ kind: "replayed", runId: run.runId });
    await other.close();
  });

  test("makes each of the starts and results that share a script call unknown, and each is decided when repeated", async () => {
    const prepared = newHarness(hasty);
    const [one, two] = [await runWithClaim(prepared), await runWithClaim(prepared)];
    const { tenant } = prepared;
    const runs = Array.from({ length: 5 }, (_, index) => prepared.newRun({ key: key(`k${index}`) }));
    const deliveries = [one, two].map((job) => deliveryOf(prepared, job.runId, resultOf(prepared, job)));
    const ask = () =>
      Promise.all([
        ...runs.map((run) => store.admit({ tenant, run }, call)),
        ...deliveries.map((request) => store.deliver(request, call)),
      ]);
    replica.pause();
    expect((await ask()).map(({ kind }) => kind)).toEqual(Array(7).fill("unknown"));
    replica.resume();
    const repeated = async () => (await ask()).map(({ kind }) => kind);
    await expect.poll(repeated).toEqual([...Array(5).fill("admitted"), ...Array(2).fill("delivered")]);
    const active = await store.countActive({ tenant }, call);
    expect(active).toMatchObject({ kind: "counted", active: 7 });
  });

  test("does not make reads wait longer than one WAIT", async () => {
    const harness = newHarness(store);
    await store.countActive({ tenant: harness.tenant }, call);
    replica.pause();
    const waiting = store.admit({ tenant: harness.tenant, run: harness.newRun() }, call);
    const startMs = performance.now();
    expect((await store.countActive({ tenant: harness.tenant }, call)).kind).toBe("counted");
    expect(performance.now() - startMs).toBeLessThan(replicaWaitMs + 700);
    expect((await waiting).kind).toBe("unknown");
  });
});
