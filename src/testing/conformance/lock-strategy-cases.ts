// What every store must do for the lock strategy: reserve, count, create and give back, guarded by the admission lock.
import assert from "node:assert/strict";
import { admissionLock, type Guard } from "../../domain/lock.ts";
import type { NewRun } from "../../ports/admission-operations.ts";
import { assertOutcome, type ConformanceCase, call, type Harness, key } from "./harness.ts";

function reserve(harness: Harness, guard: Guard, run: NewRun) {
  const { key: wanted = key("k") } = run;
  return harness.store.reserve({ tenant: harness.tenant, guard, runId: run.runId, key: wanted }, call);
}

function create(harness: Harness, guard: Guard, run: NewRun) {
  return harness.store.createRun({ tenant: harness.tenant, guard, run }, call);
}

function cancel(harness: Harness, guard: Guard, run: NewRun) {
  const { digest } = run.key ?? key("k");
  const request = { tenant: harness.tenant, digest, runId: run.runId, token: guard.token };
  return harness.store.cancelReservation(request, call);
}

function release(harness: Harness, guard: Guard) {
  return harness.store.releaseLock({ tenant: harness.tenant, lock: guard.lock, token: guard.token }, call);
}

function inspect(harness: Harness) {
  return harness.store.inspectReservation({ tenant: harness.tenant, digest: key("k").digest }, call);
}

