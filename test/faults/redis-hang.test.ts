// A Redis that hangs, dies or loses replies: every call ends in time, no answer is wrong, and the store comes back alone.
import { randomBytes } from "node:crypto";
import { setImmediate as nextTurn, setTimeout as wait } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { createKeys } from "../../src/adapters/redis/keys.ts";
import { openRedisStore } from "../../src/adapters/redis/redis-store.ts";
import { readOperationSource } from "../../src/adapters/redis/scripts.ts";
import { systemClock } from "../../src/adapters/system/system.ts";
import { partitionLabel, partitionOf } from "../../src/domain/tenant.ts";
import { type RedisServer, startRedisServer } from "../../src/drills/servers/start-servers.ts";
import {
  defaultStoreSettings,
  type OperationName,
  operationNames,
  type Store,
} from "../../src/ports/store.ts";
import { call, Harness } from "../../src/testing/conformance/harness.ts";
import { type FaultProxy, startFaultProxy } from "../support/fault-proxy.ts";
import {
  performScenario,
  prefix,
  prepareScenario,
  writingOperations,
} from "../support/operation-scenarios.ts";
import { changedKeys, takeSnapshot } from "../support/redis-snapshot.ts";
import { silentLog } from "../support/silent-log.ts";

const deadlineMs = 300;
/** For a busy machine; a call that waits for the server instead of its deadline is far beyond it. */
const slackMs = 700;

let server: RedisServer;
let proxy: FaultProxy;
/** `store` goes through the proxy; `direct` prepares and looks without it. */
let store: Store;
let direct: Store;

function open(url: string, clock = systemClock): Promise<Store> {
  return openRedisStore({
    urls: [url],
    mode: "standalone",
    prefix,
    settings: defaultStoreSettings,
    clock,
    log: silentLog,
  });
}

beforeAll(async () => {
  server = await startRedisServer();
  proxy = await startFaultProxy(server.port);
  store = await open(proxy.url);
  direct = await open(server.url);
  // A script that Redis does not have yet would answer NOSCRIPT where a test wants an execution.
  for (const name of operationNames) await server.command("SCRIPT", "LOAD", readOperationSource(name));
});
afterAll(async () => {
  server?.resume();
  await store?.close();
  await direct?.close();
  await proxy?.close();
  await server?.stop();
});
afterEach(() => proxy.pass());

const newHarness = (from = store) => new Harness(from, systemClock, randomBytes(6).toString("hex"));

const usedPartitions = new Set<number>();

/** In a partition of its own: a sweep does what is due there, whatever test it belongs to. */
function newHarnessAlone(): Harness {
  for (;;) {
    const harness = newHarness(direct);
    const partition = partitionOf(harness.tenant);
    if (usedPartitions.has(partition)) continue;
    usedPartitions.add(partition);
    return harness;
  }
}
const remove = (name: string) => server.command("DEL", name);

/** Asks until the answer is definite; fails after ten seconds. */
async function untilWorking(target: Store): Promise<void> {
  const endMs = performance.now() + 10_000;
  for (;;) {
    const { kind } = await target.getTenant({ tenant: newHarness().tenant }, { deadlineMs });
    if (kind === "tenant") return;
    if (performance.now() > endMs) throw new Error(`the store still answers ${kind}`);
    await wait(20);
  }
}

