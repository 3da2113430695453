// What every store must do when it is swept: nothing that waits, expires or is to be forgotten stays where it is.
import assert from "node:assert/strict";
import type { RunId } from "../../domain/run.ts";
import { assertOutcome, type ConformanceCase, call, key, only } from "./harness.ts";
import {
  beat,
  cancelOf,
  changeOf,
  claim,
  claimAll,
  commit,
  counts,
  deliver,
  deliverAndOwn,
  guardOf,
  inPool,
  jobOf,
  jobState,
  nothing,
  refusal,
  resultOf,
  runLock,
  runWith,
  runWithClaim,
  sweepOnce,
  sweepUntil,
  sweepUntilPast,
  sweepUntilRemoved,
  take,
  timerOf,
} from "./run-steps.ts";

/** For a store that is swept all the time and keeps nothing long: attention, retention and the rest take 30 ms. */
export const hastySweepCases: readonly ConformanceCase[] = [
  {
    name: "a run with entries that nobody applies is found by the sweep, again",
    async check(harness) {
      const { tenant } = harness;
      const runId = await harness.admit(harness.newRun({ start: "inbox" }));
      const { waiting } = await sweepUntil(harness, (sum) => sum.waiting.length >= 3);
      for (const each of waiting) assert.deepEqual(each, { tenant, runId });
    },
  },
  {
    name: "a run that is owned is not given to a second owner, and is found when its lock has expired",
    async check(harness) {
      const runId = await harness.admit(harness.newRun({ start: "inbox" }));
      const terms = harness.take(300);
      await harness.store.takeRun({ tenant: harness.tenant, runId, take: terms, records: [] }, call);
      const free = async () =>
        (await harness.store.inspectLock({ tenant: harness.tenant, lock: runLock(runId) }, call)).kind ===
        "free";
      let found = false;
      await harness.until(async () => {
        const answer = await sweepOnce(harness);
        found ||= answer.kind === "swept" && answer.waiting.length > 0;
        // Free when it was asked after the sweep: what the sweep said then proves nothing.
        if (found) assert.ok(await free(), "the sweep offered a run that was owned");
        return found;
      });
    },
  },
  {
    name: "a run whose entries were applied is left alone",
    async check(harness) {
      const runId = await harness.admit(harness.newRun({ start: "inbox" }));
      const { guard } = await deliverAndOwn(harness, runId, cancelOf(harness));
      const done = await commit(harness, runId, guard, { consumed: 2 });
      assert.deepEqual(only(done, "committed").entries, []);
      assert.deepEqual((await sweepUntilPast(harness, 70)).waiting, []);
    },
  },
  {
    name: "a claim that ran out is lost: the run hears of it, and the late worker's heartbeat and result are refused",
    async check(harness) {
      const { tenant } = harness;
      const { runId, jobId, token, worker } = await runWithClaim(harness, 20);
      const sum = await sweepUntil(harness, ({ lostClaims }) => lostClaims > 0);
      assert.equal(sum.lostClaims, 1);
      assert.deepEqual(sum.waiting[0], { tenant, runId });
      assert.equal(await jobState(harness, jobId), "lost");
      assert.deepEqual(await beat(harness, jobId, token), { kind: "lost", jobId });
      const late = resultOf(harness, { jobId, token });
      assert.equal(await refusal(deliver(harness, runId, late)), "stale_claim");
      const { entries } = only(await take(harness, runId), "owned");
      assert.deepEqual(entries, [{ kind: "claim_lost", entryId: `lost:${jobId}`, jobId, worker }]);
    },
  },
  {
    name: "a claim that is kept alive, reported or called off is not lost",
    async check(harness) {
      const kept = await runWithClaim(harness, 40);
      const reported = await runWithClaim(harness, 40);
      const voided = await runWithClaim(harness, 40);
      const proposal = {
        ...{ expectedVersion: 1, commitId: harness.id("commit") },
        change: changeOf(),
      };
      const result = resultOf(harness, reported);
      only(await deliver(harness, reported.runId, result, { proposal }), "applied");
      await harness.commit(voided.runId, { voidJobs: [voided.jobId] });
      only(await beat(harness, kept.jobId, kept.token, 60_000), "extended");
      // One that is lost after theirs would have been shows that the sweep went past them.
      await runWithClaim(harness, 40);
      const sum = await sweepUntil(harness, ({ lostClaims }) => lostClaims > 0);
      assert.equal(sum.lostClaims, 1);
      assert.equal(await jobState(harness, kept.jobId), "claimed");
      assert.equal(await jobState(harness, reported.jobId), "reported");
    },
  },
  {
    name: "a due timer becomes an entry and asks for an owner, and a cleared one never does",
    async check(harness) {
      const { tenant } = harness;
      const dueAtMs = (await harness.now()) + 20;
      const timers = ["a", "b", "c"].map((timerId) => ({ timerId, dueAtMs }));
      const runId = await harness.admit(harness.newRun({ change: { timers } }));
      await harness.commit(runId, { clearTimers: ["b"] });
      const { waiting } = await sweepUntil(harness, (sum) => sum.waiting.length > 0);
      assert.deepEqual(waiting, [{ tenant, runId }]);
      assert.equal(await refusal(deliver(harness, runId, timerOf("a"))), "timer_not_due");
      const { entries } = only(await take(harness, runId), "owned");
      assert.deepEqual(
        entries,
        ["a", "c"].map((timerId) => ({ kind: "timer", entryId: `timer:${timerId}`, timerId })),
      );
    },
  },
  {
    name: "a timer that fires while the run is owned waits for its owner's commit",
    async check(harness) {
      const timers = [{ timerId: "a", dueAtMs: 1 }];
      const runId = await harness.admit(harness.newRun({ start: "inbox", change: { timers } }));
      const terms = harness.take();
      const taken = await harness.store.takeRun(
        { tenant: harness.tenant, runId, take: terms, records: [] },
        call,
      );
      const guard = guardOf(runId, only(taken, "owned"), terms);
      const answer = only(await sweepOnce(harness), "swept");
      assert.deepEqual(answer.waiting, []);
      const next = only(await commit(harness, runId, guard, { consumed: 1 }), "committed");
      assert.deepEqual(
        next.entries.map(({ kind }) => kind),
        ["timer"],
      );
    },
  },
  {
    name: "timers and claims of a run that has ended change nothing",
    async check(harness) {
      const dueAtMs = (await harness.now()) + 10;
      const timers = [{ timerId: "a", dueAtMs }];
      const { runId, jobId } = await runWithClaim(harness, 10, { timers });
      await harness.end(runId);
      assert.deepEqual((await sweepUntilRemoved(harness, runId)).waiting, []);
      assert.equal(await jobState(harness, jobId), "not_found");
    },
  },
  {
    name: "a job that nobody claims is published again, each time after a longer wait, until somebody does",
    async check(harness) {
      const { tenant } = harness;
      const runId = harness.runId();
      const job = jobOf(runId, { requires: '{"labels":{}}' });
      await harness.admit(harness.newRun({ runId, change: { jobs: [job] } }));
      const { unclaimed } = await sweepUntil(harness, (sum) => sum.unclaimed.length >= 9);
      const read = async () =>
        only(await harness.store.getJob({ tenant, jobId: job.jobId }, call), "job").job;
      const { createdAtMs, republished } = await read();
      assert.ok(republished >= 9);
      const { jobId, topic, requires } = job;
      for (const each of unclaimed)
        assert.deepEqual(each, { tenant, job: { jobId, runId, topic, createdAtMs, requires } });
      // 20 + 40 + 7 * 60 ms: the wait doubles, up to the longest; without a longest it would be ten seconds.
      assert.ok((await harness.now()) - createdAtMs >= 480);
      const answer = only(await claim(harness, jobId), "claimed");
      assert.equal(answer.job.republished, (await read()).republished);
      const after = await sweepUntilPast(harness, 70);
      assert.deepEqual(after.unclaimed, []);
    },
  },
  {
    name: "a job that was called off is not published again",
    async check(harness) {
      const runId = harness.runId();
      const job = jobOf(runId);
      await harness.admit(harness.newRun({ runId, change: { jobs: [job] } }));
      await harness.commit(runId, { voidJobs: [job.jobId] });
      assert.deepEqual((await sweepUntilPast(harness, 70)).unclaimed, []);
    },
  },
  {
    name: "an ended run is removed after its retention, and its key still replays",
    async check(harness) {
      const { store, tenant } = harness;
      const { runId: other } = await runWithClaim(harness);
      const runId = await harness.admit(harness.newRun({ key: key("k") }));
      await harness.end(runId, "failed");
      await sweepUntilRemoved(harness, runId);
      const { runs } = only(await store.listRuns({ tenant, limit: 9 }, call), "listed");
      assert.deepEqual(
        runs.map((run) => run.runId),
        [other],
      );
      const replay = await store.admit({ tenant, run: harness.newRun({ key: key("k") }) }, call);
      assertOutcome(replay, { kind: "replayed", runId, status: "failed" });
    },
  },
  {
    name: "a large run is removed over several sweeps",
    async check(harness) {
      const records = Array.from({ length: 1_200 }, (_, index) => ({ key: `step/${index}`, body: "{}" }));
      const runId = await harness.admit(harness.newRun({ records }));
      await harness.end(runId);
      await sweepUntilRemoved(harness, runId);
    },
  },
  {
    name: "a dead letter is removed after its retention, and one written again only after another",
    async check(harness) {
      const { store, tenant } = harness;
      const runId = await harness.admit();
      const write = (id: string) =>
        harness.commit(runId, { deadLetters: [{ id, reason: "claims_lost", body: "{}" }] });
      const read = (id: string) => store.getDocument({ tenant, collection: "deadLetter", id }, call);
      await write("old");
      await write("again");
      await harness.until(async () => {
        await sweepOnce(harness);
        if ((await read("old")).kind === "not_found") return true;
        await write("again");
        const { storeTimeMs, ...written } = only(await read("again"), "document");
        assert.ok(storeTimeMs - written.document.savedAtMs < 5_000);
        return false;
      });
      await harness.until(async () => {
        await sweepOnce(harness);
        return (await read("again")).kind === "not_found";
      });
    },
  },
  {
    name: "documents of other collections are kept whatever their age",
    async check(harness) {
      const { store, tenant } = harness;
      const base = { tenant, id: "x", body: "{}", changeId: "1", actor: "tester" };
      await store.putDocument({ ...base, collection: "workflow" }, call);
      await store.putDocument({ ...base, collection: "deadLetter" }, call);
      await harness.until(async () => {
        await sweepOnce(harness);
        const letter = await store.getDocument({ tenant, collection: "deadLetter", id: "x" }, call);
        return letter.kind === "not_found";
      });
      const kept = await store.getDocument({ tenant, collection: "workflow", id: "x" }, call);
      assert.equal(kept.kind, "document");
    },
  },
  {
    name: "a tenant without slots and keys to prove is left alone",
    async check(harness) {
      const runId = await harness.admit();
      await harness.end(runId);
      assert.deepEqual((await sweepUntilPast(harness, 100)).repairs, []);
      assertOutcome(await sweepOnce(harness), nothing);
    },
  },
  {
    name: "the proof of a sound tenant repairs nothing",
    async check(harness) {
      for (const text of ["a", "b"]) await harness.admit(harness.newRun({ key: key(text) }));
      const ended = await harness.admit(harness.newRun({ key: key("c") }));
      await harness.end(ended);
      assert.deepEqual((await sweepUntilPast(harness, 100)).repairs, []);
      assert.equal(
        only(await harness.store.countActive({ tenant: harness.tenant }, call), "counted").active,
        2,
      );
    },
  },
];

