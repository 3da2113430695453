// What every store must do with retries that wait (one that a run's end discards gives its letter back, one that was applied does
// not), and with those of child runs, which open the runs above them.
import assert from "node:assert/strict";
import { retriesWaitingMax } from "../../domain/inbox.ts";
import type { JobId } from "../../domain/job.ts";
import type { Guard } from "../../domain/lock.ts";
import type { RunId, TerminalStatus } from "../../domain/run.ts";
import { assertOutcome, type ConformanceCase, call, type Harness, only } from "./harness.ts";
import { endedRun, letterOf, letterRevision, openRun } from "./retry-cases.ts";
import {
  activeRuns,
  applyAll,
  cancelOf,
  childOf,
  commit,
  commitOf,
  deliver,
  deliverAndOwn,
  deliveryOf,
  family,
  guardOf,
  headerOf,
  jobOf,
  picture,
  refusal,
  resultOf,
  retryOf,
  runLock,
  runWithClaim,
  take,
} from "./run-steps.ts";

/** Texts that a store could take for more than one, or for none. */
const oddLetters = ["a letter", "2 1 a\n1 1 b", "é 💥"] as const;

type Owned = { readonly runId: RunId; readonly jobId: JobId; readonly guard: Guard };

/** A run at version 1 with these letters, whose owner has the result of a job to apply. */
async function busyRun(harness: Harness, letters: readonly string[]): Promise<Owned> {
  const deadLetters = letters.map(letterOf);
  const { runId, ...job } = await runWithClaim(harness, 60_000, { deadLetters });
  const { guard } = await deliverAndOwn(harness, runId, resultOf(harness, job));
  return { runId, jobId: job.jobId, guard };
}

async function handOver(harness: Harness, { runId, jobId }: Owned, letterId: string): Promise<void> {
  const answer = await deliver(harness, runId, retryOf(harness, jobId, { letterId }));
  assert.equal(only(answer, "delivered").run.kind, "handed_over");
  assert.equal(await letterRevision(harness, letterId), 2);
}

/** The owner's next commit applies so many entries; gives the kinds of those that are left. */
async function goOn(harness: Harness, { runId, guard }: Owned, consumed: number): Promise<readonly string[]> {
  const { version } = await headerOf(harness, runId);
  const answer = await commit(harness, runId, guard, { consumed, expectedVersion: version });
  return only(answer, "committed").entries.map(({ kind }) => kind);
}

/** The same for the last one, which leaves nothing to apply. */
async function end(
  harness: Harness,
  { runId, guard }: Owned,
  consumed: number,
  status: TerminalStatus = "failed",
): Promise<void> {
  const { version } = await headerOf(harness, runId);
  const answer = await commit(harness, runId, guard, {
    consumed,
    expectedVersion: version,
    change: { status },
  });
  assert.deepEqual(only(answer, "committed").entries, []);
}

async function revisions(harness: Harness, letters: readonly string[]): Promise<readonly number[]> {
  return Promise.all(letters.map((id) => letterRevision(harness, id)));
}

