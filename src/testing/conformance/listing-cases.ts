// What every store must do to show runs and their timelines, and to delete runs that have ended.
import assert from "node:assert/strict";
import type { RunId } from "../../domain/run.ts";
import { assertOutcome, type ConformanceCase, call, type Harness, key, only } from "./harness.ts";
import { approvalOf, jobOf, jobState, runLock, runWithClaim } from "./run-steps.ts";

async function listed(harness: Harness, options: object = {}) {
  const answer = await harness.store.listRuns({ tenant: harness.tenant, limit: 100, ...options }, call);
  const { runs, next } = only(answer, "listed");
  return { runIds: runs.map(({ runId }) => runId), next };
}

function remove(harness: Harness, runId: RunId) {
  return harness.store.deleteRun({ tenant: harness.tenant, runId, actor: "janitor" }, call);
}

async function versions(harness: Harness, runId: RunId, after = 0, limit = 100) {
  const answer = await harness.store.readTimeline({ tenant: harness.tenant, runId, after, limit }, call);
  return only(answer, "timeline").rows.map(({ version }) => version);
}

export const listingCases: readonly ConformanceCase[] = [
  {
    name: "runs are listed newest first, as they are, page by page",
    async check(harness) {
      const made: RunId[] = [];
      for (let index = 0; index < 5; index += 1) made.unshift(await harness.admit());
      assert.deepEqual(await listed(harness), { runIds: made, next: undefined });
      assert.deepEqual(await listed(harness, { limit: 2 }), { runIds: made.slice(0, 2), next: made[1] });
      assert.deepEqual(await listed(harness, { limit: 2, before: made[1] }), {
        runIds: made.slice(2, 4),
        next: made[3],
      });
      assert.deepEqual(await listed(harness, { limit: 2, before: made[3] }), {
        runIds: made.slice(4),
        next: undefined,
      });
      const { tenant } = harness;
      const runs = only(await harness.store.listRuns({ tenant, limit: 1 }, call), "listed").runs;
      const loaded = await harness.store.loadRun({ tenant, runId: made[0] as RunId }, call);
      assert.deepEqual(runs[0], only(loaded, "run").header);
      const foreign = await harness.store.listRuns({ tenant: harness.otherTenant(), limit: 9 }, call);
      assertOutcome(foreign, { kind: "listed", runs: [] });
    },
  },
  {
    name: "runs are listed by status and by workflow, in every state",
    async check(harness) {
      const first = await harness.admit(harness.newRun({ workflow: "deploy" }));
      const second = await harness.admit(harness.newRun({ workflow: "mail" }));
      const third = await harness.admit(harness.newRun({ workflow: "mail", change: { status: "running" } }));
      await harness.end(first, "failed");
      assert.deepEqual((await listed(harness, { status: "failed" })).runIds, [first]);
      assert.deepEqual((await listed(harness, { status: "pending" })).runIds, [second]);
      assert.deepEqual((await listed(harness, { workflow: "mail" })).runIds, [third, second]);
      assert.deepEqual((await listed(harness, { workflow: "mail", status: "running" })).runIds, [third]);
      assert.deepEqual((await listed(harness, { workflow: "none" })).runIds, []);
      assert.deepEqual(await listed(harness, { workflow: "mail", limit: 1 }), {
        runIds: [third],
        next: third,
      });
    },
  },
  {
    name: "the listing of few among many looks at 500 runs a call, and says where to go on",
    async check(harness) {
      const oldest = await harness.admit(harness.newRun({ workflow: "rare" }));
      await Promise.all(Array.from({ length: 505 }, () => harness.admit()));
      const first = await listed(harness, { workflow: "rare" });
      assert.deepEqual(first.runIds, []);
      assert.notEqual(first.next, undefined);
      const second = await listed(harness, { workflow: "rare", before: first.next });
      assert.deepEqual(second, { runIds: [oldest], next: undefined });
    },
  },
  {
    name: "a timeline is read after a version, up to a limit, with the version and status that the run has",
    async check(harness) {
      const runId = await harness.admit();
      for (let index = 0; index < 4; index += 1) await harness.commit(runId);
      assert.deepEqual(await versions(harness, runId), [1, 2, 3, 4, 5]);
      assert.deepEqual(await versions(harness, runId, 2, 2), [3, 4]);
      assert.deepEqual(await versions(harness, runId, 5), []);
      const request = { tenant: harness.tenant, runId, after: 5, limit: 1 };
      const read = only(await harness.store.readTimeline(request, call), "timeline");
      assert.deepEqual([read.version, read.status], [5, "running"]);
      await harness.end(runId, "failed");
      const ended = only(await harness.store.readTimeline(request, call), "timeline");
      assert.deepEqual([ended.version, ended.status, ended.rows.length], [6, "failed", 1]);
      const missing = await harness.store.readTimeline({ ...request, runId: harness.runId() }, call);
      assertOutcome(missing, { kind: "not_found" });
    },
  },
  {
    name: "event rows are read after a number, and every answer says from where to where they reach",
    async check(harness) {
      const read = async (after: number, limit: number) => {
        const request = { tenant: harness.tenant, after, limit };
        const { events, first, last } = only(await harness.store.readEvents(request, call), "events");
        return { numbers: events.map(({ sequence }) => sequence), first, last };
      };
      assert.deepEqual(await read(0, 9), { numbers: [], first: 1, last: 0 });
      const runId = await harness.admit();
      for (let index = 0; index < 2; index += 1) await harness.commit(runId);
      assert.deepEqual(await read(0, 2), { numbers: [1, 2], first: 1, last: 3 });
      assert.deepEqual(await read(2, 9), { numbers: [3], first: 1, last: 3 });
      assert.deepEqual(await read(3, 9), { numbers: [], first: 1, last: 3 });
      assert.deepEqual(await read(Number.MAX_SAFE_INTEGER, 1), { numbers: [], first: 1, last: 3 });
    },
  },
  {
    name: "a run that has not ended is not deleted, and one that does not exist is not found",
    async check(harness) {
      const runId = await harness.admit();
      assertOutcome(await remove(harness, runId), { kind: "not_ended" });
      assert.deepEqual((await listed(harness)).runIds, [runId]);
      assertOutcome(await remove(harness, harness.runId()), { kind: "not_found" });
    },
  },
  {
    name: "a deleted run is gone with all that belongs to it, and its key still replays",
    async check(harness) {
      const { store, tenant } = harness;
      const runId = harness.runId();
      const approval = approvalOf(runId);
      const job = jobOf(runId, { claim: harness.claim() });
      const timers = [{ timerId: "t", dueAtMs: 9_000_000_000_000 }];
      const change = { jobs: [job], approvals: [approval], timers };
      await harness.admit(harness.newRun({ runId, key: key("k"), change }));
      const neighbour = await runWithClaim(harness);
      await harness.end(runId);
      assertOutcome(await remove(harness, runId), { kind: "deleted" });
      assertOutcome(await remove(harness, runId), { kind: "not_found" });
      assertOutcome(await store.loadRun({ tenant, runId }, call), { kind: "not_found" });
      assertOutcome(await store.readTimeline({ tenant, runId, after: 0, limit: 1 }, call), {
        kind: "not_found",
      });
      assert.equal(await jobState(harness, job.jobId), "not_found");
      const { approvalId } = approval;
      assertOutcome(await store.getApproval({ tenant, approvalId }, call), { kind: "not_found" });
      assert.deepEqual((await listed(harness)).runIds, [neighbour.runId]);
      assert.equal(await jobState(harness, neighbour.jobId), "claimed");
      const replay = await store.admit({ tenant, run: harness.newRun({ key: key("k") }) }, call);
      assertOutcome(replay, { kind: "replayed", runId, status: "succeeded" });
      const rows = only(await store.readEvents({ tenant, after: 0, limit: 9 }, call), "events").events;
      const { type, subject, actor, detail } = rows.at(-1) as (typeof rows)[number];
      assert.deepEqual([type, subject, actor, detail], ["run_deleted", runId, "janitor", "succeeded"]);
    },
  },
  {
    name: "the lock of a deleted run is forgotten: a late duplicate finds no grant",
    async check(harness) {
      const runId = await harness.admit();
      await harness.end(runId);
      const guard = await harness.acquire(runLock(runId), 60_000);
      assertOutcome(await remove(harness, runId), { kind: "deleted" });
      const { tenant } = harness;
      const { lock, token } = guard;
      assertOutcome(await harness.store.inspectLock({ tenant, lock }, call), { kind: "free" });
      assertOutcome(await harness.store.releaseLock({ tenant, lock, token }, call), { kind: "not_owned" });
    },
  },
  {
    name: "a large run is deleted part by part, and is found until the last",
    async check(harness) {
      const records = Array.from({ length: 1_200 }, (_, index) => ({ key: `step/${index}`, body: "{}" }));
      const runId = await harness.admit(harness.newRun({ records }));
      await harness.end(runId);
      const answers: string[] = [];
      for (let part = 0; part < 9 && answers.at(-1) !== "deleted"; part += 1) {
        assert.deepEqual((await listed(harness)).runIds, [runId]);
        answers.push((await remove(harness, runId)).kind);
      }
      assert.equal(answers.at(-1), "deleted");
      assert.ok(answers.slice(0, -1).every((kind) => kind === "more"));
      assert.deepEqual((await listed(harness)).runIds, []);
    },
  },
];

/** For a store that keeps three rows of a timeline and five of a tenant's events. */
export const trimmingCases: readonly ConformanceCase[] = [
  {
    name: "only the last rows of a timeline are kept",
    async check(harness) {
      const runId = await harness.admit();
      for (let index = 0; index < 5; index += 1) await harness.commit(runId);
      assert.deepEqual(await versions(harness, runId), [4, 5, 6]);
      assert.deepEqual(await versions(harness, runId, 4), [5, 6]);
      await harness.end(runId);
      assertOutcome(await remove(harness, runId), { kind: "deleted" });
    },
  },
  {
    name: "only the last events of a tenant are kept, and their numbers go on",
    async check(harness) {
      const runId = await harness.admit();
      for (let index = 0; index < 6; index += 1) await harness.commit(runId);
      const request = { tenant: harness.tenant, after: 0, limit: 100 };
      const { events, first, last } = only(await harness.store.readEvents(request, call), "events");
      assert.deepEqual(
        events.map(({ sequence }) => sequence),
        [3, 4, 5, 6, 7],
      );
      assert.deepEqual([first, last], [3, 7]);
    },
  },
];
