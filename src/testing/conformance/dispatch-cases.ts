// What every store must do with held jobs: nobody claims them, and the verdict of the holder of the job's lock counts once.
import assert from "node:assert/strict";
import type { NewEntry } from "../../domain/inbox.ts";
import type { JobId, JobSpec } from "../../domain/job.ts";
import type { Fence, Guard } from "../../domain/lock.ts";
import type { RunId } from "../../domain/run.ts";
import { type ConformanceCase, call, type Harness, only } from "./harness.ts";
import {
  beat,
  changeOf,
  claim,
  commit,
  deliver,
  deliverAndOwn,
  deliveryOf,
  jobOf,
  jobState,
  picture,
  refusal,
  resultOf,
  runLock,
  sweepUntil,
} from "./run-steps.ts";

type Verdict = Extract<NewEntry, { kind: "dispatch" }>;

/** A run with one held job. */
export async function runWithHeld(harness: Harness, options: Partial<JobSpec> = {}) {
  const runId = harness.runId();
  const job = jobOf(runId, { held: true, ...options });
  const records = [{ key: job.inputKey, body: '{"n":1}' }];
  await harness.admit(harness.newRun({ runId, records, change: { status: "running", jobs: [job] } }));
  return { runId, jobId: job.jobId, job };
}

function lockJob(harness: Harness, jobId: JobId, ttlMs = 60_000): Promise<Guard> {
  return harness.acquire({ namespace: "job", name: jobId }, ttlMs);
}

export function verdictOf(
  harness: Harness,
  jobId: JobId,
  { token, fence }: Pick<Guard, "token" | "fence">,
  options: Partial<Verdict> = {},
): Verdict {
  const entryId = harness.id("verdict");
  const guard = { token, fence };
  return { kind: "dispatch", entryId, jobId, verdict: "allow", reason: "it is fine", guard, ...options };
}

async function ready({ store, tenant }: Harness): Promise<readonly JobId[]> {
  const listed = only(await store.listReadyJobs({ tenant, topic: "shell", limit: 10 }, call), "listed");
  return listed.jobs.map(({ jobId }) => jobId);
}

async function jobNow({ store, tenant }: Harness, jobId: JobId) {
  return only(await store.getJob({ tenant, jobId }, call), "job").job;
}

function released(jobId: JobId) {
  return { releaseJobs: [{ jobId, topic: "shell" }] };
}

/** Brings the verdict and applies it with the change, as the owner of the run. */
async function applyVerdict(harness: Harness, runId: RunId, entry: Verdict, change = released(entry.jobId)) {
  const { guard } = await deliverAndOwn(harness, runId, entry);
  only(await commit(harness, runId, guard, { consumed: 1, change }), "committed");
}

