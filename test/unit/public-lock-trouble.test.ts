// What a wait for a public lock does when its time is over, its caller goes away or the store does not answer.
import { describe, expect, test } from "vitest";
import type { LockToken } from "../../src/domain/lock.ts";
import { acme, acquired, held, lockWorld, occupied, until } from "../support/public-locks.ts";
import { isIdle } from "../support/simulated-ports.ts";

const mine = "my-own-token-0000000001" as LockToken;
describe("a wait", () => {
  test("of nothing asks once, queues nowhere and tells who holds the lock", async () => {
    const world = lockWorld();
    await occupied(world);
    await until(world, 40);
    const p = world.process("p");
    const answer = await world.kernel.complete(p.acquire({ waitMs: 0 }));
    expect(answer).toMatchObject({
      kind: "lock_unavailable",
      holder: { owner: "bob", heldForMs: 40, expiresInMs: 599_960, waiting: 0 },
      waitedMs: 0,
    });
    expect(p.calls.map(({ name }) => name)).toEqual(["acquireLock", "inspectLock"]);
    expect(p.lines).toMatchObject([
      { level: "info", message: "public lock busy", fields: { holder: "bob" } },
    ]);
  });

  test("ends with its time, and gives its place back before that is told", async () => {
    const world = lockWorld();
    const leave = await occupied(world);
    const p = world.process("p");
    const answer = await world.kernel.complete(p.acquire({ waitMs: 1_000 }));
    expect(answer).toMatchObject({
      kind: "lock_unavailable",
      holder: { owner: "bob", waiting: 0 },
      waitedMs: 1_000,
    });
    const asked = p.callsOf("acquireLock").map(({ atMs }) => atMs);
    expect(asked).toEqual([0, 250, 500, 750, 1_000]);
    expect(p.callsOf("releaseLock")).toEqual([]);
    expect(await leave()).toEqual({ kind: "released", storeTimeMs: expect.any(Number) });
    expect((await held(world)).kind).toBe("free");
    expect(await isIdle(world.kernel)).toBe(true);
  });

  test("that ends just as the lock was handed to it passes it on", async () => {
    const world = lockWorld();
    const leave = await occupied(world);
    const p = world.process("p");
    const waiting = p.acquire({ waitMs: 1_000 });
    await until(world, 999);
    const next = world.process("q").acquire({ owner: "next" });
    p.fail({ acquireLock: { replyAfterMs: 5 } });
    await until(world, 1_003);
    await leave();
    expect(await world.kernel.complete(waiting)).toMatchObject({ kind: "lock_unavailable" });
    expect(await held(world)).toMatchObject({ kind: "held", owner: "next" });
    expect(await world.kernel.complete(next)).toMatchObject({ kind: "acquired" });
  });

  test("that cannot give its place back says that it does not know, and names the token", async () => {
    const world = lockWorld();
    await occupied(world);
    const p = world.process("p");
    const waiting = p.acquire({ waitMs: 100, token: mine });
    await until(world, 50);
    p.fail({ acquireLock: "request_lost" });
    const answer = await world.kernel.complete(waiting);
    expect(answer).toEqual({
      kind: "lock_outcome_unknown",
      resource: "report",
      cause: expect.any(String),
      token: mine,
    });
    expect(world.kernel.nowMs()).toBeLessThanOrEqual(4_100);
  });

  test.each(["acquireLock", "releaseLock"])(
    "whose last %s arrives late takes nothing from its caller, who never heard of its end and asked again",
    async (name) => {
      const world = lockWorld();
      const leave = await occupied(world);
      const p = world.process("p");
      const first = p.acquire({ waitMs: 1_000, token: mine });
      await until(world, 999);
      // Whatever it sends at its end gets no answer at once, and arrives when the caller has the lock elsewhere.
      p.fail({ [name]: [{ requestAfterMs: 600, resetAfterMs: 10 }] });
      expect(await world.kernel.complete(first)).toMatchObject({ kind: "lock_unavailable" });
      await leave();
      const again = acquired(await world.kernel.complete(world.process("q").acquire({ token: mine })));
      await until(world, 5_000);
      expect(await held(world)).toMatchObject({ kind: "held", fence: again.fence });
    },
  );

  test("that ends in a paused process takes nothing from a caller who asks elsewhere with the same token", async () => {
    const world = lockWorld();
    const leave = await occupied(world);
    const p = world.process("p");
    const first = p.acquire({ waitMs: 1_000, token: mine });
    await until(world, 999);
    p.process.pause(6_000);
    await until(world, 5_000);
    await leave();
    const again = acquired(await world.kernel.complete(world.process("q").acquire({ token: mine })));
    expect(await world.kernel.complete(first)).toMatchObject({ kind: "acquired", fence: again.fence });
    expect(await held(world)).toMatchObject({ kind: "held", fence: again.fence });
  });

  test.each(["jitter", "fixed"] as const)(
    "with %s never queues, and has nothing to give back",
    async (wait) => {
      const world = lockWorld();
      const leave = await occupied(world);
      const p = world.process("p");
      expect(await world.kernel.complete(p.acquire({ wait, waitMs: 2_000 }))).toMatchObject({
        kind: "lock_unavailable",
      });
      expect(p.callsOf("releaseLock")).toEqual([]);
      const asked = p.callsOf("acquireLock");
      for (const { request } of asked) expect(request).not.toHaveProperty("ticketMs");
      const pauses = asked.slice(1).map(({ atMs }, index) => atMs - (asked[index]?.atMs ?? 0));
      if (wait === "fixed") expect(new Set(pauses)).toEqual(new Set([25]));
      else expect(Math.max(...pauses)).toBeLessThanOrEqual(400);
      expect(p.metrics.total("lock_busy_retries_total", { path: "public", policy: wait })).toBe(
        asked.length - 1,
      );
      world.kernel.after(500, () => void leave());
      const since = world.kernel.nowMs();
      expect(await world.kernel.complete(p.acquire({ wait }))).toMatchObject({ kind: "acquired" });
      expect(world.kernel.nowMs() - since).toBeLessThan(900);
    },
  );
});

