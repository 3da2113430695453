// What every store must do with runs that give their places back while they wait: who gets them, and how the run comes back.
import assert from "node:assert/strict";
import type { RunId } from "../../domain/run.ts";
import {
  cancelQueued,
  checked,
  endRun,
  handOn,
  named,
  runAt,
  shown,
  start,
  startAt,
  statuses,
  tenantGate,
} from "./gate-steps.ts";
import { assertOutcome, call, type Harness, only } from "./harness.ts";
import {
  activeRuns,
  applyAll,
  approvalOf,
  cancelOf,
  commit,
  decisionOf,
  deliver,
  deliverAndOwn,
  entryKinds,
  headerOf,
  jobOf,
  resultOf,
  sweepUntil,
  take,
  timerOf,
} from "./run-steps.ts";

const crm = named("crm");
const releases = { releases: true } as const;

/** A run that has begun, asks for an approval, and gives its places back. */
async function parked(harness: Harness, options: Parameters<typeof startAt>[2] = {}): Promise<RunId> {
  const runId = await startAt(harness, [[crm, "queue"]], { ...releases, ...options });
  await park(harness, runId);
  return runId;
}

function park(
  harness: Harness,
  runId: RunId,
  idle: { readonly idle?: true } = { idle: true },
): Promise<void> {
  return applyAll(harness, runId, { status: "waiting", approvals: [approvalOf(runId)], ...idle });
}

function approve(harness: Harness, runId: RunId) {
  return deliver(harness, runId, decisionOf(harness, approvalOf(runId).approvalId));
}

/** One place everywhere. */
function narrow(harness: Harness): Promise<unknown> {
  return harness.set({ maxConcurrentRuns: 1, gates: { crm: { max: 1 } } });
}

async function gatesOf(harness: Harness, runId: RunId) {
  const { gates } = await headerOf(harness, runId);
  return { held: gates?.held, released: gates?.released, waits: gates?.waits?.level };
}

const away = { held: 0, released: true, waits: undefined };
const back = { held: 2, released: undefined, waits: undefined };

