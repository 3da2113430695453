// What the cases about gates and queues share: plans, starts, ends, pictures of gates, and the check of what always holds.
import assert from "node:assert/strict";
import {
  type AtLimit,
  type GateId,
  type GatePlan,
  type GatesPlan,
  keyedGate,
  namedGate,
  noFairnessKey,
  specOf,
  tenantGate,
  wholeWorkflow,
  workflowGate,
} from "../../domain/gates.ts";
import { isTerminal, type RunHeader, type RunId } from "../../domain/run.ts";
import type { OutcomeOf } from "../../ports/store.ts";
import { type ConformanceCase, call, type Harness, only } from "./harness.ts";
import { cancelOf, deliver, headerOf } from "./run-steps.ts";

/** A workflow whose gates have limits, saved at once by `saveLimits`. */
export const workflow = "deploy";
const spec = specOf("input.customer");

export const byKey = (key: string): GateId => keyedGate(workflow, spec, key);
export const whole: GateId = workflowGate(workflow);
export const named = (name: string): GateId => namedGate(name);
export { tenantGate };

type PlanOptions = Partial<Omit<GatesPlan, "gates">>;

/** The gates in the order of places, whatever order they are given in; the tenant's is added unless it is named. */
export function planOf(
  gates: ReadonlyArray<readonly [GateId, AtLimit]>,
  options: PlanOptions = {},
): GatesPlan {
  const plans = new Map<GateId, GatePlan>([[tenantGate, { gate: tenantGate, atLimit: "queue" }]]);
  for (const [gate, atLimit] of gates) plans.set(gate, { gate, atLimit });
  return {
    gates: [...plans.values()].sort((one, other) => (one.gate < other.gate ? -1 : 1)),
    ...{ priority: 5, fairnessKey: noFairnessKey, weight: 1 },
    ...{ queueMax: 1_000, deadlineMs: 600_000, agingMs: 60_000, ...options },
  };
}

type StartOptions = PlanOptions & Parameters<Harness["newRun"]>[0];

/** A run that may wait at these gates. */
export function runAt(
  harness: Harness,
  gates: ReadonlyArray<readonly [GateId, AtLimit]>,
  options: StartOptions = {},
) {
  const { priority, fairnessKey, weight, queueMax, deadlineMs, agingMs, releases, ...rest } = options;
  const given = { priority, fairnessKey, weight, queueMax, deadlineMs, agingMs, releases };
  const chosen = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  return harness.newRun({ workflow, start: "inbox", gates: planOf(gates, chosen), ...rest });
}

export function start(harness: Harness, run: ReturnType<typeof runAt>) {
  return harness.store.admit({ tenant: harness.tenant, run }, call);
}

/** Starts a run at these gates and says what became of it: its status now. */
export async function startAt(
  harness: Harness,
  gates: ReadonlyArray<readonly [GateId, AtLimit]>,
  options: StartOptions = {},
): Promise<RunId> {
  const run = runAt(harness, gates, options);
  const { kind } = await start(harness, run);
  assert.ok(kind === "admitted" || kind === "queued", kind);
  return run.runId;
}

/** The limits of a workflow's gates: `-` is the whole workflow's, `key` that of its keyed gate. */
export async function saveLimits(
  harness: Harness,
  limits: { readonly whole?: number; readonly key?: number },
): Promise<void> {
  const { store, tenant } = harness;
  const bySpec = {
    ...(limits.whole === undefined ? {} : { [wholeWorkflow]: limits.whole }),
    ...(limits.key === undefined ? {} : { [spec]: limits.key }),
  };
  const document = { tenant, collection: "workflow", id: workflow, body: "{}" } as const;
  const request = { ...document, changeId: harness.id("change"), actor: "tester", limits: bySpec };
  only(await store.putDocument(request, call), "saved");
}

async function statusOf(harness: Harness, runId: RunId): Promise<string> {
  return (await headerOf(harness, runId)).status;
}

export async function statuses(harness: Harness, runIds: readonly RunId[]): Promise<readonly string[]> {
  return Promise.all(runIds.map((runId) => statusOf(harness, runId)));
}

/** Ends a run that goes on; gives the runs that were woken by it. */
export async function endRun(harness: Harness, runId: RunId): Promise<readonly RunId[]> {
  const { store, tenant } = harness;
  const guard = await harness.acquire({ namespace: "run", name: runId }, 60_000);
  const { version } = await headerOf(harness, runId);
  const change = { ...harness.newRun().change, records: [], status: "succeeded" } as const;
  const ids = { commitId: harness.id("commit"), expectedVersion: version, consumed: 100 };
  return only(await store.commit({ tenant, runId, guard, ...ids, change }, call), "committed").woken ?? [];
}