describe("a caller who goes away", () => {
  test("is not asked for again, and what it may hold is given back", async () => {
    const world = lockWorld();
    const leave = await occupied(world);
    const p = world.process("p");
    const gone = new AbortController();
    const waiting = p.acquire({}, gone.signal);
    await until(world, 333);
    gone.abort();
    expect(await world.kernel.complete(waiting)).toEqual({ kind: "request_cancelled" });
    expect(world.kernel.nowMs()).toBe(333);
    await world.kernel.run({});
    expect(p.callsOf("releaseLock").map(({ atMs, answer }) => [atMs, answer])).toEqual([[333, "released"]]);
    await leave();
    expect((await held(world)).kind).toBe("free");
  });

  test("before its answer came gives back the lock that it just got", async () => {
    const world = lockWorld();
    const p = world.process("p", { failing: { acquireLock: { replyAfterMs: 50 } } });
    const gone = new AbortController();
    const waiting = p.acquire({}, gone.signal);
    await until(world, 20);
    expect((await held(world)).kind).toBe("held");
    gone.abort();
    expect(await world.kernel.complete(waiting)).toEqual({ kind: "request_cancelled" });
    await world.kernel.run({});
    expect((await held(world)).kind).toBe("free");
  });

  test("before anything was sent costs nothing", async () => {
    const world = lockWorld();
    const p = world.process("p");
    const answer = await world.kernel.complete(p.acquire({}, AbortSignal.abort()));
    expect(answer).toEqual({ kind: "request_cancelled" });
    expect(p.calls).toEqual([]);
  });

  test("gives back within its bounds when the store does not answer", async () => {
    const world = lockWorld();
    await occupied(world);
    const p = world.process("p", { failing: { releaseLock: "request_lost" } });
    const gone = new AbortController();
    const waiting = p.acquire({}, gone.signal);
    await until(world, 100);
    gone.abort();
    await world.kernel.complete(waiting);
    await world.kernel.run({});
    expect(world.kernel.nowMs()).toBeLessThanOrEqual(2_100);
    expect(p.lines.map(({ message }) => message)).toEqual(["lock release failed: left to its ttl"]);
  });

  test("with a token of its own leaves it alone: it may ask again with it, here or elsewhere", async () => {
    const world = lockWorld();
    const leave = await occupied(world);
    const p = world.process("p");
    const q = world.process("q");
    const gone = new AbortController();
    const first = p.acquire({ token: mine }, gone.signal);
    await until(world, 100);
    const again = q.acquire({ token: mine });
    await until(world, 101);
    await leave();
    gone.abort();
    expect(await world.kernel.complete(first)).toEqual({ kind: "request_cancelled" });
    expect(acquired(await world.kernel.complete(again)).token).toBe(mine);
    await world.kernel.run({});
    expect(p.callsOf("releaseLock")).toEqual([]);
    expect((await held(world)).kind).toBe("held");
  });
});

