// What every store must do when operators list locks and break them.
import assert from "node:assert/strict";
import type { Fence, Guard, LockName } from "../../domain/lock.ts";
import type { Answer } from "../../ports/store.ts";
import { assertOutcome, type ConformanceCase, call, type Harness, key, only } from "./harness.ts";
import { cancelOf, deliver, runLock } from "./run-steps.ts";

const lock: LockName = { namespace: "public", name: "build machine" };

function breakIt(harness: Harness, fence: number, reason = "its holder hangs") {
  const { store, tenant } = harness;
  return store.breakLock({ tenant, lock, fence: fence as Fence, actor: "olivia", reason }, call);
}

async function breaksOf(harness: Harness) {
  const rows = await harness.store.readEvents({ tenant: harness.tenant, after: 0, limit: 100 }, call);
  return only(rows, "events").events.filter(({ type }) => type === "lock_broken");
}

/** Any write under the lock would do: a reservation needs nothing else. */
async function guardedWrite(harness: Harness, guard: Guard) {
  const { runId } = harness.newRun();
  return (await harness.store.reserve({ tenant: harness.tenant, guard, runId, key: key("k") }, call)).kind;
}

/** All locks held, as `<namespace>/<name>`, read page by page. */
async function listAll(harness: Harness, limit: number, tenant = harness.tenant): Promise<readonly string[]> {
  const names: string[] = [];
  let after: string | undefined = "";
  while (after !== undefined) {
    const answer: Answer<"listLocks"> = await harness.store.listLocks({ tenant, after, limit }, call);
    const { locks, next } = only(answer, "listed");
    assert.ok(locks.length <= limit);
    names.push(...locks.map(({ lock: { namespace, name } }) => `${namespace}/${name}`));
    after = next;
  }
  return names;
}

