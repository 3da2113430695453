// What every store must do at gates: who gets a place, who waits, who is refused, and that places are handed on at once.
import assert from "node:assert/strict";
import {
  byKey,
  cancelQueued,
  checked,
  endRun,
  named,
  runAt,
  saveLimits,
  shown,
  start,
  startAt,
  statuses,
  tenantGate,
  whole,
} from "./gate-steps.ts";
import { assertOutcome, call, key, only } from "./harness.ts";
import { entryKinds, headerOf } from "./run-steps.ts";

export const gateCases = checked([
  {
    name: "a start with free places everywhere is admitted, holds them all, and begins by its inbox",
    async check(harness) {
      await saveLimits(harness, { whole: 2, key: 1 });
      await harness.set({ maxConcurrentRuns: 2, gates: { crm: { max: 1 } } });
      const gates = [
        [byKey("a"), "queue"],
        [whole, "reject"],
        [named("crm"), "queue"],
      ] as const;
      const run = runAt(harness, gates);
      const answer = only(await start(harness, run), "admitted");
      assert.deepEqual([answer.active, answer.limit, answer.status], [1, 2, "pending"]);
      for (const gate of [byKey("a"), whole, named("crm"), tenantGate]) {
        assert.deepEqual(await shown(harness, gate), { holders: [run.runId], queue: [] });
      }
      assert.deepEqual(await entryKinds(harness, run.runId), ["started"]);
    },
  },
  {
    name: "a full gate that rejects refuses the start whatever the others say, names itself, and leaves the key free",
    async check(harness) {
      await harness.set({ gates: { crm: { max: 1 }, erp: { max: 1 } } });
      await startAt(harness, [
        [named("crm"), "queue"],
        [named("erp"), "reject"],
      ]);
      const run = runAt(
        harness,
        [
          [named("crm"), "queue"],
          [named("erp"), "reject"],
        ],
        { key: key("k") },
      );
      const full = { kind: "max_concurrent_runs_reached", limit: 1, active: 1, gate: named("erp") };
      assertOutcome(await start(harness, run), full);
      const { tenant, store } = harness;
      const asked = { tenant, digest: key("k").digest };
      assertOutcome(await store.inspectReservation(asked, call), { kind: "idempotency_key_unbound" });
      assert.deepEqual((await shown(harness, named("crm"))).queue, []);
    },
  },
  {
    name: "a full gate that queues lets the start wait: its key is bound, it holds the places before, and is not active",
    async check(harness) {
      await saveLimits(harness, { key: 1 });
      await harness.set({ gates: { crm: { max: 1 } } });
      const first = await startAt(harness, [[named("crm"), "queue"]]);
      const run = runAt(
        harness,
        [
          [byKey("a"), "queue"],
          [named("crm"), "queue"],
        ],
        { key: key("k") },
      );
      const answer = only(await start(harness, run), "queued");
      const { askedAtMs } = (await headerOf(harness, run.runId)).gates ?? { askedAtMs: 0 };
      const told = { kind: "queued", runId: run.runId, gate: named("crm"), position: 1, keysKept: 1 };
      assertOutcome(answer, { ...told, deadlineAtMs: askedAtMs + 600_000 });
      assert.deepEqual((await shown(harness, byKey("a"))).holders, [run.runId]);
      assert.deepEqual(await shown(harness, named("crm")), { holders: [first], queue: [run.runId] });
      assert.deepEqual((await shown(harness, tenantGate)).holders, [first]);
      const { tenant, store } = harness;
      const asked = { tenant, digest: key("k").digest };
      assertOutcome(await store.inspectReservation(asked, call), { kind: "bound", runId: run.runId });
      const again = runAt(harness, [[named("crm"), "queue"]], { key: key("k") });
      assertOutcome(await start(harness, again), { kind: "replayed", runId: run.runId, status: "queued" });
    },
  },
  {
    name: "the end of a run hands its place to the one that waits, which begins by its inbox",
    async check(harness) {
      await harness.set({ maxConcurrentRuns: 1 });
      const first = await startAt(harness, []);
      const [second, third] = [await startAt(harness, []), await startAt(harness, [])];
      assert.deepEqual(await statuses(harness, [first, second, third]), ["pending", "queued", "queued"]);
      assert.deepEqual(await endRun(harness, first), [second]);
      assert.deepEqual(await statuses(harness, [second, third]), ["pending", "queued"]);
      assert.deepEqual(await entryKinds(harness, second), ["started"]);
    },
  },
  {
    name: "the cancel of a run that waits ends it at once, and hands on the places that it holds",
    async check(harness) {
      await saveLimits(harness, { key: 1 });
      await harness.set({ gates: { crm: { max: 1 } } });
      await startAt(harness, [[named("crm"), "queue"]]);
      const waiting = await startAt(harness, [
        [byKey("a"), "queue"],
        [named("crm"), "queue"],
      ]);
      const behind = await startAt(harness, [[byKey("a"), "queue"]]);
      assert.deepEqual(await cancelQueued(harness, waiting), [behind]);
      assert.deepEqual(await statuses(harness, [waiting, behind]), ["cancelled", "pending"]);
      assert.equal((await headerOf(harness, waiting)).endReason, "not needed");
    },
  },
]);