describe("a store that does not answer", () => {
  test("is asked again with the same token, and the grant is found", async () => {
    const world = lockWorld();
    const p = world.process("p", { failing: { acquireLock: ["reply_lost"] } });
    const answer = acquired(await world.kernel.complete(p.acquire({ waitMs: 0, ttlMs: 10_000 })));
    const tokens = p.callsOf("acquireLock").map(({ request }) => (request as { token: string }).token);
    expect(new Set(tokens)).toEqual(new Set([answer.token]));
    // Granted by the first try, whose answer was lost: two seconds of the ttl are over.
    expect(answer.expiresInMs).toBeLessThanOrEqual(8_000);
    expect(answer.expiresInMs).toBeGreaterThan(7_800);
  });

  test("for longer leaves the outcome unknown, with the token to ask again", async () => {
    const world = lockWorld();
    const p = world.process("p", { failing: { acquireLock: "reply_lost" } });
    const answer = await world.kernel.complete(p.acquire({ waitMs: 0 }));
    if (answer.kind !== "lock_outcome_unknown") throw new Error(answer.kind);
    expect(world.kernel.nowMs()).toBeLessThanOrEqual(4_000);
    expect(p.callsOf("releaseLock")).toEqual([]);
    p.fail({});
    const again = acquired(await world.kernel.complete(p.acquire({ token: answer.token, waitMs: 0 })));
    expect(again.token).toBe(answer.token);
    expect(await world.kernel.complete(p.release(answer.token))).toEqual({ kind: "released" });
  });

  test("is never taken for a busy lock", async () => {
    for (const fate of ["request_lost", "reply_lost"] as const) {
      const world = lockWorld();
      const p = world.process("p", { failing: { acquireLock: fate } });
      expect((await world.kernel.complete(p.acquire({ waitMs: 2_000 }))).kind).toBe("lock_outcome_unknown");
    }
  });

  test("for a moment costs nobody its place", async () => {
    const world = lockWorld();
    const leave = await occupied(world);
    const p = world.process("p");
    const q = world.process("q");
    const first = p.acquire({ owner: "first" });
    await until(world, 10);
    const second = q.acquire({ owner: "second" });
    await until(world, 240);
    p.fail({ acquireLock: ["unavailable", "unavailable"] });
    await until(world, 600);
    await leave();
    expect(await world.kernel.complete(first)).toMatchObject({ kind: "acquired", owner: "first" });
    expect(p.callsOf("acquireLock").map(({ answer }) => answer)).toContain("unavailable");
    await until(world, world.kernel.nowMs() + 300);
    expect(await held(world)).toMatchObject({ owner: "first", waiting: 1 });
    void second;
  });

  test("at all is said at once by a process that has nothing in it", async () => {
    const world = lockWorld();
    const p = world.process("p", { failing: { acquireLock: "unavailable" } });
    const answer = await world.kernel.complete(p.acquire());
    expect(answer).toEqual({ kind: "unavailable", cause: "connection refused" });
    expect(world.kernel.nowMs()).toBe(0);
    expect(p.calls).toHaveLength(1);
  });

  test("while somebody queues leaves the outcome unknown: the lock may still come to it", async () => {
    const world = lockWorld();
    const leave = await occupied(world);
    const p = world.process("p");
    const waiting = p.acquire({ waitMs: 60_000 });
    await until(world, 240);
    p.fail({ acquireLock: "unavailable" });
    await until(world, 300);
    await leave();
    const answer = await world.kernel.complete(waiting);
    expect(answer.kind).toBe("lock_outcome_unknown");
    expect(world.kernel.nowMs()).toBeLessThanOrEqual(4_240);
    // So it has: the answer was right not to say busy.
    expect((await held(world)).kind).toBe("held");
  });

  test("to a try that arrives late, after its caller left, keeps the lock from nobody", async () => {
    const world = lockWorld();
    const p = world.process("p", {
      failing: { acquireLock: [{ requestAfterMs: 1_500, resetAfterMs: 10 }, "unavailable", "unavailable"] },
    });
    const gone = new AbortController();
    const waiting = p.acquire({}, gone.signal);
    await until(world, 30);
    gone.abort();
    expect(await world.kernel.complete(waiting)).toEqual({ kind: "request_cancelled" });
    await world.kernel.run({});
    expect((await held(world)).kind).toBe("free");
  });
});

describe("refusals", () => {
  test("too many callers that wait are refused before the store is asked; one that does not wait is not", async () => {
    const world = lockWorld();
    await occupied(world);
    const p = world.process("p", { overrides: { "locks.public.waitersMax": 3 } });
    const waiting = [1, 2, 3].map(() => p.acquire({ waitMs: 2_000 }));
    await until(world, 10);
    const before = p.calls.length;
    expect(await world.kernel.complete(p.acquire())).toMatchObject({ kind: "overloaded" });
    expect(p.calls).toHaveLength(before);
    expect((await world.kernel.complete(p.acquire({ waitMs: 0 }))).kind).toBe("lock_unavailable");
    await world.kernel.complete(Promise.all(waiting));
    expect((await world.kernel.complete(p.acquire({ waitMs: 100 }))).kind).toBe("lock_unavailable");
  });

  test("a tenant that is stopped gets no lock, and those that queued are told", async () => {
    const world = lockWorld();
    const leave = await occupied(world);
    const p = world.process("p");
    const waiting = p.acquire();
    await until(world, 100);
    const change = {
      tenant: acme,
      settings: { stopped: true },
      expectedVersion: 0,
      changeId: "c",
      actor: "ops",
    };
    await world.store.setTenant(change, { deadlineMs: 1 });
    await leave();
    expect(await world.kernel.complete(waiting)).toEqual({ kind: "tenant_stopped" });
    expect((await held(world)).kind).toBe("free");
  });

  test("a key that was revoked gets no lock", async () => {
    const world = lockWorld();
    const p = world.process("p");
    const settings = { revokedKeyIds: ["acme.k1"] };
    const change = { tenant: acme, settings, expectedVersion: 0, changeId: "c", actor: "ops" };
    await world.store.setTenant(change, { deadlineMs: 1 });
    const caller = { tenant: acme, actor: "acme.k1", credential: "acme.k1" };
    expect(await world.kernel.complete(p.acquire({ caller }))).toEqual({ kind: "unauthenticated" });
  });
});
