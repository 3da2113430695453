// Tokens that callers choose for public locks: repeats, copies that wait together, and tokens that have had their turn.
import { describe, expect, test } from "vitest";
import type { LockToken } from "../../src/domain/lock.ts";
import { acquired, held, lockWorld, occupied, until } from "../support/public-locks.ts";

const mine = "my-own-token-0000000001" as LockToken;

describe("a token of the caller's own", () => {
  test("finds its lock again, with the same fence, however often it asks", async () => {
    const world = lockWorld();
    const p = world.process("p");
    const first = acquired(await world.kernel.complete(p.acquire({ token: mine, ttlMs: 10_000 })));
    await until(world, 4_000);
    const again = acquired(await world.kernel.complete(p.acquire({ token: mine, ttlMs: 10_000, waitMs: 0 })));
    expect(again).toMatchObject({ token: mine, fence: first.fence, expiresInMs: 6_000 });
  });

  test("is spent once it was released: a late repeat locks nobody out", async () => {
    const world = lockWorld();
    const p = world.process("p");
    await world.kernel.complete(p.acquire({ token: mine }));
    await world.kernel.complete(p.release(mine));
    expect(await world.kernel.complete(p.acquire({ token: mine }))).toEqual({ kind: "lock_token_used" });
    expect((await held(world)).kind).toBe("free");
  });

  test("that asks a second time waits beside the first, and both are told of the one grant", async () => {
    const world = lockWorld();
    const p = world.process("p");
    const holder = acquired(await world.kernel.complete(p.acquire()));
    const first = p.acquire({ token: mine });
    await until(world, 100);
    const second = p.acquire({ token: mine });
    await until(world, 200);
    await world.kernel.complete(p.release(holder.token));
    const [one, other] = await world.kernel.complete(Promise.all([first, second]));
    expect(acquired(one)).toMatchObject({ token: mine, waitedMs: 200 });
    expect(acquired(other)).toMatchObject({ token: mine, waitedMs: 100, fence: acquired(one).fence });
    expect(p.callsOf("releaseLock")).toHaveLength(1);
    expect(p.metrics.total("lock_waiters")).toBe(0);
  });

  test.each([0, 500])(
    "in an older copy whose wait of %i ms ends first leaves the newer its place",
    async (waitMs) => {
      const world = lockWorld();
      const leave = await occupied(world);
      const p = world.process("p");
      const newer = p.acquire({ token: mine });
      await until(world, 10);
      const behind = world.process("q").acquire();
      await until(world, 20);
      expect(await world.kernel.complete(p.acquire({ token: mine, waitMs }))).toMatchObject({
        kind: "lock_unavailable",
      });
      await leave();
      expect(acquired(await world.kernel.complete(newer)).token).toBe(mine);
      await world.kernel.complete(p.release(mine));
      expect(await world.kernel.complete(behind)).toMatchObject({ kind: "acquired" });
    },
  );

  test("in an older copy elsewhere, whose wait ends first, does not end the newer request", async () => {
    const world = lockWorld();
    const leave = await occupied(world);
    const older = world.process("p").acquire({ token: mine, waitMs: 500 });
    await until(world, 10);
    const newer = world.process("q").acquire({ token: mine });
    expect(await world.kernel.complete(older)).toMatchObject({ kind: "lock_unavailable" });
    await until(world, 1_000);
    await leave();
    expect(acquired(await world.kernel.complete(newer)).token).toBe(mine);
  });

  test.each([0, 5_000])(
    "that had the lock, however it ended, gets it no more: a wait of %i ms",
    async (waitMs) => {
      const world = lockWorld();
      const p = world.process("p");
      const other = "another-token-0000000001" as LockToken;
      await world.kernel.complete(p.acquire({ token: mine, waitMs, ttlMs: 1_000 }));
      await until(world, 1_002);
      const used = { kind: "lock_token_used" };
      expect(await world.kernel.complete(p.acquire({ token: mine, waitMs }))).toEqual(used);
      await world.kernel.complete(p.acquire({ token: other, waitMs }));
      await world.kernel.complete(p.release(other));
      await world.kernel.complete(
        p.release(acquired(await world.kernel.complete(p.acquire({ waitMs }))).token),
      );
      for (const token of [mine, other]) {
        expect(await world.kernel.complete(p.acquire({ token, waitMs }))).toEqual(used);
      }
      expect((await held(world)).kind).toBe("free");
    },
  );

  test("that is released while it waits stops waiting", async () => {
    const world = lockWorld();
    await occupied(world);
    const p = world.process("p");
    const waiting = p.acquire({ token: mine });
    await until(world, 100);
    expect(await world.kernel.complete(p.release(mine))).toEqual({ kind: "released" });
    expect(await world.kernel.complete(waiting)).toEqual({ kind: "lock_token_used" });
    expect(world.kernel.nowMs()).toBe(100);
    expect(await held(world)).toMatchObject({ waiting: 0 });
  });
});
