// What every store must do when something changes at gates: limits, stops, moves in parts, runs opened again, only the newest.
import assert from "node:assert/strict";
import type { AtLimit, GateId } from "../../domain/gates.ts";
import type { RunId } from "../../domain/run.ts";
import {
  byKey,
  cancelQueued,
  checked,
  endRun,
  gate,
  handOn,
  named,
  runAt,
  saveLimits,
  shown,
  start,
  startAt,
  statuses,
  tenantGate,
  whole,
  workflow,
} from "./gate-steps.ts";
import { assertOutcome, call, type Harness, key, only } from "./harness.ts";
import { applyAll, cancelOf, deliver, headerOf, jobOf, retryOf, sweepUntil } from "./run-steps.ts";

/** One run after the other at these gates. */
async function several(
  harness: Harness,
  count: number,
  gates: ReadonlyArray<readonly [GateId, AtLimit]>,
): Promise<readonly RunId[]> {
  const runIds: RunId[] = [];
  for (let index = 0; index < count; index += 1) runIds.push(await startAt(harness, gates));
  return runIds;
}

/** Hands on at all gates that sweeps find, until one has been found. */
async function sweepAndHandOn(harness: Harness): Promise<readonly RunId[]> {
  const { gates, repairs } = await sweepUntil(harness, (sum) => sum.gates.length > 0);
  assert.deepEqual(repairs, []);
  const woken: RunId[] = [];
  for (const { gate: id } of gates) {
    for (let more = true; more; ) {
      const answer = await handOn(harness, id);
      woken.push(...answer.woken);
      more = answer.more;
    }
  }
  return woken;
}

async function failWithLetter(harness: Harness, runId: RunId) {
  const { jobId } = jobOf(runId);
  const deadLetters = [{ id: jobId, reason: "retries_exhausted", body: "{}" }] as const;
  await applyAll(harness, runId, { status: "failed", deadLetters });
  return retryOf(harness, jobId);
}

/** Runs of one millisecond are as young as each other. */
async function untilLaterThan(harness: Harness, atMs: number): Promise<void> {
  const { store, tenant } = harness;
  await harness.until(async () => only(await store.getTenant({ tenant }, call), "tenant").storeTimeMs > atMs);
}