export const releasedCases = checked([
  {
    name: "a run that has asked for it gives all its places back with the commit after which it only waits, and hands them on",
    async check(harness) {
      await narrow(harness);
      const first = await startAt(harness, [[crm, "queue"]], releases);
      const second = await startAt(harness, [[crm, "queue"]]);
      assert.deepEqual(await statuses(harness, [first, second]), ["pending", "queued"]);
      await park(harness, first);
      assert.deepEqual(await gatesOf(harness, first), away);
      assert.deepEqual(await statuses(harness, [first, second]), ["waiting", "pending"]);
      assert.deepEqual(await activeRuns(harness), [second]);
      assert.deepEqual(await entryKinds(harness, second), ["started"]);
    },
  },
  {
    name: "a run keeps its places when it has not asked for that, when the change is not idle, and while entries wait",
    async check(harness) {
      await narrow(harness);
      const keeps = await startAt(harness, [[crm, "queue"]]);
      await park(harness, keeps);
      assert.deepEqual(await gatesOf(harness, keeps), back);
      await endRun(harness, keeps);
      const works = await startAt(harness, [[crm, "queue"]], releases);
      await park(harness, works, {});
      assert.deepEqual(await gatesOf(harness, works), back);
      await endRun(harness, works);
      const busy = await startAt(harness, [[crm, "queue"]], releases);
      await applyAll(harness, busy, { status: "running", approvals: [approvalOf(busy)], jobs: [] });
      const { guard, entries, header } = await deliverAndOwn(
        harness,
        busy,
        decisionOf(harness, approvalOf(busy).approvalId),
      );
      assert.equal(entries.length, 1);
      const { store, tenant } = harness;
      const ids = { commitId: harness.id("commit"), expectedVersion: header.version, consumed: 0 };
      const change = { ...harness.newRun().change, records: [], status: "waiting", idle: true } as const;
      only(await store.commit({ tenant, runId: busy, guard, ...ids, change }, call), "committed");
      assert.deepEqual(await gatesOf(harness, busy), back);
    },
  },
  {
    name: "what happens to it while its places are free makes it take them again in the same operation, and go on",
    async check(harness) {
      await narrow(harness);
      const runId = await parked(harness);
      const { run, approval } = only(await approve(harness, runId), "delivered");
      assert.equal(run.kind, "owned");
      assert.equal(approval?.state, "approved");
      assert.deepEqual(await gatesOf(harness, runId), back);
      assert.deepEqual(await activeRuns(harness), [runId]);
      assert.deepEqual((await shown(harness, crm)).holders, [runId]);
    },
  },
  {
    name: "without a free place the decision counts at once, nobody may apply it, and the run waits before all who have not begun",
    async check(harness) {
      await narrow(harness);
      const first = await parked(harness);
      const second = await startAt(harness, [[crm, "queue"]]);
      const third = await startAt(harness, [[crm, "queue"]], { priority: 9 });
      const { run, approval } = only(await approve(harness, first), "delivered");
      assert.deepEqual([run.kind, approval?.state], ["handed_over", "approved"]);
      assertOutcome(await take(harness, first), { kind: "handed_over" });
      assert.deepEqual(await shown(harness, crm), { holders: [second], queue: [first, third] });
      assert.deepEqual(await statuses(harness, [first]), ["waiting"]);
      assert.deepEqual(await endRun(harness, second), [first]);
      assert.deepEqual(await gatesOf(harness, first), back);
      const owned = only(await take(harness, first), "owned");
      assert.deepEqual(
        owned.entries.map(({ kind }) => kind),
        ["decision"],
      );
    },
  },
  {
    name: "runs come back in the order in which they asked, whatever their priorities, and from gate to gate",
    async check(harness) {
      await harness.set({ maxConcurrentRuns: 1, gates: { crm: { max: 2 } } });
      const low = await parked(harness, { priority: 0 });
      const high = await parked(harness, { priority: 9 });
      const other = await startAt(harness, []);
      await approve(harness, low);
      await approve(harness, high);
      assert.deepEqual((await shown(harness, crm)).holders, [low, high]);
      assert.deepEqual((await shown(harness, tenantGate)).queue, [low, high]);
      assert.deepEqual(await endRun(harness, other), [low]);
      only(await take(harness, low), "owned");
    },
  },
  {
    name: "one that comes back does not wait for those that have not begun, and they do not pass it",
    async check(harness) {
      await harness.set({ gates: { crm: { max: 2 } } });
      const first = await parked(harness);
      const second = await startAt(harness, [[crm, "queue"]]);
      const third = await startAt(harness, [[crm, "queue"]]);
      const fourth = await startAt(harness, [[crm, "queue"]]);
      assert.deepEqual(await statuses(harness, [second, third, fourth]), ["pending", "pending", "queued"]);
      await approve(harness, first);
      assert.deepEqual(await endRun(harness, second), [first]);
      assert.deepEqual(await endRun(harness, third), [fourth]);
    },
  },
  {
    name: "a cancel does not wait: the run goes on without places, and takes none from others when it ends",
    async check(harness) {
      await narrow(harness);
      for (const comesBack of [false, true]) {
        const runId = await parked(harness);
        const other = await startAt(harness, [[crm, "queue"]]);
        if (comesBack) await approve(harness, runId);
        const { run } = only(await deliver(harness, runId, cancelOf(harness)), "delivered");
        assert.equal(run.kind, "owned");
        assert.deepEqual(await gatesOf(harness, runId), { held: 0, released: undefined, waits: undefined });
        assert.deepEqual(await shown(harness, crm), { holders: [other], queue: [] });
        assert.deepEqual(await activeRuns(harness), [other]);
        await applyAll(harness, other, { status: "succeeded" });
        const next = await startAt(harness, [[crm, "queue"]]);
        const { version } = await headerOf(harness, runId);
        assert.equal(version, 2);
        await applyAll(harness, next, { status: "succeeded" });
      }
    },
  },
  {
    name: "one that comes back does not overtake another for whom a place is free already",
    async check(harness) {
      await harness.set({ gates: { crm: { max: 1 } } });
      const first = await parked(harness);
      const second = await parked(harness);
      const other = await startAt(harness, [[crm, "queue"]]);
      await approve(harness, first);
      await harness.set({ gates: { crm: { max: 3 } } });
      const { run } = only(await approve(harness, second), "delivered");
      assert.equal(run.kind, "handed_over");
      assert.deepEqual(await shown(harness, crm), { holders: [other], queue: [first, second] });
      assert.deepEqual((await handOn(harness, crm)).woken, [first, second]);
    },
  },
  {
    name: "a run that is cancelled while it comes back frees the places that it had again, which the sweep hands on",
    async check(harness) {
      await harness.set({ maxConcurrentRuns: 1, gates: { crm: { max: 1 } } });
      const runId = await parked(harness);
      const other = await startAt(harness, []);
      await approve(harness, runId);
      assert.deepEqual((await shown(harness, crm)).holders, [runId]);
      const next = await startAt(harness, [[crm, "queue"]]);
      assert.deepEqual((await shown(harness, crm)).queue, [next]);
      only(await deliver(harness, runId, cancelOf(harness)), "delivered");
      assert.deepEqual(await gatesOf(harness, runId), { held: 0, released: undefined, waits: undefined });
      const { gates } = await sweepUntil(harness, (swept) => swept.gates.length > 0);
      assert.deepEqual(
        gates.map(({ gate }) => gate),
        [crm],
      );
      await handOn(harness, crm);
      assert.deepEqual(await shown(harness, crm), { holders: [next], queue: [] });
      assert.deepEqual((await shown(harness, tenantGate)).queue, [next]);
      assert.deepEqual(await endRun(harness, other), [next]);
    },
  },
  {
    name: "its own deadline does not wait either, another timer does",
    async check(harness) {
      await narrow(harness);
      const timers = [
        { timerId: "deadline", dueAtMs: 1 },
        { timerId: "delay/pause@1", dueAtMs: 1 },
      ];
      for (const { timerId } of timers) {
        const runId = await startAt(harness, [[crm, "queue"]], releases);
        await applyAll(harness, runId, {
          status: "waiting",
          idle: true,
          timers: timers.filter((each) => each.timerId === timerId),
        });
        const other = await startAt(harness, [[crm, "queue"]]);
        const { run } = only(await deliver(harness, runId, timerOf(timerId)), "delivered");
        assert.equal(run.kind, timerId === "deadline" ? "owned" : "handed_over");
        await applyAll(harness, other, { status: "succeeded" });
        if (timerId === "deadline") continue;
        only(await take(harness, runId), "owned");
      }
    },
  },
  {
    name: "a timer that the sweep fires brings it back, and names it only when it may be applied",
    async check(harness) {
      await narrow(harness);
      const start = async () => {
        const runId = await startAt(harness, [[crm, "queue"]], releases);
        const timers = [{ timerId: "delay/pause@1", dueAtMs: 1 }];
        await applyAll(harness, runId, { status: "waiting", idle: true, timers });
        return runId;
      };
      const first = await start();
      const ofOurs = (waiting: ReadonlyArray<{ readonly tenant: string; readonly runId: RunId }>) =>
        waiting.filter(({ tenant }) => tenant === harness.tenant).map(({ runId }) => runId);
      const swept = await sweepUntil(harness, ({ waiting }) => ofOurs(waiting).length > 0);
      assert.deepEqual(ofOurs(swept.waiting), [first]);
      await applyAll(harness, first, { status: "succeeded" });
      const second = await start();
      const other = await startAt(harness, [[crm, "queue"]]);
      const named = await sweepUntil(
        harness,
        async () => (await gatesOf(harness, second)).waits !== undefined,
      );
      assert.equal(
        named.waiting.some(({ runId }) => runId === second),
        false,
      );
      assert.deepEqual(await endRun(harness, other), [second]);
    },
  },
  {
    name: "it can be given back and taken again many times, and ends as any other run",
    async check(harness) {
      await narrow(harness);
      const runId = await startAt(harness, [[crm, "queue"]], releases);
      for (let round = 1; round <= 3; round += 1) {
        const request = approvalOf(runId, { step: `s${round}`, approvalId: `${runId}:s${round}@1` as never });
        await applyAll(harness, runId, { status: "waiting", idle: true, approvals: [request] });
        assert.deepEqual(await gatesOf(harness, runId), away);
        const decision = decisionOf(harness, request.approvalId);
        const { guard, header } = await deliverAndOwn(harness, runId, decision);
        assert.deepEqual(await gatesOf(harness, runId), back);
        const going = {
          expectedVersion: header.version,
          consumed: 1,
          change: { status: "running" },
        } as const;
        only(await commit(harness, runId, guard, going), "committed");
      }
      await endRun(harness, runId);
      assert.deepEqual(await shown(harness, crm), { holders: [], queue: [] });
    },
  },
  {
    name: "a result that leaves only waiting gives the places back in the operation that brings it",
    async check(harness) {
      await narrow(harness);
      const runId = await startAt(harness, [[crm, "queue"]], releases);
      const terms = harness.claim();
      const job = jobOf(runId, { claim: terms });
      await applyAll(harness, runId, {
        status: "running",
        jobs: [job],
        records: [{ key: "input/build", body: "{}" }],
      });
      const other = await startAt(harness, [[crm, "queue"]]);
      const { version } = await headerOf(harness, runId);
      const change = { ...harness.newRun().change, records: [], status: "waiting", idle: true } as const;
      const proposal = { expectedVersion: version, commitId: harness.id("commit"), change };
      const result = resultOf(harness, { jobId: job.jobId, token: terms.token });
      const applied = only(await deliver(harness, runId, result, { proposal }), "applied");
      assert.deepEqual(applied.woken, [other]);
      assert.deepEqual(await gatesOf(harness, runId), away);
    },
  },
  {
    name: "a newer run at a gate that keeps only the newest neither replaces one that comes back nor makes it give way",
    async check(harness) {
      await harness.set({ maxConcurrentRuns: 1 });
      const begun = await startAt(harness, [], releases);
      await park(harness, begun);
      const holder = await startAt(harness, []);
      await approve(harness, begun);
      const replacing = await start(harness, runAt(harness, [[tenantGate, "replace_queued"]]));
      assert.equal(replacing.kind, "queued");
      assert.deepEqual(await statuses(harness, [begun]), ["waiting"]);
      assert.deepEqual(await endRun(harness, holder), [begun]);
    },
  },
  {
    name: "a stopped tenant gives no place back; when it goes on, the sweep does",
    async check(harness) {
      await narrow(harness);
      const runId = await parked(harness);
      await harness.set({ maxConcurrentRuns: 1, gates: { crm: { max: 1 } }, stopped: true });
      const { run } = only(await approve(harness, runId), "delivered");
      assert.equal(run.kind, "handed_over");
      await harness.set({ maxConcurrentRuns: 1, gates: { crm: { max: 1 } } });
      const { gates } = await sweepUntil(harness, ({ gates }) => gates.length > 0);
      assert.deepEqual(
        gates.map(({ gate }) => gate),
        [crm],
      );
      assert.deepEqual((await handOn(harness, crm)).woken, [runId]);
    },
  },
  {
    name: "those that have given their places back count for the quota of runs",
    async check(harness) {
      await harness.set({ quotas: { active_runs: 2 } });
      await parked(harness);
      await parked(harness);
      const refused = await start(harness, runAt(harness, [[crm, "queue"]]));
      assertOutcome(refused, { kind: "quota_reached", quota: "active_runs", limit: 2 });
      const { used } = only(await harness.store.countUsage({ tenant: harness.tenant }, call), "counted");
      assert.equal(used.active_runs, 2);
    },
  },
  {
    name: "one that comes back is not moved, has no deadline, and is not ended as one that never began",
    async check(harness) {
      await narrow(harness);
      const { store, tenant } = harness;
      const runId = await parked(harness, { deadlineMs: 1 });
      const other = await startAt(harness, [[crm, "queue"]]);
      const waiting = await startAt(harness, [[crm, "queue"]]);
      await approve(harness, runId);
      only(
        await store.moveQueued({ tenant, runId, to: 0, moveId: harness.id("move"), actor: "ops" }, call),
        "moved",
      );
      assert.deepEqual((await shown(harness, crm)).queue, [runId, waiting]);
      await sweepUntil(harness, () => true);
      assert.deepEqual(await statuses(harness, [runId]), ["waiting"]);
      assert.deepEqual(await cancelQueued(harness, waiting), []);
      assert.deepEqual(await endRun(harness, other), [runId]);
    },
  },
]);
