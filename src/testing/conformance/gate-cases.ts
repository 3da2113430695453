// What every store must do at gates: who gets a place, who waits, who is refused, and that places are handed on at once.
import assert from "node:assert/strict";
import { admissionLock } from "../../domain/lock.ts";
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
} from "./gate-steps.ts";
import { assertOutcome, call, key, only } from "./harness.ts";
import {
  applyAll,
  cancelOf,
  changeOf,
  childOf,
  commit,
  deliver,
  entryKinds,
  headerOf,
  jobOf,
  resultOf,
  retryOf,
  runLock,
  runWithClaim,
  take,
} from "./run-steps.ts";

export const gateCases = checked([
  {
    name: "a start with free places everywhere is admitted, holds them all, and begins by its inbox",
    async check(harness) {
      await saveLimits(harness, { whole: 2, key: 1 });
      await harness.set({ maxConcurrentRuns: 2, gates: { crm: { max: 1 } } });
      const gates = [
        [byKey("a"), "queue"],
        [whole, "reject"],
        [named("crm"), "queue"],
      ] as const;
      const run = runAt(harness, gates);
      const answer = only(await start(harness, run), "admitted");
      assert.deepEqual([answer.active, answer.limit, answer.status], [1, 2, "pending"]);
      for (const gate of [byKey("a"), whole, named("crm"), tenantGate]) {
        assert.deepEqual(await shown(harness, gate), { holders: [run.runId], queue: [] });
      }
      assert.deepEqual(await entryKinds(harness, run.runId), ["started"]);
    },
  },
  {
    name: "a full gate that rejects refuses the start whatever the others say, names itself, and leaves the key free",
    async check(harness) {
      await harness.set({ gates: { crm: { max: 1 }, erp: { max: 1 } } });
      await startAt(harness, [
        [named("crm"), "queue"],
        [named("erp"), "reject"],
      ]);
      const run = runAt(
        harness,
        [
          [named("crm"), "queue"],
          [named("erp"), "reject"],
        ],
        { key: key("k") },
      );
      const full = { kind: "max_concurrent_runs_reached", limit: 1, active: 1, gate: named("erp") };
      assertOutcome(await start(harness, run), full);
      const { tenant, store } = harness;
      const asked = { tenant, digest: key("k").digest };
      assertOutcome(await store.inspectReservation(asked, call), { kind: "idempotency_key_unbound" });
      assert.deepEqual((await shown(harness, named("crm"))).queue, []);
    },
  },
  {
    name: "a full gate that queues lets the start wait: its key is bound, it holds the places before, and is not active",
    async check(harness) {
      await saveLimits(harness, { key: 1 });
      await harness.set({ gates: { crm: { max: 1 } } });
      const first = await startAt(harness, [[named("crm"), "queue"]]);
      const run = runAt(
        harness,
        [
          [byKey("a"), "queue"],
          [named("crm"), "queue"],
        ],
        { key: key("k") },
      );
      const answer = only(await start(harness, run), "queued");
      const { askedAtMs } = (await headerOf(harness, run.runId)).gates ?? { askedAtMs: 0 };
      const told = { kind: "queued", runId: run.runId, gate: named("crm"), position: 1, keysKept: 1 };
      assertOutcome(answer, { ...told, deadlineAtMs: askedAtMs + 600_000 });
      assert.deepEqual((await shown(harness, byKey("a"))).holders, [run.runId]);
      assert.deepEqual(await shown(harness, named("crm")), { holders: [first], queue: [run.runId] });
      assert.deepEqual((await shown(harness, tenantGate)).holders, [first]);
      const { tenant, store } = harness;
      const asked = { tenant, digest: key("k").digest };
      assertOutcome(await store.inspectReservation(asked, call), { kind: "bound", runId: run.runId });
      const again = runAt(harness, [[named("crm"), "queue"]], { key: key("k") });
      assertOutcome(await start(harness, again), { kind: "replayed", runId: run.runId, status: "queued" });
    },
  },
  {
    name: "the end of a run hands its place to the one that waits, which begins by its inbox",
    async check(harness) {
      await harness.set({ maxConcurrentRuns: 1 });
      const first = await startAt(harness, []);
      const [second, third] = [await startAt(harness, []), await startAt(harness, [])];
      assert.deepEqual(await statuses(harness, [first, second, third]), ["pending", "queued", "queued"]);
      assert.deepEqual(await endRun(harness, first), [second]);
      assert.deepEqual(await statuses(harness, [second, third]), ["pending", "queued"]);
      assert.deepEqual(await entryKinds(harness, second), ["started"]);
    },
  },
  {
    name: "the cancel of a run that waits ends it at once, and hands on the places that it holds",
    async check(harness) {
      await saveLimits(harness, { key: 1 });
      await harness.set({ gates: { crm: { max: 1 } } });
      await startAt(harness, [[named("crm"), "queue"]]);
      const waiting = await startAt(harness, [
        [byKey("a"), "queue"],
        [named("crm"), "queue"],
      ]);
      const behind = await startAt(harness, [[byKey("a"), "queue"]]);
      assert.deepEqual(await cancelQueued(harness, waiting), [behind]);
      assert.deepEqual(await statuses(harness, [waiting, behind]), ["cancelled", "pending"]);
      assert.equal((await headerOf(harness, waiting)).endReason, "not needed");
    },
  },
  {
    name: "a run that gets a place goes on to its next gate, and waits there if it is full, behind those who came before",
    async check(harness) {
      await harness.set({ gates: { crm: { max: 1 }, erp: { max: 1 } } });
      const crm = await startAt(harness, [[named("crm"), "queue"]]);
      const erp = await startAt(harness, [[named("erp"), "queue"]]);
      const waiting = await startAt(harness, [[named("erp"), "queue"]]);
      const both = await startAt(harness, [
        [named("crm"), "queue"],
        [named("erp"), "queue"],
      ]);
      assert.deepEqual((await shown(harness, named("crm"))).queue, [both]);
      await harness.untilAfter(await harness.now());
      assert.deepEqual(await endRun(harness, crm), []);
      assert.deepEqual(await shown(harness, named("crm")), { holders: [both], queue: [] });
      assert.deepEqual((await shown(harness, named("erp"))).queue, [waiting, both]);
      assert.deepEqual(await endRun(harness, erp), [waiting]);
      assert.deepEqual(await endRun(harness, waiting), [both]);
      const { admittedAtMs, gates } = await headerOf(harness, both);
      assert.ok(admittedAtMs > (gates?.askedAtMs ?? Number.NaN), `admitted at ${admittedAtMs}`);
    },
  },
  {
    name: "two workflows that name the same gates in opposite orders never wait for each other",
    async check(harness) {
      await harness.set({ gates: { crm: { max: 1 }, erp: { max: 1 } } });
      const orders = [
        ["crm", "erp"],
        ["erp", "crm"],
      ] as const;
      const runIds = [];
      for (let index = 0; index < 6; index += 1) {
        const [one, other] = orders[index % 2] ?? orders[0];
        const gates = [[named(one), "queue"] as const, [named(other), "queue"] as const];
        runIds.push(await startAt(harness, gates));
      }
      for (const [index, runId] of runIds.entries()) {
        assert.deepEqual(await endRun(harness, runId), runIds.slice(index + 1, index + 2));
      }
    },
  },
  {
    name: "the end of a run by a result that is applied at once hands its place on as well",
    async check(harness) {
      await harness.set({ maxConcurrentRuns: 1 });
      const { runId, ...job } = await runWithClaim(harness);
      const next = await startAt(harness, []);
      const change = changeOf({ status: "succeeded" });
      const proposal = { expectedVersion: 1, commitId: harness.id("commit"), change };
      const answer = await deliver(harness, runId, resultOf(harness, job), { proposal });
      assert.deepEqual(only(answer, "applied").woken, [next]);
    },
  },
  {
    name: "a start that was repeated while it waits gets the same answer, and after its admission that it was admitted",
    async check(harness) {
      await harness.set({ maxConcurrentRuns: 1 });
      const first = await startAt(harness, []);
      const run = runAt(harness, [], { key: key("k") });
      const { storeTimeMs: _time, ...told } = only(await start(harness, run), "queued");
      assertOutcome(await start(harness, run), told);
      await endRun(harness, first);
      assert.equal(only(await start(harness, run), "admitted").status, "pending");
      await endRun(harness, run.runId);
      assert.equal(only(await start(harness, run), "admitted").status, "succeeded");
    },
  },
  {
    name: "a start without a plan takes a place in the tenant's gate, and none while somebody waits there",
    async check(harness) {
      await harness.set({ maxConcurrentRuns: 1 });
      const first = await harness.admit();
      const waiting = await startAt(harness, []);
      await harness.set({ maxConcurrentRuns: 2 });
      const { store, tenant } = harness;
      const full = { kind: "max_concurrent_runs_reached", limit: 2, active: 1 };
      assertOutcome(await store.admit({ tenant, run: harness.newRun() }, call), full);
      assert.deepEqual((await handOn(harness, tenantGate)).woken, [waiting]);
      assert.deepEqual((await shown(harness, tenantGate)).holders, [first, waiting]);
      await endRun(harness, first);
      await harness.admit();
    },
  },
  {
    name: "a start with a plan waits behind those who wait, also while there is a place",
    async check(harness) {
      await harness.set({ maxConcurrentRuns: 1 });
      const first = await startAt(harness, []);
      const waiting = await startAt(harness, []);
      await harness.set({ maxConcurrentRuns: 3 });
      const run = runAt(harness, []);
      const answer = only(await start(harness, run), "queued");
      assert.equal(answer.position, 2);
      assert.deepEqual((await handOn(harness, tenantGate)).woken, [waiting, run.runId]);
      assert.deepEqual((await shown(harness, tenantGate)).holders, [first, waiting, run.runId]);
    },
  },
  {
    name: "a run that was to begin with its start does not wait: where it would, it is refused",
    async check(harness) {
      await harness.set({ maxConcurrentRuns: 1 });
      const first = only(await start(harness, runAt(harness, [], { start: "applied" })), "admitted");
      const second = await start(harness, runAt(harness, [], { start: "applied" }));
      assertOutcome(second, { kind: "max_concurrent_runs_reached", limit: 1, active: 1 });
      await endRun(harness, first.runId);
      only(await start(harness, runAt(harness, [], { start: "applied" })), "admitted");
    },
  },
  {
    name: "under a lock a run takes its places, and is refused where it would wait",
    async check(harness) {
      const { store, tenant } = harness;
      await harness.set({ gates: { crm: { max: 1 } } });
      const guard = await harness.acquire(admissionLock, 60_000);
      const run = runAt(harness, [[named("crm"), "queue"]]);
      only(await store.createRun({ tenant, guard, run }, call), "admitted");
      assert.deepEqual((await shown(harness, named("crm"))).holders, [run.runId]);
      const second = runAt(harness, [[named("crm"), "queue"]]);
      const full = { kind: "max_concurrent_runs_reached", limit: 1, active: 1, gate: named("crm") };
      assertOutcome(await store.createRun({ tenant, guard, run: second }, call), full);
      assertOutcome(await store.loadRun({ tenant, runId: second.runId }, call), { kind: "not_found" });
      const waiting = await startAt(harness, [[named("crm"), "queue"]]);
      assert.deepEqual(await endRun(harness, run.runId), [waiting]);
    },
  },
  {
    name: "a gate without a limit lets everybody through: a name that nobody has set, a workflow that was not saved with it",
    async check(harness) {
      await saveLimits(harness, {});
      const gates = [
        [named("crm"), "reject"] as const,
        [whole, "reject"] as const,
        [byKey("a"), "reject"] as const,
      ];
      for (let index = 0; index < 3; index += 1) await startAt(harness, gates);
      assert.equal((await shown(harness, whole)).holders.length, 3);
      const { state } = await gate(harness, whole);
      assert.deepEqual(state, { gate: whole, active: 3, waiting: 0 });
    },
  },
  {
    name: "keys of one gate do not share places, and a name is shared by all workflows",
    async check(harness) {
      await saveLimits(harness, { key: 1 });
      await harness.set({ gates: { crm: { max: 1 } } });
      const first = await startAt(harness, [[byKey("a"), "queue"]]);
      const other = await startAt(harness, [[byKey("b"), "queue"]]);
      const second = await startAt(harness, [[byKey("a"), "queue"]]);
      assert.deepEqual(await statuses(harness, [first, other, second]), ["pending", "pending", "queued"]);
      const shared = await startAt(harness, [[named("crm"), "queue"]], { workflow: "one" });
      const waits = await startAt(harness, [[named("crm"), "queue"]], { workflow: "another" });
      assert.deepEqual(await statuses(harness, [shared, waits]), ["pending", "queued"]);
    },
  },
  {
    name: "children take no places and hand none on when they end",
    async check(harness) {
      await harness.set({ maxConcurrentRuns: 1, gates: { crm: { max: 1 } } });
      const root = await startAt(harness, [[named("crm"), "queue"]]);
      const waiting = await startAt(harness, [[named("crm"), "queue"]]);
      const child = childOf(harness);
      await applyAll(harness, root, { status: "running", children: [child] });
      assert.deepEqual(await endRun(harness, child.runId), []);
      assert.deepEqual((await shown(harness, named("crm"))).holders, [root]);
      await applyAll(harness, root, { status: "running" });
      assert.deepEqual(await endRun(harness, root), [waiting]);
    },
  },
  {
    name: "a run that waits cannot be removed, committed to or retried, and has nothing to apply",
    async check(harness) {
      const { store, tenant } = harness;
      await harness.set({ maxConcurrentRuns: 1 });
      await startAt(harness, []);
      const runId = await startAt(harness, []);
      assertOutcome(await store.deleteRun({ tenant, runId, actor: "ops" }, call), { kind: "not_ended" });
      assertOutcome(await take(harness, runId), { kind: "empty" });
      const guard = await harness.acquire(runLock(runId), 60_000);
      const refused = await commit(harness, runId, guard, { change: { status: "succeeded" } });
      assertOutcome(refused, { kind: "stale_version", version: 1 });
      const letter = { tenant, collection: "deadLetter", id: "letter", body: "{}", changeId: "c" } as const;
      only(await store.putDocument({ ...letter, actor: "engine" }, call), "saved");
      const jobId = jobOf(runId).jobId;
      const retry = retryOf(harness, jobId, { letterId: "letter" });
      assert.equal((await deliver(harness, runId, retry)).kind, "dead_letter_not_retryable");
    },
  },
  {
    name: "a repeated cancel of a run that waited is answered as the first, another one finds that it has ended",
    async check(harness) {
      await harness.set({ maxConcurrentRuns: 1 });
      await startAt(harness, []);
      const runId = await startAt(harness, []);
      const cancel = cancelOf(harness);
      const answer = { kind: "applied", version: 2, status: "cancelled", claims: [] };
      for (let times = 0; times < 2; times += 1) assertOutcome(await deliver(harness, runId, cancel), answer);
      assert.equal((await deliver(harness, runId, cancelOf(harness))).kind, "run_ended");
    },
  },
  {
    name: "who waits is told of by events: queued at which gate, admitted, ended",
    async check(harness) {
      const { store, tenant } = harness;
      await harness.set({ maxConcurrentRuns: 1 });
      const first = await startAt(harness, []);
      const [second, third] = [await startAt(harness, []), await startAt(harness, [])];
      await endRun(harness, first);
      await cancelQueued(harness, third);
      const { events } = only(await store.readEvents({ tenant, after: 1, limit: 100 }, call), "events");
      assert.deepEqual(
        events.map(({ type, subject, actor, detail }) => [type, subject, actor, detail]),
        [
          ["run_admitted", first, "tester", "deploy"],
          ["run_queued", second, "tester", "deploy tenant"],
          ["run_queued", third, "tester", "deploy tenant"],
          ["run_ended", first, "engine", "succeeded"],
          ["run_admitted", second, "tester", "deploy"],
          ["cancel_requested", third, "carol", "not needed"],
          ["run_ended", third, "engine", "cancelled not needed"],
        ],
      );
    },
  },
]);
