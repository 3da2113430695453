// What every store must do with entries: accepted once, applied by one owner at a time, handed over to it, never lost.
import assert from "node:assert/strict";
import type { LockToken } from "../../domain/lock.ts";
import type { RunId } from "../../domain/run.ts";
import { assertOutcome, type ConformanceCase, call, type Harness, only } from "./harness.ts";
import {
  cancelOf,
  commit,
  commitOf,
  deliver,
  deliverAndOwn,
  deliveryOf,
  guardOf,
  jobState,
  picture,
  refusal,
  resultOf,
  runLock,
  runWithClaim,
  timerOf,
} from "./run-steps.ts";

function takeRun(harness: Harness, runId: RunId, take = harness.take(), records: readonly string[] = []) {
  return harness.store.takeRun({ tenant: harness.tenant, runId, take, records }, call);
}

/** A delivery that went to the owner. */
function assertHandedOver(answer: Awaited<ReturnType<typeof deliver>>): void {
  assert.deepEqual(only(answer, "delivered").run, { kind: "handed_over" });
}

export const inboxCases: readonly ConformanceCase[] = [
  {
    name: "a result is stored with its run, ends its job, and makes its sender the owner of a free run",
    async check(harness) {
      const { runId, jobId, token } = await runWithClaim(harness);
      const entry = resultOf(harness, { jobId, token });
      const records = ["input/build", "none", entry.payload.key];
      const owned = await deliverAndOwn(harness, runId, entry, { records });
      assert.deepEqual(owned.entries, [
        ...[{ kind: "result", entryId: entry.entryId, jobId, outcome: "succeeded" }].map((head) => ({
          ...head,
          payloadKey: entry.payload.key,
        })),
      ]);
      assert.deepEqual(owned.records, [{ key: "input/build", body: '{"step":"build"}' }, entry.payload]);
      assert.equal(owned.header.version, 1);
      assert.equal(owned.header.status, "running");
      assert.equal(await jobState(harness, jobId), "reported");
      const held = await harness.store.inspectLock({ tenant: harness.tenant, lock: runLock(runId) }, call);
      assert.equal(only(held, "held").fence, owned.fence);
    },
  },
  {
    name: "a repeated delivery gives the same grant and the same entries",
    async check(harness) {
      const { runId, jobId, token } = await runWithClaim(harness);
      const request = deliveryOf(harness, runId, resultOf(harness, { jobId, token }));
      const first = only(await harness.store.deliver(request, call), "delivered");
      const second = only(await harness.store.deliver(request, call), "delivered");
      assert.deepEqual(second.run, first.run);
      assert.equal(only(second.run, "owned").entries.length, 1);
    },
  },
  {
    name: "an entry for a busy run is handed over to its owner, who finds it when it commits",
    async check(harness) {
      const { runId, jobId, token } = await runWithClaim(harness);
      const owned = await deliverAndOwn(harness, runId, resultOf(harness, { jobId, token }));
      const cancel = cancelOf(harness);
      const request = deliveryOf(harness, runId, cancel);
      assertHandedOver(await harness.store.deliver(request, call));
      assertHandedOver(await harness.store.deliver(request, call));
      const next = only(await commit(harness, runId, owned.guard, { consumed: 1 }), "committed");
      assert.deepEqual(next.entries, [cancel]);
      const held = await harness.store.inspectLock({ tenant: harness.tenant, lock: runLock(runId) }, call);
      assert.equal(only(held, "held").fence, owned.fence);
    },
  },
  {
    name: "with whenBusy refuse nothing happens to a busy run",
    async check(harness) {
      const { runId, jobId, token } = await runWithClaim(harness);
      await harness.acquire(runLock(runId), 60_000);
      const before = await picture(harness, runId);
      const entry = resultOf(harness, { jobId, token });
      const busy = await deliver(harness, runId, entry, { whenBusy: "refuse" });
      assertOutcome(busy, { kind: "run_busy", instance: "host:1" });
      assert.deepEqual(await picture(harness, runId), before);
    },
  },
  {
    name: "with whenBusy refuse a free run takes the entry, and a repeat of it is recognised when the run is busy",
    async check(harness) {
      const { runId, jobId, token } = await runWithClaim(harness);
      const entry = resultOf(harness, { jobId, token });
      await deliverAndOwn(harness, runId, entry, { whenBusy: "refuse" });
      assertHandedOver(await deliver(harness, runId, entry, { whenBusy: "refuse" }));
    },
  },
  {
    name: "a delivery repeated after its entry was applied belongs to nobody any more",
    async check(harness) {
      const { runId, jobId, token } = await runWithClaim(harness);
      const request = deliveryOf(harness, runId, resultOf(harness, { jobId, token }));
      const { run } = only(await harness.store.deliver(request, call), "delivered");
      const guard = guardOf(runId, only(run, "owned"), request.take);
      only(await commit(harness, runId, guard, { consumed: 1 }), "committed");
      const again = only(await harness.store.deliver(request, call), "delivered");
      assert.deepEqual(again.run, { kind: "handed_over" });
      assertOutcome(await takeRun(harness, runId), { kind: "empty" });
    },
  },
  {
    name: "a job is reported once: another report of the same claim is a duplicate",
    async check(harness) {
      const { runId, jobId, token } = await runWithClaim(harness);
      await deliverAndOwn(harness, runId, resultOf(harness, { jobId, token }));
      const other = resultOf(harness, { jobId, token }, { outcome: "failed" });
      assert.equal(await refusal(deliver(harness, runId, other)), "duplicate");
    },
  },
  {
    name: "results of unknown jobs, other claims and other runs are refused without effect",
    async check(harness) {
      const { runId, jobId, token } = await runWithClaim(harness);
      const stranger = await runWithClaim(harness);
      const before = await picture(harness, runId);
      const unknown = `${runId}:none@1` as typeof jobId;
      const wrong = [
        resultOf(harness, { jobId: unknown, token }),
        resultOf(harness, { jobId, token: harness.claim().token }),
        resultOf(harness, { jobId: stranger.jobId, token: stranger.token }),
      ];
      for (const entry of wrong) assert.equal(await refusal(deliver(harness, runId, entry)), "stale_claim");
      assert.deepEqual(await picture(harness, runId), before);
      assert.equal(await jobState(harness, stranger.jobId), "claimed");
    },
  },
  {
    name: "an entry for a run that does not exist, or by a revoked key, is refused without effect",
    async check(harness) {
      const { runId, jobId, token } = await runWithClaim(harness);
      const missing = await refusal(deliver(harness, harness.runId(), cancelOf(harness)));
      assert.equal(missing, "run_not_found");
      await harness.set({ revokedKeyIds: ["key_1", "key_2"] });
      const before = await picture(harness, runId);
      const entry = resultOf(harness, { jobId, token });
      const revoked = await refusal(deliver(harness, runId, entry, { credential: "key_2" }));
      assert.equal(revoked, "unauthenticated");
      assert.deepEqual(await picture(harness, runId), before);
      only(await deliver(harness, runId, entry, { credential: "key_3" }), "delivered");
    },
  },
  {
    name: "a run is cancelled once: the request is noted with it, and another one is refused",
    async check(harness) {
      const runId = await harness.admit();
      const cancel = cancelOf(harness);
      const owned = await deliverAndOwn(harness, runId, cancel);
      assert.deepEqual(owned.entries, [cancel]);
      assert.equal(owned.header.cancelRequested, cancel.entryId);
      assert.equal(await refusal(deliver(harness, runId, cancelOf(harness))), "already_cancelling");
      only(await deliver(harness, runId, cancel), "delivered");
      const rows = await harness.store.readEvents({ tenant: harness.tenant, after: 1, limit: 9 }, call);
      const [row, ...more] = only(rows, "events").events;
      assert.deepEqual(more, []);
      const { type, subject, actor, detail } = row as NonNullable<typeof row>;
      assert.deepEqual([type, subject, actor, detail], ["cancel_requested", runId, "carol", "not needed"]);
    },
  },
  {
    name: "a cancel repeated after the run ended is recognised, and a new one is refused",
    async check(harness) {
      const runId = await harness.admit();
      const cancel = cancelOf(harness);
      const { guard } = await deliverAndOwn(harness, runId, cancel);
      only(
        await commit(harness, runId, guard, { consumed: 1, change: { status: "cancelled" } }),
        "committed",
      );
      only(await deliver(harness, runId, cancel), "delivered");
      assert.equal(await refusal(deliver(harness, runId, cancelOf(harness))), "run_ended");
    },
  },
  {
    name: "a run that leaves its start to an entry is taken with it",
    async check(harness) {
      const run = harness.newRun({ start: "inbox" });
      await harness.admit(run);
      await harness.admit(run);
      const taken = only(await takeRun(harness, run.runId, harness.take(), ["input/run"]), "owned");
      assert.deepEqual(taken.entries, [{ kind: "started", entryId: run.runId }]);
      assert.deepEqual(taken.records, [{ key: "input/run", body: "{}" }]);
    },
  },
  {
    name: "a run is taken once, when something waits: a repeat gives the same grant, others are handed over",
    async check(harness) {
      assertOutcome(await takeRun(harness, harness.runId()), { kind: "not_found" });
      const runId = await harness.admit();
      assertOutcome(await takeRun(harness, runId), { kind: "empty" });
      const started = await harness.admit(harness.newRun({ start: "inbox" }));
      const take = harness.take();
      const first = only(await takeRun(harness, started, take), "owned");
      const again = only(await takeRun(harness, started, take), "owned");
      assert.deepEqual({ ...again, storeTimeMs: 0 }, { ...first, storeTimeMs: 0 });
      assertOutcome(await takeRun(harness, started), { kind: "handed_over" });
    },
  },
  {
    name: "a run whose owner was silent for its ttl is taken by the next, with what waits",
    async check(harness) {
      const runId = await harness.admit(harness.newRun({ start: "inbox" }));
      const first = only(await takeRun(harness, runId, harness.take(20)), "owned");
      await harness.untilFree(runLock(runId));
      const second = only(await takeRun(harness, runId), "owned");
      assert.ok(second.fence > first.fence);
      assert.deepEqual(second.entries, first.entries);
    },
  },
  {
    name: "one owner gets at most 128 entries, in their order, and the others when it commits",
    async check(harness) {
      const timerIds = Array.from({ length: 130 }, (_, index) => `t${String(index).padStart(3, "0")}`);
      const timers = timerIds.map((timerId) => ({ timerId, dueAtMs: 1 }));
      const runId = await harness.admit(harness.newRun({ change: { timers } }));
      const guard = await harness.acquire(runLock(runId), 60_000);
      for (const timerId of timerIds) only(await deliver(harness, runId, timerOf(timerId)), "delivered");
      await harness.release(guard);
      const take = harness.take();
      const owned = only(await takeRun(harness, runId, take), "owned");
      const ids = (entries: ReadonlyArray<{ entryId: string }>) => entries.map(({ entryId }) => entryId);
      const all = timerIds.map((timerId) => `timer:${timerId}`);
      assert.deepEqual(ids(owned.entries), all.slice(0, 128));
      const next = await commit(harness, runId, guardOf(runId, owned, take), { consumed: 127 });
      assert.deepEqual(ids(only(next, "committed").entries), all.slice(127));
    },
  },
  {
    name: "an empty token is refused: lock token required",
    async check(harness) {
      const runId = await harness.admit();
      const take = { ...harness.take(), token: "" as LockToken };
      await assert.rejects(deliver(harness, runId, cancelOf(harness), { take }), /lock token required/);
      await assert.rejects(takeRun(harness, runId, take), /lock token required/);
      const guard = { ...(await harness.acquire(runLock(runId), 60_000)), token: take.token };
      await assert.rejects(
        harness.store.commit(commitOf(harness, runId, guard), call),
        /lock token required/,
      );
    },
  },
];