export const gateChangeCases = checked([
  {
    name: "a limit below what is active admits nobody until it fits",
    async check(harness) {
      await harness.set({ gates: { crm: { max: 3 } } });
      const runIds = await several(harness, 4, [[named("crm"), "queue"]]);
      const waiting = runIds.at(-1) as RunId;
      await harness.set({ gates: { crm: { max: 1 } } });
      for (const runId of runIds.slice(0, 2)) assert.deepEqual(await endRun(harness, runId), []);
      assert.deepEqual(await endRun(harness, runIds[2] as RunId), [waiting]);
    },
  },
  {
    name: "a limit that is raised lets those go on who wait there, when a sweep has found the gate",
    async check(harness) {
      await harness.set({ gates: { crm: { max: 1 }, erp: { max: 1 } } });
      const [, ...waiting] = await several(harness, 4, [[named("crm"), "queue"]]);
      await several(harness, 2, [[named("erp"), "queue"]]);
      await harness.set({ gates: { crm: { max: 3 }, erp: { max: 1 } } });
      assert.deepEqual(await sweepAndHandOn(harness), waiting.slice(0, 2));
    },
  },
  {
    name: "a limit that is taken away lets everybody go on, also those who start now",
    async check(harness) {
      await harness.set({ maxConcurrentRuns: 1 });
      const [, ...waiting] = await several(harness, 3, []);
      await harness.set({});
      only(await start(harness, runAt(harness, [])), "admitted");
      assert.deepEqual(await sweepAndHandOn(harness), waiting);
    },
  },
  {
    name: "one operation hands on to eight runs, leaves the gate to be found at once, and each further call goes on",
    async check(harness) {
      const { store, partition } = harness;
      await harness.set({ maxConcurrentRuns: 1 });
      const [first, ...waiting] = await several(harness, 20, []);
      await harness.set({ maxConcurrentRuns: 30 });
      assert.deepEqual(await endRun(harness, first as RunId), waiting.slice(0, 8));
      const found = only(await store.findDue({ partitions: [partition] }, call), "found");
      assert.deepEqual(found.partitions, [partition]);
      const second = await handOn(harness, tenantGate);
      assert.deepEqual([second.woken, second.more], [waiting.slice(8, 16), true]);
      const third = await handOn(harness, tenantGate);
      assert.deepEqual([third.woken, third.more], [waiting.slice(16), false]);
      const last = await handOn(harness, tenantGate);
      assert.deepEqual([last.woken, last.more], [[], false]);
    },
  },
  {
    name: "a workflow that is saved with another limit, without the gate, or removed lets those go on who wait",
    async check(harness) {
      const { store, tenant } = harness;
      await saveLimits(harness, { key: 1, whole: 2 });
      const gates = [[byKey("a"), "queue"] as const, [whole, "queue"] as const];
      const [, second, third, fourth] = await several(harness, 4, gates);
      assert.equal((await gate(harness, byKey("a"))).state.waiting, 3);
      await saveLimits(harness, { key: 2, whole: 2 });
      assert.deepEqual(await sweepAndHandOn(harness), [second]);
      await saveLimits(harness, { whole: 2 });
      assert.deepEqual(await sweepAndHandOn(harness), []);
      assert.deepEqual((await shown(harness, whole)).queue, [third, fourth]);
      const removal = { tenant, collection: "workflow", id: workflow, actor: "tester" } as const;
      only(await store.removeDocument(removal, call), "removed");
      assert.deepEqual(await sweepAndHandOn(harness), [third, fourth]);
    },
  },
  {
    name: "a tenant that is stopped grants nothing, and goes on when it is not any more",
    async check(harness) {
      await harness.set({ maxConcurrentRuns: 2 });
      const [first, second, third, fourth] = await several(harness, 4, []);
      await harness.set({ maxConcurrentRuns: 2, stopped: true });
      assert.deepEqual(await endRun(harness, first as RunId), []);
      assert.deepEqual((await handOn(harness, tenantGate)).more, false);
      assert.deepEqual(await cancelQueued(harness, third as RunId), []);
      assert.deepEqual(await statuses(harness, [second as RunId, fourth as RunId]), ["pending", "queued"]);
      await harness.set({ maxConcurrentRuns: 2 });
      assert.deepEqual(await sweepAndHandOn(harness), [fourth]);
    },
  },
  {
    name: "a run that failed is opened again with all its places, and waits for none: a full gate or one with a queue refuses",
    async check(harness) {
      await harness.set({ gates: { crm: { max: 1 } } });
      const failed = await startAt(harness, [[named("crm"), "queue"]]);
      const retry = await failWithLetter(harness, failed);
      const other = await startAt(harness, [[named("crm"), "queue"]]);
      assert.equal((await deliver(harness, failed, retry)).kind, "max_concurrent_runs_reached");
      const waiting = await startAt(harness, [[named("crm"), "queue"]]);
      await harness.set({ gates: { crm: { max: 2 } } });
      assert.equal((await deliver(harness, failed, retry)).kind, "max_concurrent_runs_reached");
      assert.deepEqual((await handOn(harness, named("crm"))).woken, [waiting]);
      await endRun(harness, other);
      only(await deliver(harness, failed, retry), "delivered");
      assert.deepEqual(new Set((await shown(harness, named("crm"))).holders), new Set([failed, waiting]));
      assert.equal((await headerOf(harness, failed)).gates?.held, 2);
    },
  },
  {
    name: "a run that ended without having begun is not opened again",
    async check(harness) {
      const { store, tenant } = harness;
      await harness.set({ maxConcurrentRuns: 1 });
      await startAt(harness, []);
      const runId = await startAt(harness, [], { deadlineMs: 1 });
      await sweepUntil(harness, (sum) => sum.queueDeadlines === 1);
      const { status, endReason } = await headerOf(harness, runId);
      assert.deepEqual([status, endReason], ["timed_out", "queue_deadline_passed"]);
      const letter = { tenant, collection: "deadLetter", id: "letter", body: "{}", changeId: "c" } as const;
      only(await store.putDocument({ ...letter, actor: "engine" }, call), "saved");
      await harness.set({});
      const retry = retryOf(harness, jobOf(runId).jobId, { letterId: "letter" });
      assert.equal((await deliver(harness, runId, retry)).kind, "dead_letter_not_retryable");
    },
  },
]);

const newest = (harness: Harness, atLimit: AtLimit, options = {}) =>
  startAt(harness, [[byKey("a"), atLimit]], options);

