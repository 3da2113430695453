// What every store must do with runs that wait: their order by level, fair share and arrival, its moves, and how many may wait.
import assert from "node:assert/strict";
import type { GateId } from "../../domain/gates.ts";
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
  tenantGate,
} from "./gate-steps.ts";
import { assertOutcome, call, type Harness, only } from "./harness.ts";
import { cancelOf, deliver, headerOf } from "./run-steps.ts";

type Waits = { readonly priority?: number; readonly fairnessKey?: string; readonly weight?: number };

/** One run is active at the tenant's gate, and these wait there. */
async function queueOf(harness: Harness, waiting: readonly Waits[]) {
  await harness.set({ maxConcurrentRuns: 1 });
  const active = await startAt(harness, []);
  const runIds: RunId[] = [];
  for (const waits of waiting) runIds.push(await startAt(harness, [], waits));
  return { active, runIds };
}

/** Ends one run after the other, and gives those that followed. What is told of the order is the order. */
async function drained(harness: Harness, active: RunId, id: GateId = tenantGate): Promise<readonly RunId[]> {
  const told = (await shown(harness, id)).queue;
  const order: RunId[] = [];
  for (let current: RunId | undefined = active; current !== undefined; ) {
    const [next, ...others] = await endRun(harness, current);
    assert.deepEqual(others, []);
    if (next !== undefined) order.push(next);
    current = next;
  }
  assert.deepEqual(order, told);
  return order;
}

function pick<Value>(values: readonly Value[], indexes: readonly number[]): readonly Value[] {
  return indexes.map((index) => values[index] as Value);
}

const repeated = (count: number, waits: Waits): readonly Waits[] =>
  Array.from({ length: count }, () => waits);

type MoveOptions = { readonly credential?: string; readonly moveId?: string };

async function move(harness: Harness, runId: RunId, to: "head" | number, options: MoveOptions = {}) {
  const { store, tenant } = harness;
  const request = { tenant, runId, to, moveId: harness.id("move"), actor: "ops", ...options };
  return store.moveQueued(request, call);
}

async function movesIn({ store, tenant }: Harness): Promise<readonly RunId[]> {
  const trail = await store.readEvents({ tenant, after: 0, limit: 100, of: "trail" }, call);
  const rows = only(trail, "events").events.filter(({ type }) => type === "run_moved");
  return rows.map(({ subject }) => subject as RunId);
}