/** Takes the run and gives up without a commit. */
async function failToApply(harness: Harness, runId: RunId) {
  const take = harness.take();
  const taken = await harness.store.takeRun({ tenant: harness.tenant, runId, take, records: [] }, call);
  const owned = only(taken, "owned");
  await harness.release({ lock: runLock(runId), token: take.token });
  return owned.entries.map(({ kind }) => kind);
}

async function deadLetters(harness: Harness) {
  const request = { tenant: harness.tenant, collection: "deadLetter", after: "", limit: 10 } as const;
  return only(await harness.store.listDocuments(request, call), "listed").documents;
}

/** For a store that sets entries aside after 100 ms. */
export const slowOwnerCases: readonly ConformanceCase[] = [
  {
    name: "owners that take an entry in vain are not blamed before the time is over, however many they are",
    async check(harness) {
      const begunMs = await harness.now();
      const runId = await harness.admit(harness.newRun({ start: "inbox" }));
      let owners = 0;
      let kinds: readonly string[] = ["started"];
      while (kinds[0] === "started") {
        kinds = await failToApply(harness, runId);
        owners += 1;
      }
      assert.ok((await harness.now()) - begunMs >= 100, `set aside after ${owners} owners`);
      assert.ok(owners > 5);
      assert.equal((await deadLetters(harness)).length, 1);
      only(
        await harness.store.takeRun(
          { tenant: harness.tenant, runId, take: harness.take(), records: [] },
          call,
        ),
        "owned",
      );
    },
  },
  {
    name: "after a commit the time begins again with the first owner",
    async check(harness) {
      const runId = await harness.admit(harness.newRun({ start: "inbox" }));
      await failToApply(harness, runId);
      const owned = await deliverAndOwn(harness, runId, cancelOf(harness));
      only(await commit(harness, runId, owned.guard, { consumed: 1 }), "committed");
      await harness.release(owned.guard);
      await harness.untilAfter((await harness.now()) + 100);
      const begunMs = await harness.now();
      for (let owner = 1; owner <= 6; owner += 1) {
        const kinds = await failToApply(harness, runId);
        const isOver = (await harness.now()) - begunMs >= 100;
        assert.ok(isOver || kinds[0] === "cancel", `owner ${owner}`);
      }
    },
  },
];

