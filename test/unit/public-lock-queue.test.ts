// Waiting in the queue of a public lock: fair, cheap, and handed on without another call where that is possible.
import { describe, expect, test } from "vitest";
import { acme, acquired, type LockProcess, lockWorld, report, until } from "../support/public-locks.ts";
import { isIdle } from "../support/simulated-ports.ts";

/** Lets what is on its way arrive. */
const soon = 1;

/** Takes the lock, keeps it for a while and gives it back; notes when it had it. */
async function useOnce(
  process: LockProcess,
  log: Array<{ readonly who: string; readonly fence: number; readonly waitedMs: number }>,
  who: string,
  workMs = 10,
): Promise<void> {
  const lock = acquired(await process.acquire({ owner: who }));
  log.push({ who, fence: Number(lock.fence), waitedMs: lock.waitedMs });
  await process.process.clock.sleep(workMs);
  expect((await process.release(lock.token)).kind).toBe("released");
}

describe("a free lock", () => {
  test("is had at once, with all that its holder needs", async () => {
    const world = lockWorld();
    const p = world.process("p");
    const lock = await world.kernel.complete(p.acquire({ owner: "ann's agent", ttlMs: 5_000 }));
    expect(lock).toEqual({
      kind: "acquired",
      token: expect.stringMatching(/^[A-Za-z0-9]{22,}$/),
      fence: expect.any(Number),
      owner: "ann's agent",
      expiresAtMs: world.server.timeMs() + 5_000,
      expiresInMs: 5_000,
      waitedMs: 0,
    });
    expect(p.calls).toHaveLength(1);
    expect(p.metrics.observed("lock_acquire_seconds", { lock: "public", outcome: "acquired" })).toEqual([0]);
  });

  test("without an owner's name has the caller's key in its place", async () => {
    const world = lockWorld();
    const p = world.process("p");
    expect(acquired(await world.kernel.complete(p.acquire())).owner).toBe("ann");
    const shown = await world.kernel.complete(p.api.inspectLock({ tenant: acme, resource: report }));
    expect(shown).toMatchObject({ kind: "held", owner: "ann", instance: "p", waiting: 0 });
    expect(JSON.stringify(shown)).not.toContain("token");
  });
});

