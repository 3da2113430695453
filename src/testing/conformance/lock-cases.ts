// What every store must do with locks: token ownership, fences that grow, expiry, guards, and repeatable calls.
import assert from "node:assert/strict";
import type { LockName, LockToken } from "../../domain/lock.ts";
import { assertOutcome, type ConformanceCase, call, type Harness } from "./harness.ts";

const lock: LockName = { namespace: "job", name: "run_00_x:step@1" };

function acquire(harness: Harness, token: LockToken, ttlMs = 10_000, instance = "host:1") {
  return harness.store.acquireLock({ tenant: harness.tenant, lock, token, instance, ttlMs }, call);
}

function renew(harness: Harness, token: LockToken, ttlMs = 10_000) {
  return harness.store.renewLock({ tenant: harness.tenant, lock, token, ttlMs }, call);
}

function release(harness: Harness, token: LockToken) {
  return harness.store.releaseLock({ tenant: harness.tenant, lock, token }, call);
}

export const lockCases: readonly ConformanceCase[] = [
  {
    name: "a granted lock is busy for everybody else, and says who holds it and for how long",
    async check(harness) {
      await harness.acquire(lock, 10_000);
      const busy = await acquire(harness, harness.token(), 10_000, "host:2");
      assert.equal(busy.kind, "busy");
      const { freeInMs, instance } = busy as { freeInMs: number; instance: string };
      assert.equal(instance, "host:1");
      assert.ok(freeInMs > 5_000 && freeInMs <= 10_000, `free in ${freeInMs} ms`);
    },
  },
  {
    name: "a repeated acquire with the same token gives the same grant and does not extend it",
    async check(harness) {
      const guard = await harness.acquire(lock, 10_000);
      const again = await acquire(harness, guard.token, 600_000);
      assert.equal(again.kind, "acquired");
      const { fence, expiresInMs } = again as { fence: number; expiresInMs: number };
      assert.equal(fence, guard.fence);
      assert.ok(expiresInMs <= 10_000);
    },
  },
  {
    name: "fences grow with every grant, across releases, expiry and lock names",
    async check(harness) {
      const fences: number[] = [];
      for (const name of ["a", "a", "b"]) {
        const guard = await harness.acquire({ namespace: "public", name }, 10_000);
        fences.push(guard.fence);
        await harness.store.releaseLock(
          { tenant: harness.tenant, lock: guard.lock, token: guard.token },
          call,
        );
      }
      const short = await harness.acquire(lock, 20);
      await harness.untilFree(lock);
      fences.push(short.fence, (await harness.acquire(lock, 10_000)).fence);
      assert.deepEqual(
        fences,
        [...new Set(fences)].sort((left, right) => left - right),
      );
    },
  },
  {
    name: "a fence is at least the store's time in microseconds, so that it grows after a restore",
    async check(harness) {
      const answer = await acquire(harness, harness.token());
      const { fence, storeTimeMs } = answer as unknown as { fence: number; storeTimeMs: number };
      assert.ok(Number.isSafeInteger(fence));
      assert.ok(fence >= storeTimeMs * 1000, `${fence} against ${storeTimeMs} ms`);
    },
  },
  {
    name: "release with the wrong token says not_owned and changes nothing (seed 003)",
    async check(harness) {
      const guard = await harness.acquire(lock, 10_000);
      assertOutcome(await release(harness, harness.token()), { kind: "not_owned" });
      assert.equal((await renew(harness, guard.token)).kind, "renewed");
    },
  },
  {
    name: "renew with the wrong token says not_owned and changes nothing (seed 003)",
    async check(harness) {
      await harness.acquire(lock, 10_000);
      assertOutcome(await renew(harness, harness.token(), 600_000), { kind: "not_owned", superseded: true });
      const held = await harness.store.inspectLock({ tenant: harness.tenant, lock }, call);
      assert.ok((held as { expiresInMs: number }).expiresInMs <= 10_000);
    },
  },
  {
    name: "a released lock is free, and a repeated release gives the same answer",
    async check(harness) {
      const { token } = await harness.acquire(lock, 10_000);
      assertOutcome(await release(harness, token), { kind: "released" });
      assertOutcome(await release(harness, token), { kind: "released" });
      assert.equal((await acquire(harness, harness.token())).kind, "acquired");
      assertOutcome(await release(harness, token), { kind: "not_owned" });
    },
  },
  {
    name: "a late duplicate of an acquire does not lock anybody out after its release",
    async check(harness) {
      const { token } = await harness.acquire(lock, 10_000);
      await release(harness, token);
      assertOutcome(await acquire(harness, token), { kind: "already_released" });
      assert.equal((await acquire(harness, harness.token())).kind, "acquired");
    },
  },
  {
    name: "renew keeps a lock beyond its first ttl and keeps its fence",
    async check(harness) {
      const guard = await harness.acquire(lock, 40);
      assertOutcome(await renew(harness, guard.token, 10_000), { kind: "renewed", fence: guard.fence });
      const held = await harness.store.inspectLock({ tenant: harness.tenant, lock }, call);
      assert.ok((held as { expiresInMs: number }).expiresInMs > 5_000);
    },
  },
  {
    name: "renew and release after expiry fail, and say that nobody took the lock since (seed 003)",
    async check(harness) {
      const { token } = await harness.acquire(lock, 20);
      await harness.untilFree(lock);
      assertOutcome(await renew(harness, token), { kind: "not_owned", superseded: false });
      assertOutcome(await release(harness, token), { kind: "not_owned" });
    },
  },
  {
    name: "owner A expires, B acquires, A's renew and release fail and B keeps the lock (seed 003)",
    async check(harness) {
      const first = await harness.acquire(lock, 20);
      await harness.untilFree(lock);
      const second = await harness.acquire(lock, 10_000);
      assertOutcome(await renew(harness, first.token), { kind: "not_owned", superseded: true });
      assertOutcome(await release(harness, first.token), { kind: "not_owned" });
      assertOutcome(await renew(harness, second.token), { kind: "renewed", fence: second.fence });
    },
  },
  {
    name: "inspect shows holder, fence and time left, and never the token",
    async check(harness) {
      const guard = await harness.acquire(lock, 10_000);
      const held = await harness.store.inspectLock({ tenant: harness.tenant, lock }, call);
      assert.equal(held.kind, "held");
      assert.equal((held as { fence: number }).fence, guard.fence);
      assert.ok(!JSON.stringify(held).includes(guard.token));
      const free = { namespace: "job", name: "never" } as const;
      assertOutcome(await harness.store.inspectLock({ tenant: harness.tenant, lock: free }, call), {
        kind: "free",
      });
    },
  },
  {
    name: "the same lock name in two tenants or two namespaces is two locks",
    async check(harness) {
      await harness.acquire(lock, 10_000);
      const token = harness.token();
      const elsewhere = { tenant: harness.otherTenant(), lock, token, instance: "host:2", ttlMs: 1_000 };
      assert.equal((await harness.store.acquireLock(elsewhere, call)).kind, "acquired");
      await harness.acquire({ namespace: "approval", name: lock.name }, 10_000);
    },
  },
  {
    name: "lock names of any form do not collide",
    async check(harness) {
      const names = ["a", "a:b", "a%3Ab", "a b", "{a}", "ä", "a/b", "job/a", "*", "line\nbreak", "🔒"];
      const fences = new Set<number>();
      for (const name of names)
        fences.add((await harness.acquire({ namespace: "public", name }, 10_000)).fence);
      assert.equal(fences.size, names.length);
    },
  },
  {
    name: "one of a hundred contenders gets the lock",
    async check(harness) {
      const answers = await Promise.all(Array.from({ length: 100 }, () => acquire(harness, harness.token())));
      assert.equal(answers.filter((answer) => answer.kind === "acquired").length, 1);
      assert.equal(answers.filter((answer) => answer.kind === "busy").length, 99);
    },
  },
  {
    name: "an empty token is refused: lock token required",
    async check(harness) {
      const empty = "" as LockToken;
      for (const attempt of [acquire, renew, release]) {
        await assert.rejects(attempt(harness, empty), /lock token required/);
      }
    },
  },
  {
    name: "a call past its notAfter has no effect",
    async check(harness) {
      const token = harness.token();
      const request = { tenant: harness.tenant, lock, token, instance: "host:1", ttlMs: 10_000 };
      const late = await harness.store.acquireLock(request, { deadlineMs: 5_000, notAfterMs: 1 });
      assertOutcome(late, { kind: "unavailable", cause: "too_late" });
      assertOutcome(await harness.store.inspectLock({ tenant: harness.tenant, lock }, call), {
        kind: "free",
      });
    },
  },
];