const orderCases = checked([
  {
    name: "the highest priority is the first, and runs of one priority and key come in the order in which they came",
    async check(harness) {
      const priorities = [5, 0, 9, 5, 8, 9, 0];
      const { active, runIds } = await queueOf(
        harness,
        priorities.map((priority) => ({ priority })),
      );
      assert.deepEqual(await drained(harness, active), pick(runIds, [2, 5, 4, 0, 3, 1, 6]));
    },
  },
  {
    name: "keys of one priority take turns, however many runs each of them has",
    async check(harness) {
      const [big, small, third] = [
        { fairnessKey: "big" },
        { fairnessKey: "small" },
        { fairnessKey: "third" },
      ];
      const { active, runIds } = await queueOf(harness, [big, big, big, big, small, small, third]);
      assert.deepEqual(await drained(harness, active), pick(runIds, [0, 4, 6, 1, 5, 2, 3]));
    },
  },
  {
    name: "one customer sends 60, nine others 5 each: each of these is through before the big one's seventh",
    async check(harness) {
      const others = Array.from({ length: 9 }, (_, index) => repeated(5, { fairnessKey: `small${index}` }));
      const { active, runIds } = await queueOf(harness, [
        ...repeated(60, { fairnessKey: "big" }),
        ...others.flat(),
      ]);
      const order = await drained(harness, active);
      const seventh = order.indexOf(runIds[6] as RunId);
      for (const runId of runIds.slice(60)) assert.ok(order.indexOf(runId) < seventh);
    },
  },
  {
    name: "of two keys that always wait none is ahead by more than its share and the other's: served/w differs by at most 1/w1 + 1/w2",
    async check(harness) {
      for (const [one, other] of [
        [1, 1],
        [1, 3],
        [2, 5],
        [16, 1],
      ] as const) {
        const keys = [
          { fairnessKey: `a${one}`, weight: one },
          { fairnessKey: `b${other}`, weight: other },
        ] as const;
        const { active, runIds } = await queueOf(harness, [
          ...repeated(24, keys[0]),
          ...repeated(24, keys[1]),
        ]);
        const firsts = new Set(runIds.slice(0, 24));
        const served = [0, 0] as [number, number];
        for (const runId of await drained(harness, active)) {
          served[firsts.has(runId) ? 0 : 1] += 1;
          if (Math.max(...served) === 24) break;
          const difference = Math.abs(served[0] / one - served[1] / other);
          assert.ok(difference <= 1 / one + 1 / other + 1e-9, `${served} with ${one} and ${other}`);
        }
      }
    },
  },
  {
    name: "a key that has been served is served again, however many new keys come",
    async check(harness) {
      const { active, runIds } = await queueOf(harness, repeated(3, { fairnessKey: "old" }));
      let current = active;
      const order: RunId[] = [];
      for (let turn = 0; turn < 12; turn += 1) {
        for (const copy of ["x", "y"]) await startAt(harness, [], { fairnessKey: `new${copy}${turn}` });
        const [next] = await endRun(harness, current);
        current = next as RunId;
        order.push(current);
      }
      const turns = runIds.map((runId) => order.indexOf(runId));
      assert.ok(!turns.includes(-1), `${turns}`);
    },
  },
  {
    name: "a key that left the queue and comes again is not ahead of where it was",
    async check(harness) {
      const [a, b] = [{ fairnessKey: "a" }, { fairnessKey: "b" }];
      const { active, runIds } = await queueOf(harness, [a, b, b, b]);
      const [first] = await endRun(harness, active);
      assert.equal(first, runIds[0]);
      const again = await startAt(harness, [], a);
      assert.deepEqual(await drained(harness, first as RunId), [runIds[1], runIds[2], again, runIds[3]]);
      assert.equal((await gate(harness, tenantGate)).state.waiting, 0);
    },
  },
  {
    name: "a run that leaves takes nothing with it: its key keeps its turn while others of it wait",
    async check(harness) {
      const [a, b] = [{ fairnessKey: "a" }, { fairnessKey: "b" }];
      const { active, runIds } = await queueOf(harness, [a, a, b, a, b]);
      await cancelQueued(harness, runIds[0] as RunId);
      await cancelQueued(harness, runIds[4] as RunId);
      assert.deepEqual(await drained(harness, active), pick(runIds, [1, 2, 3]));
    },
  },
  {
    name: "a run that holds a place waits for its next one at the best level that waits behind it",
    async check(harness) {
      await saveLimits(harness, { key: 1 });
      await harness.set({ gates: { crm: { max: 1 } }, maxConcurrentRuns: 1 });
      const crm = [[named("crm"), "queue"] as const];
      const keyed = [[byKey("a"), "queue"] as const];
      const active = await startAt(harness, crm);
      const holder = await startAt(harness, [...keyed, ...crm], { priority: 2 });
      const urgent = await startAt(harness, keyed, { priority: 9 });
      const usual = await startAt(harness, [], { priority: 5 });
      assert.equal((await headerOf(harness, holder)).gates?.waits?.level, 2);
      // It gets the place at crm, and waits at the tenant's gate for another that is active there.
      await harness.set({ gates: { crm: { max: 2 } }, maxConcurrentRuns: 1 });
      await handOn(harness, named("crm"));
      assert.equal((await headerOf(harness, holder)).gates?.waits?.level, 9);
      assert.deepEqual(await endRun(harness, active), [holder]);
      assert.deepEqual(await endRun(harness, holder), [urgent]);
      assert.deepEqual(await endRun(harness, urgent), [usual]);
    },
  },
  {
    name: "the position counts those of the same level or a higher one",
    async check(harness) {
      const { runIds } = await queueOf(harness, [{ priority: 5 }, { priority: 5 }, { priority: 7 }]);
      assert.equal(runIds.length, 3);
      for (const [priority, position] of [
        [5, 4],
        [7, 2],
        [9, 1],
        [0, 7],
      ] as const) {
        const answer = only(await start(harness, runAt(harness, [], { priority })), "queued");
        assert.equal(answer.position, position);
      }
    },
  },
]);