describe("callers of one process", () => {
  test("get the lock in the order in which they came, each with a higher fence", async () => {
    const world = lockWorld({ travelMsMax: 1 });
    const p = world.process("p");
    const log: Array<{ who: string; fence: number; waitedMs: number }> = [];
    const users: Promise<void>[] = [];
    for (let index = 0; index < 20; index += 1) {
      users.push(useOnce(p, log, `user ${index}`));
      await until(world, (index + 1) * 4);
    }
    await world.kernel.complete(Promise.all(users));
    expect(log.map(({ who }) => who)).toEqual(Array.from({ length: 20 }, (_, index) => `user ${index}`));
    const fences = log.map(({ fence }) => fence);
    expect(fences).toEqual([...fences].sort((left, right) => left - right));
    expect(new Set(fences).size).toBe(20);
  });

  test("cost the store two calls each: one that queues, one that gives back and hands on", async () => {
    const world = lockWorld();
    const p = world.process("p");
    const log: Array<{ who: string; fence: number; waitedMs: number }> = [];
    const users = Array.from({ length: 20 }, (_, index) => useOnce(p, log, `user ${index}`));
    await world.kernel.complete(Promise.all(users));
    expect(log).toHaveLength(20);
    expect(p.callsOf("acquireLock")).toHaveLength(20);
    expect(p.callsOf("releaseLock")).toHaveLength(20);
    expect(p.metrics.total("lock_handovers_total", { way: "handover" })).toBe(19);
    expect(p.metrics.total("lock_handovers_total", { way: "ask" })).toBe(0);
    expect(await isIdle(world.kernel)).toBe(true);
  });

  test("are woken at the very moment of the handover, without asking again", async () => {
    const world = lockWorld();
    const p = world.process("p");
    const first = acquired(await world.kernel.complete(p.acquire()));
    const second = p.acquire({ owner: "next" });
    await until(world, 100);
    const before = p.callsOf("acquireLock").length;
    const [released, lock] = await world.kernel.complete(Promise.all([p.release(first.token), second]));
    expect(released).toEqual({ kind: "released" });
    expect(lock).toMatchObject({ kind: "acquired", owner: "next", waitedMs: 100 });
    expect(acquired(lock).fence).toBeGreaterThan(first.fence);
    expect(world.kernel.nowMs()).toBe(100);
    expect(p.callsOf("acquireLock")).toHaveLength(before);
    const shown = await world.kernel.complete(p.api.inspectLock({ tenant: acme, resource: report }));
    expect(shown).toMatchObject({ kind: "held", owner: "next", fence: acquired(lock).fence });
  });

  test("whose lock an operator breaks are followed by the next at once", async () => {
    const world = lockWorld();
    const p = world.process("p");
    const first = acquired(await world.kernel.complete(p.acquire()));
    const second = p.acquire();
    await until(world, 50);
    const lock = { namespace: "public", name: report } as const;
    const request = { actor: "ops", tenant: acme, lock, fence: first.fence, reason: "stuck" };
    const [broken, next] = await world.kernel.complete(Promise.all([p.api.breakLock(request), second]));
    expect(broken).toEqual({ kind: "broken" });
    expect(next).toMatchObject({ kind: "acquired", waitedMs: 50 });
    expect(await world.kernel.complete(p.release(first.token))).toEqual({ kind: "lock_not_owned" });
    expect(p.lines.map(({ message }) => message)).toEqual(["lock broken by an operator", "lock not owned"]);
  });

  test("of which one has left are not kept waiting by its place", async () => {
    const world = lockWorld();
    const p = world.process("p");
    const first = acquired(await world.kernel.complete(p.acquire()));
    const gone = new AbortController();
    const second = p.acquire({}, gone.signal);
    await until(world, 10);
    const third = p.acquire({ owner: "third" });
    await until(world, 20);
    gone.abort();
    expect(await world.kernel.complete(second)).toEqual({ kind: "request_cancelled" });
    expect(world.kernel.nowMs()).toBe(20);
    await until(world, 20 + soon);
    const [, lock] = await world.kernel.complete(Promise.all([p.release(first.token), third]));
    expect(lock).toMatchObject({ kind: "acquired", owner: "third" });
    expect(world.kernel.nowMs()).toBe(20 + soon);
  });
});

describe("a caller in another process", () => {
  test("finds the lock that was handed to it when it asks again", async () => {
    const world = lockWorld();
    const p = world.process("p");
    const q = world.process("q");
    const first = acquired(await world.kernel.complete(p.acquire()));
    const second = q.acquire({ ttlMs: 5_000 });
    await until(world, 300);
    await world.kernel.complete(p.release(first.token));
    const lock = acquired(await world.kernel.complete(second));
    expect(world.kernel.nowMs()).toBe(500);
    // Granted at 300, found at 500: the time between is gone.
    expect(lock.expiresInMs).toBe(4_800);
    expect(lock.expiresAtMs).toBe(world.server.timeMs() + 4_800);
    expect(q.metrics.total("lock_handovers_total", { way: "ask" })).toBe(1);
  });

  test("takes the lock of a dead holder when its time is over, and not a quarter of a second later", async () => {
    const world = lockWorld();
    const p = world.process("p");
    const q = world.process("q");
    acquired(await world.kernel.complete(p.acquire({ ttlMs: 1_100 })));
    p.process.crash();
    const lock = await world.kernel.complete(q.acquire());
    expect(lock.kind).toBe("acquired");
    expect(world.kernel.nowMs()).toBe(1_101);
  });

  test("that dies loses its place, and keeps nobody waiting for longer than its ticket", async () => {
    const world = lockWorld();
    const p = world.process("p");
    const q = world.process("q");
    const first = acquired(await world.kernel.complete(p.acquire()));
    void q.acquire();
    await until(world, 100);
    const third = p.acquire({ owner: "third" });
    await until(world, 200);
    q.process.crash();
    await until(world, 900);
    const [, lock] = await world.kernel.complete(Promise.all([p.release(first.token), third]));
    expect(lock).toMatchObject({ kind: "acquired", owner: "third" });
    expect(world.kernel.nowMs()).toBe(900);
  });

  test("that was paused until its ticket lapsed queues again, behind those who were there", async () => {
    const world = lockWorld();
    const p = world.process("p");
    const q = world.process("q");
    const first = acquired(await world.kernel.complete(p.acquire()));
    const paused = q.acquire({ owner: "paused", waitMs: 60_000 });
    await until(world, 100);
    const patient = p.acquire({ owner: "patient", waitMs: 60_000 });
    await until(world, 200);
    q.process.pause(2_000);
    await until(world, 1_500);
    const [, second] = await world.kernel.complete(Promise.all([p.release(first.token), patient]));
    expect(second).toMatchObject({ kind: "acquired", owner: "patient" });
    await until(world, 3_000);
    const [, third] = await world.kernel.complete(Promise.all([p.release(acquired(second).token), paused]));
    expect(third).toMatchObject({ kind: "acquired", owner: "paused" });
    expect(acquired(third).fence).toBeGreaterThan(acquired(second).fence);
  });
});

