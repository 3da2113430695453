// The scenarios of gates and queues: places that are taken, waited for, freed and handed on, with the keys that this writes.
import type { TenantKeys } from "../../src/adapters/redis/keys.ts";
import type { GateId } from "../../src/domain/gates.ts";
import type { RunId } from "../../src/domain/run.ts";
import {
  byKey,
  endRun,
  named,
  runAt,
  saveLimits,
  startAt,
  tenantGate,
  whole,
} from "../../src/testing/conformance/gate-steps.ts";
import { call, type Harness, key } from "../../src/testing/conformance/harness.ts";
import { cancelOf, commitOf, deliveryOf, runLock } from "../../src/testing/conformance/run-steps.ts";
import type { Preparation } from "./operation-scenarios.ts";

const crm = named("c.r");

/** Of a gate at whose level 5, or another one, runs wait. */
function queueKeys({ start }: TenantKeys, { tenant }: Harness, gate: GateId, level = 5): readonly string[] {
  const names = ["queue", ...["keys", "line", "runs"].map((name) => `${name}:${level}`)];
  return names.map((name) => `${start}gate:${tenant}:${gate}:${name}`);
}

function placesKey({ start }: TenantKeys, { tenant }: Harness, gate: GateId): string {
  return `${start}gate:${tenant}:${gate}:places`;
}

function gateQueuesKey({ start }: TenantKeys, { tenant }: Harness): string {
  return `${start}gate-queues:${tenant}`;
}

/** The keys of a run that begins. */
function begun(keys: TenantKeys, runId: RunId): readonly string[] {
  return [keys.run(runId), keys.inbox(runId), keys.active, keys.queued, keys.events, keys.due];
}

/** One run holds the only place, another one waits for it: with it everything of the queue goes. */
async function oneWaits(harness: Harness) {
  await harness.set({ gates: { "c.r": { max: 1 } } });
  const holder = await startAt(harness, [[crm, "queue"]]);
  return { holder, waiting: await startAt(harness, [[crm, "queue"]]) };
}

type Prepared = "handOn" | "listGates" | "inspectGate" | "moveQueued";

export const gatePreparations: { readonly [Name in Prepared]: Preparation<Name> } = {
  async handOn(harness, keys) {
    const { waiting } = await oneWaits(harness);
    await harness.set({ gates: { "c.r": { max: 2 } } });
    const writes = [
      ...[...begun(keys, waiting), ...queueKeys(keys, harness, crm), placesKey(keys, harness, crm)],
      ...[gateQueuesKey(keys, harness), keys.tenant],
    ];
    return { request: { tenant: harness.tenant, gate: crm }, writes, kind: "handed_on" };
  },
  async listGates(harness) {
    await oneWaits(harness);
    return { request: { tenant: harness.tenant, after: "", limit: 10 }, writes: [], kind: "listed" };
  },
  async inspectGate(harness) {
    await oneWaits(harness);
    return { request: { tenant: harness.tenant, gate: crm, limit: 10 }, writes: [], kind: "gate" };
  },
  async moveQueued(harness, keys) {
    const { waiting } = await oneWaits(harness);
    const writes = [
      ...[...queueKeys(keys, harness, crm), ...queueKeys(keys, harness, crm, 7).slice(1)],
      ...[keys.run(waiting), keys.events, keys.trail],
    ];
    const request = { tenant: harness.tenant, runId: waiting, to: 7, moveId: "move", actor: "ops" } as const;
    return { request, writes, kind: "moved" };
  },
};

type Varied = "admit" | "commit" | "deliver" | "setTenant" | "putDocument" | "removeDocument";

export const gateVariants = {
  async "admit: a run that waits, where the one before it goes"(harness, keys) {
    await saveLimits(harness, { key: 1, whole: 9 });
    await startAt(harness, [[byKey("a"), "replace_queued"]]);
    const before = await startAt(harness, [[byKey("a"), "replace_queued"]], { key: key("first") });
    const run = runAt(harness, [[byKey("a"), "replace_queued"]]);
    const writes = [
      ...[keys.run(run.runId), keys.run(before), keys.runs, keys.events, keys.due, keys.queued],
      ...[keys.reservation(key("first").digest), keys.keyed],
      ...queueKeys(keys, harness, byKey("a"), 10).slice(1),
    ];
    return { request: { tenant: harness.tenant, run }, writes, kind: "queued" };
  },
  async "commit: the end of a run that others wait for"(harness, keys) {
    const { holder, waiting } = await oneWaits(harness);
    const guard = await harness.acquire(runLock(holder), 60_000);
    const request = commitOf(harness, holder, guard, { consumed: 1, change: { status: "failed" } });
    const writes = [
      ...[...begun(keys, waiting), keys.run(holder), keys.inbox(holder), placesKey(keys, harness, crm)],
      ...[keys.lock(guard.lock), keys.grant(guard.lock), gateQueuesKey(keys, harness), keys.tenant],
      ...queueKeys(keys, harness, crm),
    ];
    return { request, writes, kind: "committed" };
  },
  async "deliver: a cancel of a run that waits and holds a place that another one waits for"(harness, keys) {
    await harness.set({ maxConcurrentRuns: 1 });
    await saveLimits(harness, { whole: 1 });
    await startAt(harness, []);
    const cancelled = await startAt(harness, [[whole, "queue"]], { key: key("k") });
    const waiting = await startAt(harness, [[whole, "queue"]]);
    const writes = [
      ...[keys.run(cancelled), keys.run(waiting), keys.reservation(key("k").digest), keys.keyed],
      ...[keys.queued, keys.events, keys.trail, keys.due, placesKey(keys, harness, whole)],
      ...[...queueKeys(keys, harness, whole), ...queueKeys(keys, harness, tenantGate).slice(-1)],
      gateQueuesKey(keys, harness),
    ];
    return { request: deliveryOf(harness, cancelled, cancelOf(harness)), writes, kind: "applied" };
  },
  async "setTenant: where runs wait"(harness, keys) {
    await oneWaits(harness);
    const change = { settings: { stopped: false }, expectedVersion: 1, changeId: "second", actor: "tester" };
    const writes = [keys.tenant, keys.events, keys.trail, keys.due];
    return { request: { tenant: harness.tenant, ...change }, writes, kind: "saved" };
  },
  async "putDocument: a workflow, where runs wait"(harness, keys) {
    await oneWaits(harness);
    const name = { tenant: harness.tenant, collection: "workflow", id: "w" } as const;
    const documents = [keys.documents("workflow"), keys.documentIds("workflow")];
    const writes = [...documents, keys.events, keys.trail, keys.due];
    const change = { body: "{}", changeId: "c", actor: "tester", limits: { "-": 1 } };
    return { request: { ...name, ...change }, writes, kind: "saved" };
  },
  async "removeDocument: a workflow, where runs wait"(harness, keys) {
    const { holder } = await oneWaits(harness);
    await saveLimits(harness, { whole: 1 });
    await harness.store.sweep({ partition: harness.partition }, call);
    await endRun(harness, holder);
    await startAt(harness, [[crm, "queue"]]);
    const request = { tenant: harness.tenant, collection: "workflow", id: "deploy", actor: "a" } as const;
    const documents = [keys.documents("workflow"), keys.documentIds("workflow")];
    const writes = [...documents, keys.events, keys.trail, keys.due];
    return { request, writes, kind: "removed" };
  },
} satisfies Record<string, { [Name in Varied]: Preparation<Name> }[Varied]>;