export const waitingRetryCases: readonly ConformanceCase[] = [
  {
    name: "a retry that waits when an earlier entry ends the run gives its letter back: the next retry opens the run",
    async check(harness) {
      const { store, tenant } = harness;
      const run = await busyRun(harness, oddLetters);
      const { runId, jobId } = run;
      const letters = async () => {
        const asked = { tenant, collection: "deadLetter", after: "", limit: 9 } as const;
        return only(await store.listDocuments(asked, call), "listed").documents;
      };
      const before = await letters();
      const header = await headerOf(harness, runId);
      for (const letterId of oddLetters) await handOver(harness, run, letterId);
      assert.deepEqual(await headerOf(harness, runId), header);
      await harness.untilAfter(await harness.now());
      await end(harness, run, 1);
      assert.deepEqual(await letters(), before);
      assert.deepEqual(await activeRuns(harness), []);
      const again = retryOf(harness, jobId, { letterId: oddLetters[1] });
      const opened = await deliverAndOwn(harness, runId, again);
      assert.deepEqual([opened.header.status, opened.header.version], ["running", 2]);
      assert.deepEqual(
        opened.entries.map(({ entryId }) => entryId),
        [again.entryId],
      );
      assert.deepEqual(await revisions(harness, oddLetters), [1, 2, 1]);
      assert.deepEqual(await activeRuns(harness), [runId]);
    },
  },
  {
    name: "a retry that was applied keeps its letter, by whichever commit, and whatever the end discards after it",
    async check(harness) {
      const run = await busyRun(harness, ["first", "second", "third"]);
      await handOver(harness, run, "first");
      await handOver(harness, run, "second");
      assert.deepEqual(await goOn(harness, run, 2), ["retry"]);
      await handOver(harness, run, "third");
      assert.deepEqual(await goOn(harness, run, 0), ["retry", "retry"]);
      await end(harness, run, 1);
      assert.deepEqual(await revisions(harness, ["first", "second", "third"]), [2, 2, 1]);
    },
  },
  {
    name: "once all is applied nothing is given back: a later end discards other entries only",
    async check(harness) {
      const run = await busyRun(harness, ["letter"]);
      await handOver(harness, run, "letter");
      assert.deepEqual(await goOn(harness, run, 2), []);
      const { guard } = await deliverAndOwn(harness, run.runId, cancelOf(harness));
      await end(harness, { ...run, guard }, 0);
      assert.equal(await letterRevision(harness, "letter"), 2);
    },
  },
  {
    name: "the retry that opened a run again waits like any other",
    async check(harness) {
      const { runId, jobId } = await endedRun(harness);
      const { guard } = await deliverAndOwn(harness, runId, retryOf(harness, jobId));
      await end(harness, { runId, jobId, guard }, 0, "timed_out");
      assert.equal(await letterRevision(harness, jobId), 1);
      const again = await deliverAndOwn(harness, runId, retryOf(harness, jobId));
      await end(harness, { runId, jobId, guard: again.guard }, 1);
      assert.equal(await letterRevision(harness, jobId), 2);
    },
  },
  {
    name: "letters are given back also where the run cannot be opened again: cancelled, or a child",
    async check(harness) {
      const cancelled = await openRun(harness);
      const { guard } = await deliverAndOwn(harness, cancelled.runId, cancelOf(harness));
      await handOver(harness, { ...cancelled, guard }, cancelled.jobId);
      await end(harness, { ...cancelled, guard }, 1, "cancelled");
      assert.equal(await letterRevision(harness, cancelled.jobId), 1);
      const { child } = await family(harness);
      const { jobId } = jobOf(child);
      await applyAll(harness, child, { deadLetters: [letterOf(jobId)] });
      const owned = await deliverAndOwn(harness, child, retryOf(harness, jobId));
      await end(harness, { runId: child, jobId, guard: owned.guard }, 0);
      assert.equal(await letterRevision(harness, jobId), 1);
    },
  },
  {
    name: "a letter that is gone stays gone, and one that the last commit writes anew is the new one",
    async check(harness) {
      const { store, tenant } = harness;
      const run = await busyRun(harness, ["gone", "anew"]);
      const { runId, guard } = run;
      await handOver(harness, run, "gone");
      await handOver(harness, run, "anew");
      const gone = { tenant, collection: "deadLetter", id: "gone" } as const;
      only(await store.removeDocument({ ...gone, actor: "tester" }, call), "removed");
      await harness.untilAfter(await harness.now());
      const letter = { id: "anew", reason: "claims_lost", body: "{}" } as const;
      const change = { status: "failed", deadLetters: [letter] } as const;
      only(await commit(harness, runId, guard, { consumed: 1, change }), "committed");
      assertOutcome(await store.getDocument(gone, call), { kind: "not_found" });
      const asked = { tenant, collection: "deadLetter", id: "anew" } as const;
      const { document } = only(await store.getDocument(asked, call), "document");
      assert.deepEqual([document.body, document.revision], ["{}", 1]);
      assert.equal(document.savedAtMs, (await headerOf(harness, runId)).endedAtMs);
    },
  },
  {
    name: "repeats after a lost reply change nothing: of the retry while it waits, and of the end when the letter was retried anew",
    async check(harness) {
      const run = await busyRun(harness, ["letter"]);
      const { runId, jobId, guard } = run;
      const retry = deliveryOf(harness, runId, retryOf(harness, jobId, { letterId: "letter" }));
      for (let times = 0; times < 2; times += 1) {
        const { run: answer } = only(await harness.store.deliver(retry, call), "delivered");
        assert.equal(answer.kind, "handed_over");
      }
      const last = commitOf(harness, runId, guard, { consumed: 1, change: { status: "failed" } });
      only(await harness.store.commit(last, call), "committed");
      const ended = await picture(harness, runId);
      only(await harness.store.commit(last, call), "committed");
      assert.deepEqual(await picture(harness, runId), ended);
      // What had no effect in the end is not taken for done: the same request opens the run now.
      only(only(await harness.store.deliver(retry, call), "delivered").run, "owned");
      const reopened = await picture(harness, runId);
      only(await harness.store.commit(last, call), "committed");
      only(only(await harness.store.deliver(retry, call), "delivered").run, "owned");
      assert.deepEqual(await picture(harness, runId), reopened);
      assert.equal(await letterRevision(harness, "letter"), 2);
    },
  },
  {
    name: "so many retries wait and no more: one too many finds the run busy, with or without an owner, and is accepted later",
    async check(harness) {
      const letters = Array.from({ length: retriesWaitingMax + 1 }, (_, index) => `letter ${index}`);
      const last = letters.at(-1) as string;
      const run = await busyRun(harness, letters);
      const { runId, jobId, guard } = run;
      for (const letterId of letters.slice(0, -1)) await handOver(harness, run, letterId);
      const retry = retryOf(harness, jobId, { letterId: last });
      const before = await picture(harness, runId);
      assert.equal(only(await deliver(harness, runId, retry), "run_busy").instance, "host:1");
      assert.deepEqual(await picture(harness, runId), before);
      const repeat = await deliver(harness, runId, retryOf(harness, jobId, { letterId: "letter 0" }));
      assert.equal(only(repeat, "delivered").run.kind, "handed_over");
      await harness.release(guard);
      const busy = await deliver(harness, runId, retry);
      assertOutcome(busy, { kind: "run_busy", instance: "" });
      const terms = harness.take();
      const taking = { tenant: harness.tenant, runId, take: terms, records: [] };
      const owned = only(await harness.store.takeRun(taking, call), "owned");
      const next = { ...run, guard: guardOf(runId, owned, terms) };
      assert.equal((await goOn(harness, next, 2)).length, retriesWaitingMax - 1);
      await handOver(harness, next, last);
      await end(harness, next, 0);
      const given = letters.map((_, index) => (index === 0 ? 2 : 1));
      assert.deepEqual(await revisions(harness, letters), given);
    },
  },
];