export const lockOperatorCases: readonly ConformanceCase[] = [
  {
    name: "a broken lock is its holder's no longer: renew and release are refused, and so is every write under it",
    async check(harness) {
      const { store, tenant } = harness;
      const guard = await harness.acquire(lock, 10_000);
      assert.equal(await guardedWrite(harness, guard), "reserved");
      assertOutcome(await breakIt(harness, guard.fence), { kind: "broken" });
      const { token } = guard;
      const renewed = await store.renewLock({ tenant, lock, token, ttlMs: 10_000 }, call);
      assertOutcome(renewed, { kind: "not_owned", superseded: true });
      assertOutcome(await store.releaseLock({ tenant, lock, token }, call), { kind: "not_owned" });
      for (const policy of ["fence", "continue"] as const)
        assert.equal(await guardedWrite(harness, { ...guard, policy }), "stale_fence");
      assertOutcome(await store.inspectLock({ tenant, lock }, call), { kind: "free" });
      const again = { tenant, lock, token, instance: "host:1", ttlMs: 10_000 };
      assertOutcome(await store.acquireLock(again, call), { kind: "already_released" });
      assert.ok((await harness.acquire(lock, 10_000)).fence > guard.fence);
    },
  },
  {
    name: "only the grant that was seen is broken: a newer one is left alone and named",
    async check(harness) {
      const old = await harness.acquire(lock, 10_000);
      await harness.release(old);
      const current = await harness.acquire(lock, 10_000);
      assertOutcome(await breakIt(harness, old.fence), { kind: "superseded", fence: current.fence });
      assert.equal(await guardedWrite(harness, current), "reserved");
      assert.deepEqual(await breaksOf(harness), []);
    },
  },
  {
    name: "a lock that is free, given back or expired is not broken",
    async check(harness) {
      assertOutcome(await breakIt(harness, 1), { kind: "free" });
      const given = await harness.acquire(lock, 10_000);
      await harness.release(given);
      assertOutcome(await breakIt(harness, given.fence), { kind: "free" });
      const expired = await harness.acquire(lock, 20);
      await harness.untilFree(lock);
      assertOutcome(await breakIt(harness, expired.fence), { kind: "free" });
      assert.deepEqual(await breaksOf(harness), []);
    },
  },
  {
    name: "breaking a lock leaves one event row that says who, which lock and why, however often it is repeated",
    async check(harness) {
      const { fence } = await harness.acquire(lock, 10_000);
      for (let times = 0; times < 3; times += 1)
        assertOutcome(await breakIt(harness, fence), { kind: "broken" });
      const [row, ...others] = await breaksOf(harness);
      assert.deepEqual(others, []);
      assert.deepEqual(
        [row?.subject, row?.actor, row?.detail],
        ["public/build machine", "olivia", "its holder hangs"],
      );
      const next = await harness.acquire(lock, 10_000);
      assertOutcome(await breakIt(harness, fence), { kind: "superseded", fence: next.fence });
    },
  },
  {
    name: "a long reason is cut to five hundred whole characters",
    async check(harness) {
      const { fence } = await harness.acquire(lock, 10_000);
      await breakIt(harness, fence, "🔒".repeat(600));
      assert.equal((await breaksOf(harness))[0]?.detail, "🔒".repeat(500));
    },
  },
  {
    name: "a broken lock goes to the first in its queue, and a repeat is told the same and leaves the new grant alone",
    async check(harness) {
      const { store, tenant } = harness;
      const broken = await harness.acquire(lock, 10_000);
      const token = harness.token();
      const asked = { tenant, lock, token, instance: "host:2", ttlMs: 5_000, ticketMs: 30_000 };
      only(await store.acquireLock(asked, call), "busy");
      const { granted } = only(await breakIt(harness, broken.fence), "broken");
      assert.deepEqual([granted?.token, granted?.expiresInMs], [token, 5_000]);
      const fence = only(await store.acquireLock(asked, call), "acquired").fence;
      assert.equal(fence, granted?.fence);
      assertOutcome(await breakIt(harness, broken.fence), { kind: "broken" });
      const held = only(await store.inspectLock({ tenant, lock }, call), "held");
      assert.deepEqual([held.fence, held.instance], [fence, "host:2"]);
      assert.equal((await breaksOf(harness)).length, 1);
    },
  },
  {
    name: "the locks that are held are listed in the order of their names, a page at a time",
    async check(harness) {
      const names = ["a", "a b", "a/b", "a:b", "b%2F", "line\nbreak", "{c}", "ä", "🔒"];
      const locks: LockName[] = names.map((name) => ({ namespace: "public", name }));
      const others: LockName[] = [
        { namespace: "admission", name: "" },
        { namespace: "approval", name: "run_00_x:a@1" },
        { namespace: "job", name: "run_00_x:b@1" },
      ];
      for (const each of [...locks, ...others].reverse()) await harness.acquire(each, 60_000);
      const expected = [...others, ...locks].map(({ namespace, name }) => `${namespace}/${name}`);
      for (const limit of [1, 5, 12, 500]) assert.deepEqual(await listAll(harness, limit), expected);
    },
  },
  {
    name: "a listed lock says who holds it and for how long, and never its token",
    async check(harness) {
      const { store, tenant } = harness;
      const token = harness.token();
      const asked = { tenant, lock, token, instance: "host:1", ttlMs: 60_000, owner: "the nightly build" };
      const { fence } = only(await store.acquireLock(asked, call), "acquired");
      const waiter = { ...asked, token: harness.token(), ticketMs: 30_000 };
      only(await store.acquireLock(waiter, call), "busy");
      const { locks } = only(await store.listLocks({ tenant, after: "", limit: 10 }, call), "listed");
      assert.equal(locks.length, 1);
      const { heldForMs, expiresInMs, ...held } = locks[0] as (typeof locks)[number];
      const expected = { lock, instance: "host:1", owner: "the nightly build", fence, waiting: 1 };
      assert.deepEqual(held, expected);
      assert.ok(heldForMs >= 0 && heldForMs < 10_000 && expiresInMs > 50_000, `${heldForMs} ${expiresInMs}`);
      assert.ok(!JSON.stringify(locks).includes(token));
    },
  },
  {
    name: "locks that were given back, broken or have expired are not listed, nor those of other tenants",
    async check(harness) {
      const given = await harness.acquire({ namespace: "public", name: "given" }, 60_000);
      await harness.release(given);
      const broken = await harness.acquire(lock, 60_000);
      await breakIt(harness, broken.fence);
      const expired: LockName = { namespace: "public", name: "expired" };
      await harness.acquire(expired, 20);
      await harness.untilFree(expired);
      await harness.acquire({ namespace: "public", name: "held" }, 60_000);
      assert.deepEqual(await listAll(harness, 10), ["public/held"]);
      assert.deepEqual(await listAll(harness, 10, harness.otherTenant()), []);
    },
  },
  {
    name: "a lock that was handed on is still listed, with its new holder",
    async check(harness) {
      const { store, tenant } = harness;
      const { token } = await harness.acquire(lock, 60_000);
      const waiter = { tenant, lock, token: harness.token(), instance: "host:9", ttlMs: 60_000 };
      only(await store.acquireLock({ ...waiter, ticketMs: 30_000 }, call), "busy");
      await harness.release({ lock, token });
      const { locks } = only(await store.listLocks({ tenant, after: "", limit: 10 }, call), "listed");
      assert.deepEqual(
        locks.map(({ instance, waiting }) => ({ instance, waiting })),
        [{ instance: "host:9", waiting: 0 }],
      );
    },
  },
  {
    name: "the lock of a run that is drained is listed after all others, until the drain gives it back",
    async check(harness) {
      const { store, tenant } = harness;
      const runs = [await harness.admit(), await harness.admit()];
      for (const runId of runs) await deliver(harness, runId, cancelOf(harness));
      await harness.acquire(lock, 60_000);
      const expected = ["public/build machine", ...runs.map((runId) => `run/${runId}`).sort()];
      for (const limit of [1, 2, 10]) assert.deepEqual(await listAll(harness, limit), expected);
      const { locks } = only(await store.listLocks({ tenant, after: "run/", limit: 10 }, call), "listed");
      for (const { lock: held, fence, instance } of locks) {
        assert.equal(instance, "host:1");
        const broken = { tenant, lock: held, fence, actor: "olivia", reason: "stuck" };
        assertOutcome(await store.breakLock(broken, call), { kind: "broken" });
      }
      assert.deepEqual(await listAll(harness, 10), ["public/build machine"]);
      assertOutcome(await store.inspectLock({ tenant, lock: runLock(runs[0] ?? harness.runId()) }, call), {
        kind: "free",
      });
    },
  },
];
