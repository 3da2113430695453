// What every store must do with the queue of a lock: order of arrival, silent waiters, hand-over, leaving, and repeats.
import assert from "node:assert/strict";
import { type LockName, type LockToken, ticketsMax } from "../../domain/lock.ts";
import type { RequestOf } from "../../ports/store.ts";
import { assertOutcome, type ConformanceCase, call, type Harness, only } from "./harness.ts";

const lock: LockName = { namespace: "public", name: "build machine" };

type Wish = Partial<Omit<RequestOf<"acquireLock">, "tenant" | "token">>;

/** Longer than any check takes. */
const patientMs = 30_000;

function acquire(harness: Harness, token: LockToken, wish: Wish = {}) {
  const { store, tenant } = harness;
  return store.acquireLock({ tenant, lock, token, instance: "host:1", ttlMs: 10_000, ...wish }, call);
}

function queue(harness: Harness, token: LockToken, wish: Wish = {}) {
  return acquire(harness, token, { ticketMs: patientMs, ...wish });
}

function release(harness: Harness, token: LockToken) {
  return harness.store.releaseLock({ tenant: harness.tenant, lock, token }, call);
}

function inspect(harness: Harness) {
  return harness.store.inspectLock({ tenant: harness.tenant, lock }, call);
}

/** A place in the queue, by its token. */
async function queued(harness: Harness, ahead: number, wish: Wish = {}): Promise<LockToken> {
  const token = harness.token();
  assert.equal(only(await queue(harness, token, wish), "busy").ahead, ahead);
  return token;
}

/** The token that a release handed the lock on to. */
async function heirOf(harness: Harness, token: LockToken): Promise<LockToken | undefined> {
  return only(await release(harness, token), "released").granted?.token;
}

/** Lets a lock that is held expire, once all who shall queue for it do. */
async function expire(harness: Harness, token: LockToken): Promise<void> {
  const { store, tenant } = harness;
  only(await store.renewLock({ tenant, lock, token, ttlMs: 1 }, call), "renewed");
  await harness.untilFree(lock);
}

/** Queues and is not heard of again: gives when its place is lost. */
async function queueSilently(harness: Harness, token = harness.token()): Promise<void> {
  only(await queue(harness, token, { ticketMs: 20 }), "busy");
  await harness.untilAfter((await harness.now()) + 20);
}

