// What every store must do when it is swept while runs have children, or have been opened again after their end.
import assert from "node:assert/strict";
import { assertOutcome, type ConformanceCase, call, key, only } from "./harness.ts";
import { endedRun } from "./retry-cases.ts";
import {
  activeRuns,
  childOf,
  commit,
  deliverAndOwn,
  family,
  headerOf,
  retryOf,
  runLock,
} from "./run-steps.ts";
import { sweepUntil, sweepUntilPast, take } from "./sweep-steps.ts";

/** For a store that is swept all the time and keeps nothing long: attention, retention and the rest take 30 ms. */
export const treeSweepCases: readonly ConformanceCase[] = [
  {
    name: "a child that nobody starts is found by the sweep, and so is a parent that nobody told of its child's end",
    async check(harness) {
      const { tenant } = harness;
      const { parent, child } = await family(harness);
      const first = await sweepUntil(harness, ({ waiting }) => waiting.length > 0);
      assert.deepEqual(first.waiting[0], { tenant, runId: child });
      const guard = await harness.acquire(runLock(child), 60_000);
      only(await commit(harness, child, guard, { consumed: 1, change: { status: "failed" } }), "committed");
      const second = await sweepUntil(harness, ({ waiting }) => waiting.length > 0);
      assert.deepEqual(second.waiting[0], { tenant, runId: parent });
    },
  },
  {
    name: "a child that is cancelled is found by the sweep",
    async check(harness) {
      const { parent, child } = await family(harness);
      const guard = await harness.acquire(runLock(child), 60_000);
      only(await commit(harness, child, guard, { consumed: 1 }), "committed");
      await harness.commit(parent, { status: "failed", cancelChildren: [child] });
      const { waiting } = await sweepUntil(harness, (sum) => sum.waiting.length > 0);
      assert.deepEqual(waiting[0], { tenant: harness.tenant, runId: child });
      const { entries } = only(await take(harness, child), "owned");
      assert.deepEqual(
        entries.map(({ kind }) => kind),
        ["cancel"],
      );
    },
  },
  {
    name: "the proof of a tenant finds nothing wrong with children, whether their root lives or has ended",
    async check(harness) {
      const { parent, child } = await family(harness);
      await harness.commit(child, { children: [childOf(harness)] });
      assert.deepEqual((await sweepUntilPast(harness, 100)).repairs, []);
      assert.deepEqual(await activeRuns(harness), [parent]);
      await harness.end(parent);
      const sum = await sweepUntil(harness, ({ removedRuns }) => removedRuns > 0);
      assert.deepEqual([sum.removedRuns, sum.repairs], [1, []]);
      assert.equal((await headerOf(harness, child)).status, "running");
    },
  },
  {
    name: "retention removes a child that has ended, and leaves its parent",
    async check(harness) {
      const { store, tenant } = harness;
      const { parent, child } = await family(harness);
      await harness.end(child);
      assert.equal((await sweepUntil(harness, ({ removedRuns }) => removedRuns > 0)).removedRuns, 1);
      assertOutcome(await store.loadRun({ tenant, runId: child }, call), { kind: "not_found" });
      assert.equal(only(await take(harness, parent), "owned").entries[0]?.kind, "child_ended");
    },
  },
  {
    name: "a run that was opened again is not removed at the time of its first end, keeps slot and key, and is proved",
    async check(harness) {
      const { store, tenant } = harness;
      const asked = key("reopened");
      const { runId, jobId } = await endedRun(harness, "failed", { key: asked });
      const { guard } = await deliverAndOwn(harness, runId, retryOf(harness, jobId));
      const sum = await sweepUntilPast(harness, 150);
      assert.deepEqual([sum.removedRuns, sum.repairs], [0, []]);
      assert.deepEqual(await activeRuns(harness), [runId]);
      const { digest } = asked;
      assertOutcome(await store.inspectReservation({ tenant, digest }, call), { kind: "bound", runId });
      const end = { expectedVersion: 2, consumed: 1, change: { status: "succeeded" } } as const;
      only(await commit(harness, runId, guard, end), "committed");
      assert.equal((await sweepUntil(harness, ({ removedRuns }) => removedRuns > 0)).removedRuns, 1);
    },
  },
  {
    name: "a run that was opened again and left by its owner is found by the sweep",
    async check(harness) {
      const { runId, jobId } = await endedRun(harness);
      const { guard } = await deliverAndOwn(harness, runId, retryOf(harness, jobId));
      await harness.release(guard);
      const { waiting } = await sweepUntil(harness, (sum) => sum.waiting.length > 0);
      assert.deepEqual(waiting[0], { tenant: harness.tenant, runId });
    },
  },
];
