// What every store must do with idempotency keys once their runs have ended, and with what comes late or out of order.
import assert from "node:assert/strict";
import { admissionLock } from "../../domain/lock.ts";
import { assertOutcome, type ConformanceCase, call, type Harness, key, only } from "./harness.ts";
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

function inspect(harness: Harness, text: string) {
  return harness.store.inspectReservation({ tenant: harness.tenant, digest: key(text).digest }, call);
}

async function boundKeys(harness: Harness, texts: readonly string[]): Promise<string> {
  let bound = "";
  for (const text of texts) if ((await inspect(harness, text)).kind === "bound") bound += text;
  return bound;
}

/** For a store whose keys outlive their runs by 60 ms. */
export const keyRetentionCases: readonly ConformanceCase[] = [
  {
    name: "a key replays with its run's final status until its retention ends, then it is free",
    async check(harness) {
      const run = harness.newRun({ key: key("k") });
      await harness.admit(run);
      await harness.end(run.runId, "failed");
      const replay = await harness.store.admit(
        { tenant: harness.tenant, run: harness.newRun({ key: key("k") }) },
        call,
      );
      assertOutcome(replay, { kind: "replayed", runId: run.runId, status: "failed" });
      await harness.until(async () => (await inspect(harness, "k")).kind === "idempotency_key_unbound");
      await harness.admit(harness.newRun({ key: key("k") }));
    },
  },
  {
    name: "the key of a run that has not ended outlives every retention",
    async check(harness) {
      const runId = await harness.admit(harness.newRun({ key: key("k") }));
      await harness.untilAfter((await harness.now()) + 70);
      assertOutcome(await inspect(harness, "k"), { kind: "bound", runId });
    },
  },
  {
    name: "130 expired keys are forgotten by the next sweeps, though one visit takes a hundred and a run goes on",
    async check(harness) {
      const { store, tenant, partition } = harness;
      await harness.admit(harness.newRun({ key: key("live") }));
      for (let index = 0; index < 130; index += 1) {
        const run = harness.newRun({ key: key(`k${index}`) });
        await harness.admit(run);
        await harness.end(run.runId);
      }
      await harness.untilAfter((await harness.now()) + 70);
      await harness.until(async () => {
        await store.sweep({ partition }, call);
        const { used } = only(await store.countUsage({ tenant }, call), "counted");
        return used.idempotency_keys === 1;
      });
      assert.equal((await inspect(harness, "live")).kind, "bound");
    },
  },
];

/** For a store that keeps keys for ever. */
export const keysForEverCases: readonly ConformanceCase[] = [
  {
    name: "without a retention a key replays for ever",
    async check(harness) {
      const run = harness.newRun({ key: key("k") });
      await harness.admit(run);
      await harness.end(run.runId);
      const bound = await inspect(harness, "k");
      assertOutcome(bound, { kind: "bound", runId: run.runId, finalStatus: "succeeded" });
    },
  },
];

