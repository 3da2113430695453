// What every store must do with trees of runs: children are created, cancelled and heard of in one operation with their parent.
import assert from "node:assert/strict";
import { admissionLock } from "../../domain/lock.ts";
import type { RunId } from "../../domain/run.ts";
import { assertOutcome, type ConformanceCase, call, type Harness, only } from "./harness.ts";
import {
  activeRuns,
  applyAll,
  cancelOf,
  changeOf,
  childOf,
  commit,
  commitOf,
  deliver,
  deliverAndOwn,
  deliveryOf,
  family,
  headerOf,
  jobOf,
  picture,
  refusal,
  resultOf,
  runLock,
  runWithClaim,
  take,
} from "./run-steps.ts";

/** Rows from number `after` on, in short. */
async function rows(harness: Harness, after: number): Promise<readonly string[]> {
  const read = await harness.store.readEvents({ tenant: harness.tenant, after, limit: 100 }, call);
  return only(read, "events").events.map(
    ({ type, subject, actor, detail }) => `${type} ${subject} ${actor} ${detail}`,
  );
}

async function statuses(harness: Harness, runIds: readonly RunId[]): Promise<readonly string[]> {
  return Promise.all(runIds.map(async (runId) => (await headerOf(harness, runId)).status));
}

function ended(child: RunId, options: object = {}) {
  const place = { runId: child, step: "call", attempt: 1 };
  return { kind: "child_ended", entryId: `child:${child}`, ...place, status: "succeeded", ...options };
}