export const newestCases = checked([
  {
    name: "a run that comes by hand-over to a gate at which a younger one waits alone gives way to it",
    async check(harness) {
      await saveLimits(harness, { whole: 1, key: 1 });
      const newestOnly = [whole, "replace_queued"] as const;
      const first = await startAt(harness, [[byKey("a"), "queue"], newestOnly]);
      const older = await startAt(harness, [[byKey("a"), "queue"], newestOnly]);
      await untilLaterThan(harness, (await headerOf(harness, older)).gates?.askedAtMs ?? 0);
      const younger = await startAt(harness, [[byKey("b"), "queue"], newestOnly]);
      assert.deepEqual(await endRun(harness, first), [younger]);
      assert.deepEqual(await statuses(harness, [older, younger]), ["cancelled", "pending"]);
      assert.equal((await headerOf(harness, older)).endReason, `superseded_by ${younger}`);
      assert.deepEqual(await shown(harness, byKey("a")), { holders: [], queue: [] });
    },
  },
  {
    name: "where only the newest waits, the one before ends as superseded, and its key replays it",
    async check(harness) {
      await saveLimits(harness, { key: 1 });
      const first = await newest(harness, "replace_queued");
      const second = await newest(harness, "replace_queued", { key: key("k") });
      const third = await newest(harness, "replace_queued");
      assert.deepEqual(await statuses(harness, [first, second, third]), ["pending", "cancelled", "queued"]);
      assert.equal((await headerOf(harness, second)).endReason, `superseded_by ${third}`);
      const again = runAt(harness, [[byKey("a"), "replace_queued"]], { key: key("k") });
      assertOutcome(await start(harness, again), { kind: "replayed", runId: second, status: "cancelled" });
      assert.deepEqual(await endRun(harness, first), [third]);
    },
  },
  {
    name: "the newest asks the oldest that is active to cancel, waits at the head, and begins when it has ended",
    async check(harness) {
      await saveLimits(harness, { key: 2 });
      const [first, second] = [await newest(harness, "queue"), await newest(harness, "queue")];
      const run = runAt(harness, [[byKey("a"), "cancel_in_progress"]]);
      const answer = only(await start(harness, run), "queued");
      assert.deepEqual([answer.woken, answer.position], [[first], 1]);
      assert.notEqual((await headerOf(harness, first)).cancelRequested, undefined);
      assert.equal((await headerOf(harness, second)).cancelRequested, undefined);
      assert.deepEqual(await endRun(harness, first), [run.runId]);
    },
  },
  {
    name: "while one is cancelling no other is asked, whoever asked it; a repeated start asks nobody",
    async check(harness) {
      await saveLimits(harness, { key: 2 });
      const [first, second] = [await newest(harness, "queue"), await newest(harness, "queue")];
      await deliver(harness, second, cancelOf(harness));
      const run = runAt(harness, [[byKey("a"), "cancel_in_progress"]]);
      assert.equal(only(await start(harness, run), "queued").woken, undefined);
      const newer = runAt(harness, [[byKey("a"), "cancel_in_progress"]]);
      assert.equal(only(await start(harness, newer), "queued").woken, undefined);
      assert.equal(only(await start(harness, newer), "queued").woken, undefined);
      assert.equal((await headerOf(harness, first)).cancelRequested, undefined);
      assert.deepEqual((await shown(harness, byKey("a"))).queue, [newer.runId]);
    },
  },
  {
    name: "a place held by a run that waits elsewhere is freed at once: the newest is admitted by its own start",
    async check(harness) {
      await saveLimits(harness, { key: 1 });
      await harness.set({ gates: { crm: { max: 1 } } });
      await startAt(harness, [[named("crm"), "queue"]]);
      const gates = [[byKey("a"), "cancel_in_progress"] as const];
      const waiting = await startAt(harness, [...gates, [named("crm"), "queue"]]);
      const run = runAt(harness, gates);
      const answer = only(await start(harness, run), "admitted");
      assert.deepEqual([answer.woken, answer.status], [undefined, "pending"]);
      assert.equal((await headerOf(harness, waiting)).endReason, `superseded_by ${run.runId}`);
    },
  },
  {
    name: "what a replaced run held is handed on with its end",
    async check(harness) {
      await saveLimits(harness, { key: 1, whole: 1 });
      const first = await startAt(harness, [[whole, "queue"]]);
      const replaced = await startAt(harness, [
        [byKey("a"), "queue"],
        [whole, "replace_queued"],
      ]);
      const behind = await startAt(harness, [[byKey("a"), "queue"]]);
      const run = runAt(harness, [
        [byKey("b"), "queue"],
        [whole, "replace_queued"],
      ]);
      const answer = only(await start(harness, run), "queued");
      assert.deepEqual(answer.woken, [behind]);
      assert.deepEqual(await statuses(harness, [first, replaced]), ["pending", "cancelled"]);
    },
  },
]);
