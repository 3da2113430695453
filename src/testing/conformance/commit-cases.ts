// What every store must do with commits: one per version, only by the owner, all of the change or nothing of it.
import assert from "node:assert/strict";
import type { Fence } from "../../domain/lock.ts";
import { assertOutcome, type ConformanceCase, call, type Harness, only } from "./harness.ts";
import {
  approvalOf,
  cancelOf,
  commit,
  commitOf,
  deliver,
  deliverAndOwn,
  jobOf,
  jobState,
  picture,
  refusal,
  runLock,
  runWithClaim,
  timerOf,
} from "./run-steps.ts";

async function records(harness: Harness, runId: Parameters<typeof runLock>[0]) {
  const loaded = await harness.store.loadRun({ tenant: harness.tenant, runId }, call);
  return only(loaded, "run").records.map((record) => `${record.key}=${record.body}`);
}

const committed = { kind: "committed", entries: [], claims: [] };

export const commitCases: readonly ConformanceCase[] = [
  {
    name: "a commit writes its records beside the others, raises the version and adds a timeline row",
    async check(harness) {
      const { store, tenant } = harness;
      const first = ["a", "b"].map((id) => ({ key: `step/${id}`, body: id }));
      const runId = await harness.admit(harness.newRun({ records: first, change: { timeline: "[0]" } }));
      const guard = await harness.acquire(runLock(runId), 60_000);
      const changed = ["b", "c"].map((id) => ({ key: `step/${id}`, body: `${id}2` }));
      const change = { status: "waiting", records: changed, timeline: "[1]" } as const;
      assertOutcome(await commit(harness, runId, guard, { change }), { ...committed, version: 2 });
      assert.deepEqual(await records(harness, runId), ["step/a=a", "step/b=b2", "step/c=c2"]);
      const { header } = only(await store.loadRun({ tenant, runId }, call), "run");
      assert.deepEqual([header.status, header.version, header.endedAtMs], ["waiting", 2, undefined]);
      const read = only(await store.readTimeline({ tenant, runId, after: 0, limit: 9 }, call), "timeline");
      assert.equal(read.version, 2);
      assert.deepEqual(
        read.rows.map(({ version, body }) => [version, body]),
        [
          [1, "[0]"],
          [2, "[1]"],
        ],
      );
      assert.equal(read.rows[1]?.atMs, header.updatedAtMs);
    },
  },
  {
    name: "a commit after which nothing waits gives the lock back, and its repeat says the same",
    async check(harness) {
      const runId = await harness.admit();
      const { guard } = await deliverAndOwn(harness, runId, cancelOf(harness));
      const request = commitOf(harness, runId, guard, { consumed: 1 });
      for (let times = 0; times < 2; times += 1) {
        assertOutcome(await harness.store.commit(request, call), { ...committed, version: 2 });
        const lock = await harness.store.inspectLock({ tenant: harness.tenant, lock: guard.lock }, call);
        assertOutcome(lock, { kind: "free" });
      }
      const renewed = await harness.store.releaseLock(
        { tenant: harness.tenant, lock: guard.lock, token: guard.token },
        call,
      );
      assertOutcome(renewed, { kind: "released" });
    },
  },
  {
    name: "a commit returns what still waits and keeps the lock for another ttl, and its repeat says the same",
    async check(harness) {
      const runId = await harness.admit(harness.newRun({ start: "inbox" }));
      const cancel = cancelOf(harness);
      const { guard } = await deliverAndOwn(harness, runId, cancel, { take: harness.take(30_000) });
      const request = commitOf(harness, runId, { ...guard, ttlMs: 90_000 }, { consumed: 1 });
      for (let times = 0; times < 2; times += 1) {
        const answer = await harness.store.commit(request, call);
        assertOutcome(answer, { ...committed, version: 2, entries: [cancel] });
      }
      const lock = await harness.store.inspectLock({ tenant: harness.tenant, lock: guard.lock }, call);
      const { fence, expiresInMs } = only(lock, "held");
      assert.equal(fence, guard.fence);
      assert.ok(expiresInMs > 60_000);
    },
  },
  {
    name: "a commit repeated by an owner who has lost the run since shows it no entries",
    async check(harness) {
      const runId = await harness.admit(harness.newRun({ start: "inbox" }));
      const { guard } = await deliverAndOwn(harness, runId, cancelOf(harness));
      const request = commitOf(harness, runId, guard, { consumed: 1 });
      assert.equal(only(await harness.store.commit(request, call), "committed").entries.length, 1);
      await harness.release(guard);
      assertOutcome(await harness.store.commit(request, call), { ...committed, version: 2 });
      await harness.acquire(runLock(runId), 60_000);
      assertOutcome(await harness.store.commit(request, call), { ...committed, version: 2 });
    },
  },
  {
    name: "a commit that consumes more than waits leaves nothing",
    async check(harness) {
      const runId = await harness.admit();
      const { guard } = await deliverAndOwn(harness, runId, cancelOf(harness));
      assertOutcome(await commit(harness, runId, guard, { consumed: 5 }), { ...committed, version: 2 });
      const owned = await harness.admit(harness.newRun({ start: "inbox" }));
      const next = await deliverAndOwn(harness, owned, cancelOf(harness));
      assert.equal(next.entries.length, 2);
    },
  },
  {
    name: "of two commits to one version the second is refused without effect",
    async check(harness) {
      const runId = await harness.admit();
      await harness.commit(runId);
      const guard = await harness.acquire(runLock(runId), 60_000);
      const before = await picture(harness, runId);
      const change = { status: "failed", jobs: [jobOf(runId)] } as const;
      for (const expectedVersion of [0, 1, 3]) {
        const late = await commit(harness, runId, guard, { expectedVersion, change });
        assertOutcome(late, { kind: "stale_version", version: 2 });
      }
      assert.deepEqual(await picture(harness, runId), before);
    },
  },
  {
    name: "only the owner commits: expired, superseded, released and forged grants are refused without effect",
    async check(harness) {
      const runId = await harness.admit();
      const expired = await harness.acquire(runLock(runId), 20);
      await harness.untilFree(expired.lock);
      const late = await commit(harness, runId, expired);
      assertOutcome(late, { kind: "stale_fence" });
      const released = await harness.acquire(runLock(runId), 60_000);
      await harness.release(released);
      const current = await harness.acquire(runLock(runId), 60_000);
      const before = await picture(harness, runId);
      const wrong = [
        expired,
        released,
        { ...current, token: harness.token() },
        { ...current, fence: (current.fence + 1) as Fence },
        { ...released, policy: "continue" as const },
        { ...expired, policy: "continue" as const },
      ];
      for (const guard of wrong) assertOutcome(await commit(harness, runId, guard), { kind: "stale_fence" });
      assert.deepEqual(await picture(harness, runId), before);
      assertOutcome(await commit(harness, runId, current), { ...committed, version: 2 });
    },
  },
  {
    name: "under continue a commit takes an expired lock again, if nobody took it since",
    async check(harness) {
      const runId = await harness.admit(harness.newRun({ start: "inbox" }));
      const take = harness.take(20);
      const { guard } = await deliverAndOwn(harness, runId, cancelOf(harness), { take });
      await harness.untilFree(guard.lock);
      const again = { ...guard, policy: "continue", ttlMs: 60_000 } as const;
      const first = only(await commit(harness, runId, again, { consumed: 1 }), "committed");
      assert.equal(first.entries.length, 1);
      const lock = await harness.store.inspectLock({ tenant: harness.tenant, lock: guard.lock }, call);
      assert.equal(only(lock, "held").fence, guard.fence);
      const last = await commit(harness, runId, again, { consumed: 1, expectedVersion: 2 });
      assertOutcome(last, { ...committed, version: 3 });
      const free = await harness.store.inspectLock({ tenant: harness.tenant, lock: guard.lock }, call);
      assertOutcome(free, { kind: "free" });
    },
  },
  {
    name: "under continue a commit after which nothing waits gives the expired lock back for good",
    async check(harness) {
      const runId = await harness.admit();
      const guard = await harness.acquire(runLock(runId), 20);
      await harness.untilFree(guard.lock);
      const again = { ...guard, policy: "continue" } as const;
      assertOutcome(await commit(harness, runId, again), { ...committed, version: 2 });
      const next = await commit(harness, runId, again, { expectedVersion: 2 });
      assertOutcome(next, { kind: "stale_fence" });
    },
  },
  {
    name: "a commit calls jobs off: a ready one leaves the list, a claimed one hears of it, a reported one stays",
    async check(harness) {
      const { tenant } = harness;
      const { runId, jobId } = await runWithClaim(harness);
      const ready = jobOf(runId, { step: "ready" });
      await harness.commit(runId, { jobs: [ready] });
      const none = jobOf(runId, { step: "none" }).jobId;
      await harness.commit(runId, { voidJobs: [ready.jobId, jobId, none] });
      assert.equal(await jobState(harness, ready.jobId), "voided");
      assert.equal(await jobState(harness, jobId), "voided");
      assert.equal(await jobState(harness, none), "not_found");
      const list = await harness.store.listReadyJobs({ tenant, topic: "shell", limit: 9 }, call);
      assertOutcome(list, { kind: "listed", jobs: [] });
    },
  },
  {
    name: "jobs are born claimed with the commit, and its repeat gives the same claims",
    async check(harness) {
      const runId = await harness.admit();
      const guard = await harness.acquire(runLock(runId), 60_000);
      const terms = harness.claim(30_000);
      const jobs = [jobOf(runId, { claim: terms }), jobOf(runId, { step: "free" })];
      const request = commitOf(harness, runId, guard, { change: { jobs } });
      const first = only(await harness.store.commit(request, call), "committed");
      const again = only(await harness.store.commit(request, call), "committed");
      assert.equal(first.claims.length, 1);
      const { jobId, fence, expiresInMs } = first.claims[0] as (typeof first.claims)[number];
      assert.equal(jobId, jobs[0]?.jobId);
      assert.ok(expiresInMs > 20_000 && expiresInMs <= 30_000);
      assert.ok(fence > guard.fence);
      assert.equal(again.claims[0]?.fence, fence);
      const { job } = only(await harness.store.getJob({ tenant: harness.tenant, jobId }, call), "job");
      assert.deepEqual(
        [job.state, job.claim?.token, job.claim?.worker, job.claim?.fence],
        ["claimed", terms.token, "worker-1", fence],
      );
    },
  },
  {
    name: "in a stopped tenant a job that would be born claimed waits as ready",
    async check(harness) {
      const runId = await harness.admit();
      await harness.set({ stopped: true });
      const guard = await harness.acquire(runLock(runId), 60_000);
      const job = jobOf(runId, { claim: harness.claim() });
      const answer = await commit(harness, runId, guard, { change: { jobs: [job] } });
      assertOutcome(answer, { ...committed, version: 2 });
      assert.equal(await jobState(harness, job.jobId), "ready");
      const { tenant } = harness;
      const list = await harness.store.listReadyJobs({ tenant, topic: "shell", limit: 9 }, call);
      assert.equal(only(list, "listed").jobs.length, 1);
    },
  },
  {
    name: "timers: one in the future is not due, a due one is delivered once, a cleared or moved one never",
    async check(harness) {
      const farMs = 9_000_000_000_000;
      const timers = ["due", "cleared", "moved", "future"].map((timerId) => ({
        timerId,
        dueAtMs: timerId === "future" ? farMs : 1,
      }));
      const runId = await harness.admit(harness.newRun({ change: { timers } }));
      await harness.commit(runId, {
        clearTimers: ["cleared", "none"],
        timers: [{ timerId: "moved", dueAtMs: farMs }],
      });
      const before = await picture(harness, runId);
      for (const timerId of ["cleared", "moved", "future", "none"]) {
        assert.equal(await refusal(deliver(harness, runId, timerOf(timerId))), "timer_not_due", timerId);
      }
      assert.deepEqual(await picture(harness, runId), before);
      const { entries, guard } = await deliverAndOwn(harness, runId, timerOf("due"));
      assert.deepEqual(entries, [timerOf("due")]);
      only(await commit(harness, runId, guard, { consumed: 1, expectedVersion: 2 }), "committed");
      assert.equal(await refusal(deliver(harness, runId, timerOf("due"))), "timer_not_due");
    },
  },
  {
    name: "a commit keeps dead letters, and a letter written again is a new one",
    async check(harness) {
      const runId = await harness.admit();
      const letter = { id: `${runId}:build@1`, reason: "retries_exhausted" } as const;
      const request = { tenant: harness.tenant, collection: "deadLetter", id: letter.id } as const;
      for (const body of ['{"n":1}', '{"n":2}']) {
        await harness.commit(runId, { deadLetters: [{ ...letter, body }] });
        const { document } = only(await harness.store.getDocument(request, call), "document");
        assert.deepEqual([document.revision, document.body], [1, body]);
      }
    },
  },
  {
    name: "a commit closes approvals that are pending, and leaves decided ones",
    async check(harness) {
      const runId = harness.runId();
      const approvals = ["a", "b"].map((step) => approvalOf(runId, { step }));
      await harness.admit(harness.newRun({ runId, change: { approvals } }));
      const close = (index: number, state: "expired" | "cancelled") => ({
        approvalId: approvals[index]?.approvalId as (typeof approvals)[number]["approvalId"],
        state,
      });
      await harness.commit(runId, { closeApprovals: [close(0, "expired"), close(1, "cancelled")] });
      await harness.commit(runId, { closeApprovals: [close(0, "cancelled")] });
      const listed = await harness.store.listApprovals({ tenant: harness.tenant, limit: 9 }, call);
      const seen = only(listed, "listed").approvals.map(({ step, state, decidedAtMs }) => [
        step,
        state,
        decidedAtMs !== undefined,
      ]);
      assert.deepEqual(seen, [
        ["b", "cancelled", true],
        ["a", "expired", true],
      ]);
    },
  },
  {
    name: "a commit past its notAfter has no effect",
    async check(harness) {
      const runId = await harness.admit();
      const guard = await harness.acquire(runLock(runId), 60_000);
      const before = await picture(harness, runId);
      const options = { deadlineMs: 5_000, notAfterMs: 1 };
      const late = await harness.store.commit(commitOf(harness, runId, guard), options);
      assertOutcome(late, { kind: "unavailable", cause: "too_late" });
      assert.deepEqual(await picture(harness, runId), before);
    },
  },
  {
    name: "of a hundred commits to one version exactly one is made",
    async check(harness) {
      const runId = await harness.admit();
      const guard = await harness.acquire(runLock(runId), 60_000);
      const answers = await Promise.all(Array.from({ length: 100 }, () => commit(harness, runId, guard)));
      assert.equal(answers.filter(({ kind }) => kind === "committed").length, 1);
      assert.equal(answers.filter(({ kind }) => kind === "stale_version").length, 99);
    },
  },
];
