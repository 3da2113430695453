// What every store must do with a commit that comes along with an entry: applied at once, or not at all.
import assert from "node:assert/strict";
import type { RunChange, RunId } from "../../domain/run.ts";
import type { Proposal } from "../../ports/run-operations.ts";
import { assertOutcome, type ConformanceCase, call, type Harness, key, only } from "./harness.ts";
import {
  cancelOf,
  changeOf,
  deliver,
  deliveryOf,
  jobOf,
  jobState,
  picture,
  refusal,
  resultOf,
  runLock,
  runWithClaim,
} from "./run-steps.ts";

function proposalOf(
  harness: Harness,
  changes: Partial<RunChange> = {},
  options: Partial<Proposal> = {},
): Proposal {
  return { expectedVersion: 1, commitId: harness.id("commit"), change: changeOf(changes), ...options };
}

async function header(harness: Harness, runId: RunId) {
  return only(await harness.store.loadRun({ tenant: harness.tenant, runId }, call), "run").header;
}

async function lockKind(harness: Harness, runId: RunId): Promise<string> {
  return (await harness.store.inspectLock({ tenant: harness.tenant, lock: runLock(runId) }, call)).kind;
}

export const proposalCases: readonly ConformanceCase[] = [
  {
    name: "a proposal for a free run is applied with its entry, without the lock",
    async check(harness) {
      const { runId, jobId, token } = await runWithClaim(harness);
      const terms = harness.claim();
      const next = jobOf(runId, { step: "ship", claim: terms });
      const waiting = jobOf(runId, { step: "tell" });
      const records = [{ key: "step/build", body: "done" }];
      const proposal = proposalOf(harness, {
        status: "waiting",
        jobs: [next, waiting],
        records,
        timeline: "[1]",
      });
      const request = deliveryOf(harness, runId, resultOf(harness, { jobId, token }), { proposal });
      const first = only(await harness.store.deliver(request, call), "applied");
      assert.deepEqual([first.version, first.status, first.claims.length], [2, "waiting", 1]);
      assert.equal(first.claims[0]?.jobId, next.jobId);
      const again = only(await harness.store.deliver(request, call), "applied");
      assert.deepEqual([again.version, again.status], [2, "waiting"]);
      assert.equal(again.claims[0]?.fence, first.claims[0]?.fence);
      assert.equal(await lockKind(harness, runId), "free");
      assert.equal((await header(harness, runId)).version, 2);
      assert.equal(await jobState(harness, jobId), "reported");
      assert.equal(await jobState(harness, next.jobId), "claimed");
      assert.equal(await jobState(harness, waiting.jobId), "ready");
      const { tenant } = harness;
      const taken = await harness.store.takeRun({ tenant, runId, take: harness.take(), records: [] }, call);
      assertOutcome(taken, { kind: "empty" });
      const read = only(
        await harness.store.readTimeline({ tenant, runId, after: 1, limit: 9 }, call),
        "timeline",
      );
      assert.deepEqual(
        read.rows.map(({ version, body }) => [version, body]),
        [[2, "[1]"]],
      );
    },
  },
  {
    name: "a proposal computed from another version is left, and its sender is the owner of the entry",
    async check(harness) {
      const { runId, jobId, token } = await runWithClaim(harness);
      await harness.commit(runId);
      const proposal = proposalOf(harness, { status: "succeeded" });
      const answer = await deliver(harness, runId, resultOf(harness, { jobId, token }), { proposal });
      const owned = only(only(answer, "delivered").run, "owned");
      assert.equal(owned.header.version, 2);
      assert.equal(owned.header.status, "running");
      assert.equal(owned.entries.length, 1);
    },
  },
  {
    name: "a proposal decided after a commit that the store has not got is left, though another has its number",
    async check(harness) {
      const { runId, jobId, token } = await runWithClaim(harness);
      const proposal = proposalOf(harness, { status: "succeeded" }, { expectedCommitId: "lost" });
      const answer = await deliver(harness, runId, resultOf(harness, { jobId, token }), { proposal });
      const owned = only(only(answer, "delivered").run, "owned");
      assert.deepEqual([owned.header.version, owned.header.status], [1, "running"]);
      assert.equal(owned.entries.length, 1);
    },
  },
  {
    name: "a proposal decided after the admission, or after another proposal, names that and is applied",
    async check(harness) {
      const { runId, jobId, token } = await runWithClaim(harness);
      const terms = harness.claim();
      const next = jobOf(runId, { step: "ship", claim: terms });
      const first = proposalOf(harness, { status: "waiting", jobs: [next] }, { expectedCommitId: runId });
      only(
        await deliver(harness, runId, resultOf(harness, { jobId, token }), { proposal: first }),
        "applied",
      );
      const options = { expectedVersion: 2, expectedCommitId: first.commitId };
      const second = proposalOf(harness, { status: "succeeded" }, options);
      const entry = resultOf(harness, { jobId: next.jobId, token: terms.token });
      only(await deliver(harness, runId, entry, { proposal: second }), "applied");
      assert.equal((await header(harness, runId)).status, "succeeded");
    },
  },
  {
    name: "a proposal for a busy run is left, and its entry handed over",
    async check(harness) {
      const { runId, jobId, token } = await runWithClaim(harness);
      await harness.acquire(runLock(runId), 60_000);
      const proposal = proposalOf(harness, { status: "succeeded" });
      const request = deliveryOf(harness, runId, resultOf(harness, { jobId, token }), { proposal });
      for (let times = 0; times < 2; times += 1) {
        const { run } = only(await harness.store.deliver(request, call), "delivered");
        assert.equal(run.kind, "handed_over");
      }
      assert.equal((await header(harness, runId)).status, "running");
    },
  },
  {
    name: "a proposal is left when something else waits: its sender owns both entries, in their order",
    async check(harness) {
      const { runId, jobId, token } = await runWithClaim(harness);
      const guard = await harness.acquire(runLock(runId), 60_000);
      only(await deliver(harness, runId, cancelOf(harness)), "delivered");
      await harness.release(guard);
      const proposal = proposalOf(harness, { status: "succeeded" });
      const answer = await deliver(harness, runId, resultOf(harness, { jobId, token }), { proposal });
      const owned = only(only(answer, "delivered").run, "owned");
      assert.deepEqual(
        owned.entries.map(({ kind }) => kind),
        ["cancel", "result"],
      );
      assert.equal(owned.header.version, 1);
    },
  },
  {
    name: "a proposal whose entry is refused has no effect",
    async check(harness) {
      const { runId, jobId } = await runWithClaim(harness);
      const before = await picture(harness, runId);
      const proposal = proposalOf(harness, { status: "failed", records: [{ key: "step/x", body: "x" }] });
      const entry = resultOf(harness, { jobId, token: harness.claim().token });
      assert.equal(await refusal(deliver(harness, runId, entry, { proposal })), "stale_claim");
      assert.deepEqual(await picture(harness, runId), before);
    },
  },
  {
    name: "a proposal may end the run: slot, key and event follow, and a repeat says the same",
    async check(harness) {
      const runId = harness.runId();
      const terms = harness.claim();
      const change = { status: "running", jobs: [jobOf(runId, { claim: terms })] } as const;
      await harness.admit(harness.newRun({ runId, key: key("k"), change }));
      const proposal = proposalOf(harness, { status: "failed" });
      const entry = resultOf(harness, { jobId: jobOf(runId).jobId, token: terms.token });
      const request = deliveryOf(harness, runId, entry, { proposal });
      for (let times = 0; times < 2; times += 1) {
        const answer = await harness.store.deliver(request, call);
        assertOutcome(answer, { kind: "applied", version: 2, status: "failed", claims: [] });
      }
      const { tenant } = harness;
      const counted = await harness.store.countActive({ tenant }, call);
      assertOutcome(counted, { kind: "counted", active: 0, stopped: false });
      const bound = await harness.store.inspectReservation({ tenant, digest: key("k").digest }, call);
      assertOutcome(bound, { kind: "bound", runId, finalStatus: "failed" });
      const rows = only(await harness.store.readEvents({ tenant, after: 1, limit: 9 }, call), "events");
      assert.deepEqual(
        rows.events.map(({ type, detail }) => [type, detail]),
        [["run_ended", "failed"]],
      );
    },
  },
  {
    name: "a cancel with a proposal notes the request in the same commit",
    async check(harness) {
      const runId = await harness.admit();
      const cancel = cancelOf(harness);
      const proposal = proposalOf(harness, { status: "cancelled" });
      only(await deliver(harness, runId, cancel, { proposal }), "applied");
      const { status, cancelRequested, version } = await header(harness, runId);
      assert.deepEqual([status, cancelRequested, version], ["cancelled", cancel.entryId, 2]);
      const { tenant } = harness;
      const rows = only(await harness.store.readEvents({ tenant, after: 1, limit: 9 }, call), "events");
      assert.deepEqual(
        rows.events.map(({ type }) => type),
        ["cancel_requested", "run_ended"],
      );
    },
  },
];
