// What every store must do with runs that end, tenants' settings and the audit trail.
import assert from "node:assert/strict";
import type { ApprovalId, ApprovalRequest } from "../../domain/approval.ts";
import type { EventRow } from "../../domain/audit.ts";
import { assertOutcome, type ConformanceCase, call, type Harness, key, only } from "./harness.ts";
import {
  approvalOf,
  commit,
  commitOf,
  deliver,
  picture,
  refusal,
  resultOf,
  runLock,
  runWithClaim,
} from "./run-steps.ts";

async function events(harness: Harness, after = 0, limit = 100): Promise<readonly EventRow[]> {
  const answer = await harness.store.readEvents({ tenant: harness.tenant, after, limit }, call);
  return only(answer, "events").events;
}

const committed = { kind: "committed", entries: [], claims: [] };

export const runCases: readonly ConformanceCase[] = [
  {
    name: "ending a run frees its slot, gives its lock back and records when",
    async check(harness) {
      await harness.set({ maxConcurrentRuns: 1 });
      const runId = await harness.admit();
      const guard = await harness.acquire(runLock(runId), 10_000);
      const ended = await commit(harness, runId, guard, { change: { status: "failed" } });
      assertOutcome(ended, { ...committed, version: 2 });
      const counted = await harness.store.countActive({ tenant: harness.tenant }, call);
      assertOutcome(counted, { kind: "counted", active: 0, limit: 1, stopped: false });
      const loaded = await harness.store.loadRun({ tenant: harness.tenant, runId, records: [] }, call);
      const { header, records } = only(loaded, "run");
      assert.deepEqual(records, []);
      assert.equal(header.status, "failed");
      assert.equal(header.version, 2);
      assert.ok((header.endedAtMs ?? 0) >= header.admittedAtMs);
      assert.equal(header.updatedAtMs, header.endedAtMs);
      const lock = await harness.store.inspectLock({ tenant: harness.tenant, lock: guard.lock }, call);
      assertOutcome(lock, { kind: "free" });
    },
  },
  {
    name: "a repeated end gives the same answer; another owner's end finds that it came too late",
    async check(harness) {
      const runId = await harness.admit();
      const first = await harness.acquire(runLock(runId), 10_000);
      const ending = commitOf(harness, runId, first, { change: { status: "succeeded" } });
      for (let times = 0; times < 2; times += 1) {
        assertOutcome(await harness.store.commit(ending, call), { ...committed, version: 2 });
      }
      const second = await harness.acquire(runLock(runId), 10_000);
      for (const expectedVersion of [1, 2]) {
        const late = await commit(harness, runId, second, { expectedVersion, change: { status: "failed" } });
        assertOutcome(late, { kind: "stale_version", version: 2 });
      }
      assertOutcome(await harness.store.commit(ending, call), { ...committed, version: 2 });
      assert.equal((await events(harness)).filter(({ type }) => type === "run_ended").length, 1);
    },
  },
  {
    name: "a stale owner cannot end a run that a newer owner holds",
    async check(harness) {
      const runId = await harness.admit();
      const stale = await harness.acquire(runLock(runId), 20);
      await harness.untilFree(stale.lock);
      const current = await harness.acquire(runLock(runId), 10_000);
      const change = { status: "cancelled" } as const;
      assertOutcome(await commit(harness, runId, stale, { change }), { kind: "stale_fence" });
      assertOutcome(await commit(harness, runId, current, { change }), { ...committed, version: 2 });
    },
  },
  {
    name: "a run that does not exist, or is another tenant's, is not found",
    async check(harness) {
      const runId = harness.runId();
      const guard = await harness.acquire(runLock(runId), 10_000);
      assertOutcome(await commit(harness, runId, guard), { kind: "not_found" });
      const ours = await harness.admit();
      const foreign = await harness.store.loadRun({ tenant: harness.otherTenant(), runId: ours }, call);
      assertOutcome(foreign, { kind: "not_found" });
    },
  },
  {
    name: "a run may end with its admission: it never holds a slot, and its key replays",
    async check(harness) {
      await harness.set({ maxConcurrentRuns: 1 });
      const run = harness.newRun({ key: key("k"), change: { status: "succeeded" } });
      const admitted = await harness.store.admit({ tenant: harness.tenant, run }, call);
      const { runId } = run;
      const expected = {
        kind: "admitted",
        runId,
        status: "succeeded",
        active: 0,
        limit: 1,
        claims: [],
        keysKept: 1,
      };
      assertOutcome(admitted, expected);
      const replay = await harness.store.admit(
        { tenant: harness.tenant, run: harness.newRun({ key: key("k") }) },
        call,
      );
      assertOutcome(replay, { kind: "replayed", runId, status: "succeeded" });
      const { digest } = key("k");
      const bound = await harness.store.inspectReservation({ tenant: harness.tenant, digest }, call);
      assertOutcome(bound, { kind: "bound", runId, finalStatus: "succeeded" });
    },
  },
  {
    name: "the end of a run discards the entries that wait, and says how many",
    async check(harness) {
      const { runId, jobId, token } = await runWithClaim(harness);
      const guard = await harness.acquire(runLock(runId), 10_000);
      await deliver(harness, runId, resultOf(harness, { jobId, token }));
      const ended = await commit(harness, runId, guard, { change: { status: "timed_out" } });
      assertOutcome(ended, { ...committed, version: 2 });
      const taken = await harness.store.takeRun(
        { tenant: harness.tenant, runId, take: harness.take(), records: [] },
        call,
      );
      assertOutcome(taken, { kind: "empty" });
    },
  },
  {
    name: "an ended run accepts nothing more, without effect",
    async check(harness) {
      const { runId, jobId, token } = await runWithClaim(harness);
      await harness.end(runId);
      const before = await picture(harness, runId);
      const late = resultOf(harness, { jobId, token });
      assert.equal(await refusal(deliver(harness, runId, late)), "run_ended");
      assert.deepEqual(await picture(harness, runId), before);
    },
  },
  {
    name: "records are loaded by name, in the order asked, without the missing ones",
    async check(harness) {
      const records = ["a", "b", "c"].map((id) => ({ key: `step/${id}`, body: id }));
      const runId = await harness.admit(harness.newRun({ records }));
      const wanted = ["step/c", "step/none", "step/a"];
      const loaded = await harness.store.loadRun({ tenant: harness.tenant, runId, records: wanted }, call);
      assert.deepEqual(only(loaded, "run").records, [records[2], records[0]]);
    },
  },
  {
    name: "settings are replaced only by who saw the last version, and a repeat is recognised",
    async check(harness) {
      const base = { tenant: harness.tenant, actor: "operator" };
      const settings = {
        maxConcurrentRuns: 3,
        admissionStrategy: "lock",
        admissionWait: "jitter",
        stopped: true,
        revokedKeyIds: ["key_1", "key_2"],
        resultsStrategy: "retry",
        resultsWait: "fixed",
        policyNumbers: { "results.retry.baseMs": 700, "results.retry.jitterFraction": 0.5 },
        separateDuties: true,
        approvalsStrategy: "lock",
      } as const;
      const first = { ...base, settings, expectedVersion: 0, changeId: "change-1" };
      assertOutcome(await harness.store.setTenant(first, call), { kind: "saved", version: 1 });
      assertOutcome(await harness.store.setTenant(first, call), { kind: "saved", version: 1 });
      const rival = { ...base, settings: {}, expectedVersion: 0, changeId: "change-2" };
      assertOutcome(await harness.store.setTenant(rival, call), { kind: "version_conflict", version: 1 });
      const read = await harness.store.getTenant({ tenant: harness.tenant }, call);
      assertOutcome(read, { kind: "tenant", record: { settings, version: 1 } });
      const second = { ...rival, expectedVersion: 1 };
      assertOutcome(await harness.store.setTenant(second, call), { kind: "saved", version: 2 });
      const emptied = await harness.store.getTenant({ tenant: harness.tenant }, call);
      assertOutcome(emptied, { kind: "tenant", record: { settings: {}, version: 2 } });
    },
  },
  {
    name: "a tenant never set has no settings and version 0",
    async check(harness) {
      const read = await harness.store.getTenant({ tenant: harness.tenant }, call);
      assertOutcome(read, { kind: "tenant", record: { settings: {}, version: 0 } });
    },
  },
  {
    name: "every change of runs and settings is one event with the next number; refusals and repeats are none",
    async check(harness) {
      await harness.set({ maxConcurrentRuns: 1 });
      const run = harness.newRun();
      await harness.admit(run);
      await harness.admit(run);
      await harness.store.admit({ tenant: harness.tenant, run: harness.newRun() }, call);
      await harness.commit(run.runId, { status: "waiting" });
      await harness.end(run.runId, "denied");
      const rows = await events(harness);
      const seen = rows.map(({ sequence, type, subject, actor, detail }) => [
        sequence,
        type,
        subject,
        actor,
        detail,
      ]);
      assert.deepEqual(seen, [
        [1, "tenant_changed", harness.tenant, "tester", rows[0]?.detail],
        [2, "run_admitted", run.runId, "tester", "deploy"],
        [3, "run_changed", run.runId, "engine", "2 waiting"],
        [4, "run_ended", run.runId, "engine", "denied"],
      ]);
      assert.deepEqual(
        (await events(harness, 1, 1)).map(({ sequence }) => sequence),
        [2],
      );
    },
  },
  {
    name: "the event of a commit says what is new in it, and each approval that it asks for has a row after it",
    async check(harness) {
      const runId = harness.runId();
      const [first, second] = ["one", "two"].map((step) =>
        approvalOf(runId, { approvalId: `${runId}:${step}@1` as ApprovalId, step }),
      ) as [ApprovalRequest, ApprovalRequest];
      await harness.admit(harness.newRun({ runId, change: { approvals: [first] } }));
      await harness.commit(runId, { approvals: [second], news: "step one: completed, step two: waiting" });
      await harness.commit(runId);
      await harness.commit(runId, { status: "succeeded", news: "step two: completed" });
      const rows = (await events(harness)).map(({ type, actor, detail }) => [type, actor, detail]);
      assert.deepEqual(rows, [
        ["run_admitted", "tester", "deploy"],
        ["approval_requested", "engine", "step one"],
        ["run_changed", "engine", "2 running step one: completed, step two: waiting"],
        ["approval_requested", "engine", "step two"],
        ["run_changed", "engine", "3 running"],
        ["run_ended", "engine", "succeeded step two: completed"],
      ]);
      assert.equal((await events(harness))[1]?.subject, first.approvalId);
    },
  },
];