describe("a hung server", () => {
  test("every operation under way is unknown at its deadline, has no effect later, and the store works again", async () => {
    const prepared = [];
    for (const name of operationNames) {
      const harness = newHarnessAlone();
      const scenario = await prepareScenario(name, harness, remove);
      prepared.push({ harness: new Harness(store, systemClock, "x"), scenario });
    }
    const before = await takeSnapshot(server);
    server.pause();
    const startMs = performance.now();
    const answers = await Promise.all(
      prepared.map(({ harness, scenario }) => performScenario(harness, scenario, { deadlineMs })),
    );
    const tookMs = performance.now() - startMs;
    expect(answers.map((answer) => answer.kind)).toEqual(operationNames.map(() => "unknown"));
    expect(tookMs).toBeGreaterThanOrEqual(deadlineMs - 5);
    expect(tookMs).toBeLessThan(deadlineMs + slackMs);

    const refused = await store.getTenant({ tenant: newHarness().tenant }, { deadlineMs });
    expect(["unknown", "unavailable"]).toContain(refused.kind);
    await wait(deadlineMs);
    server.resume();
    await untilWorking(store);
    const late = changedKeys(before, await takeSnapshot(server));
    expect(late, "a call had its effect after its notAfterMs").toEqual([]);
  });

  test("a hung connection is left for a new one, also when its bytes went nowhere", async () => {
    proxy.blackhole();
    const answer = await store.getTenant({ tenant: newHarness().tenant }, { deadlineMs });
    expect(answer.kind).toBe("unknown");
    // Long enough for the new connection's first bytes to be lost as well.
    await wait(200);
    proxy.pass();
    await untilWorking(store);
  });

  test("a slow server's other answers do not suffer from one short deadline", async () => {
    const { tenant } = newHarness();
    proxy.delay(100);
    const patient = Array.from({ length: 20 }, async (_, index) => {
      await wait(index * 10);
      return store.getTenant({ tenant }, { deadlineMs: 5_000 });
    });
    await wait(150);
    const hasty = await store.getTenant({ tenant }, { deadlineMs: 120 });
    expect(hasty.kind).toBe("unknown");
    const kinds = (await Promise.all(patient)).map((answer) => answer.kind);
    expect(new Set(kinds)).toEqual(new Set(["tenant"]));
  });

  test("closing waits for nothing longer than a second", async () => {
    const closing = await open(proxy.url);
    proxy.blackhole();
    const asked = closing.getTenant({ tenant: newHarness().tenant }, { deadlineMs: 20_000 });
    await wait(20);
    const startMs = performance.now();
    await closing.close();
    expect(performance.now() - startMs).toBeLessThan(1_000 + slackMs);
    expect((await asked).kind).toBe("unknown");
    const after = await closing.getTenant({ tenant: newHarness().tenant }, { deadlineMs });
    expect(after).toEqual({ kind: "unavailable", cause: "the store is closed" });
  });
});

describe("a server that dies", () => {
  test("calls are refused at once while it is gone, and work again when it is back", async () => {
    const target = await startRedisServer();
    const mortal = await open(target.url);
    await target.kill();
    const { tenant } = newHarness();
    const first = await mortal.getTenant({ tenant }, { deadlineMs: 5_000 });
    expect(["unknown", "unavailable"]).toContain(first.kind);
    await wait(600);
    const startMs = performance.now();
    const second = await mortal.getTenant({ tenant }, { deadlineMs: 5_000 });
    expect(second).toMatchObject({ kind: "unavailable", cause: expect.stringContaining("ECONNREFUSED") });
    expect(performance.now() - startMs).toBeLessThan(slackMs);
    await target.restart();
    await untilWorking(mortal);
    await mortal.close();
    await target.stop();
  });
});

describe("a connection that is cut", () => {
  test("a call waits for a reconnect that comes soon, also when its first attempts fail", async () => {
    await untilWorking(store);
    proxy.cut();
    await wait(10);
    const asked = store.getTenant({ tenant: newHarness().tenant }, { deadlineMs: 5_000 });
    await wait(100);
    proxy.pass();
    expect((await asked).kind).toBe("tenant");
  });

  test("a short cut is not even noticed by calls made after it", async () => {
    const { tenant } = newHarness();
    proxy.cut();
    proxy.pass();
    await wait(5);
    expect((await store.getTenant({ tenant }, { deadlineMs: 5_000 })).kind).toBe("tenant");
  });

  test("every definite answer is true: what was admitted exists, what was unavailable does not", async () => {
    const harness = newHarness();
    const { tenant } = harness;
    const answers = new Map<string, string>();
    let going = true;
    const workers = Array.from({ length: 8 }, async () => {
      while (going) {
        const run = harness.newRun();
        const answer = await store.admit({ tenant, run }, { deadlineMs });
        answers.set(run.runId, answer.kind);
        if (answer.kind !== "admitted") await wait(5);
      }
    });
    const seen = (kind: string) => [...answers.values()].includes(kind);
    // Short cuts lose answers; a long one outlasts the time that calls wait for the connection.
    for (let cut = 0; cut < 8 || (!seen("unknown") && cut < 200); cut += 1) {
      await wait(40);
      proxy.cut();
      await wait((cut % 8) * 10);
      proxy.pass();
    }
    proxy.cut();
    await expect.poll(() => seen("unavailable")).toBe(true);
    proxy.pass();
    await untilWorking(store);
    going = false;
    await Promise.all(workers);
    await untilWorking(store);
    const listed = await direct.listActive({ tenant, limit: 100_000 }, call);
    const existing = new Set(listed.kind === "listed" ? listed.runIds.map(String) : []);
    const wrong = [...answers].filter(
      ([runId, kind]) => kind !== "unknown" && existing.has(runId) !== (kind === "admitted"),
    );
    expect(wrong).toEqual([]);
    const kinds = new Set(answers.values());
    expect([...kinds].sort()).toEqual(["admitted", "unavailable", "unknown"]);
  });
});

