// The simulated store: its network's faults, one by one, and the answers that callers get.
import { describe, expect, test } from "vitest";
import { createStoreClock } from "../../src/adapters/system/store-clock.ts";
import type { LockToken } from "../../src/domain/lock.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import type { Store } from "../../src/ports/store.ts";
import { createKernel } from "../../src/testing/kernel.ts";
import { createSimulatedStore, type StoreExecution } from "../../src/testing/simulated-store.ts";
import { noStoreFaults, type StoreFaults } from "../../src/testing/store-link.ts";

const lock = { namespace: "public", name: "a" } as const;
const tenant = "acme" as TenantId;

function acquire(store: Store, token = "one", deadlineMs = 100) {
  const request = { tenant, lock, token: token as LockToken, instance: "i", ttlMs: 1_000 };
  return store.acquireLock(request, { deadlineMs });
}

function setUp(faults: Partial<StoreFaults> = {}, seed = 1) {
  const kernel = createKernel(seed);
  const executions: StoreExecution[] = [];
  const server = createSimulatedStore(kernel, {
    faults: { ...noStoreFaults, ...faults },
    onOperation: (execution) => executions.push(execution),
  });
  const process = kernel.process("p");
  return { kernel, server, process, executions, store: server.connect(process) };
}

describe("the simulated store", () => {
  test("answers after both ways, with the store's time at the arrival of the request", async () => {
    const { kernel, server, executions, store } = setUp();
    const startMs = server.timeMs();
    const answer = await kernel.complete(acquire(store));
    expect(answer.kind).toBe("acquired");
    expect(kernel.nowMs()).toBeGreaterThan(0);
    expect(kernel.nowMs()).toBeLessThanOrEqual(6);
    expect(executions).toHaveLength(1);
    expect((executions[0]?.storeTimeMs ?? 0) - startMs).toBeLessThanOrEqual(3);
  });

  test("a lost request is unknown at the deadline and had no effect", async () => {
    const { kernel, executions, store } = setUp({ requestLostRate: 1 });
    expect((await kernel.complete(acquire(store))).kind).toBe("unknown");
    expect(kernel.nowMs()).toBe(100);
    expect(executions).toHaveLength(0);
  });

  test("a lost reply is unknown, and the effect is there", async () => {
    const { kernel, server, executions, store } = setUp({ replyLostRate: 1 });
    expect((await kernel.complete(acquire(store))).kind).toBe("unknown");
    expect(executions.map(({ outcome }) => outcome.kind)).toEqual(["acquired"]);
    server.setFaults(noStoreFaults);
    expect((await kernel.complete(acquire(store, "two"))).kind).toBe("busy");
  });

  test("a broken connection is unknown at once, and the request may still get through", async () => {
    const { kernel, executions, store } = setUp({ connectionResetRate: 1 });
    const answer = await kernel.complete(acquire(store));
    expect(answer).toMatchObject({ kind: "unknown", cause: "connection reset" });
    expect(kernel.nowMs()).toBeLessThan(100);
    await kernel.run({});
    expect(executions).toHaveLength(1);
  });

  test("a request that arrives after its time is refused there, and the caller is told nothing else", async () => {
    const { kernel, executions, store } = setUp({ longDelayRate: 1, longDelayMsMax: 10_000 });
    expect((await kernel.complete(acquire(store))).kind).toBe("unknown");
    await kernel.run({});
    expect(executions.map(({ outcome }) => outcome)).toMatchObject([
      { kind: "unavailable", cause: "too_late" },
    ]);
  });

  test("an execution that is repeated gives the second answer", async () => {
    const { kernel, executions, store } = setUp({ doubleExecutionRate: 1 });
    expect((await kernel.complete(acquire(store))).kind).toBe("acquired");
    expect(executions.map(({ execution }) => execution)).toEqual(["first", "second"]);
  });

  test("a repeat that comes too late leaves the first one unknown", async () => {
    let tooLate = 0;
    for (let seed = 0; seed < 20; seed += 1) {
      const { kernel, executions, store } = setUp({ doubleExecutionRate: 1, longDelayMsMax: 1_000 }, seed);
      const answer = await kernel.complete(acquire(store));
      await kernel.run({});
      if (executions[1]?.outcome.kind !== "unavailable") continue;
      tooLate += 1;
      expect(answer.kind).toBe("unknown");
    }
    expect(tooLate).toBeGreaterThan(0);
  });

  test("an unreachable store is unavailable, which is definite", async () => {
    const { kernel, server, executions, store } = setUp();
    server.goUnreachable(50);
    expect((await kernel.complete(acquire(store))).kind).toBe("unavailable");
    await kernel.run({ untilMs: 60 });
    expect((await kernel.complete(acquire(store))).kind).toBe("acquired");
    expect(executions).toHaveLength(1);
  });

  test("after a jump of the store's clock the refusal tells the time, and the second attempt is in time", async () => {
    const { kernel, server, executions, store } = setUp();
    server.jumpClock(60_000);
    expect((await kernel.complete(acquire(store))).kind).toBe("acquired");
    expect(executions.map(({ outcome }) => outcome.kind)).toEqual(["unavailable", "acquired"]);
  });

  test("an embedded store goes on at the pace of real time when its wall clock is set, also over a restart", async () => {
    const kernel = createKernel(1);
    const server = createSimulatedStore(kernel, { embeddedClock: createStoreClock });
    const startMs = server.timeMs();
    for (const [stepMs, slewMs] of [
      [-3_600_000, -10],
      [2 * 3_600_000, 10],
    ] as const) {
      server.jumpClock(stepMs);
      const beforeMs = server.timeMs();
      await kernel.run({ untilMs: kernel.nowMs() + 1_000 });
      expect(server.timeMs() - beforeMs).toBe(1_000 + slewMs);
    }
    expect(server.jumpedMs()).toBe(0);
    // Opened with a wall clock in its past, it goes on from what it had stored; opened with a later one, it begins there.
    server.goDown({ downMs: 100, clockMs: -2 * 3_600_000 });
    await kernel.run({ untilMs: kernel.nowMs() + 100 });
    expect(server.timeMs() - startMs).toBe(2_000);
    server.goDown({ downMs: 100, clockMs: 2 * 3_600_000 });
    await kernel.run({ untilMs: kernel.nowMs() + 100 });
    expect(server.timeMs() - startMs).toBe(3_600_000 + 2_200);
    expect(server.jumpedMs()).toBe(3_600_000);
  });

  test("a time that the caller has set is kept", async () => {
    const { kernel, server, executions, store } = setUp();
    const notAfterMs = server.timeMs() - 1;
    const request = { tenant, lock, token: "one" as LockToken };
    const answer = await kernel.complete(store.releaseLock(request, { deadlineMs: 100, notAfterMs }));
    expect(answer).toEqual({ kind: "unavailable", cause: "too_late" });
    expect(executions).toHaveLength(1);
  });

  test("a crashed caller's request still takes effect, and its promise never settles", async () => {
    const { kernel, process, executions, store } = setUp();
    const answer = acquire(store);
    process.crash();
    await expect(kernel.complete(answer)).rejects.toThrow("deadlock");
    expect(executions).toHaveLength(1);
    await expect(kernel.complete(acquire(store))).rejects.toThrow("deadlock");
    expect(executions).toHaveLength(1);
  });

  test("after a pause past the deadline either the reply or the deadline comes first", async () => {
    const kinds = new Set<string>();
    for (let seed = 0; seed < 20; seed += 1) {
      const { kernel, process, store } = setUp({}, seed);
      const answer = acquire(store);
      process.pause(500);
      kinds.add((await kernel.complete(answer)).kind);
    }
    expect([...kinds].sort()).toEqual(["acquired", "unknown"]);
  });
});
