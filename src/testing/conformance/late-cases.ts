// What every store must do with what comes late or out of order: duplicates after a removal, and keys revoked in between.
import assert from "node:assert/strict";
import { assertOutcome, type ConformanceCase, call, only } from "./harness.ts";
import {
  approvalOf,
  cancelOf,
  commit,
  decisionOf,
  deliver,
  deliverAndOwn,
  deliveryOf,
  jobOf,
  jobState,
  refusal,
  runLock,
} from "./run-steps.ts";

export const lateCases: readonly ConformanceCase[] = [
  {
    name: "a start that arrives again after its run was deleted does not make the run again",
    async check(harness) {
      const run = harness.newRun();
      const runId = await harness.admit(run);
      await harness.end(runId);
      const { tenant } = harness;
      assertOutcome(await harness.store.deleteRun({ tenant, runId, actor: "ann" }, call), {
        kind: "deleted",
      });
      const again = only(await harness.store.admit({ tenant, run }, call), "admitted");
      assert.deepEqual([again.runId, again.status, again.active], [runId, "succeeded", 0]);
      assertOutcome(await harness.store.loadRun({ tenant, runId }, call), { kind: "not_found" });
      const listed = await harness.store.listRuns({ tenant, limit: 10 }, call);
      assert.deepEqual(only(listed, "listed").runs, []);
      const timeline = await harness.store.readTimeline({ tenant, runId, after: 0, limit: 9 }, call);
      assertOutcome(timeline, { kind: "not_found" });
      const deletedAgain = await harness.store.deleteRun({ tenant, runId, actor: "ann" }, call);
      assertOutcome(deletedAgain, { kind: "not_found" });
      assert.equal(await refusal(deliver(harness, runId, cancelOf(harness))), "run_not_found");
    },
  },
  {
    name: "in a run that is being cancelled a job that would be born claimed waits as ready",
    async check(harness) {
      const runId = await harness.admit();
      const { guard } = await deliverAndOwn(harness, runId, cancelOf(harness));
      const job = jobOf(runId, { claim: harness.claim() });
      const answer = await commit(harness, runId, guard, { change: { jobs: [job] } });
      assert.deepEqual(only(answer, "committed").claims, []);
      assert.equal(await jobState(harness, job.jobId), "ready");
    },
  },
  {
    name: "a job is not born claimed for a worker whose key was revoked",
    async check(harness) {
      const runId = await harness.admit();
      await harness.set({ revokedKeyIds: ["key_1"] });
      const guard = await harness.acquire(runLock(runId), 60_000);
      const jobs = ["key_1", "key_2"].map((credential) =>
        jobOf(runId, { step: credential, claim: { ...harness.claim(), credential } }),
      );
      const answer = only(await commit(harness, runId, guard, { change: { jobs } }), "committed");
      assert.deepEqual(
        answer.claims.map(({ jobId }) => jobId),
        [jobs[1]?.jobId],
      );
    },
  },
  {
    name: "a decision that had its effect is answered so again, although its key was revoked since",
    async check(harness) {
      const runId = harness.runId();
      const approval = approvalOf(runId);
      await harness.admit(harness.newRun({ runId, change: { approvals: [approval] } }));
      const entry = decisionOf(harness, approval.approvalId);
      const request = deliveryOf(harness, runId, entry, { credential: "key_1" });
      only(await harness.store.deliver(request, call), "delivered");
      await harness.set({ revokedKeyIds: ["key_1"] });
      only(await harness.store.deliver({ ...request, take: harness.take() }, call), "delivered");
      const another = decisionOf(harness, approval.approvalId);
      const refused = deliver(harness, runId, another, { credential: "key_1" });
      assert.equal(await refusal(refused), "unauthenticated");
    },
  },
];