/** For a store that is swept all the time. */
export const hastyLimitCases: readonly ConformanceCase[] = [
  {
    name: "a claim that runs out frees its place",
    async check(harness) {
      await harness.set({ topics: { shell: { maxRunning: 1 } }, pools: { gpu: { maxRunning: 1 } } });
      const { jobIds } = await runWith(harness, 2);
      const terms = () => ({ ...harness.claim(20), pool: "gpu", worker: 'w "1" x' });
      assert.deepEqual(
        (await claimAll(harness, jobIds, terms)).map(({ said }) => said),
        ["claimed", "topic_full"],
      );
      const { waiting } = await sweepUntil(harness, (sum) => sum.lostClaims > 0);
      assert.equal(await counts(harness, "shell", "gpu"), "0/1 0");
      assert.equal(
        (await claimAll(harness, jobIds.slice(1), () => inPool(harness, "gpu")))[0]?.said,
        "claimed",
      );
      const take = {
        tenant: harness.tenant,
        runId: waiting[0]?.runId as RunId,
        take: harness.take(),
        records: [],
      };
      const { entries } = only(await harness.store.takeRun(take, call), "owned");
      assert.equal((entries[0] as { worker?: string } | undefined)?.worker, 'w "1" x');
    },
  },
  {
    name: "a run that is removed with a job that still runs takes its place along",
    async check(harness) {
      await harness.set({ topics: { shell: { maxRunning: 1 } } });
      const { runId, jobIds } = await runWith(harness, 1);
      await claimAll(harness, jobIds);
      await harness.end(runId, "failed");
      await sweepUntilRemoved(harness, runId);
      assert.equal(await counts(harness), "0/0 0");
    },
  },
];
