// What every store must do with jobs: listed while ready, held by one worker at a time, called off in time.
import assert from "node:assert/strict";
import type { JobId } from "../../domain/job.ts";
import { assertOutcome, type ConformanceCase, call, type Harness, only } from "./harness.ts";
import {
  beat,
  cancelOf,
  claim,
  deliver,
  deliverAndOwn,
  jobOf,
  jobState,
  picture,
  refusal,
  resultOf,
  runWithClaim,
} from "./run-steps.ts";

async function runWithReady(harness: Harness, options: Parameters<typeof jobOf>[1] = {}) {
  const runId = harness.runId();
  const job = jobOf(runId, options);
  const records = [{ key: "input/build", body: '{"step":"build"}' }];
  await harness.admit(harness.newRun({ runId, records, change: { jobs: [job] } }));
  return { runId, job, jobId: job.jobId };
}

async function readyJobs(harness: Harness, topic = "shell", limit = 100) {
  const answer = await harness.store.listReadyJobs({ tenant: harness.tenant, topic, limit }, call);
  return only(answer, "listed").jobs;
}

function refusedClaim(jobId: JobId, because: string) {
  return { kind: "refused", jobId, because };
}

export const jobCases: readonly ConformanceCase[] = [
  {
    name: "a ready job is listed and claimed with its input, and then belongs to its worker",
    async check(harness) {
      const requires = '{"labels":{},"capabilities":[]}';
      const deadlineAtMs = 9_000_000_000_000;
      const traceparent = `00-${"a1".repeat(16)}-${"b2".repeat(8)}-01`;
      const turn = { path: "1.2", attemptsBefore: 3 };
      const spec = { requires, deadlineAtMs, turn, traceparent };
      const { runId, jobId, job } = await runWithReady(harness, spec);
      const [hint] = await readyJobs(harness);
      const { createdAtMs, ...rest } = hint as NonNullable<typeof hint>;
      assert.deepEqual(rest, { jobId, runId, topic: "shell", requires });
      const terms = harness.claim(30_000);
      const answer = only(await claim(harness, jobId, terms), "claimed");
      assert.ok(answer.expiresInMs > 20_000 && answer.expiresInMs <= 30_000);
      assert.equal(answer.input, '{"step":"build"}');
      const { claim: held, ...found } = answer.job;
      const expected = { ...job, runId, state: "claimed", createdAtMs, republished: 0 };
      assert.deepEqual(found, expected);
      const { claimedAtMs, expiresAtMs, ...kept } = held as NonNullable<typeof held>;
      assert.deepEqual(kept, { token: terms.token, worker: "worker-1", fence: answer.fence });
      assert.equal(expiresAtMs - claimedAtMs, 30_000);
      assert.deepEqual(await readyJobs(harness), []);
      const read = await harness.store.getJob({ tenant: harness.tenant, jobId }, call);
      assert.deepEqual(only(read, "job").job, answer.job);
    },
  },
  {
    name: "a repeated claim gives the same grant, and another worker's is refused",
    async check(harness) {
      const { jobId } = await runWithReady(harness);
      const terms = harness.claim();
      const first = only(await claim(harness, jobId, terms), "claimed");
      const again = only(await claim(harness, jobId, terms), "claimed");
      assert.deepEqual([again.fence, again.job], [first.fence, first.job]);
      assert.deepEqual(await claim(harness, jobId), refusedClaim(jobId, "not_ready"));
    },
  },
  {
    name: "an input that nobody wrote is null",
    async check(harness) {
      const { jobId } = await runWithReady(harness, { inputKey: "input/none" });
      assert.equal(only(await claim(harness, jobId), "claimed").input, "null");
    },
  },
  {
    name: "several jobs are claimed in one call, an answer for each in its place, with growing fences",
    async check(harness) {
      const first = await runWithReady(harness);
      const second = await runWithReady(harness);
      const jobIds = [first.jobId, "run_00_none00000001:x@1" as JobId, second.jobId, first.jobId];
      const claims = jobIds.map((jobId) => ({ jobId, terms: harness.claim() }));
      const answer = await harness.store.claimJobs({ tenant: harness.tenant, claims }, call);
      const { answers } = only(answer, "judged");
      assert.deepEqual(
        answers.map((each) => [each.jobId, each.kind === "claimed" ? "claimed" : each.because]),
        jobIds.map((jobId, index) => [jobId, ["claimed", "not_found", "claimed", "not_ready"][index]]),
      );
      const fences = answers.flatMap((each) => (each.kind === "claimed" ? [each.fence] : []));
      assert.ok((fences[0] as number) < (fences[1] as number));
    },
  },
  {
    name: "of a hundred workers one gets the job",
    async check(harness) {
      const { jobId } = await runWithReady(harness);
      const answers = await Promise.all(Array.from({ length: 100 }, () => claim(harness, jobId)));
      assert.equal(answers.filter(({ kind }) => kind === "claimed").length, 1);
    },
  },
  {
    name: "nobody claims in a stopped tenant, with a revoked key, or of a run that is cancelled or has ended",
    async check(harness) {
      const { runId, jobId } = await runWithReady(harness);
      const cancelled = await runWithReady(harness);
      await deliverAndOwn(harness, cancelled.runId, cancelOf(harness));
      const ended = await runWithReady(harness);
      await harness.end(ended.runId);
      await harness.set({ revokedKeyIds: ["key_1"] });
      const before = await picture(harness, runId);
      assert.deepEqual(
        await claim(harness, cancelled.jobId),
        refusedClaim(cancelled.jobId, "run_cancelling"),
      );
      assert.deepEqual(await claim(harness, ended.jobId), refusedClaim(ended.jobId, "run_ended"));
      const claims = [{ jobId, terms: harness.claim() }];
      const revoked = await harness.store.claimJobs(
        { tenant: harness.tenant, claims, credential: "key_1" },
        call,
      );
      assertOutcome(revoked, { kind: "judged", answers: [refusedClaim(jobId, "credential_revoked")] });
      assert.deepEqual(await picture(harness, runId), before);
      await harness.set({ stopped: true });
      assert.deepEqual(await claim(harness, jobId), refusedClaim(jobId, "tenant_stopped"));
      await harness.set({});
      only(await claim(harness, jobId), "claimed");
    },
  },
  {
    name: "ready jobs are listed oldest first, per topic and tenant, up to a limit",
    async check(harness) {
      const made: JobId[] = [];
      for (let index = 0; index < 4; index += 1) {
        made.push((await runWithReady(harness)).jobId);
        await harness.untilAfter(await harness.now());
      }
      const { jobId: elsewhere } = await runWithReady(harness, { topic: "mail" });
      const ids = (jobs: ReadonlyArray<{ jobId: JobId }>) => jobs.map(({ jobId }) => jobId);
      assert.deepEqual(ids(await readyJobs(harness)), made);
      assert.deepEqual(ids(await readyJobs(harness, "shell", 2)), made.slice(0, 2));
      assert.deepEqual(ids(await readyJobs(harness, "mail")), [elsewhere]);
      assert.deepEqual(await readyJobs(harness, "none"), []);
      const foreign = { tenant: harness.otherTenant(), topic: "shell", limit: 9 };
      assertOutcome(await harness.store.listReadyJobs(foreign, call), { kind: "listed", jobs: [] });
    },
  },
  {
    name: "a job that does not exist, or is another tenant's, is not found",
    async check(harness) {
      const { jobId } = await runWithReady(harness);
      const foreign = await harness.store.getJob({ tenant: harness.otherTenant(), jobId }, call);
      assertOutcome(foreign, { kind: "not_found" });
      const none = await harness.store.getJob({ tenant: harness.tenant, jobId: `${jobId}1` as JobId }, call);
      assertOutcome(none, { kind: "not_found" });
    },
  },
  {
    name: "a heartbeat extends the claim and keeps the last progress",
    async check(harness) {
      const { jobId, token } = await runWithClaim(harness, 30_000);
      const { tenant } = harness;
      const beats = [{ jobId, token, leaseMs: 90_000, progress: '{"done":1}' }];
      const answer = await harness.store.heartbeatJobs({ tenant, beats }, call);
      const extended = { kind: "extended", jobId, expiresInMs: 90_000, stop: false };
      assertOutcome(answer, { kind: "judged", answers: [extended] });
      await beat(harness, jobId, token, 80_000);
      const { job } = only(await harness.store.getJob({ tenant, jobId }, call), "job");
      assert.equal(job.progress, '{"done":1}');
      const { expiresAtMs = 0, claimedAtMs = 0 } = job.claim ?? {};
      assert.ok(expiresAtMs - claimedAtMs >= 80_000);
    },
  },
  {
    name: "a heartbeat for another claim, an unknown job or a reported one says lost, without effect",
    async check(harness) {
      const { runId, jobId, token } = await runWithClaim(harness);
      const { jobId: ready } = await runWithReady(harness);
      const before = await picture(harness, runId);
      const lost = (id: JobId) => ({ kind: "lost", jobId: id });
      assert.deepEqual(await beat(harness, jobId, harness.claim().token), lost(jobId));
      assert.deepEqual(await beat(harness, ready, token), lost(ready));
      const none = `${runId}:none@1` as JobId;
      assert.deepEqual(await beat(harness, none, token), lost(none));
      assert.deepEqual(await picture(harness, runId), before);
      await deliverAndOwn(harness, runId, resultOf(harness, { jobId, token }));
      assert.deepEqual(await beat(harness, jobId, token), lost(jobId));
    },
  },
  {
    name: "a heartbeat tells the worker to stop when its run is cancelled or its tenant is stopped",
    async check(harness) {
      const { runId, jobId, token } = await runWithClaim(harness);
      await harness.set({ stopped: true });
      const extended = { kind: "extended", jobId, expiresInMs: 60_000 };
      assert.deepEqual(await beat(harness, jobId, token), { ...extended, stop: true });
      await harness.set({});
      assert.deepEqual(await beat(harness, jobId, token), { ...extended, stop: false });
      await deliverAndOwn(harness, runId, cancelOf(harness));
      assert.deepEqual(await beat(harness, jobId, token), { ...extended, stop: true });
      assert.equal(await jobState(harness, jobId), "claimed");
    },
  },
  {
    name: "a heartbeat for a job that its run called off says stop, and its result is refused",
    async check(harness) {
      const { runId, jobId, token } = await runWithClaim(harness);
      await harness.commit(runId, { voidJobs: [jobId] });
      const expected = { kind: "extended", jobId, expiresInMs: 0, stop: true };
      assert.deepEqual(await beat(harness, jobId, token), expected);
      assert.equal(await jobState(harness, jobId), "voided");
      const late = resultOf(harness, { jobId, token });
      assert.equal(await refusal(deliver(harness, runId, late)), "stale_claim");
      assert.deepEqual(await claim(harness, jobId), refusedClaim(jobId, "not_ready"));
    },
  },
  {
    name: "a claim that ran out counts until the sweep finds it: heartbeat and result are still accepted",
    async check(harness) {
      const { runId, jobId, token } = await runWithClaim(harness, 1);
      await harness.untilAfter((await harness.now()) + 1);
      assert.equal(only(await beat(harness, jobId, token, 1), "extended").stop, false);
      await harness.untilAfter((await harness.now()) + 1);
      const owned = await deliverAndOwn(harness, runId, resultOf(harness, { jobId, token }));
      assert.equal(owned.entries[0]?.kind, "result");
    },
  },
  {
    name: "jobs of an admission may be born claimed, and a repeat gives the same claims",
    async check(harness) {
      const runId = harness.runId();
      const terms = harness.claim();
      const run = harness.newRun({ runId, change: { jobs: [jobOf(runId, { claim: terms })] } });
      const request = { tenant: harness.tenant, run };
      const first = only(await harness.store.admit(request, call), "admitted");
      const again = only(await harness.store.admit(request, call), "admitted");
      assert.equal(first.claims.length, 1);
      assert.equal(again.claims[0]?.fence, first.claims[0]?.fence);
    },
  },
];