export const poisonCases: readonly ConformanceCase[] = [
  {
    name: "after five owners in a row without a commit the sixth finds the head entry set aside",
    async check(harness) {
      const runId = await harness.admit(harness.newRun({ start: "inbox" }));
      const guard = await harness.acquire(runLock(runId), 60_000);
      only(await deliver(harness, runId, cancelOf(harness)), "delivered");
      await harness.release(guard);
      for (let owner = 1; owner <= 5; owner += 1) {
        assert.deepEqual(await failToApply(harness, runId), ["started", "cancel"], `owner ${owner}`);
        assert.deepEqual(await deadLetters(harness), []);
      }
      const take = harness.take();
      const taken = await harness.store.takeRun({ tenant: harness.tenant, runId, take, records: [] }, call);
      const owned = only(taken, "owned");
      const [head, second] = owned.entries;
      const was = JSON.stringify({ kind: "started", entryId: runId });
      assert.deepEqual(head, { kind: "poisoned", entryId: runId, was });
      assert.equal(second?.kind, "cancel");
      const [letter, ...more] = await deadLetters(harness);
      assert.deepEqual(more, []);
      const { savedAtMs: _at, ...rest } = letter as NonNullable<typeof letter>;
      const body = `{"reason":"poisoned_entry","run_id":"${runId}","entry":${was}}`;
      assert.deepEqual(rest, { id: `${runId}:${runId}`, body, revision: 1 });
      only(await commit(harness, runId, guardOf(runId, owned, take), { consumed: 2 }), "committed");
    },
  },
  {
    name: "an entry set aside stays so, and the count begins again",
    async check(harness) {
      const runId = await harness.admit(harness.newRun({ start: "inbox" }));
      for (let owner = 1; owner <= 5; owner += 1) await failToApply(harness, runId);
      for (let owner = 1; owner <= 7; owner += 1)
        assert.deepEqual(await failToApply(harness, runId), ["poisoned"]);
      assert.equal((await deadLetters(harness)).length, 1);
      assert.equal((await deadLetters(harness))[0]?.revision, 1);
    },
  },
  {
    name: "an entry is set aside when another one is delivered, too",
    async check(harness) {
      const runId = await harness.admit(harness.newRun({ start: "inbox" }));
      for (let owner = 1; owner <= 5; owner += 1) await failToApply(harness, runId);
      const owned = await deliverAndOwn(harness, runId, cancelOf(harness));
      assert.deepEqual(
        owned.entries.map(({ kind }) => kind),
        ["poisoned", "cancel"],
      );
    },
  },
  {
    name: "a commit forgives the owners before it",
    async check(harness) {
      const runId = await harness.admit(harness.newRun({ start: "inbox" }));
      for (let owner = 1; owner <= 4; owner += 1) await failToApply(harness, runId);
      const owned = await deliverAndOwn(harness, runId, cancelOf(harness));
      const { entries } = only(await commit(harness, runId, owned.guard, { consumed: 1 }), "committed");
      assert.deepEqual(
        entries.map(({ kind }) => kind),
        ["cancel"],
      );
      await harness.release(owned.guard);
      for (let owner = 1; owner <= 5; owner += 1)
        assert.deepEqual(await failToApply(harness, runId), ["cancel"]);
      assert.deepEqual(await failToApply(harness, runId), ["poisoned"]);
    },
  },
];