const moveCases = checked([
  {
    name: "a run that is moved to the head is the next, before others that were moved there, of its key as well",
    async check(harness) {
      const { active, runIds } = await queueOf(harness, [{ priority: 9 }, {}, {}, { fairnessKey: "b" }]);
      for (const index of [1, 3, 2]) only(await move(harness, runIds[index] as RunId, "head"), "moved");
      assert.deepEqual(await drained(harness, active), pick(runIds, [2, 3, 1, 0]));
    },
  },
  {
    name: "a run that is moved to a priority waits behind those who wait there, and its age counts anew",
    async check(harness) {
      const { active, runIds } = await queueOf(harness, [{ priority: 9 }, { priority: 5 }, { priority: 3 }]);
      const first = runIds[0] as RunId;
      const before = (await headerOf(harness, first)).gates?.waits?.sinceMs ?? Number.NaN;
      await harness.untilAfter(before);
      assertOutcome(await move(harness, first, 3), { kind: "moved", gate: tenantGate });
      const { waits } = (await headerOf(harness, first)).gates ?? {};
      assert.ok((waits?.sinceMs ?? 0) > before);
      assert.deepEqual(await drained(harness, active), pick(runIds, [1, 2, 0]));
    },
  },
  {
    name: "a move is audited with its actor, and hands on what is free",
    async check(harness) {
      const { store, tenant } = harness;
      const { runIds } = await queueOf(harness, [{}, {}]);
      const [first, second] = runIds as [RunId, RunId];
      await harness.set({ maxConcurrentRuns: 2 });
      assert.deepEqual(only(await move(harness, second, "head"), "moved").woken, [second]);
      const trail = await store.readEvents({ tenant, after: 2, limit: 100, of: "trail" }, call);
      const rows = only(trail, "events").events;
      assert.deepEqual(
        rows.map(({ type, subject, actor, detail }) => [type, subject, actor, detail]),
        [["run_moved", second, "ops", "tenant head"]],
      );
      assert.equal((await headerOf(harness, first)).status, "queued");
    },
  },
  {
    name: "a move that is repeated has no further effect: not when others have come before the run, nor when it waits no more",
    async check(harness) {
      const { active, runIds } = await queueOf(harness, [{}, {}]);
      const [first, second] = runIds as [RunId, RunId];
      const repeat = () => move(harness, first, "head", { moveId: "one" });
      for (let times = 0; times < 2; times += 1)
        assertOutcome(await repeat(), { kind: "moved", gate: tenantGate });
      only(await move(harness, second, "head"), "moved");
      assertOutcome(await repeat(), { kind: "moved", gate: tenantGate });
      assert.deepEqual(await movesIn(harness), [first, second]);
      assert.deepEqual((await shown(harness, tenantGate)).queue, [second, first]);
      await endRun(harness, active);
      await endRun(harness, second);
      assertOutcome(await repeat(), { kind: "moved", gate: tenantGate });
      assertOutcome(await move(harness, first, "head"), { kind: "run_not_queued" });
      assert.deepEqual(await movesIn(harness), [first, second]);
    },
  },
  {
    name: "a run that does not wait is not moved, nor one that does not exist, nor by a key that was revoked",
    async check(harness) {
      const { active, runIds } = await queueOf(harness, [{}]);
      assertOutcome(await move(harness, active, "head"), { kind: "run_not_queued" });
      assertOutcome(await move(harness, harness.runId(), "head"), { kind: "run_not_found" });
      await harness.set({ maxConcurrentRuns: 1, revokedKeyIds: ["key_1"] });
      const refused = await move(harness, runIds[0] as RunId, 0, { credential: "key_1" });
      assertOutcome(refused, { kind: "unauthenticated" });
      only(await move(harness, runIds[0] as RunId, 0, { credential: "key_2" }), "moved");
    },
  },
  {
    name: "gates with queues are listed in pages, by their ids, with what holds of each",
    async check(harness) {
      const { store, tenant } = harness;
      await saveLimits(harness, { key: 1 });
      const ids = ["a", "b", "c"].map(byKey).sort();
      for (const id of ids)
        for (let times = 0; times < 2; times += 1) await startAt(harness, [[id, "queue"]]);
      const states = ids.map((id) => ({ gate: id, limit: 1, active: 1, waiting: 1 }));
      const first = await store.listGates({ tenant, after: "", limit: 2 }, call);
      assertOutcome(first, { kind: "listed", gates: states.slice(0, 2), queued: 3 });
      const second = await store.listGates({ tenant, after: ids[1] as GateId, limit: 2 }, call);
      assertOutcome(second, { kind: "listed", gates: states.slice(2), queued: 3 });
    },
  },
  {
    name: "what is told of a gate names as many as asked for, and runs that wait are no active ones",
    async check(harness) {
      const { store, tenant } = harness;
      const { active, runIds } = await queueOf(harness, repeated(4, {}));
      const told = only(await store.inspectGate({ tenant, gate: tenantGate, limit: 2 }, call), "gate");
      assert.deepEqual(
        told.queue.map(({ runId }) => runId),
        runIds.slice(0, 2),
      );
      assert.deepEqual(told.state, { gate: tenantGate, limit: 1, active: 1, waiting: 4 });
      assert.deepEqual(told.queue[0], await headerOf(harness, runIds[0] as RunId));
      const counted = await store.countActive({ tenant }, call);
      assertOutcome(counted, { kind: "counted", active: 1, limit: 1, stopped: false });
      const listed = only(await store.listActive({ tenant, limit: 10 }, call), "listed");
      assert.deepEqual(listed.runIds, [active]);
      const waiting = only(await store.listRuns({ tenant, limit: 10, status: "queued" }, call), "listed");
      assert.deepEqual(
        waiting.runs.map(({ runId }) => runId),
        [...runIds].reverse(),
      );
    },
  },
]);

