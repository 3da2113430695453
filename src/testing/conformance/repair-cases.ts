// What every store must do when what was repaired has to be repaired again: letters in turn, retries in vain, children opened twice.
import assert from "node:assert/strict";
import type { InboxEntry } from "../../domain/inbox.ts";
import type { JobId } from "../../domain/job.ts";
import type { Guard } from "../../domain/lock.ts";
import type { RunId, TerminalStatus } from "../../domain/run.ts";
import { type ConformanceCase, call, type Harness, only } from "./harness.ts";
import { endedRun, letterOf, letterRevision } from "./retry-cases.ts";
import {
  activeRuns,
  applyAll,
  cancelOf,
  commit,
  deliver,
  deliverAndOwn,
  family,
  headerOf,
  jobOf,
  jobState,
  refusal,
  resultOf,
  retryOf,
  runLock,
  runWithClaim,
  take,
} from "./run-steps.ts";

/** The owner applies so many entries, and the run ends with that. */
async function end(
  harness: Harness,
  { runId, guard }: { readonly runId: RunId; readonly guard: Guard },
  consumed: number,
  status: TerminalStatus = "failed",
): Promise<void> {
  const { version } = await headerOf(harness, runId);
  const options = { consumed, expectedVersion: version, change: { status } };
  only(await commit(harness, runId, guard, options), "committed");
}

async function entriesFor({ store, tenant }: Harness, runId: RunId, token: Guard["token"]) {
  const terms = { token, instance: "host:1", ttlMs: 60_000 };
  return only(await store.takeRun({ tenant, runId, take: terms, records: [] }, call), "owned").entries;
}

/** Takes the run and gives up without a commit. */
async function failToApply(harness: Harness, runId: RunId): Promise<readonly InboxEntry[]> {
  const token = harness.token();
  const entries = await entriesFor(harness, runId, token);
  await harness.release({ lock: runLock(runId), token });
  return entries;
}

async function letterIds({ store, tenant }: Harness): Promise<readonly string[]> {
  const asked = { tenant, collection: "deadLetter", after: "", limit: 20 } as const;
  return only(await store.listDocuments(asked, call), "listed").documents.map(({ id }) => id);
}

/** The reservation, the slot and the retention follow every opening and every end. */
const inTurn: ConformanceCase = {
  name: "three letters are retried in turn: each opens the run that failed again, and keeps its own state",
  async check(harness) {
    const { runId } = await endedRun(harness);
    const letters = ["first", "second", "third"];
    for (const id of letters) {
      const { body } = letterOf(id);
      const letter = { id, body, collection: "deadLetter", tenant: harness.tenant } as const;
      only(await harness.store.putDocument({ ...letter, changeId: id, actor: "bus" }, call), "saved");
    }
    const { jobId } = jobOf(runId);
    for (const [index, letterId] of ["second", "third", "first"].entries()) {
      const owned = await deliverAndOwn(harness, runId, retryOf(harness, jobId, { letterId }));
      assert.deepEqual([owned.header.status, owned.header.version], ["running", 2 + index]);
      assert.equal(owned.entries.length, 1);
      assert.deepEqual(await activeRuns(harness), [runId]);
      await end(harness, { runId, guard: owned.guard }, 1);
      assert.deepEqual(await activeRuns(harness), []);
      const other = await deliver(harness, runId, retryOf(harness, jobId, { letterId }));
      assert.deepEqual(only(other, "delivered").run, { kind: "handed_over" });
      assert.equal((await headerOf(harness, runId)).status, "failed");
    }
    assert.deepEqual(await Promise.all(letters.map((id) => letterRevision(harness, id))), [2, 2, 2]);
  },
};

const givenBackAgain: ConformanceCase = {
  name: "a letter that was given back is retried, given back and retried again, and only the last retry counts",
  async check(harness) {
    const { runId, jobId } = await endedRun(harness);
    for (let times = 1; times <= 3; times += 1) {
      const { guard, entries } = await deliverAndOwn(harness, runId, retryOf(harness, jobId));
      assert.deepEqual([entries.length, await letterRevision(harness, jobId)], [1, 2]);
      await end(harness, { runId, guard }, 0, times === 2 ? "timed_out" : "failed");
      assert.equal(await letterRevision(harness, jobId), 1);
    }
    const last = await deliverAndOwn(harness, runId, retryOf(harness, jobId));
    await end(harness, { runId, guard: last.guard }, 1, "succeeded");
    assert.equal(await letterRevision(harness, jobId), 2);
    assert.equal((await take(harness, runId)).kind, "empty");
  },
};

const inVainTwice: ConformanceCase = {
  name: "a retry that five owners take in vain is set aside, and so is the retry of the letter about that",
  async check(harness) {
    const { runId, jobId } = await endedRun(harness);
    let letterId: string = jobId;
    for (let times = 1; times <= 2; times += 1) {
      const retry = retryOf(harness, jobId, { letterId, entryId: `retry:${letterId}` });
      const first = await deliverAndOwn(harness, runId, retry);
      await harness.release(first.guard);
      for (let owner = 2; owner <= 5; owner += 1) {
        assert.deepEqual(
          (await failToApply(harness, runId)).map(({ kind }) => kind),
          ["retry"],
          `time ${times}, owner ${owner}`,
        );
      }
      const token = harness.token();
      const [head] = await entriesFor(harness, runId, token);
      const was = JSON.stringify({ kind: "retry", entryId: retry.entryId, jobId, actor: "dora" });
      assert.deepEqual(head, { kind: "poisoned", entryId: retry.entryId, was });
      const { fence } = only(
        await harness.store.inspectLock({ tenant: harness.tenant, lock: runLock(runId) }, call),
        "held",
      );
      const guard = { lock: runLock(runId), token, fence, policy: "fence", ttlMs: 60_000 } as const;
      await end(harness, { runId, guard }, 1);
      const ids = await letterIds(harness);
      assert.ok(ids.includes(`${runId}:${retry.entryId}`), ids.join());
      assert.equal(ids.length, 1 + times);
      letterId = `${runId}:${retry.entryId}`;
    }
    assert.deepEqual(await activeRuns(harness), []);
  },
};