export const dispatchCases: readonly ConformanceCase[] = [
  {
    name: "a held job is listed nowhere and cannot be claimed, also not by the claim that it was enqueued with",
    async check(harness) {
      const { jobId, job, runId } = await runWithHeld(harness, { claim: harness.claim() });
      assert.equal(await jobState(harness, jobId), "held");
      assert.deepEqual(await ready(harness), []);
      const refused = await claim(harness, jobId, job.claim);
      assert.deepEqual(refused, { kind: "refused", jobId, because: "not_ready" });
      const later = jobOf(runId, { step: "later", held: true, claim: harness.claim() });
      const guard = await harness.acquire(runLock(runId), 60_000);
      const answer = await commit(harness, runId, guard, { change: { jobs: [later] } });
      assert.deepEqual(only(answer, "committed").claims, []);
      assert.equal(await jobState(harness, later.jobId), "held");
    },
  },
  {
    name: "a verdict of the holder of the job's lock waits for the run's owner, and is kept with the job",
    async check(harness) {
      const { runId, jobId } = await runWithHeld(harness);
      const lock = await lockJob(harness, jobId);
      const entry = verdictOf(harness, jobId, lock, { reason: 'it "may" go', askAgainMs: 70 });
      const before = await harness.now();
      const owned = await deliverAndOwn(harness, runId, entry);
      const { entryId, verdict, reason } = entry;
      assert.deepEqual(owned.entries, [{ kind: "dispatch", entryId, jobId, verdict, reason }]);
      const { state, checked } = await jobNow(harness, jobId);
      const { saidAtMs = 0, ...said } = checked ?? {};
      assert.deepEqual(
        { state, said },
        { state: "held", said: { entryId, verdict, reason, askAgainMs: 70 } },
      );
      assert.ok(saidAtMs >= before && saidAtMs <= (await harness.now()));
      assert.deepEqual(await ready(harness), []);
    },
  },
  {
    name: "a released job can be claimed, and its worker finds its input",
    async check(harness) {
      const { runId, jobId } = await runWithHeld(harness, { requires: '{"labels":{}}' });
      const created = (await jobNow(harness, jobId)).createdAtMs;
      await applyVerdict(harness, runId, verdictOf(harness, jobId, await lockJob(harness, jobId)));
      assert.deepEqual(await ready(harness), [jobId]);
      const job = await jobNow(harness, jobId);
      assert.deepEqual([job.state, job.createdAtMs, job.requires], ["ready", created, '{"labels":{}}']);
      const terms = harness.claim();
      const answer = only(await claim(harness, jobId, terms), "claimed");
      assert.equal(answer.input, '{"n":1}');
      assert.equal(answer.job.checked?.verdict, "allow");
      const beats = [{ jobId, token: terms.token, leaseMs: 60_000, progress: '"half"' }];
      await harness.store.heartbeatJobs({ tenant: harness.tenant, beats }, call);
      const told = await jobNow(harness, jobId);
      assert.deepEqual([told.progress, told.checked], ['"half"', undefined]);
      only(await deliver(harness, runId, resultOf(harness, { jobId, token: terms.token })), "delivered");
      assert.equal(await jobState(harness, jobId), "reported");
    },
  },
  {
    name: "a heartbeat without progress leaves the verdict with its job",
    async check(harness) {
      const { runId, jobId } = await runWithHeld(harness);
      await applyVerdict(harness, runId, verdictOf(harness, jobId, await lockJob(harness, jobId)));
      const terms = harness.claim();
      only(await claim(harness, jobId, terms), "claimed");
      await beat(harness, jobId, terms.token);
      assert.equal((await jobNow(harness, jobId)).checked?.verdict, "allow");
    },
  },
  {
    name: "without the job's lock, or with an old grant of it, a verdict is refused without effect",
    async check(harness) {
      const { runId, jobId } = await runWithHeld(harness);
      const other = await runWithHeld(harness, { step: "other" });
      const nobody = { token: harness.token(), fence: 1 as Fence };
      assert.equal(await refusal(deliver(harness, runId, verdictOf(harness, jobId, nobody))), "stale_fence");
      const first = await lockJob(harness, jobId);
      await harness.release(first);
      assert.equal(await refusal(deliver(harness, runId, verdictOf(harness, jobId, first))), "stale_fence");
      const second = await lockJob(harness, jobId);
      const stranger = await lockJob(harness, other.jobId);
      const before = await picture(harness, runId);
      for (const guard of [
        first,
        stranger,
        { token: first.token, fence: second.fence },
        { token: second.token, fence: first.fence },
      ]) {
        assert.equal(await refusal(deliver(harness, runId, verdictOf(harness, jobId, guard))), "stale_fence");
      }
      assert.deepEqual(await picture(harness, runId), before);
      only(await deliver(harness, runId, verdictOf(harness, jobId, second)), "delivered");
    },
  },
  {
    name: "a verdict that comes when the lock has expired is refused",
    async check(harness) {
      const { runId, jobId } = await runWithHeld(harness);
      const lock = await lockJob(harness, jobId, 20);
      await harness.untilFree(lock.lock);
      assert.equal(await refusal(deliver(harness, runId, verdictOf(harness, jobId, lock))), "stale_fence");
    },
  },
  {
    name: "the first verdict that settles a job is the last: a repeat is recognised, another one is a duplicate",
    async check(harness) {
      const { runId, jobId } = await runWithHeld(harness);
      const lock = await lockJob(harness, jobId);
      const entry = verdictOf(harness, jobId, lock);
      const { guard } = await deliverAndOwn(harness, runId, entry);
      only(only(await deliver(harness, runId, entry), "delivered").run, "handed_over");
      const denial = verdictOf(harness, jobId, lock, { verdict: "deny" });
      assert.equal(await refusal(deliver(harness, runId, denial)), "duplicate");
      const change = released(jobId);
      const next = await commit(harness, runId, guard, { consumed: 1, change });
      assert.deepEqual(only(next, "committed").entries, []);
      only(only(await deliver(harness, runId, entry), "delivered").run, "handed_over");
      assert.equal(await refusal(deliver(harness, runId, denial)), "job_not_held");
      assert.equal(await jobState(harness, jobId), "ready");
    },
  },
  {
    name: "a job that is held again takes the next verdict",
    async check(harness) {
      const { runId, jobId } = await runWithHeld(harness);
      const lock = await lockJob(harness, jobId);
      const hold = verdictOf(harness, jobId, lock, { verdict: "hold", reason: "wait" });
      await applyVerdict(harness, runId, hold, { releaseJobs: [] });
      only(await deliver(harness, runId, hold), "delivered");
      assert.equal(await jobState(harness, jobId), "held");
      const { guard } = await deliverAndOwn(harness, runId, verdictOf(harness, jobId, lock));
      const change = released(jobId);
      only(await commit(harness, runId, guard, { consumed: 1, expectedVersion: 2, change }), "committed");
      assert.equal(await jobState(harness, jobId), "ready");
    },
  },
  {
    name: "verdicts of unknown jobs, jobs of other runs, ready jobs and ended runs are refused",
    async check(harness) {
      const { runId, jobId } = await runWithHeld(harness);
      const other = await runWithHeld(harness);
      const unknown = `${runId}:none@1` as JobId;
      for (const id of [unknown, other.jobId]) {
        const entry = verdictOf(harness, id, await lockJob(harness, id));
        assert.equal(await refusal(deliver(harness, runId, entry)), "job_not_held");
      }
      const usual = jobOf(runId, { step: "usual" });
      await harness.commit(runId, { jobs: [usual] });
      const entry = verdictOf(harness, usual.jobId, await lockJob(harness, usual.jobId));
      assert.equal(await refusal(deliver(harness, runId, entry)), "job_not_held");
      await harness.commit(runId, { status: "cancelled", voidJobs: [jobId, usual.jobId] });
      const late = verdictOf(harness, jobId, await lockJob(harness, jobId));
      assert.equal(await refusal(deliver(harness, runId, late)), "run_ended");
    },
  },
  {
    name: "what was decided with a verdict is applied with it: released, or called off",
    async check(harness) {
      for (const verdict of ["allow", "deny"] as const) {
        const { runId, jobId } = await runWithHeld(harness);
        const entry = verdictOf(harness, jobId, await lockJob(harness, jobId), { verdict });
        const change =
          verdict === "allow" ? changeOf(released(jobId)) : changeOf({ status: "denied", voidJobs: [jobId] });
        const proposal = { expectedVersion: 1, commitId: harness.id("commit"), change };
        const request = deliveryOf(harness, runId, entry, { proposal });
        only(await harness.store.deliver(request, call), "applied");
        only(await harness.store.deliver(request, call), "applied");
        const job = await jobNow(harness, jobId);
        assert.deepEqual(
          [job.state, job.checked?.verdict],
          [verdict === "allow" ? "ready" : "voided", verdict],
        );
        assert.deepEqual(await ready(harness), verdict === "allow" ? [jobId] : []);
        if (verdict === "allow") only(await claim(harness, jobId), "claimed");
      }
    },
  },
  {
    name: "a job called off while it is held stays so, whatever is released",
    async check(harness) {
      const { runId, jobId } = await runWithHeld(harness);
      await harness.commit(runId, { voidJobs: [jobId], ...released(jobId) });
      assert.equal(await jobState(harness, jobId), "voided");
      await harness.commit(runId, released(jobId));
      assert.equal(await jobState(harness, jobId), "voided");
      assert.deepEqual(await ready(harness), []);
    },
  },
  {
    name: "only held jobs are released",
    async check(harness) {
      const { runId, jobId } = await runWithHeld(harness);
      const terms = harness.claim();
      const taken = jobOf(runId, { step: "taken", claim: terms });
      await harness.commit(runId, { jobs: [taken] });
      const none = `${runId}:none@1` as JobId;
      const releaseJobs = [taken.jobId, none].map((id) => ({ jobId: id, topic: "shell" }));
      await harness.commit(runId, { releaseJobs });
      assert.deepEqual(await ready(harness), []);
      assert.equal(await jobState(harness, taken.jobId), "claimed");
      assert.equal(await jobState(harness, jobId), "held");
    },
  },
];