describe("fairness", () => {
  test("is kept between processes: nobody overtakes, in whatever order they poll", async () => {
    for (const seed of [1, 2, 3]) {
      const world = lockWorld({ seed, travelMsMax: 2 });
      const processes = ["p", "q", "r"].map((name) => world.process(name));
      const log: Array<{ who: string; fence: number; waitedMs: number }> = [];
      const users: Promise<void>[] = [];
      for (let index = 0; index < 15; index += 1) {
        const process = processes[index % 3] as LockProcess;
        users.push(useOnce(process, log, `user ${index}`));
        await until(world, (index + 1) * 5);
      }
      await world.kernel.complete(Promise.all(users));
      expect(log.map(({ who }) => who)).toEqual(Array.from({ length: 15 }, (_, index) => `user ${index}`));
    }
  });

  test("holds for somebody who does not wait: they never overtake a queue", async () => {
    const world = lockWorld();
    const p = world.process("p");
    const q = world.process("q");
    const first = acquired(await world.kernel.complete(p.acquire()));
    const queued = q.acquire({ owner: "queued" });
    await until(world, 10);
    await world.kernel.complete(p.release(first.token));
    const hasty = await world.kernel.complete(p.acquire({ owner: "hasty", waitMs: 0 }));
    expect(hasty).toMatchObject({ kind: "lock_unavailable", holder: { owner: "queued" } });
    expect(await world.kernel.complete(queued)).toMatchObject({ kind: "acquired", owner: "queued" });
  });
});

describe("a lock handed on to another process", () => {
  const inLineAt = async (linked: boolean) => {
    const world = lockWorld({ linked });
    const [p, q] = [world.process("p"), world.process("q")];
    const held = acquired(await world.kernel.complete(p.acquire({ owner: "p" })));
    const waiting = q.acquire({ owner: "q" });
    await until(world, 1);
    const another = q.acquire({ owner: "q, second" });
    await until(world, 300);
    const callsBefore = q.calls.length;
    await world.kernel.complete(p.release(held.token));
    const got = acquired(await world.kernel.complete(waiting));
    const calls = q.calls.length - callsBefore;
    await world.kernel.complete(q.release(got.token));
    await world.kernel.complete(another);
    return { waitedMs: got.waitedMs, calls };
  };

  test("is taken up at once when the processes hear of each other, by the one whose turn it is alone", async () => {
    const { waitedMs, calls } = await inLineAt(true);
    expect(waitedMs).toBeLessThan(310);
    expect(calls).toBe(1);
  });

  test("is found at the next look when they do not", async () => {
    const { waitedMs } = await inLineAt(false);
    expect(waitedMs).toBeGreaterThanOrEqual(500);
  });
});