export const lockQueueCases: readonly ConformanceCase[] = [
  {
    name: "a released lock goes to the first in its queue at once, in the order of arrival, with growing fences",
    async check(harness) {
      const first = await harness.acquire(lock, 10_000);
      const waiting = [await queued(harness, 0), await queued(harness, 1), await queued(harness, 2)];
      let holder = first.token;
      let fence: number = first.fence;
      for (const next of waiting) {
        const { granted } = only(await release(harness, holder), "released");
        assert.equal(granted?.token, next);
        assert.ok((granted?.fence ?? 0) > fence, `${granted?.fence} after ${fence}`);
        fence = granted?.fence ?? 0;
        const asked = only(await queue(harness, next), "acquired");
        assert.equal(asked.fence, fence);
        holder = next;
      }
      assertOutcome(await release(harness, holder), { kind: "released" });
      assertOutcome(await inspect(harness), { kind: "free" });
    },
  },
  {
    name: "asking again keeps the place, and every place moves up as those before it go",
    async check(harness) {
      const { token } = await harness.acquire(lock, 10_000);
      const [next, last] = [await queued(harness, 0), await queued(harness, 1)];
      for (const [waiter, ahead] of [[next, 0] as const, [last, 1] as const, [next, 0] as const]) {
        assert.equal(only(await queue(harness, waiter), "busy").ahead, ahead);
      }
      await release(harness, token);
      assert.equal(only(await queue(harness, last), "busy").ahead, 0);
    },
  },
  {
    name: "a waiter that was silent for too long is passed over, and comes last when it asks again",
    async check(harness) {
      const { token } = await harness.acquire(lock, 10_000);
      const silent = harness.token();
      await queueSilently(harness, silent);
      const next = await queued(harness, 0);
      assert.equal(only(await queue(harness, silent), "busy").ahead, 1);
      assert.equal(await heirOf(harness, token), next);
    },
  },
  {
    name: "a silent waiter is never granted the lock: a release finds nobody, and the lock is free for anybody",
    async check(harness) {
      const { token } = await harness.acquire(lock, 10_000);
      await queueSilently(harness);
      assertOutcome(await release(harness, token), { kind: "released" });
      assertOutcome(await inspect(harness), { kind: "free" });
      only(await acquire(harness, harness.token()), "acquired");
    },
  },
  {
    name: "nobody overtakes a queue, with or without a ticket, when the lock has expired: only its head takes it",
    async check(harness) {
      const { token } = await harness.acquire(lock, 10_000);
      const head = await queued(harness, 0, { instance: "host:7" });
      await expire(harness, token);
      const passing = await acquire(harness, harness.token());
      assertOutcome(passing, { kind: "busy", instance: "host:7", freeInMs: 0 });
      const second = only(await queue(harness, harness.token()), "busy");
      assert.deepEqual([second.ahead, second.freeInMs], [1, 0]);
      only(await queue(harness, head), "acquired");
    },
  },
  {
    name: "when the head of an expired lock's queue leaves or falls silent, the next one takes the lock",
    async check(harness) {
      const { token } = await harness.acquire(lock, 10_000);
      const [leaving, silent] = [await queued(harness, 0), await queued(harness, 1)];
      const next = await queued(harness, 2);
      await queueSilently(harness, silent);
      await expire(harness, token);
      assert.equal(only(await queue(harness, next), "busy").ahead, 1);
      await harness.release({ lock, token: leaving });
      only(await queue(harness, next), "acquired");
    },
  },
  {
    name: "who asks without a ticket takes a free lock as the head of its queue, and else gives up its place, not its turn",
    async check(harness) {
      const { token } = await harness.acquire(lock, 10_000);
      const head = await queued(harness, 0);
      const [leaving, last] = [await queued(harness, 1), await queued(harness, 2)];
      for (let times = 0; times < 2; times += 1) {
        assert.equal("ahead" in only(await acquire(harness, leaving), "busy"), false);
      }
      assert.equal(only(await inspect(harness), "held").waiting, 2);
      assert.equal(only(await queue(harness, last), "busy").ahead, 1);
      assert.equal(only(await queue(harness, leaving), "busy").ahead, 2);
      await expire(harness, token);
      only(await acquire(harness, head), "acquired");
      assert.equal(await heirOf(harness, head), last);
    },
  },
  {
    name: "a waiter that is released loses its place, its repeats are told the same, and its token gets no other",
    async check(harness) {
      const { token } = await harness.acquire(lock, 10_000);
      const [leaving, staying] = [await queued(harness, 0), await queued(harness, 1)];
      for (let times = 0; times < 2; times += 1)
        assertOutcome(await release(harness, leaving), { kind: "released" });
      assert.equal(only(await queue(harness, staying), "busy").ahead, 0);
      for (const ask of [queue, acquire]) {
        assertOutcome(await ask(harness, leaving), { kind: "already_released" });
      }
      assert.equal(await heirOf(harness, token), staying);
      assertOutcome(await release(harness, staying), { kind: "released" });
      assertOutcome(await acquire(harness, leaving), { kind: "already_released" });
      assertOutcome(await release(harness, leaving), { kind: "released" });
    },
  },
  {
    name: "a release whose answer was lost is repeated without a second hand-over, and says nothing of the first",
    async check(harness) {
      const { token } = await harness.acquire(lock, 10_000);
      const [next, last] = [await queued(harness, 0), await queued(harness, 1)];
      const { granted } = only(await release(harness, token), "released");
      assertOutcome(await release(harness, token), { kind: "released" });
      assert.equal(only(await queue(harness, next), "acquired").fence, granted?.fence);
      assert.equal(only(await queue(harness, last), "busy").ahead, 0);
    },
  },
  {
    name: "a grant that nobody heard of is found by the new owner's next ask, and is not extended by it",
    async check(harness) {
      const { token } = await harness.acquire(lock, 10_000);
      const next = await queued(harness, 0, { ttlMs: 5_000 });
      const { granted } = only(await release(harness, token), "released");
      const asked = only(await queue(harness, next, { ttlMs: 600_000 }), "acquired");
      assert.equal(asked.fence, granted?.fence);
      assert.ok(asked.expiresInMs <= 5_000, `expires in ${asked.expiresInMs} ms`);
    },
  },
  {
    name: "a late duplicate of an ask does not queue for somebody who has had the lock and gave it on",
    async check(harness) {
      const { token } = await harness.acquire(lock, 10_000);
      const next = await queued(harness, 0);
      await release(harness, token);
      await release(harness, next);
      only(await queue(harness, harness.token()), "acquired");
      for (const old of [token, next]) {
        assertOutcome(await queue(harness, old), { kind: "already_released" });
        assertOutcome(await release(harness, old), { kind: "released" });
      }
    },
  },
  {
    name: "the lock is handed on as the ticket asked for it: for its time, its instance and its owner",
    async check(harness) {
      const { token } = await harness.acquire(lock, 600_000);
      await queued(harness, 0, { ttlMs: 5_000, instance: "host:2", owner: 'agent "7" of ünit' });
      const { granted } = only(await release(harness, token), "released");
      assert.equal(granted?.expiresInMs, 5_000);
      const held = only(await inspect(harness), "held");
      assert.deepEqual(
        [held.instance, held.owner, held.fence],
        ["host:2", 'agent "7" of ünit', granted?.fence],
      );
      assert.ok(held.expiresInMs <= 5_000);
    },
  },
  {
    name: "a stale holder, and a caller with neither lock nor ticket, cannot give the lock on",
    async check(harness) {
      const stale = await harness.acquire(lock, 20);
      await harness.untilFree(lock);
      const holder = await harness.acquire(lock, 10_000);
      const next = await queued(harness, 0);
      for (const token of [stale.token, harness.token()])
        assertOutcome(await release(harness, token), { kind: "not_owned" });
      assert.equal(only(await inspect(harness), "held").fence, holder.fence);
      assert.equal(only(await queue(harness, next), "busy").ahead, 0);
    },
  },
  {
    name: "a token that had the lock until it was released, expired or was broken never gets it again, however many follow",
    async check(harness) {
      const { store, tenant } = harness;
      for (const ask of [queue, acquire]) {
        const [released, expired] = [harness.token(), harness.token()];
        const [broken, next] = [harness.token(), harness.token()];
        only(await ask(harness, released), "acquired");
        await release(harness, released);
        only(await ask(harness, expired), "acquired");
        await expire(harness, expired);
        assertOutcome(await ask(harness, expired), { kind: "already_released" });
        const { fence } = only(await ask(harness, broken), "acquired");
        only(await queue(harness, next), "busy");
        const operator = { actor: "ops", reason: "in the way" };
        only(await store.breakLock({ tenant, lock, fence, ...operator }, call), "broken");
        for (const old of [released, expired, broken]) {
          assertOutcome(await ask(harness, old), { kind: "already_released" });
        }
        await release(harness, next);
        for (const old of [released, expired, broken, next]) {
          assertOutcome(await queue(harness, old), { kind: "already_released" });
          assertOutcome(await acquire(harness, old), { kind: "already_released" });
        }
        for (const old of [expired, broken])
          assertOutcome(await release(harness, old), { kind: "not_owned" });
        assertOutcome(await release(harness, released), { kind: "released" });
        assertOutcome(await inspect(harness), { kind: "free" });
      }
    },
  },
  {
    name: "inspect counts the tickets of those who are there, and says for how long the lock is held",
    async check(harness) {
      await harness.acquire(lock, 10_000);
      await queueSilently(harness);
      await queued(harness, 0);
      await queued(harness, 1);
      const held = only(await inspect(harness), "held");
      assert.equal(held.waiting, 2);
      assert.ok(held.heldForMs >= 20 && held.heldForMs < 10_000, `held for ${held.heldForMs} ms`);
      assert.equal("owner" in held, false);
    },
  },
  {
    name: "fifty who ask at once all hold the lock, one after the other, each once",
    async check(harness) {
      const tokens = Array.from({ length: 50 }, () => harness.token());
      const answers = await Promise.all(tokens.map((token) => queue(harness, token)));
      const places = answers.map((answer) => (answer.kind === "busy" ? answer.ahead : -1));
      assert.deepEqual(
        places.toSorted((left = 0, right = 0) => left - right),
        tokens.map((_, index) => index - 1),
      );
      const order: LockToken[] = [];
      const fences: number[] = [];
      let holder = tokens[places.indexOf(-1)];
      while (holder !== undefined) {
        order.push(holder);
        const { granted } = only(await release(harness, holder), "released");
        if (granted !== undefined) fences.push(granted.fence);
        holder = granted?.token;
      }
      assert.deepEqual(
        order,
        tokens.toSorted((left, right) => (placeOf(left) ?? 0) - (placeOf(right) ?? 0)),
      );
      assert.deepEqual(
        fences,
        [...new Set(fences)].sort((left, right) => left - right),
      );

      function placeOf(token: LockToken): number | undefined {
        return places[tokens.indexOf(token)];
      }
    },
  },
  {
    name: "a full queue takes nobody: who comes then has no place, and gets one when there is room",
    async check(harness) {
      const { token } = await harness.acquire(lock, 60_000);
      const tokens = Array.from({ length: ticketsMax }, () => harness.token());
      // A few at a time: on a slow machine all at once would outlast the time that a call has.
      for (let first = 0; first < ticketsMax; first += 50) {
        const some = tokens.slice(first, first + 50);
        await Promise.all(some.map((each) => queue(harness, each, { ticketMs: 60_000 })));
      }
      const late = harness.token();
      assert.equal("ahead" in only(await queue(harness, late), "busy"), false);
      assert.equal(only(await inspect(harness), "held").waiting, ticketsMax);
      assert.notEqual(await heirOf(harness, token), undefined);
      assert.equal(only(await queue(harness, late), "busy").ahead, ticketsMax - 1);
    },
  },
  {
    name: "the lock of a run has no queue: a caller is told that it is busy, and a release hands it to nobody",
    async check(harness) {
      const { store, tenant } = harness;
      const runLock: LockName = { namespace: "run", name: harness.runId() };
      const { token } = await harness.acquire(runLock, 10_000);
      const request = { tenant, lock: runLock, token: harness.token(), instance: "host:1", ttlMs: 10_000 };
      const asked = await store.acquireLock({ ...request, ticketMs: patientMs }, call);
      assert.equal("ahead" in only(asked, "busy"), false);
      assertOutcome(await store.releaseLock({ tenant, lock: runLock, token }, call), { kind: "released" });
      await harness.acquire(runLock, 10_000);
    },
  },
  {
    name: "a revoked key takes no lock and no place, and what it was granted before is still answered as it was",
    async check(harness) {
      const { token } = await harness.acquire(lock, 10_000);
      const before = harness.token();
      only(await queue(harness, before, { credential: "key_1" }), "busy");
      await harness.set({ revokedKeyIds: ["key_0", "key_1"] });
      for (const asked of [before, harness.token()]) {
        assertOutcome(await queue(harness, asked, { credential: "key_1" }), { kind: "unauthenticated" });
      }
      only(await acquire(harness, token, { credential: "key_1" }), "acquired");
      const next = harness.token();
      only(await queue(harness, next, { credential: "key_2" }), "busy");
      assert.equal(await heirOf(harness, token), next);
    },
  },
  {
    name: "a stopped tenant is granted no public lock, neither at once nor by a hand-over; its internal locks go on",
    async check(harness) {
      const { token } = await harness.acquire(lock, 10_000);
      await queued(harness, 0);
      await harness.set({ stopped: true });
      assertOutcome(await queue(harness, harness.token()), { kind: "tenant_stopped" });
      only(await acquire(harness, token), "acquired");
      assertOutcome(await release(harness, token), { kind: "released" });
      assertOutcome(await inspect(harness), { kind: "free" });
      for (const namespace of ["admission", "job", "approval", "run"] as const)
        await harness.acquire({ namespace, name: "x" }, 10_000);
    },
  },
];