/** For a store that publishes again in haste. */
export const heldSweepCases: readonly ConformanceCase[] = [
  {
    name: "a held job is named again as such, and as any other once it is released",
    async check(harness) {
      const { runId, jobId } = await runWithHeld(harness, { requires: '{"capabilities":["gpu"]}' });
      const named = await sweepUntil(harness, ({ unclaimed }) => unclaimed.length > 0);
      const hint = named.unclaimed[0];
      assert.deepEqual([hint?.tenant, hint?.job.jobId, hint?.job.held], [harness.tenant, jobId, true]);
      assert.equal(hint?.job.requires, '{"capabilities":["gpu"]}');
      assert.equal((await jobNow(harness, jobId)).republished, 1);
      await applyVerdict(harness, runId, verdictOf(harness, jobId, await lockJob(harness, jobId)));
      assert.equal((await jobNow(harness, jobId)).republished, 0);
      const again = await sweepUntil(harness, ({ unclaimed }) => unclaimed.length > 0);
      assert.deepEqual([again.unclaimed[0]?.job.jobId, again.unclaimed[0]?.job.held], [jobId, undefined]);
    },
  },
  {
    name: "a job called off while it is held is not named again",
    async check(harness) {
      const { runId, jobId } = await runWithHeld(harness);
      const fresh = jobOf(runId, { step: "fresh", held: true });
      await harness.commit(runId, { voidJobs: [jobId], jobs: [fresh] });
      const named = await sweepUntil(harness, ({ unclaimed }) => unclaimed.length > 0);
      assert.deepEqual(
        named.unclaimed.map(({ job }) => job.jobId),
        [fresh.jobId],
      );
    },
  },
];