const childTwice: ConformanceCase = {
  name: "a child run is opened twice: each end tells the parent, each retry waits in it, and the slot stays the root's",
  async check(harness) {
    const { parent, child } = await family(harness);
    const { jobId } = jobOf(child);
    const letters = [jobId, jobOf(child, { attempt: 2 }).jobId] as const;
    await applyAll(harness, child, { status: "failed", deadLetters: letters.map(letterOf) });
    const kinds: string[] = [];
    for (const letterId of letters) {
      // What the end has told must be applied first, then the parent fails with it.
      const waiting = await failToApply(harness, parent);
      kinds.push(...waiting.map(({ kind }) => kind));
      await applyAll(harness, parent, { status: "failed" });
      assert.deepEqual(await activeRuns(harness), []);
      const owned = await deliverAndOwn(harness, child, retryOf(harness, jobId, { letterId }));
      assert.equal(owned.header.status, "running");
      assert.deepEqual(await activeRuns(harness), [parent]);
      const [entry, ...more] = await failToApply(harness, parent);
      assert.deepEqual([entry?.kind, more.length], ["retry", 0]);
      kinds.push("retry");
      await applyAll(harness, parent, { status: "waiting" });
      await end(harness, { runId: child, guard: owned.guard }, 1);
    }
    assert.deepEqual(kinds, ["child_ended", "retry", "child_ended", "retry"]);
    assert.deepEqual(
      (await failToApply(harness, parent)).map(({ kind }) => kind),
      ["child_ended"],
    );
  },
};

const cancelledAbove: ConformanceCase = {
  name: "a child's retry that is under way ends with the cancel of the run above, and gives its letter back",
  async check(harness) {
    const { parent, child } = await family(harness);
    const { jobId } = jobOf(child);
    await applyAll(harness, child, { status: "failed", deadLetters: [letterOf(jobId)] });
    await applyAll(harness, parent, { status: "failed" });
    const opened = await deliverAndOwn(harness, child, retryOf(harness, jobId));
    await applyAll(harness, parent, {});
    const cancel = await deliverAndOwn(harness, parent, cancelOf(harness));
    const { version } = await headerOf(harness, parent);
    const change = { status: "cancelled", cancelChildren: [child] } as const;
    const told = { consumed: 1, expectedVersion: version, change };
    only(await commit(harness, parent, cancel.guard, told), "committed");
    const waiting = { consumed: 0, expectedVersion: opened.header.version, change: {} };
    const next = only(await commit(harness, child, opened.guard, waiting), "committed");
    assert.deepEqual(
      next.entries.map(({ kind }) => kind),
      ["retry", "cancel"],
    );
    await end(harness, { runId: child, guard: opened.guard }, 0, "cancelled");
    assert.equal(await letterRevision(harness, jobId), 1);
    const refused = await refusal(deliver(harness, child, retryOf(harness, jobId)));
    assert.equal(refused, "dead_letter_not_retryable");
    assert.deepEqual(await activeRuns(harness), []);
  },
};

const olderAttempt: ConformanceCase = {
  name: "a result of the first attempt is refused while the second runs, whatever retries and cancels wait beside it",
  async check(harness) {
    const { runId, jobId, token } = await runWithClaim(harness, 60_000, { deadLetters: [letterOf("one")] });
    const guard = await harness.acquire(runLock(runId), 60_000);
    const terms = harness.claim();
    const second = jobOf(runId, { attempt: 2, claim: terms });
    const change = { voidJobs: [jobId], jobs: [second] };
    only(await commit(harness, runId, guard, { change }), "committed");
    const owner = await harness.acquire(runLock(runId), 60_000);
    only(await deliver(harness, runId, retryOf(harness, jobId, { letterId: "one" })), "delivered");
    assert.equal(await refusal(deliver(harness, runId, resultOf(harness, { jobId, token }))), "stale_claim");
    const crossed = resultOf(harness, { jobId: second.jobId, token });
    assert.equal(await refusal(deliver(harness, runId, crossed)), "stale_claim");
    const right = resultOf(harness, { jobId: second.jobId as JobId, token: terms.token });
    only(await deliver(harness, runId, right), "delivered");
    assert.deepEqual(
      [await jobState(harness, jobId), await jobState(harness, second.jobId)],
      ["voided", "reported"],
    );
    const { version } = await headerOf(harness, runId);
    const { entries } = only(await commit(harness, runId, owner, { expectedVersion: version }), "committed");
    assert.deepEqual(
      entries.map(({ kind }) => kind),
      ["retry", "result"],
    );
  },
};

export const repairCases: readonly ConformanceCase[] = [
  inTurn,
  givenBackAgain,
  inVainTwice,
  childTwice,
  cancelledAbove,
  olderAttempt,
];