export const lockStrategyCases: readonly ConformanceCase[] = [
  {
    name: "reserve, count, create: the run exists and its key is bound",
    async check(harness) {
      await harness.set({ maxConcurrentRuns: 1 });
      const guard = await harness.acquire(admissionLock, 10_000);
      const run = harness.newRun({ key: key("k") });
      assertOutcome(await reserve(harness, guard, run), { kind: "reserved" });
      assertOutcome(await inspect(harness), { kind: "pending", runId: run.runId });
      const counted = await harness.store.countActive({ tenant: harness.tenant }, call);
      assertOutcome(counted, { kind: "counted", active: 0, limit: 1, stopped: false });
      const created = {
        ...{ kind: "admitted", runId: run.runId, status: "pending" },
        ...{ active: 1, limit: 1, claims: [], keysKept: 1 },
      };
      assertOutcome(await create(harness, guard, run), created);
      assertOutcome(await inspect(harness), { kind: "bound", runId: run.runId });
    },
  },
  {
    name: "repeated reserve, create and cancel give the same answers and one effect",
    async check(harness) {
      const guard = await harness.acquire(admissionLock, 10_000);
      const dropped = harness.newRun({ key: key("k") });
      for (let times = 0; times < 2; times += 1) {
        assertOutcome(await reserve(harness, guard, dropped), { kind: "reserved" });
      }
      for (let times = 0; times < 2; times += 1) {
        assertOutcome(await cancel(harness, guard, dropped), { kind: "cancelled" });
      }
      const run = harness.newRun({ key: key("k") });
      await reserve(harness, guard, run);
      const { runId } = run;
      const created = { kind: "admitted", runId, status: "pending", active: 1, claims: [], keysKept: 1 };
      assertOutcome(await create(harness, guard, run), created);
      assertOutcome(await create(harness, guard, run), created);
    },
  },
  {
    name: "createRun checks the limit itself, whatever was counted before",
    async check(harness) {
      await harness.set({ maxConcurrentRuns: 1 });
      const guard = await harness.acquire(admissionLock, 10_000);
      await harness.admit();
      const refused = await create(harness, guard, harness.newRun());
      assertOutcome(refused, { kind: "max_concurrent_runs_reached", limit: 1, active: 1 });
      await harness.set({ maxConcurrentRuns: 2, stopped: true });
      assertOutcome(await create(harness, guard, harness.newRun()), { kind: "tenant_stopped" });
    },
  },
  {
    name: "writes under a lock that was released, expired or never held are refused",
    async check(harness) {
      const released = await harness.acquire(admissionLock, 10_000);
      await release(harness, released);
      const expired = await harness.acquire(admissionLock, 20);
      await harness.untilFree(admissionLock);
      const forged = { ...expired, token: harness.token() };
      for (const guard of [released, expired, forged]) {
        const run = harness.newRun({ key: key("k") });
        assertOutcome(await reserve(harness, guard, run), { kind: "stale_fence" });
        assertOutcome(await create(harness, guard, harness.newRun()), { kind: "stale_fence" });
      }
      assertOutcome(await inspect(harness), { kind: "idempotency_key_unbound" });
    },
  },
  {
    name: "a write with the right token and another fence is refused",
    async check(harness) {
      const guard = await harness.acquire(admissionLock, 10_000);
      const older = { ...guard, fence: (guard.fence - 1) as Guard["fence"] };
      assertOutcome(await create(harness, older, harness.newRun()), { kind: "stale_fence" });
      assert.equal((await create(harness, guard, harness.newRun())).kind, "admitted");
    },
  },
  {
    name: "under continue an expired lock that nobody took is taken again by the write",
    async check(harness) {
      const expired = {
        ...(await harness.acquire(admissionLock, 20)),
        policy: "continue",
        ttlMs: 10_000,
      } as const;
      await harness.untilFree(admissionLock);
      assert.equal((await create(harness, expired, harness.newRun())).kind, "admitted");
      const held = await harness.store.inspectLock({ tenant: harness.tenant, lock: admissionLock }, call);
      assert.equal(held.kind, "held");
      assert.equal((held as { fence: number }).fence, expired.fence);
    },
  },
  {
    name: "under continue a superseded or released grant is still refused",
    async check(harness) {
      const first = { ...(await harness.acquire(admissionLock, 20)), policy: "continue" } as const;
      await harness.untilFree(admissionLock);
      const second = { ...(await harness.acquire(admissionLock, 10_000)), policy: "continue" } as const;
      assertOutcome(await create(harness, first, harness.newRun()), { kind: "stale_fence" });
      await release(harness, second);
      assertOutcome(await create(harness, second, harness.newRun()), { kind: "stale_fence" });
    },
  },
  {
    name: "a key pending under the current lock is in flight for another run and for admit",
    async check(harness) {
      const guard = await harness.acquire(admissionLock, 10_000);
      await reserve(harness, guard, harness.newRun({ key: key("k") }));
      const other = harness.newRun({ key: key("k") });
      assertOutcome(await reserve(harness, guard, other), { kind: "idempotency_key_in_flight" });
      const atomic = await harness.store.admit({ tenant: harness.tenant, run: other }, call);
      assertOutcome(atomic, { kind: "idempotency_key_in_flight" });
    },
  },
  {
    name: "a dead owner's reservation is replaced by the next reserve",
    async check(harness) {
      const dead = await harness.acquire(admissionLock, 10_000);
      await reserve(harness, dead, harness.newRun({ key: key("k") }));
      await release(harness, dead);
      assertOutcome(await inspect(harness), { kind: "idempotency_key_unbound" });
      const guard = await harness.acquire(admissionLock, 10_000);
      const run = harness.newRun({ key: key("k", "another request") });
      assertOutcome(await reserve(harness, guard, run), { kind: "reserved" });
      assertOutcome(await inspect(harness), { kind: "pending", runId: run.runId });
    },
  },
  {
    name: "a dead owner's reservation is replaced by the next admit, and its late create is refused",
    async check(harness) {
      const dead = await harness.acquire(admissionLock, 10_000);
      const lost = harness.newRun({ key: key("k") });
      await reserve(harness, dead, lost);
      await release(harness, dead);
      const runId = await harness.admit(harness.newRun({ key: key("k") }));
      assertOutcome(await create(harness, dead, lost), { kind: "stale_fence" });
      assertOutcome(await inspect(harness), { kind: "bound", runId });
    },
  },
  {
    name: "a bound key or another owner's reservation is never cancelled",
    async check(harness) {
      const guard = await harness.acquire(admissionLock, 10_000);
      const run = harness.newRun({ key: key("k") });
      await reserve(harness, guard, run);
      const stranger = { ...guard, token: harness.token() };
      assertOutcome(await cancel(harness, stranger, run), { kind: "kept" });
      assertOutcome(await cancel(harness, guard, harness.newRun({ key: key("k") })), { kind: "kept" });
      await create(harness, guard, run);
      assertOutcome(await cancel(harness, guard, run), { kind: "kept" });
      assertOutcome(await inspect(harness), { kind: "bound", runId: run.runId });
    },
  },
  {
    name: "a run is not created without its own reservation",
    async check(harness) {
      const guard = await harness.acquire(admissionLock, 10_000);
      const run = harness.newRun({ key: key("k") });
      assertOutcome(await create(harness, guard, run), { kind: "reservation_lost" });
      await reserve(harness, guard, harness.newRun({ key: key("k") }));
      assertOutcome(await create(harness, guard, run), { kind: "reservation_lost" });
    },
  },
  {
    name: "reserve answers replays and reused keys as admit does",
    async check(harness) {
      const runId = await harness.admit(harness.newRun({ key: key("k", "first") }));
      const guard = await harness.acquire(admissionLock, 10_000);
      const replay = await reserve(harness, guard, harness.newRun({ key: key("k", "first") }));
      assertOutcome(replay, { kind: "replayed", runId, status: "pending" });
      const reused = await reserve(harness, guard, harness.newRun({ key: key("k", "second") }));
      assertOutcome(reused, { kind: "idempotency_key_reused" });
    },
  },
];
