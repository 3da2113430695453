// The edges of gates: limits, how many wait and for how long, how many moves one operation makes, and the age that lifts a run.
import type { RunId } from "../../domain/run.ts";
import type { Edge } from "./edge.ts";
import {
  byKey,
  cancelQueued,
  endRun,
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
import { call, type Harness, only } from "./harness.ts";
import { headerOf, sweepOnce } from "./run-steps.ts";
import { dueFrom } from "./time-edges.ts";

async function several(harness: Harness, count: number, gates: Parameters<typeof startAt>[1] = []) {
  const runIds: RunId[] = [];
  for (let index = 0; index < count; index += 1) runIds.push(await startAt(harness, gates));
  return runIds;
}

/** The names of those that wait, in order; the first of them gets the place. */
async function order(
  harness: Harness,
  active: RunId,
  names: Readonly<Record<string, RunId>>,
): Promise<string> {
  const { queue } = await shown(harness, tenantGate);
  const [next] = await endRun(harness, active);
  if (next !== queue[0]) return `granted ${next}, told ${queue[0]}`;
  const nameOf = (runId: RunId) => Object.keys(names).find((name) => names[name] === runId);
  return queue.map(nameOf).join(" ");
}

const sizes: readonly Edge[] = [
  {
    name: "a gate lets as many in as its limit says, and the next one waits",
    decidedBy: ["gates.ts activeAt(context, tenant, gate) < limit && readQueue"],
    ...{ below: "admitted", at: "queued", above: "queued" },
    async look(harness, offset) {
      await several(harness, 3 + offset, [[named("crm"), "queue"]]);
      await harness.set({ gates: { crm: { max: 3 } } });
      return (await start(harness, runAt(harness, [[named("crm"), "queue"]]))).kind;
    },
  },
  {
    name: "a place is handed on as long as fewer are active than the limit says",
    decidedBy: ["gates.ts limit === undefined || activeAt(context, tenant, gate) < limit"],
    ...{ below: "pending", at: "queued", above: "queued" },
    async look(harness, offset) {
      await harness.set({ maxConcurrentRuns: 3 });
      const [first, , , waiting] = await several(harness, 4);
      await harness.set({ maxConcurrentRuns: 2 - offset });
      await endRun(harness, first as RunId);
      return (await headerOf(harness, waiting as RunId)).status;
    },
  },
  {
    name: "as many wait at a gate as the run that comes allows",
    decidedBy: ["gates.ts waiting - replaced >= queueMax"],
    ...{ below: "queued", at: "queue_full", above: "queue_full" },
    async look(harness, offset) {
      await harness.set({ maxConcurrentRuns: 1 });
      await several(harness, 3 + offset);
      return (await start(harness, runAt(harness, [], { queueMax: 2 }))).kind;
    },
  },
  {
    name: "as many of a tenant wait as may, at whichever gates; one that replaces another needs no more room",
    decidedBy: ['gates.ts size("queued", tenant) - replaced >= limit'],
    ...{ below: "queued queued", at: "queue_full queued", above: "queue_full queued" },
    async look(harness, offset) {
      await harness.set({ gates: { crm: { max: 0 } }, maxConcurrentRuns: 0 });
      await startAt(harness, [[named("crm"), "replace_queued"]]);
      await several(harness, 9 + Math.min(offset, 0));
      const answer = await start(harness, runAt(harness, []));
      if (answer.kind === "queued") await cancelQueued(harness, answer.runId);
      const newest = await start(harness, runAt(harness, [[named("crm"), "replace_queued"]]));
      return `${answer.kind} ${newest.kind}`;
    },
  },
  {
    name: "one operation makes eight moves, and says when there is more to do",
    decidedBy: ["grants.ts granted < movesMax"],
    ...{ below: "7 false", at: "8 false", above: "8 true" },
    async look(harness, offset) {
      await harness.set({ maxConcurrentRuns: 0 });
      await several(harness, 8 + offset);
      await harness.set({ maxConcurrentRuns: 9 });
      const { woken, more } = await handOn(harness, tenantGate);
      return `${woken.length} ${more}`;
    },
  },
  {
    name: "a tenant starts as many runs as its quota says, those that wait among them",
    decidedBy: ["runs.ts >= quota"],
    ...{ below: "queued", at: "quota_reached", above: "quota_reached" },
    async look(harness, offset) {
      await harness.set({ maxConcurrentRuns: 1 });
      await several(harness, 3 + offset);
      await harness.set({ maxConcurrentRuns: 1, quotas: { active_runs: 3 } });
      return (await start(harness, runAt(harness, []))).kind;
    },
  },
];

const times: readonly Edge[] = [
  {
    name: "a run waits until the millisecond of its deadline, and ends there",
    decidedBy: [dueFrom, "sweep.ts state.gates.deadlineAtMs > nowMs(context)"],
    ...{ below: "queued", at: "timed_out", above: "timed_out" },
    async look(harness, offset, time) {
      await harness.set({ maxConcurrentRuns: 1 });
      await startAt(harness, []);
      const runId = await startAt(harness, [], { deadlineMs: 1_000 });
      await time.pass(1_000 + offset);
      await sweepOnce(harness);
      return (await headerOf(harness, runId)).status;
    },
  },
  {
    name: "the deadline counts from the start across gates, what was held is handed on, and one that was admitted has none",
    decidedBy: [dueFrom],
    ...{ below: "queued queued", at: "timed_out pending", above: "timed_out pending" },
    async look(harness, offset, time) {
      await harness.set({ gates: { crm: { max: 1 }, erp: { max: 1 } } });
      const crm = await startAt(harness, [[named("crm"), "queue"]], { deadlineMs: 500 });
      await startAt(harness, [[named("erp"), "queue"]]);
      const gates = [[named("crm"), "queue"] as const, [named("erp"), "queue"] as const];
      const runId = await startAt(harness, gates, { deadlineMs: 1_000 });
      await time.pass(900);
      await endRun(harness, crm);
      const behind = await startAt(harness, [[named("crm"), "queue"]]);
      await time.pass(100 + offset);
      await sweepOnce(harness);
      return `${(await headerOf(harness, runId)).status} ${(await headerOf(harness, behind)).status}`;
    },
  },
  {
    name: "a run counts one level higher after each span of its aging, and of the same level the one that has waited longer is first",
    decidedBy: [],
    ...{ below: "young old", at: "old young", above: "old young" },
    async look(harness, offset, time) {
      await harness.set({ maxConcurrentRuns: 1 });
      const active = await startAt(harness, []);
      const old = await startAt(harness, [], { priority: 5, agingMs: 1_000 });
      await time.pass(500);
      const young = await startAt(harness, [], { priority: 6, agingMs: 1_000 });
      await time.pass(500 + offset);
      return order(harness, active, { old, young });
    },
  },
  {
    name: "of two runs that meet where only the newest waits, the one that was started first gives way",
    decidedBy: ["grants.ts other.gates.askedAtMs > gates.askedAtMs"],
    ...{ below: "pending cancelled", at: "pending cancelled", above: "cancelled pending" },
    async look(harness, offset, time) {
      await saveLimits(harness, { whole: 1, key: 1 });
      const enter = (name: string) =>
        startAt(harness, [
          [byKey(name), "queue"],
          [whole, "replace_queued"],
        ]);
      const first = await enter("a");
      // The one that waits there is as much younger than the one that is handed on to it.
      const waiting = offset > 0 ? undefined : await enter("b");
      await time.pass(Math.max(0, -offset));
      const handedOn = await enter("a");
      await time.pass(Math.max(0, offset));
      const met = waiting ?? (await enter("b"));
      await endRun(harness, first);
      return (await statuses(harness, [handedOn, met])).join(" ");
    },
  },
  {
    name: "a run of the lowest priority is as urgent as any after nine spans",
    decidedBy: [],
    ...{ below: "urgent old", at: "old urgent", above: "old urgent" },
    async look(harness, offset, time) {
      await harness.set({ maxConcurrentRuns: 1 });
      const active = await startAt(harness, []);
      const old = await startAt(harness, [], { priority: 0, agingMs: 1_000 });
      await time.pass(1);
      const urgent = await startAt(harness, [], { priority: 9, agingMs: 1_000 });
      await time.pass(8_999 + offset);
      return order(harness, active, { old, urgent });
    },
  },
  {
    name: "no age lifts a run above the highest priority: what was moved to the head stays there",
    decidedBy: [],
    ...{ below: "head old", at: "head old", above: "head old" },
    async look(harness, offset, time) {
      const { store, tenant } = harness;
      await harness.set({ maxConcurrentRuns: 1 });
      const active = await startAt(harness, []);
      const old = await startAt(harness, [], { priority: 0, agingMs: 1_000 });
      await time.pass(1);
      const head = await startAt(harness, [], { priority: 0, agingMs: 1_000 });
      const move = { tenant, runId: head, to: "head", moveId: "move", actor: "ops" } as const;
      only(await store.moveQueued(move, call), "moved");
      await time.pass(9_999 + offset);
      return order(harness, active, { old, head });
    },
  },
];

export const gateEdges: readonly Edge[] = [...sizes, ...times];
