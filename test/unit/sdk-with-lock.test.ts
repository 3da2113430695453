// `withLock` against a real gateway: taking turns, renewing, losing, giving back; and its deadline with clocks of its own.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createClientIn } from "../../src/sdk/client.ts";
import { type Lease, LockLost, withLock } from "../../src/sdk/index.ts";
import { type Runtime, runtime as system } from "../../src/sdk/runtime.ts";
import { withLockIn } from "../../src/sdk/with-lock.ts";
import { testRuntime } from "../support/sdk-runtime.ts";
import { eventually, openSdkWorld, type SdkWorld } from "../support/sdk-world.ts";

let world: SdkWorld;

beforeAll(async () => {
  world = await openSdkWorld();
});
beforeEach(() => world.proxy.pass());
afterAll(() => world.close());

const isFree = async (resource: string) =>
  world.admin.locks.get(resource).then(
    () => false,
    () => true,
  );

describe("under a lock", () => {
  test("one works at a time, in the order of asking, each with a higher fence", async () => {
    let inside = 0;
    const seen: number[] = [];
    const fences: number[] = [];
    const work = (index: number) => async (lease: Lease) => {
      inside += 1;
      expect(inside).toBe(1);
      seen.push(index);
      fences.push(lease.fence);
      await new Promise((resolve) => setTimeout(resolve, 5));
      inside -= 1;
      return index;
    };
    const asked: Array<Promise<number>> = [];
    for (let index = 0; index < 4; index += 1) {
      asked.push(withLock(world.through, "turns", work(index), { ttlMs: 10_000 }));
      await eventually("it queues", async () => {
        const lock = await world.admin.locks.get("turns").catch(() => undefined);
        return seen.includes(index) || (lock?.waiting ?? 0) >= 1;
      });
    }
    expect(await Promise.all(asked)).toEqual([0, 1, 2, 3]);
    expect(fences).toEqual(fences.toSorted((left, right) => left - right));
    expect(await isFree("turns")).toBe(true);
  });

  test("work that takes longer than the lock's time keeps it", async () => {
    const value = await withLock(
      world.through,
      "long",
      async (lease) => {
        await new Promise((resolve) => setTimeout(resolve, 1_500));
        lease.check();
        return (await world.admin.locks.get("long")).fence === lease.fence;
      },
      { ttlMs: 1_000 },
    );
    expect(value).toBe(true);
  });

  test("a lock that is busy is refused, with its holder, when nobody waits", async () => {
    await withLock(world.through, "busy", async () => {
      const second = withLock(world.through, "busy", () => 1, { waitMs: 0, owner: "second" });
      await expect(second).rejects.toMatchObject({ code: "lock_unavailable" });
    });
  });

  test("the work's own failure is passed on, and the lock is released", async () => {
    const failing = withLock(world.through, "failing", () => {
      throw new Error("no paper");
    });
    await expect(failing).rejects.toThrow("no paper");
    expect(await isFree("failing")).toBe(true);
  });

  test("a lock that was taken away is told at the next renewal: the work is aborted, nothing is released", async () => {
    const lost: LockLost[] = [];
    const working = withLock(
      world.through,
      "taken",
      async (lease) => {
        const { fence } = await world.admin.locks.get("taken");
        await world.admin.locks.break({ namespace: "public", name: "taken", fence, reason: "a test" });
        const next = await world.admin.locks.acquire({ resource: "taken", ttl_ms: 60_000 });
        expect(next.fence).toBeGreaterThan(lease.fence);
        await new Promise((resolve) => lease.signal.addEventListener("abort", resolve));
        expect(() => lease.headers()).toThrow(LockLost);
        return "half done";
      },
      { ttlMs: 1_000, onLost: (loss) => lost.push(loss) },
    );
    await expect(working).rejects.toMatchObject({ name: "LockLost", because: "not_owned" });
    expect(lost).toHaveLength(1);
    expect(await isFree("taken")).toBe(false);
  });

  test("an acquire whose answer was lost is repeated with its token", async () => {
    const lost = world.proxy.swallowNextReply((text) => text.startsWith("POST /api/v1/locks/acquire"));
    expect(await withLock(world.through, "lost-acquire", () => "done")).toBe("done");
    await lost;
    expect(await isFree("lost-acquire")).toBe(true);
  });

  test("an acquire whose lock had ended before its answer could come goes on with a new token", async () => {
    const resource = "late-acquire";
    const lost = world.proxy.swallowNextReply((text) => text.startsWith("POST /api/v1/locks/acquire"));
    let unheard: number | undefined;
    // The pause before the acquire is repeated.
    const sleep: Runtime["sleep"] = async (ms, signal) => {
      if (unheard === undefined) {
        unheard = (await world.admin.locks.get(resource)).fence;
        const seen = { namespace: "public", name: resource, fence: unheard } as const;
        await world.admin.locks.break({ ...seen, reason: "nobody heard of it" });
      }
      await system.sleep(ms, signal);
    };
    const work = ({ fence }: Lease) => fence;
    const fence = await withLockIn({ ...system, sleep }, world.through, { resource, work, options: {} });
    await lost;
    expect(fence).toBeGreaterThan(unheard ?? Number.POSITIVE_INFINITY);
  });

  test("a caller that stops waiting gives back what it may have got", async () => {
    const leaving = new AbortController();
    const lost = world.proxy.swallowNextReply((text) => text.startsWith("POST /api/v1/locks/acquire"));
    void lost.then(() => leaving.abort(new Error("enough")));
    const asked = withLock(world.through, "given-back", () => 1, { ttlMs: 60_000, signal: leaving.signal });
    await expect(asked).rejects.toThrow("enough");
    await eventually("it is free", () => isFree("given-back"));
  });
});