/** Cancels a run that waits; gives the runs that were woken by it. */
export async function cancelQueued(harness: Harness, runId: RunId): Promise<readonly RunId[]> {
  const answer = only(await deliver(harness, runId, cancelOf(harness)), "applied");
  assert.equal(answer.status, "cancelled");
  return answer.woken ?? [];
}

export async function gate(harness: Harness, id: GateId): Promise<Omit<OutcomeOf<"inspectGate">, "kind">> {
  const { store, tenant } = harness;
  return only(await store.inspectGate({ tenant, gate: id, limit: 1_000 }, call), "gate");
}

/** Who holds a place, oldest first, and who waits, in order. */
export async function shown(harness: Harness, id: GateId) {
  const { holders, queue } = await gate(harness, id);
  return { holders: holders.map(({ runId }) => runId), queue: queue.map(({ runId }) => runId) };
}

export async function handOn(harness: Harness, id: GateId) {
  const { store, tenant } = harness;
  return only(await store.handOn({ tenant, gate: id }, call), "handed_on");
}

async function allRuns(harness: Harness): Promise<readonly RunHeader[]> {
  const { store, tenant } = harness;
  const runs: RunHeader[] = [];
  for (let before: RunId | undefined; ; ) {
    const request = { tenant, limit: 100, ...(before === undefined ? {} : { before }) };
    const page = only(await store.listRuns(request, call), "listed");
    runs.push(...page.runs);
    if (page.next === undefined) return runs;
    before = page.next;
  }
}

/**
 * INV-32 and INV-33: nobody waits at a gate that has a free place, unless it is one of those that are in attention; a run that
 * waits does so in one queue, and holds the places before it; nobody else holds or waits.
 */
export async function assertSound(harness: Harness, inAttention: readonly GateId[] = []): Promise<void> {
  const { store, tenant } = harness;
  const runs = await allRuns(harness);
  const { settings } = only(await store.getTenant({ tenant }, call), "tenant").record;
  const listed = only(await store.listGates({ tenant, after: "", limit: 1_000 }, call), "listed");
  const ids = new Set<GateId>(listed.gates.map((each) => each.gate));
  for (const { gates } of runs) for (const each of gates?.gates ?? []) ids.add(each.gate);
  for (const id of ids) {
    const { state, holders, queue } = await gate(harness, id);
    const { limit, active, waiting } = state;
    assert.equal(holders.length, active, id);
    assert.equal(queue.length, waiting, id);
    const hasRoom = limit === undefined || active < limit;
    const isExcused = settings.stopped === true || inAttention.includes(id);
    assert.ok(!(waiting > 0 && hasRoom) || isExcused, `${id} has ${active} of ${limit} and ${waiting} wait`);
    assert.equal(
      listed.gates.some((each) => each.gate === id),
      waiting > 0,
      id,
    );
    assert.deepEqual(sorted(holders), sorted(runs.filter((run) => holds(run, id))), id);
    assert.deepEqual(sorted(queue), sorted(runs.filter((run) => waitsAt(run, id))), id);
  }
  const waiting = runs.filter(({ gates }) => gates?.waits !== undefined);
  assert.equal(listed.queued, waiting.length);
  for (const { status, gates, runId } of runs) {
    // A run that waits has not begun, or comes back.
    const waits = gates?.waits !== undefined;
    assert.equal(status === "queued" || (gates?.released === true && waits), waits, runId);
  }
  for (const run of runs.filter(({ status }) => isTerminal(status))) assert.equal(run.gates?.held ?? 0, 0);
}

function holds({ status, parent, gates }: RunHeader, id: GateId): boolean {
  if (isTerminal(status) || parent !== undefined) return false;
  if (gates === undefined) return id === tenantGate;
  return gates.gates.slice(0, gates.held).some(({ gate }) => gate === id);
}

function waitsAt({ gates }: RunHeader, id: GateId): boolean {
  return gates?.waits !== undefined && gates.gates[gates.held]?.gate === id;
}

function sorted(runs: readonly RunHeader[]): readonly RunId[] {
  return runs.map(({ runId }) => runId).sort();
}

type GateCase = ConformanceCase & { readonly inAttention?: readonly GateId[] };

/** Every case ends with the check of what always holds. */
export function checked(cases: readonly GateCase[]): readonly ConformanceCase[] {
  return cases.map(({ name, check, inAttention }) => ({
    name,
    async check(harness) {
      await check(harness);
      await assertSound(harness, inAttention);
    },
  }));
}
