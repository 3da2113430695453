// What every store must do when it is swept at the usual pace: how often, how much at once, and which tenants.
import assert from "node:assert/strict";
import { makeRunId, type RunId } from "../../domain/run.ts";
import { allPartitions, partitionCount, partitionOf, type TenantId } from "../../domain/tenant.ts";
import { assertOutcome, type ConformanceCase, call, key, only } from "./harness.ts";
import { endedRun } from "./retry-cases.ts";
import {
  activeRuns,
  childOf,
  commit,
  deliverAndOwn,
  entryKinds,
  family,
  headerOf,
  nothing,
  retryOf,
  runLock,
  sweepOnce,
  sweepUntil,
  sweepUntilPast,
  sweepUntilRemoved,
  take,
} from "./run-steps.ts";

const backlog = 10_000;

/** For a store that is swept in haste. */
export const sharedSweepCases: readonly ConformanceCase[] = [
  {
    name: "a neighbour's timer behind 10,000 due ones of one tenant is fired within 11 rounds",
    async check(harness) {
      const { store, tenant, partition } = harness;
      const perRun = 1_000;
      for (let run = 0; run < backlog / perRun; run += 1) {
        const timers = Array.from({ length: perRun }, (_, index) => ({
          ...{ timerId: `t${index}`, dueAtMs: 1 + run * perRun + index },
        }));
        await harness.admit(harness.newRun({ change: { timers } }));
      }
      const neighbour = neighbourOf(tenant, harness.id("n"));
      const timers = [{ timerId: "late", dueAtMs: backlog + 1 }];
      const run = { ...harness.newRun({ change: { timers } }), runId: makeRunId(neighbour, harness.id("r")) };
      only(await store.admit({ tenant: neighbour, run }, call), "admitted");
      const isNeighbours = ({ runId }: { readonly runId: RunId }) => runId === run.runId;
      let rounds = 0;
      for (let found = false; !found; ) {
        const answer = await store.sweep({ partition }, call);
        if (answer.kind !== "swept") continue;
        rounds += 1;
        assert.ok(rounds <= backlog / 1_000 + 1, `not fired in ${rounds - 1} rounds`);
        found = answer.waiting.some(isNeighbours);
      }
    },
  },
];

/** Another tenant of the same partition. */
function neighbourOf(tenant: TenantId, unique: string): TenantId {
  for (let number = 0; ; number += 1) {
    const id = `${unique}-${number}` as TenantId;
    if (partitionOf(id) === partitionOf(tenant)) return id;
  }
}

/** For a store with the usual settings: swept at most every half second, attention after five seconds. */
export const sweepCases: readonly ConformanceCase[] = [
  {
    name: "the sweep of a partition without anything due finds nothing, as often as it is asked",
    async check(harness) {
      assertOutcome(await sweepOnce(harness), nothing);
      const runId = await harness.admit(harness.newRun({ start: "inbox" }));
      assertOutcome(await sweepOnce(harness), nothing);
      assertOutcome(await sweepOnce(harness), nothing);
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
      const { againInMs } = only(await sweepOnce(harness), "not_due");
      assert.ok(againInMs > 0 && againInMs <= 500, `again in ${againInMs} ms`);
      assertOutcome(await take(harness, second), { kind: "empty" });
      const sum = await sweepUntil(harness, ({ waiting }) => waiting.length > 0);
      assert.deepEqual(sum.waiting, [{ tenant: harness.tenant, runId: second }]);
    },
  },
  {
    name: "a look finds a partition while something is due in it, neither before nor afterwards, and changes nothing",
    async check(harness) {
      const { store, partition } = harness;
      const look = async () =>
        only(await store.findDue({ partitions: [partition] }, call), "found").partitions;
      const farAway = [{ timerId: "far", dueAtMs: 9_000_000_000_000 }];
      await harness.admit(harness.newRun({ change: { timers: farAway } }));
      assert.deepEqual(await look(), []);
      const runId = await harness.admit(
        harness.newRun({ change: { timers: [{ timerId: "a", dueAtMs: 1 }] } }),
      );
      for (let times = 0; times < 3; times += 1) assert.deepEqual(await look(), [partition]);
      assert.deepEqual(only(await sweepOnce(harness), "swept").waiting, [{ tenant: harness.tenant, runId }]);
      assert.deepEqual(await look(), []);
    },
  },
  {
    name: "a look at all partitions finds one in which something is due, whichever it begins with",
    async check(harness) {
      const { store, partition } = harness;
      await harness.admit(harness.newRun({ change: { timers: [{ timerId: "a", dueAtMs: 1 }] } }));
      // On a Cluster the first one names the server: it has some of the others, and not the rest.
      for (const first of [
        0,
        partition,
        (partition + partitionCount / 2) % partitionCount,
        partitionCount - 1,
      ]) {
        const partitions = [...allPartitions.slice(first), ...allPartitions.slice(0, first)];
        const found = only(await store.findDue({ partitions }, call), "found").partitions;
        assert.ok(found.includes(partition), `found ${found}`);
        const inOrder = partitions.filter((each) => found.includes(each));
        assert.deepEqual(found, inOrder);
      }
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
      await sweepUntil(harness, ({ waiting }) => waiting.length > 0);
      const { entries } = only(await take(harness, runId), "owned");
      assert.deepEqual(
        entries.map(({ entryId }) => entryId),
        timers.slice(0, 128).map(({ timerId }) => `timer:${timerId}`),
      );
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
      assert.deepEqual((await sweepUntilRemoved(harness, parent)).repairs, []);
      assert.equal((await headerOf(harness, child)).status, "running");
    },
  },
  {
    name: "retention removes a child that has ended, and leaves its parent",
    async check(harness) {
      const { parent, child } = await family(harness);
      await harness.end(child);
      await sweepUntilRemoved(harness, child);
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
      assert.deepEqual(sum.repairs, []);
      assert.equal((await headerOf(harness, runId)).runId, runId);
      assert.deepEqual(await activeRuns(harness), [runId]);
      const { digest } = asked;
      assertOutcome(await store.inspectReservation({ tenant, digest }, call), { kind: "bound", runId });
      const end = { expectedVersion: 2, consumed: 1, change: { status: "succeeded" } } as const;
      only(await commit(harness, runId, guard, end), "committed");
      await sweepUntilRemoved(harness, runId);
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
