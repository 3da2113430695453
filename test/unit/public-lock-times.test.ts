// How long a public lock is said to last: never longer than it does, whatever is slow, lost or paused.
import { describe, expect, test } from "vitest";
import type { LockToken } from "../../src/domain/lock.ts";
import { acme, acquired, held, lockWorld, report, until } from "../support/public-locks.ts";

describe("the time that a lock is told to last", () => {
  test("of a handover counts from when the release was sent, though its answer came later", async () => {
    const world = lockWorld();
    const p = world.process("p");
    const first = acquired(await world.kernel.complete(p.acquire()));
    const second = p.acquire({ ttlMs: 5_000 });
    await until(world, 100);
    p.fail({ releaseLock: { requestAfterMs: 40, replyAfterMs: 60 } });
    const [, next] = await world.kernel.complete(Promise.all([p.release(first.token), second]));
    expect(world.kernel.nowMs()).toBe(200);
    expect(next).toMatchObject({ kind: "acquired", expiresInMs: 4_900 });
    expect(await held(world)).toMatchObject({ expiresInMs: 4_940 });
    expect(p.metrics.total("lock_handovers_total", { way: "handover" })).toBe(1);
  });

  test("of a handover that a paused process hears of too late is not told: it asks what became of it", async () => {
    const world = lockWorld();
    const p = world.process("p");
    const first = acquired(await world.kernel.complete(p.acquire()));
    const second = p.acquire({ ttlMs: 1_000, waitMs: 20_000 });
    await until(world, 100);
    const releasing = p.release(first.token);
    p.process.pause(3_000);
    expect((await world.kernel.complete(releasing)).kind).toBe("released");
    const next = acquired(await world.kernel.complete(second));
    expect(world.kernel.nowMs()).toBeGreaterThanOrEqual(3_100);
    expect(next.expiresInMs).toBeGreaterThan(0);
    expect(await held(world)).toMatchObject({ kind: "held", fence: next.fence });
  });

  test("counts from when the call was sent that made the grant, however late its answer", async () => {
    const world = lockWorld();
    const p = world.process("p");
    const first = acquired(await world.kernel.complete(p.acquire()));
    const second = p.acquire({ ttlMs: 5_000 });
    await until(world, 100);
    p.fail({ releaseLock: { requestAfterMs: 300, replyAfterMs: 700 } });
    const releasing = p.release(first.token);
    p.fail({ acquireLock: { requestAfterMs: 1_500 } });
    await world.kernel.complete(releasing);
    const next = acquired(await world.kernel.complete(second));
    // Sent at 100, granted at 400, told at 1,100 or when the ask that was under way came back.
    const toldAfterMs = world.kernel.nowMs() - 100;
    expect(next.expiresInMs).toBeLessThanOrEqual(5_000 - toldAfterMs);
    expect((await held(world)).kind).toBe("held");
    const truth = await held(world);
    if (truth.kind === "held") expect(next.expiresInMs).toBeLessThanOrEqual(truth.expiresInMs);
  });

  test("is never more than the store's own, whatever is slow or paused", async () => {
    for (let seed = 1; seed <= 30; seed += 1) {
      const world = lockWorld({ seed, travelMsMax: 120 });
      const p = world.process("p");
      const q = world.process("q", { clockRate: 1.01 });
      const users = [p, q, p, q, p].map(async (process, index) => {
        await process.process.clock.sleep(index * 30);
        const answer = await process.acquire({ ttlMs: 1_500, waitMs: 20_000 });
        const truth = await held(world);
        if (answer.kind !== "acquired") return answer.kind;
        if (truth.kind === "held" && truth.fence === answer.fence) {
          expect(answer.expiresInMs).toBeLessThanOrEqual(truth.expiresInMs + 1);
        } else {
          throw new Error(`seed ${seed}: told of a lock that was over`);
        }
        await process.process.clock.sleep(50);
        await process.release(answer.token);
        return answer.kind;
      });
      world.kernel.after(200, () => p.process.pause(400));
      const answers = await world.kernel.complete(Promise.all(users));
      expect(answers).toEqual(["acquired", "acquired", "acquired", "acquired", "acquired"]);
    }
  });

  test("of a grant that came too late to be used is not told: the lock is asked for anew", async () => {
    const world = lockWorld();
    const p = world.process("p", { failing: { acquireLock: [{ replyAfterMs: 300 }] } });
    const answer = acquired(await world.kernel.complete(p.acquire({ ttlMs: 200 })));
    expect(answer.expiresInMs).toBe(200);
    // The second finds that the grant is over, and its token with it.
    expect(p.callsOf("acquireLock").map(({ answer }) => answer)).toEqual([
      ...["acquired", "already_released", "acquired"],
    ]);
  });

  test("of a caller's own grant that comes too late stays as it is: the caller may work under it by now", async () => {
    const world = lockWorld();
    const token = "my-own-token-0000000001" as LockToken;
    const p = world.process("p", { failing: { acquireLock: { replyAfterMs: 1_500 } } });
    const first = p.acquire({ token, ttlMs: 1_000, waitMs: 0 });
    const q = world.process("q");
    const { fence } = acquired(await world.kernel.complete(q.acquire({ token, waitMs: 0 })));
    await world.kernel.complete(q.api.renewLock({ tenant: acme, resource: report, token, ttlMs: 60_000 }));
    expect(await world.kernel.complete(first)).toMatchObject({ kind: "lock_outcome_unknown", token });
    await world.kernel.run({});
    expect(await held(world)).toMatchObject({ kind: "held", fence });
  });

  test("of a grant that always comes too late is told to nobody", async () => {
    const world = lockWorld();
    const p = world.process("p", { failing: { acquireLock: { replyAfterMs: 300 } } });
    const answer = await world.kernel.complete(p.acquire({ ttlMs: 200, waitMs: 1_000 }));
    expect(answer).toEqual({ kind: "unavailable", cause: "granted too late to be used" });
    expect((await held(world)).kind).toBe("free");
  });
});