export const childCases: readonly ConformanceCase[] = [
  {
    name: "a commit creates its children: runs like any other, with an entry that starts them and no slot",
    async check(harness) {
      const { store, tenant } = harness;
      const parent = await harness.admit();
      const child = childOf(harness, { step: 'say "hi" to all', attempt: 3 });
      await harness.commit(parent, { children: [child] });
      const { runId } = child;
      const loaded = only(await store.loadRun({ tenant, runId }, call), "run");
      const { admittedAtMs, updatedAtMs, ...header } = loaded.header;
      const born = {
        workflow: "notify",
        definition: "sha256:2",
        status: "pending",
        version: 1,
        actor: parent,
      };
      const place = { runId: parent, step: 'say "hi" to all', attempt: 3, root: parent, depth: 1 };
      assert.deepEqual(header, { runId, tenant, ...born, parent: place });
      assert.equal(admittedAtMs, updatedAtMs);
      assert.equal(admittedAtMs, (await headerOf(harness, parent)).updatedAtMs);
      assert.deepEqual(loaded.records, child.records);
      const { runs } = only(await store.listRuns({ tenant, limit: 9 }, call), "listed");
      assert.deepEqual(
        runs.map((each) => each.runId),
        [runId, parent],
      );
      assert.deepEqual(await activeRuns(harness), [parent]);
      const read = await store.readTimeline({ tenant, runId, after: 0, limit: 9 }, call);
      const row = { version: 1, atMs: admittedAtMs, body: '[{"type":"run_admitted"}]' };
      assert.deepEqual(only(read, "timeline").rows, [row]);
      assert.deepEqual(await rows(harness, 1), [
        `run_changed ${parent} engine 2 running`,
        `run_admitted ${runId} ${parent} notify`,
      ]);
      const owned = only(await take(harness, runId), "owned");
      assert.deepEqual(owned.entries, [{ kind: "started", entryId: runId }]);
      assert.deepEqual(owned.header.parent, place);
    },
  },
  {
    name: "a commit with children that is repeated after a lost reply creates nothing twice",
    async check(harness) {
      const parent = await harness.admit();
      const guard = await harness.acquire(runLock(parent), 60_000);
      const child = childOf(harness);
      const request = commitOf(harness, parent, guard, { change: { children: [child, childOf(harness)] } });
      const first = only(await harness.store.commit(request, call), "committed");
      only(await take(harness, child.runId), "owned");
      const before = await picture(harness, child.runId);
      const second = only(await harness.store.commit(request, call), "committed");
      assert.deepEqual({ ...second, storeTimeMs: 0 }, { ...first, storeTimeMs: 0 });
      assert.deepEqual(await picture(harness, child.runId), before);
    },
  },
  {
    name: "a child that exists is left alone, also after it has ended and after it was deleted",
    async check(harness) {
      const { store, tenant } = harness;
      const { parent, child } = await family(harness);
      const again = childOf(harness, { runId: child, workflow: "other", step: "other" });
      const before = await headerOf(harness, child);
      await harness.commit(parent, { children: [again] });
      assert.deepEqual(await headerOf(harness, child), before);
      const { entries } = only(await take(harness, child), "owned");
      assert.equal(entries.length, 1);
      const other = await family(harness);
      await harness.end(other.child, "failed");
      await applyAll(harness, other.parent, { children: [childOf(harness, { runId: other.child })] });
      assert.deepEqual(await statuses(harness, [other.child]), ["failed"]);
      const removal = { tenant, runId: other.child, actor: "tester" };
      assertOutcome(await store.deleteRun(removal, call), { kind: "deleted" });
      await harness.commit(other.parent, { children: [childOf(harness, { runId: other.child })] });
      assertOutcome(await store.loadRun({ tenant, runId: other.child }, call), { kind: "not_found" });
    },
  },
  {
    name: "a child of a child knows the root of the tree and how deep it is",
    async check(harness) {
      const { parent: root, child } = await family(harness);
      const grandchild = childOf(harness, { step: "deeper", attempt: 2 });
      await harness.commit(child, { children: [grandchild] });
      const { parent, actor } = await headerOf(harness, grandchild.runId);
      assert.deepEqual(parent, { runId: child, step: "deeper", attempt: 2, root, depth: 2 });
      assert.equal(actor, child);
    },
  },
  {
    name: "an admission and a proposal create children, too",
    async check(harness) {
      const { store, tenant } = harness;
      const children = [childOf(harness), childOf(harness), childOf(harness)] as const;
      const parent = await harness.admit(harness.newRun({ change: { children: [children[0]] } }));
      const guard = await harness.acquire(admissionLock, 60_000);
      const run = harness.newRun({ change: { children: [children[1]] } });
      only(await store.createRun({ tenant, guard, run }, call), "admitted");
      const { runId, jobId, token } = await runWithClaim(harness);
      const change = changeOf({ children: [children[2]] });
      const proposal = { expectedVersion: 1, commitId: "proposed", change };
      const request = deliveryOf(harness, runId, resultOf(harness, { jobId, token }), { proposal });
      for (let times = 0; times < 2; times += 1) only(await store.deliver(request, call), "applied");
      const roots = [parent, run.runId, runId];
      for (const [index, child] of children.entries()) {
        assert.equal((await headerOf(harness, child.runId)).parent?.root, roots[index]);
        assert.equal(only(await take(harness, child.runId), "owned").entries.length, 1);
      }
      assert.deepEqual(await activeRuns(harness), roots);
      assert.deepEqual(await rows(harness, 0), [
        ...[parent, run.runId].flatMap((root, index) => [
          `run_admitted ${root} tester deploy`,
          `run_admitted ${children[index]?.runId} ${root} notify`,
        ]),
        `run_admitted ${runId} tester deploy`,
        `run_changed ${runId} engine 2 running`,
        `run_admitted ${children[2].runId} ${runId} notify`,
      ]);
    },
  },
  {
    name: "children share the slot of their root: they need none at the limit, and their end frees none",
    async check(harness) {
      const { store, tenant } = harness;
      await harness.set({ maxConcurrentRuns: 1 });
      const { parent, child } = await family(harness);
      await harness.commit(parent, { children: [childOf(harness)] });
      const full = { kind: "counted", active: 1, limit: 1, stopped: false };
      assertOutcome(await store.countActive({ tenant }, call), full);
      await harness.end(child);
      assertOutcome(await store.countActive({ tenant }, call), full);
      assert.deepEqual(await activeRuns(harness), [parent]);
      await harness.end(parent);
      await harness.admit();
    },
  },
  {
    name: "the end of a child is told to its parent once, however often its commit is repeated",
    async check(harness) {
      const { parent, child } = await family(harness, { step: 'a "b" c', attempt: 2 });
      const guard = await harness.acquire(runLock(child), 60_000);
      const request = commitOf(harness, child, guard, { change: { status: "denied" } });
      for (let times = 0; times < 3; times += 1) only(await harness.store.commit(request, call), "committed");
      const owned = only(await take(harness, parent), "owned");
      assert.deepEqual(owned.entries, [ended(child, { step: 'a "b" c', attempt: 2, status: "denied" })]);
    },
  },
  {
    name: "a busy parent finds the end of its child when it commits, also of one that a proposal ended",
    async check(harness) {
      const { parent, child } = await family(harness);
      const terms = harness.claim();
      const { jobId } = jobOf(child);
      const begin = { consumed: 1, change: { jobs: [jobOf(child, { claim: terms })] } };
      only(await commit(harness, child, await harness.acquire(runLock(child), 60_000), begin), "committed");
      const { guard } = await deliverAndOwn(harness, parent, cancelOf(harness));
      const change = changeOf({ status: "timed_out" });
      const proposal = { expectedVersion: 2, commitId: "proposed", change };
      const entry = resultOf(harness, { jobId, token: terms.token });
      only(await deliver(harness, child, entry, { proposal }), "applied");
      const next = only(
        await commit(harness, parent, guard, { consumed: 1, expectedVersion: 2 }),
        "committed",
      );
      assert.deepEqual(next.entries, [ended(child, { status: "timed_out" })]);
    },
  },
  {
    name: "nobody is told of a child's end when its parent has ended or is gone",
    async check(harness) {
      const { store, tenant } = harness;
      const { parent, child } = await family(harness);
      await harness.end(parent);
      const before = await picture(harness, parent);
      await harness.end(child);
      assertOutcome(await take(harness, parent), { kind: "empty" });
      const changed = (await picture(harness, parent)) as readonly object[];
      assert.deepEqual(changed.slice(0, 2), (before as readonly object[]).slice(0, 2));
      const other = await family(harness);
      await harness.end(other.parent);
      const removal = { tenant, runId: other.parent, actor: "tester" };
      assertOutcome(await store.deleteRun(removal, call), { kind: "deleted" });
      await harness.end(other.child);
      assert.deepEqual(await statuses(harness, [other.child]), ["succeeded"]);
      assertOutcome(await take(harness, other.parent), { kind: "not_found" });
    },
  },
  {
    name: "a commit cancels children: those that have ended, are being cancelled or do not exist are left alone",
    async check(harness) {
      const parent = await harness.admit();
      const children = [childOf(harness), childOf(harness), childOf(harness)] as const;
      const [open, over, cancelling] = children.map(({ runId }) => runId) as [RunId, RunId, RunId];
      await harness.commit(parent, { children });
      await harness.end(over);
      const cancel = cancelOf(harness);
      only(await deliver(harness, cancelling, cancel), "delivered");
      const before = (await rows(harness, 0)).length;
      const cancelChildren = [open, over, cancelling, harness.runId(), open];
      await harness.commit(parent, { status: "failed", cancelChildren });
      const entryId = `cancel:${parent}:3`;
      assert.equal((await headerOf(harness, open)).cancelRequested, entryId);
      assert.equal((await headerOf(harness, over)).cancelRequested, undefined);
      assert.equal((await headerOf(harness, cancelling)).cancelRequested, cancel.entryId);
      assert.deepEqual(await rows(harness, before), [
        `run_ended ${parent} engine failed`,
        `cancel_requested ${open} ${parent} parent run ended`,
      ]);
      const { entries } = only(await take(harness, open), "owned");
      const asked = { kind: "cancel", entryId, actor: parent, reason: "parent run ended" };
      assert.deepEqual(entries, [{ kind: "started", entryId: open }, asked]);
      assert.equal(await refusal(deliver(harness, open, cancelOf(harness))), "already_cancelling");
    },
  },
  {
    name: "a child that the same commit starts and cancels is born cancelling",
    async check(harness) {
      const parent = await harness.admit();
      const child = childOf(harness);
      await harness.commit(parent, { children: [child], cancelChildren: [child.runId] });
      assert.equal((await headerOf(harness, child.runId)).cancelRequested, `cancel:${parent}:2`);
      const { entries } = only(await take(harness, child.runId), "owned");
      assert.deepEqual(
        entries.map(({ kind }) => kind),
        ["started", "cancel"],
      );
    },
  },
  {
    name: "one commit starts 128 children, one of them with a thousand records",
    async check(harness) {
      const { store, tenant } = harness;
      const records = Array.from({ length: 1_000 }, (_, index) => ({
        key: `step/${String(index).padStart(4, "0")}`,
        body: `{"index":${index}}`,
      }));
      const large = childOf(harness, { records });
      const children = [...Array.from({ length: 127 }, () => childOf(harness)), large];
      await harness.commit(await harness.admit(), { children });
      const loaded = await store.loadRun({ tenant, runId: large.runId }, call);
      assert.deepEqual(only(loaded, "run").records, records);
      const { runs } = only(await store.listRuns({ tenant, limit: 500 }, call), "listed");
      assert.equal(runs.filter(({ parent }) => parent !== undefined).length, 128);
    },
  },
];