/** For a store that keeps three keys of a tenant. */
export const keyQuotaCases: readonly ConformanceCase[] = [
  {
    name: "a tenant that keeps as many keys as it may, all of live runs, starts no run with a new one",
    async check(harness) {
      for (const text of ["a", "b", "c"]) await harness.admit(harness.newRun({ key: key(text) }));
      const run = harness.newRun({ key: key("d") });
      const refused = await harness.store.admit({ tenant: harness.tenant, run }, call);
      assertOutcome(refused, { kind: "idempotency_quota_reached", quota: 3 });
      assertOutcome(await harness.store.loadRun({ tenant: harness.tenant, runId: run.runId }, call), {
        kind: "not_found",
      });
      assert.equal(await boundKeys(harness, ["a", "b", "c", "d"]), "abc");
      await harness.admit();
    },
  },
  {
    name: "a known key is not counted twice: at the quota it still replays",
    async check(harness) {
      const runIds: string[] = [];
      for (const text of ["a", "b", "c"])
        runIds.push(await harness.admit(harness.newRun({ key: key(text) })));
      const run = harness.newRun({ key: key("b") });
      const replay = await harness.store.admit({ tenant: harness.tenant, run }, call);
      assertOutcome(replay, { kind: "replayed", runId: runIds[1], status: "pending" });
    },
  },
  {
    name: "at the quota the key of the run that ended first gives way, and never a live one's",
    async check(harness) {
      const live = await harness.admit(harness.newRun({ key: key("a") }));
      const first = await harness.admit(harness.newRun({ key: key("b") }));
      const second = await harness.admit(harness.newRun({ key: key("c") }));
      await harness.end(second);
      await harness.untilAfter(await harness.now());
      await harness.end(first);
      await harness.admit(harness.newRun({ key: key("d") }));
      assert.equal(await boundKeys(harness, ["a", "b", "c", "d"]), "abd");
      await harness.admit(harness.newRun({ key: key("e") }));
      assert.equal(await boundKeys(harness, ["a", "b", "c", "d", "e"]), "ade");
      assertOutcome(await inspect(harness, "a"), { kind: "bound", runId: live });
      const run = harness.newRun({ key: key("f") });
      const refused = await harness.store.admit({ tenant: harness.tenant, run }, call);
      assertOutcome(refused, { kind: "idempotency_quota_reached", quota: 3 });
    },
  },
  {
    name: "the quota holds under the lock strategy too: a reservation takes the place of the oldest ended key",
    async check(harness) {
      const { store, tenant } = harness;
      for (const text of ["a", "b", "c"]) {
        await harness.end(await harness.admit(harness.newRun({ key: key(text) })));
        await harness.untilAfter(await harness.now());
      }
      const guard = await harness.acquire(admissionLock, 10_000);
      const run = harness.newRun({ key: key("d") });
      const reserved = await store.reserve({ tenant, guard, runId: run.runId, key: key("d") }, call);
      assertOutcome(reserved, { kind: "reserved", evictedEarly: true });
      assert.equal((await store.createRun({ tenant, guard, run }, call)).kind, "admitted");
      assert.equal(await boundKeys(harness, ["a", "b", "c", "d"]), "bcd");
    },
  },
  {
    name: "a start says how many keys the tenant has, and when one gave way before its time",
    async check(harness) {
      const { tenant, store } = harness;
      const start = async (text?: string) => {
        const run = harness.newRun(text === undefined ? {} : { key: key(text) });
        const answer = only(await store.admit({ tenant, run }, call), "admitted");
        return { runId: run.runId, told: [answer.keysKept, answer.evictedEarly], run };
      };
      assert.deepEqual((await start()).told, [undefined, undefined]);
      const first = await start("a");
      assert.deepEqual(first.told, [1, undefined]);
      const again = only(await store.admit({ tenant, run: first.run }, call), "admitted");
      assert.deepEqual([again.keysKept, again.evictedEarly], [1, undefined]);
      await start("b");
      assert.deepEqual((await start("c")).told, [3, undefined]);
      await harness.end(first.runId);
      assert.deepEqual((await start("d")).told, [3, true]);
    },
  },
  {
    name: "a key given back leaves its place to another",
    async check(harness) {
      const { store, tenant } = harness;
      for (const text of ["a", "b"]) await harness.admit(harness.newRun({ key: key(text) }));
      const guard = await harness.acquire(admissionLock, 10_000);
      const { runId } = harness.newRun();
      await store.reserve({ tenant, guard, runId, key: key("c") }, call);
      const { digest } = key("c");
      await store.cancelReservation({ tenant, digest, runId, token: guard.token }, call);
      await harness.admit(harness.newRun({ key: key("d") }));
      assert.equal(await boundKeys(harness, ["a", "b", "c", "d"]), "abd");
    },
  },
];

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
