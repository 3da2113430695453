// Public locks of two processes on a real Redis: one holder at a time, first come first served, also across a hang of the server.
import { afterAll, beforeAll, expect, test } from "vitest";
import type { AcquireLockAnswer } from "../../src/control/locks/acquire-public-lock.ts";
import { type ControlPlane, createControlPlane } from "../../src/control-plane.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import { type RedisServer, startRedisServer } from "../../src/drills/servers/start-servers.ts";
import { silentLog } from "../support/silent-log.ts";

const tenant = "acme" as TenantId;
const caller = { tenant, actor: "ann" };

let server: RedisServer;
let planes: readonly ControlPlane[];
beforeAll(async () => {
  server = await startRedisServer();
  const open = (instance: string) =>
    createControlPlane({
      overrides: {
        "store.kind": "redis",
        "store.redisUrls": server.url,
        "store.callTimeoutMs": 300,
        // On a busy machine nobody may lose its place for being late.
        "locks.public.ticketMs": 10_000,
      },
      ports: { log: silentLog, instance },
      engine: "stopped",
    });
  planes = [await open("p"), await open("q")];
});
afterAll(async () => {
  for (const plane of planes) await plane.close();
  await server.stop();
});

const planeOf = (index: number) => planes[index % 2] as ControlPlane;

const acquire = (index: number, resource: string, waitMs = 30_000): Promise<AcquireLockAnswer> =>
  planeOf(index).api.acquireLock({
    caller,
    resource,
    owner: `user ${index}`,
    ttlMs: 20_000,
    waitMs,
    wait: "queue",
  });

/** Until so many queue, for five seconds at most. */
async function queued(resource: string, count: number): Promise<void> {
  const deadlineMs = performance.now() + 5_000;
  for (;;) {
    const found = await planeOf(0).api.inspectLock({ tenant, resource });
    if (found.kind === "held" && found.waiting === count) return;
    if (performance.now() > deadlineMs)
      throw new Error(`${JSON.stringify(found)} instead of ${count} waiting`);
  }
}

test("users of two processes have the lock one after the other, in the order in which they came", async () => {
  const first = await acquire(0, "shared");
  if (first.kind !== "acquired") throw new Error(first.kind);
  const order: number[] = [];
  const fences: number[] = [first.fence];
  let holders = 0;
  const users: Promise<void>[] = [];
  for (let index = 1; index <= 10; index += 1) {
    const use = async () => {
      const answer = await acquire(index, "shared");
      if (answer.kind !== "acquired") throw new Error(answer.kind);
      holders += 1;
      expect(holders).toBe(1);
      order.push(index);
      fences.push(answer.fence);
      await new Promise((resolve) => {
        setTimeout(resolve, 2);
      });
      holders -= 1;
      const { token } = answer;
      expect(await planeOf(index).api.releaseLock({ tenant, resource: "shared", token })).toEqual({
        kind: "released",
      });
    };
    users.push(use());
    await queued("shared", index);
  }
  const { token } = first;
  await planeOf(0).api.releaseLock({ tenant, resource: "shared", token });
  await Promise.all(users);
  expect(order).toEqual(Array.from({ length: 10 }, (_, index) => index + 1));
  expect(fences).toEqual([...fences].sort((left, right) => left - right));
});

test("a server that hangs makes nobody believe in a lock, and those who waited on are served after it", async () => {
  const first = await acquire(0, "hung");
  if (first.kind !== "acquired") throw new Error(first.kind);
  const waiting = acquire(1, "hung");
  await queued("hung", 1);
  server.pause();
  try {
    // The calls take 300 ms to be called unknown, and twice that to be given up.
    const answer = await acquire(0, "other", 0);
    expect(answer.kind).toBe("lock_outcome_unknown");
  } finally {
    server.resume();
  }
  const { token } = first;
  await expect
    .poll(() => planeOf(0).api.releaseLock({ tenant, resource: "hung", token }))
    .toEqual({ kind: "released" });
  const second = await waiting;
  if (second.kind === "lock_outcome_unknown") {
    // It was told that it does not know: with its token it finds out.
    const again = await planeOf(0).api.acquireLock({
      ...{ caller, resource: "hung", ttlMs: 20_000, waitMs: 5_000, wait: "queue" },
      token: second.token,
    });
    expect(again.kind).toBe("acquired");
  } else {
    expect(second).toMatchObject({ kind: "acquired", owner: "user 1" });
  }
});