/** For a store that keeps at most three runs in a tree. */
export const treeLimitCases: readonly ConformanceCase[] = [
  {
    name: "a commit that would make its tree too large is refused without effect, and a smaller one is made",
    async check(harness) {
      const parent = await harness.admit();
      const { guard } = await deliverAndOwn(harness, parent, cancelOf(harness));
      const children = [childOf(harness), childOf(harness), childOf(harness)] as const;
      const before = await picture(harness, parent);
      const change = { jobs: [jobOf(parent)], children };
      const request = commitOf(harness, parent, guard, { consumed: 1, change });
      assertOutcome(await harness.store.commit(request, call), { kind: "tree_full" });
      assert.deepEqual(await picture(harness, parent), before);
      const fewer = { ...request, change: { ...request.change, children: children.slice(0, 2) } };
      only(await harness.store.commit(fewer, call), "committed");
      const last = commitOf(harness, parent, await harness.acquire(guard.lock, 60_000), {
        expectedVersion: 2,
        change: { children },
      });
      assertOutcome(await harness.store.commit(last, call), { kind: "tree_full" });
    },
  },
  {
    name: "children of children count, also after they have ended, and those that exist do not count again",
    async check(harness) {
      const { parent, child } = await family(harness);
      const grandchild = childOf(harness);
      await applyAll(harness, child, { children: [grandchild] });
      await applyAll(harness, grandchild.runId, { status: "succeeded" });
      await applyAll(harness, child, { status: "failed" });
      const known = [childOf(harness, { runId: child }), grandchild];
      const guard = await harness.acquire(runLock(parent), 60_000);
      const full = { expectedVersion: 2, change: { children: [...known, childOf(harness)] } };
      assertOutcome(await commit(harness, parent, guard, full), { kind: "tree_full" });
      const same = { expectedVersion: 2, change: { children: known } };
      only(await commit(harness, parent, guard, same), "committed");
    },
  },
  {
    name: "a proposal that would make its tree too large is not applied: its entry waits for the owner",
    async check(harness) {
      const { runId, jobId, token } = await runWithClaim(harness);
      const children = [childOf(harness), childOf(harness), childOf(harness)];
      const change = changeOf({ status: "waiting", children });
      const proposal = { expectedVersion: 1, commitId: "proposed", change };
      const entry = resultOf(harness, { jobId, token });
      const owned = await deliverAndOwn(harness, runId, entry, { proposal });
      assert.deepEqual(
        owned.entries.map(({ entryId }) => entryId),
        [entry.entryId],
      );
      assert.deepEqual([owned.header.status, owned.header.version], ["running", 1]);
      const { runs } = only(
        await harness.store.listRuns({ tenant: harness.tenant, limit: 9 }, call),
        "listed",
      );
      assert.equal(runs.length, 1);
      only(await commit(harness, runId, owned.guard, { consumed: 1 }), "committed");
    },
  },
  {
    name: "an admission is not held to the size of trees, and a tree whose root is gone is counted no longer",
    async check(harness) {
      const children = Array.from({ length: 4 }, () => childOf(harness));
      const parent = await harness.admit(harness.newRun({ change: { children } }));
      const child = children[0]?.runId as RunId;
      const guard = await harness.acquire(runLock(child), 60_000);
      const change = { children: [childOf(harness)] };
      assertOutcome(await commit(harness, child, guard, { change }), { kind: "tree_full" });
      await harness.end(parent);
      assertOutcome(await commit(harness, child, guard, { change }), { kind: "tree_full" });
      const removal = { tenant: harness.tenant, runId: parent, actor: "tester" };
      assertOutcome(await harness.store.deleteRun(removal, call), { kind: "deleted" });
      only(await commit(harness, child, guard, { change }), "committed");
      assert.equal((await headerOf(harness, change.children[0]?.runId as RunId)).parent?.root, parent);
    },
  },
];