/** A root, its child and the child of that, with the letter of the last one, which has failed. */
async function failedTree(harness: Harness) {
  const { parent: root, child } = await family(harness, { step: "call it", attempt: 3 });
  const below = childOf(harness, { step: "deeper", attempt: 2 });
  await applyAll(harness, child, { children: [below] });
  const grandchild = below.runId;
  const { jobId } = jobOf(grandchild);
  await harness.commit(grandchild, { status: "failed", deadLetters: [letterOf(jobId)] });
  return { root, child, grandchild, jobId };
}

/** What waits in the inbox of a run that nobody owns. */
async function waitingIn(harness: Harness, runId: RunId) {
  return only(await take(harness, runId), "owned").entries;
}

export const treeRetryCases: readonly ConformanceCase[] = [
  {
    name: "the retry of a child's letter opens all runs above it that ended, and each waits for the one below",
    async check(harness) {
      const { store, tenant } = harness;
      const { root, child, grandchild, jobId } = await failedTree(harness);
      await applyAll(harness, child, { status: "timed_out" });
      await applyAll(harness, root, { status: "failed" });
      const { events } = only(await store.readEvents({ tenant, after: 0, limit: 99 }, call), "events");
      const retry = retryOf(harness, jobId, { entryId: 'retry "it"\n', actor: 'dora "d"' });
      const { entryId, actor } = retry;
      const request = deliveryOf(harness, grandchild, retry);
      const owned = only(only(await store.deliver(request, call), "delivered").run, "owned");
      assert.deepEqual(owned.entries, [{ kind: "retry", entryId, jobId, actor }]);
      const opened = [grandchild, child, root];
      for (const runId of opened) {
        const { status, endedAtMs } = await headerOf(harness, runId);
        assert.deepEqual([status, endedAtMs], ["running", undefined]);
      }
      assert.deepEqual(await activeRuns(harness), [root]);
      const read = await store.readEvents({ tenant, after: events.length, limit: 9 }, call);
      assert.deepEqual(
        only(read, "events").events.map(({ type, subject, detail }) => [type, subject, detail]),
        opened.map((runId) => ["run_reopened", runId, jobId]),
      );
      only(await store.deliver(request, call), "delivered");
      const waits = { kind: "retry", entryId, actor };
      const inChild = { ...waits, jobId: `${child}:deeper@2`, childRunId: grandchild };
      assert.deepEqual(await waitingIn(harness, child), [inChild]);
      const inRoot = { ...waits, jobId: `${root}:call it@3`, childRunId: child };
      assert.deepEqual(await waitingIn(harness, root), [inRoot]);
      assert.equal(await letterRevision(harness, jobId), 2);
    },
  },
  {
    name: "a run above that goes on is told of the retry; while it has something else to apply, nothing happens",
    async check(harness) {
      const { root, child, grandchild, jobId } = await failedTree(harness);
      const before = await picture(harness, grandchild);
      const retry = () => deliver(harness, grandchild, retryOf(harness, jobId));
      assert.equal(only(await retry(), "run_busy").instance, "");
      const guard = await harness.acquire(runLock(child), 60_000);
      const { version } = await headerOf(harness, child);
      assert.equal((await retry()).kind, "run_busy");
      assert.deepEqual(await picture(harness, grandchild), before);
      only(await commit(harness, child, guard, { consumed: 9, expectedVersion: version }), "committed");
      only(await retry(), "delivered");
      const [entry, ...more] = await waitingIn(harness, child);
      assert.deepEqual([entry?.kind, more.length], ["retry", 0]);
      assert.deepEqual(
        [(await headerOf(harness, child)).status, await activeRuns(harness)],
        ["running", [root]],
      );
    },
  },
  {
    name: "a child stays ended when a run above it succeeded, was cancelled or is gone, or its root finds no slot",
    async check(harness) {
      const { store, tenant } = harness;
      for (const status of ["succeeded", "denied", "cancelled"] as const) {
        const { root, child, grandchild, jobId } = await failedTree(harness);
        await applyAll(harness, child, { status: "failed" });
        await applyAll(harness, root, { status });
        const before = await picture(harness, grandchild);
        const refused = await refusal(deliver(harness, grandchild, retryOf(harness, jobId)));
        assert.equal(refused, "dead_letter_not_retryable", status);
        assert.deepEqual(await picture(harness, grandchild), before);
      }
      const { root, child, grandchild, jobId } = await failedTree(harness);
      await deliverAndOwn(harness, child, cancelOf(harness)).then(({ guard }) => harness.release(guard));
      const retry = () => refusal(deliver(harness, grandchild, retryOf(harness, jobId)));
      assert.equal(await retry(), "dead_letter_not_retryable");
      const other = await failedTree(harness);
      await applyAll(harness, other.child, { status: "failed" });
      await applyAll(harness, other.root, { status: "failed" });
      const again = () => refusal(deliver(harness, other.grandchild, retryOf(harness, other.jobId)));
      await harness.set({ maxConcurrentRuns: 1 });
      assert.deepEqual(await activeRuns(harness), [root]);
      assert.equal(await again(), "max_concurrent_runs_reached");
      await harness.set({ stopped: true });
      assert.equal(await again(), "tenant_stopped");
      await harness.set({ stopped: false });
      const removal = { tenant, runId: other.root, actor: "tester" };
      assertOutcome(await store.deleteRun(removal, call), { kind: "deleted" });
      assert.equal(await again(), "dead_letter_not_retryable");
      assert.equal(await letterRevision(harness, other.jobId), 1);
    },
  },
];
