// What every store must do when it is swept at the usual pace: how often, how much at once, and which tenants.
import assert from "node:assert/strict";
import { partitionCount, partitionOf } from "../../domain/partition.ts";
import type { RunId } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import { assertOutcome, type ConformanceCase, call, only } from "./harness.ts";
import { beat, cancelOf, claim, commit, deliverAndOwn, jobOf, runWithClaim } from "./run-steps.ts";
import { entryKinds, nothing, sweepOnce, sweepUntil, take } from "./sweep-steps.ts";

/** For a store with the usual settings: swept at most every half second, attention after five seconds. */
export const sweepCases: readonly ConformanceCase[] = [
  {
    name: "the sweep of a partition without anything due finds nothing, as often as it is asked",
    async check(harness) {
      assertOutcome(await sweepOnce(harness), nothing);
      const runId = await harness.admit(harness.newRun({ start: "inbox" }));
      const answer = only(await sweepOnce(harness), "swept");
      const { nextDueAtMs = 0, storeTimeMs, ...rest } = answer;
      assertOutcome(rest, nothing);
      assert.ok(nextDueAtMs > storeTimeMs && nextDueAtMs <= storeTimeMs + 5_000);
      assert.equal(only(await sweepOnce(harness), "swept").nextDueAtMs, nextDueAtMs);
      assert.deepEqual(await entryKinds(harness, runId), ["started"]);
    },
  },
  {
    name: "a second sweep within sweepEveryMs is not due and changes nothing, and one after it goes on",
    async check(harness) {
      const timers = [{ timerId: "a", dueAtMs: 1 }];
      const first = await harness.admit(harness.newRun({ change: { timers } }));
      assert.deepEqual(only(await sweepOnce(harness), "swept").waiting, [
        { tenant: harness.tenant, runId: first },
      ]);
      const second = await harness.admit(harness.newRun({ change: { timers } }));
      assertOutcome(await sweepOnce(harness), { kind: "not_due" });
      assertOutcome(await take(harness, second), { kind: "empty" });
      const sum = await sweepUntil(harness, ({ waiting }) => waiting.length > 0);
      assert.deepEqual(sum.waiting, [{ tenant: harness.tenant, runId: second }]);
    },
  },
  {
    name: "one sweep handles at most 100 things, the oldest first, and the next one the others",
    async check(harness) {
      const timers = Array.from({ length: 130 }, (_, index) => ({
        timerId: `t${String(index).padStart(3, "0")}`,
        dueAtMs: index + 1,
      }));
      const runId = await harness.admit(harness.newRun({ change: { timers } }));
      const first = only(await sweepOnce(harness), "swept");
      assert.equal(first.waiting.length, 1);
      assert.equal(first.nextDueAtMs, 101);
      await sweepUntil(harness, ({ waiting }) => waiting.length > 0);
      const { entries } = only(await take(harness, runId), "owned");
      assert.deepEqual(
        entries.map(({ entryId }) => entryId),
        timers.slice(0, 128).map(({ timerId }) => `timer:${timerId}`),
      );
    },
  },
  {
    name: "new runs do not put off the proof of their tenant",
    async check(harness) {
      await harness.admit();
      const { nextDueAtMs } = only(await sweepOnce(harness), "swept");
      await harness.untilAfter(await harness.now());
      await harness.admit();
      assert.equal(only(await sweepOnce(harness), "swept").nextDueAtMs, nextDueAtMs);
    },
  },
  {
    name: "a run whose entries were applied, or whose end discarded them, is no longer due",
    async check(harness) {
      const applied = await harness.admit(harness.newRun({ start: "inbox" }));
      const first = await deliverAndOwn(harness, applied, cancelOf(harness));
      only(await commit(harness, applied, first.guard, { consumed: 2 }), "committed");
      const ended = await harness.admit(harness.newRun({ start: "inbox" }));
      const second = await deliverAndOwn(harness, ended, cancelOf(harness));
      const change = { status: "cancelled" } as const;
      assert.equal(only(await commit(harness, ended, second.guard, { change }), "committed").discarded, 2);
      const { nextDueAtMs = 0, storeTimeMs } = only(await sweepOnce(harness), "swept");
      // Attention would be due within five seconds; the proof of the tenant is after a minute.
      assert.ok(nextDueAtMs > storeTimeMs + 20_000, `due in ${nextDueAtMs - storeTimeMs} ms`);
    },
  },
  {
    name: "a timer that was moved, or cleared and set again, does not fire at its old time",
    async check(harness) {
      const farMs = 9_000_000_000_000;
      const timers = ["moved", "again"].map((timerId) => ({ timerId, dueAtMs: 1 }));
      const runId = await harness.admit(harness.newRun({ change: { timers } }));
      await harness.commit(runId, { clearTimers: ["again"] });
      await harness.commit(runId, { timers: timers.map((timer) => ({ ...timer, dueAtMs: farMs })) });
      assert.deepEqual(only(await sweepOnce(harness), "swept").waiting, []);
      assertOutcome(await take(harness, runId), { kind: "empty" });
    },
  },
  {
    name: "a claim that is kept alive or over is not due at its old time, nor is a job that somebody claimed",
    async check(harness) {
      const kept = await runWithClaim(harness, 3_000);
      await beat(harness, kept.jobId, kept.token, 600_000);
      const voided = await runWithClaim(harness, 3_000);
      const taken = jobOf(voided.runId, { step: "taken" });
      await harness.commit(voided.runId, { voidJobs: [voided.jobId], jobs: [taken] });
      only(await claim(harness, taken.jobId, harness.claim(600_000)), "claimed");
      const { nextDueAtMs = 0, storeTimeMs } = only(await sweepOnce(harness), "swept");
      // A ready job would be published again after thirty seconds.
      assert.ok(nextDueAtMs > storeTimeMs + 40_000, `due in ${nextDueAtMs - storeTimeMs} ms`);
    },
  },
  {
    name: "tenants of one partition are swept together, and other partitions are left alone",
    async check(harness) {
      const { store, tenant, partition } = harness;
      const timers = [{ timerId: "a", dueAtMs: 1 }];
      const tenants = [
        tenant,
        tenantIn(partition, harness.id("x")),
        tenantIn(partition + 1, harness.id("x")),
      ];
      const runIds: RunId[] = [];
      for (const each of tenants) {
        const run = harness.newRun({ change: { timers } });
        runIds.push(run.runId);
        assert.equal((await store.admit({ tenant: each, run }, call)).kind, "admitted");
      }
      const { waiting } = only(await sweepOnce(harness), "swept");
      const seen = waiting.map((each) => `${each.tenant} ${each.runId}`).sort();
      assert.deepEqual(seen, [0, 1].map((index) => `${tenants[index]} ${runIds[index]}`).sort());
    },
  },
];

function tenantIn(partition: number, unique: string): TenantId {
  for (let index = 0; ; index += 1) {
    const tenant = `${unique}-${index}` as TenantId;
    if (partitionOf(tenant) === partition % partitionCount) return tenant;
  }
}
