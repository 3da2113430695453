// What a grant costs by how many wait: the store's time for the operation that ends a run and hands its place to the next.
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { createClient } from "@redis/client";
import { createMemoryStore } from "../src/adapters/memory-store.ts";
import { openRedisStore } from "../src/adapters/redis/redis-store.ts";
import { openSqliteCore } from "../src/adapters/sqlite/sqlite-core.ts";
import { databaseFile } from "../src/adapters/sqlite/sqlite-store.ts";
import { systemClock } from "../src/adapters/system/system.ts";
import { createSystemLog } from "../src/adapters/system/system-log.ts";
import { storeSettings } from "../src/control-plane.ts";
import { type GatesPlan, tenantGate, wholeWorkflow, workflowGate } from "../src/domain/gates.ts";
import type { LockToken } from "../src/domain/lock.ts";
import { makeRunId, type RunId, unchanged } from "../src/domain/run.ts";
import type { TenantId } from "../src/domain/tenant.ts";
import { startRedisServer } from "../src/drills/servers/start-servers.ts";
import { loadConfig } from "../src/load-config.ts";
import { type Store, storeFrom } from "../src/ports/store.ts";
import {
  type FlowScale,
  type GrantStore,
  grantField,
  grantName,
  grantStores,
  waitingCounts,
} from "./flow-plan.ts";
import { benchFolder } from "./program.ts";
import type { Measurement } from "./slices.ts";
import { median } from "./statistics.ts";

/** A store, and what it has spent on its work so far in microseconds: of the processor, where this process does the work. */
type Subject = { readonly store: Store; spentUs(): Promise<number>; close(): Promise<void> };

const tenant = "grants" as TenantId;
const call = { deadlineMs: 60_000 };
/** Ended between two readings; as many are started again, so that the number of those that wait stays what it is. */
const chunk = 5;
const active = 10;
const keys = 100;
/** Those after the start are code that V8 has not compiled yet. */
const warmUpChunks = 40;

/** More than any slice starts. */
const { config } = loadConfig({ overrides: { "quotas.activeRuns": 5_000_000 } });
const settings = { ...storeSettings(config), queuedPerTenantMax: 200_000 };
const log = createSystemLog("error");

export function grantMeasurements({ slices, grantChunks }: FlowScale): readonly Measurement<unknown>[] {
  const us = { unit: "us", over: "median" } as const;
  return grantStores.map((kind) => ({
    name: grantName(kind),
    slices,
    fields: Object.fromEntries(waitingCounts.map((waiting) => [grantField(waiting), us])),
    async measure() {
      const subject = await subjects[kind]();
      try {
        return await grantCosts(subject, grantChunks);
      } finally {
        await subject.close();
      }
    },
  }));
}

/**
 * All gates are in one store and take turns: in a store of its own a grant was dearer by a third beside 100,000 runs that waited
 * somewhere else, since more memory is missed by the processor's caches, and that says nothing of queues.
 */
async function grantCosts({ store, spentUs }: Subject, chunks: number) {
  const starter = createStarter(store);
  const gates: GateUnderWay[] = [];
  for (const waiting of waitingCounts) {
    const workflow = `grants-${waiting}`;
    await limitTo(store, workflow, active);
    const running = [...(await starter.start(workflow, active))];
    for (let left = waiting; left > 0; left -= 500) await starter.start(workflow, Math.min(500, left));
    gates.push({ workflow, waiting, running, costs: [] });
  }
  for (let index = 0; index < warmUpChunks + chunks; index += 1) {
    for (const { workflow, running, costs } of gates) {
      const ends = await Promise.all(running.splice(0, chunk).map((runId) => preparedEnd(store, runId)));
      const before = await spentUs();
      for (const end of ends) running.push(...(await end()));
      const costUs = ((await spentUs()) - before) / chunk;
      if (index >= warmUpChunks) costs.push(costUs);
      await starter.start(workflow, chunk);
    }
  }
  return Object.fromEntries(gates.map(({ waiting, costs }) => [grantField(waiting), median(costs)]));
}

type GateUnderWay = {
  readonly workflow: string;
  readonly waiting: number;
  readonly running: RunId[];
  readonly costs: number[];
};

function createStarter(store: Store) {
  let started = 0;
  return {
    async start(workflow: string, count: number): Promise<readonly RunId[]> {
      const runs = Array.from({ length: count }, (_, index) => newRun(workflow, started + index + 1));
      started += count;
      const answers = await Promise.all(runs.map((run) => store.admit({ tenant, run }, call)));
      const odd = answers.find(({ kind }) => kind !== "admitted" && kind !== "queued");
      if (odd !== undefined) throw new Error(`a start was answered ${JSON.stringify(odd)}`);
      return runs.map(({ runId }) => runId);
    },
  };
}