const sizeCases = checked([
  {
    name: "a gate lets as many wait as the run that comes allows, and leaves its key free; who leaves makes room",
    async check(harness) {
      const { runIds } = await queueOf(harness, [{}, {}]);
      const run = runAt(harness, [], { queueMax: 2 });
      assertOutcome(await start(harness, run), { kind: "queue_full", limit: 2, gate: tenantGate });
      only(await start(harness, runAt(harness, [], { queueMax: 3 })), "queued");
      await cancelQueued(harness, runIds[0] as RunId);
      await cancelQueued(harness, runIds[1] as RunId);
      only(await start(harness, run), "queued");
    },
  },
  {
    name: "a hundred runs that start and a hundred that end at once: never more are active than may be, and all are admitted once",
    async check(harness) {
      await harness.set({ maxConcurrentRuns: 5 });
      const runs = Array.from({ length: 100 }, (_, index) =>
        runAt(harness, [], { fairnessKey: `key${index % 7}`, priority: index % 3 }),
      );
      const answers = await Promise.all(runs.map((run) => start(harness, run)));
      const admitted = answers.flatMap((answer, index) =>
        answer.kind === "admitted" ? [runs[index]?.runId as RunId] : [],
      );
      assert.equal(admitted.length, 5);
      const seen = new Set(admitted);
      for (let current = admitted; current.length > 0; ) {
        const woken = (await Promise.all(current.map((runId) => endRun(harness, runId)))).flat();
        for (const runId of woken) assert.ok(!seen.has(runId), runId);
        for (const runId of woken) seen.add(runId);
        const { active } = (await gate(harness, tenantGate)).state;
        assert.ok(active <= 5);
        current = woken;
      }
      assert.equal(seen.size, 100);
    },
  },
  {
    name: "two who cancel one run that waits: one ends it, the other finds that it has ended",
    async check(harness) {
      const { runIds } = await queueOf(harness, [{}]);
      const runId = runIds[0] as RunId;
      const cancels = [cancelOf(harness), cancelOf(harness)].map((cancel) => deliver(harness, runId, cancel));
      const kinds = (await Promise.all(cancels)).map(({ kind }) => kind);
      assert.deepEqual(kinds.sort(), ["applied", "run_ended"]);
    },
  },
]);

export const queueCases = [...orderCases, ...moveCases, ...sizeCases];