describe("the deadline", () => {
  /** A server that grants at once; each answer takes `travelMs`, and those of the path `lost` do not come. */
  function lockIn({ travelMs = 0, lost = "" } = {}) {
    const around = testRuntime();
    const answering: typeof fetch = async (url) => {
      const path = new URL(String(url)).pathname;
      if (path.endsWith(lost || "/nothing")) throw new TypeError("fetch failed");
      if (path.endsWith("/release")) return Response.json({ resource: "r", released: true });
      around.advance(travelMs);
      return Response.json({ fence: 7, token: "t", waited_ms: 0, expires_in_ms: 10_000 });
    };
    const client = createClientIn(around, { url: "http://test", fetch: answering });
    return { around, client };
  }
  const options = { ttlMs: 10_000 };

  test("counts from when the acquire was sent, not from its answer", async () => {
    const { around, client } = lockIn({ travelMs: 4_000, lost: "/renew" });
    const work = (lease: Lease) => {
      expect(lease.signal.aborted).toBe(false);
      around.oversleep(4_999);
      lease.check();
      around.oversleep(2);
      lease.check();
    };
    await expect(withLockIn(around, client, { resource: "r", work, options })).rejects.toMatchObject({
      name: "LockLost",
      because: "deadline",
    });
  });

  test("is noticed by a process that was paused, before any timer fires", async () => {
    const { around, client } = lockIn();
    const work = (lease: Lease) => {
      around.oversleep(60_000);
      expect(lease.signal.aborted).toBe(false);
      expect(() => lease.check()).toThrow(LockLost);
      expect(lease.signal.aborted).toBe(true);
    };
    await expect(withLockIn(around, client, { resource: "r", work, options })).rejects.toBeInstanceOf(
      LockLost,
    );
  });

  test("aborts work whose renewals are not answered before the lock can be somebody else's", async () => {
    const { around, client } = lockIn({ lost: "/renew" });
    const startedMs = around.now().monotonicMs;
    let abortedAtMs = 0;
    const work = (lease: Lease) =>
      new Promise<void>((resolve) => {
        lease.signal.addEventListener("abort", () => {
          abortedAtMs = around.now().monotonicMs;
          resolve();
        });
      });
    await expect(withLockIn(around, client, { resource: "r", work, options })).rejects.toBeInstanceOf(
      LockLost,
    );
    expect(abortedAtMs - startedMs).toBeGreaterThanOrEqual(9_000);
    expect(abortedAtMs - startedMs).toBeLessThan(10_000);
  });

  test("of the lock itself ends it when the release fails: that is bounded and told, and the value is kept", async () => {
    const { around, client } = lockIn({ lost: "/release" });
    const failures: unknown[] = [];
    const asked = { resource: "r", work: () => "kept", options: { ...options, onReleaseFailed: report } };
    function report(error: unknown): void {
      failures.push(error);
    }
    const startedMs = around.now().monotonicMs;
    expect(await withLockIn(around, client, asked)).toBe("kept");
    expect(failures).toMatchObject([{ name: "InterlockConnectionError" }]);
    expect(around.now().monotonicMs - startedMs).toBeLessThan(10_000);
  });
});
