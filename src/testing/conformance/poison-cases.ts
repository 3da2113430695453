// What every store must do when owner after owner fails: the head entry is set aside, so that the run goes on.
import assert from "node:assert/strict";
import type { RunId } from "../../domain/run.ts";
import { type ConformanceCase, call, type Harness, only } from "./harness.ts";
import { cancelOf, commit, deliver, deliverAndOwn, guardOf, runLock } from "./run-steps.ts";

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