async function limitTo(store: Store, workflow: string, max: number): Promise<void> {
  const document = { tenant, collection: "workflow", id: workflow, body: "{}" } as const;
  const change = { changeId: `limit-${workflow}`, actor: "bench", limits: { [wholeWorkflow]: max } };
  const saved = await store.putDocument({ ...document, ...change }, call);
  if (saved.kind !== "saved") throw new Error(`the limit was not saved: ${saved.kind}`);
}

function newRun(workflow: string, number: number) {
  const gates: GatesPlan = {
    gates: [
      { gate: workflowGate(workflow), atLimit: "queue" },
      { gate: tenantGate, atLimit: "queue" },
    ],
    // Three levels, and customers that take turns in each.
    ...{ priority: 4 + (number % 3), fairnessKey: `customer-${number % keys}`, weight: 1 },
    ...{ queueMax: 200_000, deadlineMs: 3_600_000, agingMs: 60_000 },
  };
  const records = [{ key: "input/run", body: JSON.stringify({ order: number }) }];
  return {
    runId: makeRunId(tenant, number.toString(16).padStart(32, "0")),
    ...({ workflow, definition: "bench", actor: "bench", start: "inbox", gates } as const),
    change: { ...unchanged, status: "pending", timeline: "[]", records } as const,
  };
}

/** All but the end itself; it gives the runs that got a place by it. */
async function preparedEnd(store: Store, runId: RunId): Promise<() => Promise<readonly RunId[]>> {
  const lock = { namespace: "run", name: runId } as const;
  const token = `token-${runId}` as LockToken;
  const granted = await store.acquireLock({ tenant, lock, token, instance: "bench", ttlMs: 60_000 }, call);
  const loaded = await store.loadRun({ tenant, runId, records: [] }, call);
  if (granted.kind !== "acquired" || loaded.kind !== "run")
    throw new Error(`${granted.kind}, ${loaded.kind}`);
  const guard = { lock, token, fence: granted.fence, policy: "fence", ttlMs: 60_000 } as const;
  const change = { ...unchanged, status: "succeeded", timeline: "[]" } as const;
  const ids = { commitId: `end-${runId}`, expectedVersion: loaded.header.version, consumed: 100 };
  return async () => {
    const answer = await store.commit({ tenant, runId, guard, ...ids, change }, call);
    if (answer.kind !== "committed" || answer.woken?.length !== 1) {
      throw new Error(`an end was answered ${JSON.stringify(answer)}`);
    }
    return answer.woken;
  };
}

const subjects: Readonly<Record<GrantStore, () => Promise<Subject>>> = {
  memory: async () => {
    const store = createMemoryStore({ clock: systemClock, settings });
    return { store, spentUs: async () => processUs(), close: () => store.close() };
  },
  embedded: openEmbedded,
  redis: openRedis,
};

/** On this thread: what the processor does for the disk counts, the wait for the disk does not. */
async function openEmbedded(): Promise<Subject> {
  const folder = mkdtempSync(join(benchFolder("flow-grants"), "grants-"));
  const core = await openSqliteCore({ file: databaseFile(folder), settings, clock: systemClock, log });
  type Waiting = { readonly call: Parameters<typeof core.perform>[0][number]; answer(reply: never): void };
  let waiting: Waiting[] = [];
  const perform = () => {
    while (waiting.length > 0) {
      const replies = core.perform(
        waiting.map((each) => each.call),
        systemClock.wallMs(),
      );
      const answered = waiting.slice(0, replies.length);
      waiting = waiting.slice(replies.length);
      for (const [index, each] of answered.entries()) each.answer(replies[index] as never);
      core.maintain();
    }
  };
  const store = storeFrom(
    (name, request, { deadlineMs }) => {
      const notAfterMs = systemClock.wallMs() + deadlineMs;
      if (waiting.length === 0) queueMicrotask(perform);
      return new Promise((answer) => waiting.push({ call: { name, request, notAfterMs }, answer }));
    },
    async () => core.close(),
  );
  return {
    store,
    spentUs: async () => processUs(),
    async close() {
      await store.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** The time of its scripts, as the server counts it. */
async function openRedis(): Promise<Subject> {
  const server = await startRedisServer(["--appendonly", "no"]);
  const prefix = "interlock";
  const common = { settings, clock: systemClock, log };
  const store = await openRedisStore({ ...common, urls: [server.url], mode: "standalone", prefix });
  const observer = createClient({ url: server.url });
  await observer.connect();
  return {
    store,
    async spentUs() {
      const stats = String(await observer.sendCommand(["INFO", "commandstats"]));
      return Number(/^cmdstat_evalsha:calls=\d+,usec=(\d+)/m.exec(stats)?.[1] ?? 0);
    },
    async close() {
      await store.close();
      observer.destroy();
      await server.stop();
    },
  };
}

/**
 * Of all threads, with V8's that collect garbage. The kernel says of a single running thread what it had used at its last tick:
 * that was 0 for most readings.
 */
function processUs(): number {
  const { user, system } = process.cpuUsage();
  return user + system;
}