/** What the repeat of a removal, or of a sweep that had something to do, says. */
const repeatKinds: Partial<Record<OperationName, string>> = {
  deleteRun: "not_found",
  removeDocument: "not_found",
  sweep: "swept",
};

/** Operations that give more time each time they are asked. */
const extending: readonly OperationName[] = ["renewLock", "heartbeatJobs"];

describe("a lost reply", () => {
  test.each(writingOperations)(
    "%s is unknown once, definite when repeated, and done exactly once",
    async (name) => {
      await untilWorking(store);
      const prepared = newHarnessAlone();
      const scenario = await prepareScenario(name, prepared, remove);
      const before = await takeSnapshot(server);
      const { tenant } = prepared;
      // The sweep names a partition, everything else its tenant.
      const named = name === "sweep" ? partitionLabel(partitionOf(tenant)) : tenant;
      const swallowed = proxy.swallowNextReply((request) => request.includes(named));
      const harness = new Harness(store, systemClock, "x");
      const first = await performScenario(harness, scenario, { deadlineMs: 5_000 });
      expect(first.kind).toBe("unknown");
      await swallowed;
      const between = await takeSnapshot(server);
      expect(changedKeys(before, between)).toEqual([...scenario.writes].sort());

      const second = await performScenario(harness, scenario, { deadlineMs: 5_000 });
      expect(second.kind).toBe(repeatKinds[name] ?? scenario.kind);
      // What was extended is extended again; everything else has had its effect.
      const again = extending.includes(name) ? scenario.writes : [];
      const changed = changedKeys(between, await takeSnapshot(server));
      if (extending.includes(name)) expect(again).toEqual(expect.arrayContaining(changed));
      else expect(changed).toEqual([]);
    },
  );

  test("a repeated admission is one run and one event row", async () => {
    await untilWorking(store);
    const harness = newHarness();
    const { tenant } = harness;
    const run = harness.newRun();
    const swallowed = proxy.swallowNextReply((request) => request.includes(run.runId));
    expect((await store.admit({ tenant, run }, call)).kind).toBe("unknown");
    await swallowed;
    expect(await store.admit({ tenant, run }, call)).toMatchObject({ kind: "admitted", active: 1 });
    expect(await store.readEvents({ tenant, after: 0, limit: 10 }, call)).toMatchObject({
      events: [{ sequence: 1, subject: run.runId }],
    });
    expect(await server.command("XLEN", createKeys(prefix).forTenant(tenant).events)).toBe(1);
  });
});

describe("time", () => {
  test("an answer that came while this process stood still is taken, not given up", async () => {
    // Not through the proxy: that would stand still as well.
    const asked = direct.getTenant({ tenant: newHarness().tenant }, { deadlineMs: 300 });
    await nextTurn();
    await nextTurn();
    // Long after the deadline; the server, which shares two cores with other tests, has until then.
    const endMs = performance.now() + 700;
    while (performance.now() < endMs);
    expect((await asked).kind).toBe("tenant");
  });

  test("a wrong idea of the store's time is corrected by the first refusal", async () => {
    let slept = 0;
    const clock = { ...systemClock, monotonicMs: () => systemClock.monotonicMs() - slept };
    const drowsy = await open(server.url, clock);
    const harness = newHarness(drowsy);
    // The machine slept for an hour, and its monotonic clock with it: our estimate is an hour behind.
    slept = 3_600_000;
    await harness.admit();
    const counted = await drowsy.countActive({ tenant: harness.tenant }, call);
    expect(counted).toMatchObject({ kind: "counted", active: 1 });
    await drowsy.close();
  });

  test("an unknown names the store time after which it can have no effect", async () => {
    await untilWorking(store);
    const { tenant } = newHarness();
    const known = await store.getTenant({ tenant }, call);
    const { storeTimeMs } = known as { storeTimeMs: number };
    proxy.blackhole();
    const answer = await store.getTenant({ tenant }, { deadlineMs });
    expect(answer.kind).toBe("unknown");
    const { notAfterMs } = answer as { notAfterMs: number };
    expect(notAfterMs).toBeGreaterThanOrEqual(storeTimeMs + deadlineMs - 5);
    expect(notAfterMs).toBeLessThan(storeTimeMs + deadlineMs + slackMs);
    proxy.pass();
    await untilWorking(store);
  });
});
