// What every store must do with places: running jobs are counted exactly, and no claim, however it is made, goes past a limit.
import assert from "node:assert/strict";
import type { JobId } from "../../domain/job.ts";
import { type ConformanceCase, call, type Harness, only } from "./harness.ts";
import {
  beat,
  callOff,
  cancelOf,
  changeOf,
  claim,
  claimAll,
  commit,
  counts,
  deliver,
  deliverAndOwn,
  deliveryOf,
  inPool,
  jobOf,
  jobState,
  resultOf,
  runLock,
  runWith,
} from "./run-steps.ts";

export const limitCases: readonly ConformanceCase[] = [
  {
    name: "a topic's limit counts jobs that run, in one call and over several, and says when it is full",
    async check(harness) {
      await harness.set({ topics: { shell: { maxRunning: 2 } } });
      const { jobIds } = await runWith(harness, 4);
      assert.equal(await counts(harness), "0/4 0");
      const said = (await claimAll(harness, jobIds.slice(0, 3))).map((each) => each.said);
      assert.deepEqual(said, ["claimed", "claimed", "topic_full"]);
      assert.equal(await counts(harness), "2/2 2");
      assert.deepEqual(await claim(harness, jobIds[3] as JobId), {
        ...{ kind: "refused", jobId: jobIds[3], because: "topic_full" },
      });
      assert.equal(await jobState(harness, jobIds[3] as JobId), "ready");
    },
  },
  {
    name: "a topic with another name, also one that begins or ends the same, has places of its own",
    async check(harness) {
      const topics = { shell: { maxRunning: 0 }, "a b/%": { maxRunning: 1 }, constructor: { maxRunning: 1 } };
      await harness.set({ topics });
      for (const topic of ["shell2", "shel", "ashell", "shell!", "sh"]) {
        const { jobIds } = await runWith(harness, 1, { topic });
        assert.deepEqual(
          (await claimAll(harness, jobIds)).map(({ said }) => said),
          ["claimed"],
        );
        assert.equal(await counts(harness, topic), `1/0 ${(await counts(harness, topic)).split(" ")[1]}`);
      }
      for (const topic of ["a b/%", "constructor"]) {
        const { jobIds } = await runWith(harness, 2, { topic });
        assert.deepEqual(
          (await claimAll(harness, jobIds)).map(({ said }) => said),
          ["claimed", "topic_full"],
        );
      }
      assert.equal(await counts(harness), "0/0 7");
    },
  },
  {
    name: "a repeated claim holds one place",
    async check(harness) {
      await harness.set({ topics: { shell: { maxRunning: 2 } } });
      const { jobIds } = await runWith(harness, 2);
      const terms = harness.claim();
      for (let time = 0; time < 3; time += 1)
        only(await claim(harness, jobIds[0] as JobId, terms), "claimed");
      assert.equal(await counts(harness), "1/1 1");
      only(await claim(harness, jobIds[1] as JobId), "claimed");
    },
  },
  {
    name: "a result frees the place once and says where, also when it is repeated",
    async check(harness) {
      await harness.set({ topics: { shell: { maxRunning: 1 } } });
      const { runId, jobIds } = await runWith(harness, 3);
      const [first] = await claimAll(harness, jobIds.slice(0, 1));
      const report = resultOf(harness, first as NonNullable<typeof first>);
      const request = deliveryOf(harness, runId, report);
      const freed = { topic: "shell", pool: "default" };
      assert.deepEqual(only(await harness.store.deliver(request, call), "delivered").freed, freed);
      assert.equal(await counts(harness), "0/2 0");
      const [second] = await claimAll(harness, jobIds.slice(1, 2));
      assert.equal(second?.said, "claimed");
      // As a late duplicate: the place belongs to another job by now.
      assert.deepEqual(only(await harness.store.deliver(request, call), "delivered").freed, freed);
      assert.deepEqual(only(await deliver(harness, runId, report), "delivered").freed, freed);
      assert.equal(await counts(harness), "1/1 1");
    },
  },
  {
    name: "jobs of tenants without limits and pools are not counted, and their results free nothing",
    async check(harness) {
      const { runId, jobIds } = await runWith(harness, 1);
      const [job] = await claimAll(harness, jobIds);
      assert.equal(await counts(harness), "0/0 0");
      const answer = await deliver(harness, runId, resultOf(harness, job as NonNullable<typeof job>));
      assert.equal(only(answer, "delivered").freed, undefined);
    },
  },
  {
    name: "jobs are counted in a named pool without any limit, and the pool stands in the claim",
    async check(harness) {
      const { runId, jobIds } = await runWith(harness, 2);
      const terms = { ...inPool(harness, "gpu x"), worker: 'a "b", ["c"] d' };
      const answer = only(await claim(harness, jobIds[0] as JobId, terms), "claimed");
      assert.equal(answer.job.claim?.pool, "gpu x");
      assert.equal(answer.job.claim?.worker, terms.worker);
      assert.equal(await counts(harness, "shell", "gpu x"), "1/1 1");
      const beaten = await beat(harness, jobIds[0] as JobId, terms.token);
      assert.equal(only(beaten, "extended").stop, false);
      const job = { jobId: jobIds[0] as JobId, token: terms.token };
      const delivered = only(await deliver(harness, runId, resultOf(harness, job)), "delivered");
      assert.deepEqual(delivered.freed, { topic: "shell", pool: "gpu x" });
      assert.equal(await counts(harness, "shell", "gpu x"), "0/1 0");
    },
  },
  {
    name: "a pool's limit is one for all its topics, and other pools have their own",
    async check(harness) {
      await harness.set({ pools: { gpu: { maxRunning: 2 } } });
      const shell = await runWith(harness, 2);
      const build = await runWith(harness, 2, { topic: "build" });
      const mixed = [...shell.jobIds, ...build.jobIds];
      const said = (await claimAll(harness, mixed, () => inPool(harness, "gpu"))).map((each) => each.said);
      assert.deepEqual(said, ["claimed", "claimed", "pool_full", "pool_full"]);
      assert.deepEqual(
        (await claimAll(harness, build.jobIds, () => inPool(harness, "gpu2"))).map((each) => each.said),
        ["claimed", "claimed"],
      );
    },
  },
  {
    name: "workers of a draining pool get nothing new, keep what they have, and get jobs again afterwards",
    async check(harness) {
      const { runId, jobIds } = await runWith(harness, 3);
      const [held] = await claimAll(harness, jobIds.slice(0, 1), () => inPool(harness, "blue"));
      await harness.set({ pools: { blue: { draining: true } } });
      const [refused] = await claimAll(harness, jobIds.slice(1, 2), () => inPool(harness, "blue"));
      assert.equal(refused?.said, "pool_draining");
      const { jobId, token } = held as NonNullable<typeof held>;
      assert.equal(only(await beat(harness, jobId, token), "extended").stop, false);
      assert.equal(await counts(harness, "shell", "blue"), "1/2 1");
      only(await deliver(harness, runId, resultOf(harness, { jobId, token })), "delivered");
      assert.equal(await counts(harness, "shell", "blue"), "0/2 0");
      await harness.set({});
      const [taken] = await claimAll(harness, jobIds.slice(1, 2), () => inPool(harness, "blue"));
      assert.equal(taken?.said, "claimed");
    },
  },
  {
    name: "a pool that is restricted to topics gets no others",
    async check(harness) {
      await harness.set({ pools: { gpu: { topics: ["shell", "a b"] }, none: { topics: [] } } });
      for (const [topic, said] of [
        ["shell", "claimed"],
        ["a b", "claimed"],
        ["shell2", "pool_without_topic"],
      ]) {
        const { jobIds } = await runWith(harness, 1, { topic: topic as string });
        assert.equal((await claimAll(harness, jobIds, () => inPool(harness, "gpu")))[0]?.said, said);
      }
      const { jobIds } = await runWith(harness, 1);
      assert.equal(
        (await claimAll(harness, jobIds, () => inPool(harness, "none")))[0]?.said,
        "pool_without_topic",
      );
      assert.equal((await claimAll(harness, jobIds))[0]?.said, "claimed");
    },
  },
  {
    name: "the reasons come in one order: draining, topic not the pool's, topic full, pool full",
    async check(harness) {
      const { jobIds } = await runWith(harness, 1);
      const topics = { shell: { maxRunning: 0 } };
      const said = async (pools: NonNullable<Parameters<Harness["set"]>[0]["pools"]>, full = topics) => {
        await harness.set({ topics: full, pools });
        return (await claimAll(harness, jobIds, () => inPool(harness, "gpu")))[0]?.said;
      };
      assert.equal(await said({ gpu: { maxRunning: 0, draining: true, topics: [] } }), "pool_draining");
      assert.equal(await said({ gpu: { maxRunning: 0, topics: [] } }), "pool_without_topic");
      assert.equal(await said({ gpu: { maxRunning: 0 } }), "topic_full");
      assert.equal(await said({ gpu: { maxRunning: 0 } }, { shell: { maxRunning: 1 } }), "pool_full");
      assert.equal(await said({ gpu: {} }, { shell: { maxRunning: 1 } }), "claimed");
    },
  },
  {
    name: "jobs are born claimed within the limit; the others of the same admission are ready",
    async check(harness) {
      await harness.set({ topics: { shell: { maxRunning: 2 } } });
      const { runId, jobIds } = await runWith(harness, 3, { terms: () => harness.claim() });
      const states = await Promise.all(jobIds.map((jobId) => jobState(harness, jobId)));
      assert.deepEqual(states, ["claimed", "claimed", "ready"]);
      assert.equal(await counts(harness), "2/1 2");
      await harness.set({ topics: { shell: { maxRunning: 3 } } });
      const jobs = ["x", "y"].map((step) => jobOf(runId, { step, claim: harness.claim() }));
      await callOff(harness, runId, { jobs });
      assert.deepEqual(await Promise.all(jobs.map(({ jobId }) => jobState(harness, jobId))), [
        "claimed",
        "ready",
      ]);
    },
  },
  {
    name: "a job is not born claimed for a pool that drains, is full or does not have its topic",
    async check(harness) {
      const pools = { a: { draining: true }, b: { maxRunning: 0 }, c: { topics: ["other"] } } as const;
      await harness.set({ pools });
      const { jobIds } = await runWith(harness, 4, {
        terms: (index) => inPool(harness, ["a", "b", "c", "d"][index] as string),
      });
      const states = await Promise.all(jobIds.map((jobId) => jobState(harness, jobId)));
      assert.deepEqual(states, ["ready", "ready", "ready", "claimed"]);
      assert.equal(await counts(harness, "shell", "d"), "1/3 1");
    },
  },
  {
    name: "the place of a reported or called-off job goes to one that its own commit enqueues",
    async check(harness) {
      await harness.set({ topics: { shell: { maxRunning: 2 } } });
      const { runId, jobIds } = await runWith(harness, 2);
      const [first, second] = await claimAll(harness, jobIds);
      const next = jobOf(runId, { step: "next", claim: harness.claim() });
      const report = resultOf(harness, first as NonNullable<typeof first>);
      const proposal = { expectedVersion: 1, commitId: "c", change: changeOf({ jobs: [next] }) };
      const answer = only(await deliver(harness, runId, report, { proposal }), "applied");
      assert.deepEqual(
        answer.claims.map(({ jobId }) => jobId),
        [next.jobId],
      );
      assert.deepEqual(answer.freed, { topic: "shell", pool: "default" });
      assert.equal(await counts(harness), "2/0 2");
      const third = jobOf(runId, { step: "third", claim: harness.claim() });
      const guard = await harness.acquire(runLock(runId), 60_000);
      const voids = { jobs: [third], voidJobs: [second?.jobId as JobId] };
      only(await commit(harness, runId, guard, { expectedVersion: 2, change: voids }), "committed");
      assert.equal(await jobState(harness, third.jobId), "claimed");
      assert.equal(await counts(harness), "2/0 2");
    },
  },
  {
    name: "a called-off job leaves its place, once",
    async check(harness) {
      await harness.set({ topics: { shell: { maxRunning: 1 } } });
      const { runId, jobIds } = await runWith(harness, 2);
      await claimAll(harness, jobIds.slice(0, 1));
      await callOff(harness, runId, { voidJobs: jobIds });
      assert.equal(await counts(harness), "0/0 0");
      const another = await runWith(harness, 2);
      assert.deepEqual(
        (await claimAll(harness, another.jobIds)).map(({ said }) => said),
        ["claimed", "topic_full"],
      );
    },
  },
  {
    name: "a cancel keeps the places until the jobs are called off",
    async check(harness) {
      await harness.set({ topics: { shell: { maxRunning: 1 } } });
      const { runId, jobIds } = await runWith(harness, 1);
      await claimAll(harness, jobIds);
      const { guard } = await deliverAndOwn(harness, runId, cancelOf(harness));
      assert.equal(await counts(harness), "1/0 1");
      const change = { status: "cancelled", voidJobs: jobIds } as const;
      only(await commit(harness, runId, guard, { consumed: 1, change }), "committed");
      assert.equal(await counts(harness), "0/0 0");
    },
  },
  {
    name: "jobs that run when the first limit is set are counted from their next heartbeat on, once",
    async check(harness) {
      const { jobIds } = await runWith(harness, 3);
      const held = await claimAll(harness, jobIds.slice(0, 2));
      await harness.set({ topics: { shell: { maxRunning: 2 } } });
      assert.equal(await counts(harness), "0/1 0");
      for (const { jobId, token } of [...held, ...held]) only(await beat(harness, jobId, token), "extended");
      assert.equal(await counts(harness), "2/1 2");
      assert.equal((await claimAll(harness, jobIds.slice(2)))[0]?.said, "topic_full");
    },
  },
  {
    name: "a limit that is lowered or removed acts at once and counts on",
    async check(harness) {
      await harness.set({ topics: { shell: { maxRunning: 3 } } });
      const { runId, jobIds } = await runWith(harness, 4);
      const held = await claimAll(harness, jobIds.slice(0, 2));
      await harness.set({ topics: { shell: { maxRunning: 1 } } });
      assert.equal((await claimAll(harness, jobIds.slice(2, 3)))[0]?.said, "topic_full");
      await harness.set({});
      assert.equal((await claimAll(harness, jobIds.slice(2, 3)))[0]?.said, "claimed");
      await harness.set({ topics: { shell: { maxRunning: 2 } } });
      assert.equal(await counts(harness), "2/1 2");
      for (const each of held) await deliver(harness, runId, resultOf(harness, each));
      assert.equal(await counts(harness), "0/1 0");
    },
  },
  {
    name: "a run that is deleted with a job that still runs takes its place along",
    async check(harness) {
      await harness.set({ topics: { shell: { maxRunning: 1 } } });
      const { runId, jobIds } = await runWith(harness, 1);
      await claimAll(harness, jobIds);
      await harness.end(runId, "failed");
      assert.equal(await counts(harness), "1/0 1");
      only(
        await harness.store.deleteRun({ tenant: harness.tenant, runId, actor: "tester" }, call),
        "deleted",
      );
      assert.equal(await counts(harness), "0/0 0");
    },
  },
];
