// What one result of a large for_each costs, early and late in the run, and the longest that each operation held the store.
//
// Results are reported one after the other, as a worker would, and each is timed from the report to the answer of the store
// that has applied it: deciding, storing, and putting up the next item's job. Claiming jobs happens between, untimed, in batches.
import { BroadcastChannel } from "node:worker_threads";
import { openRedisStore } from "../src/adapters/redis/redis-store.ts";
import { loadScripts } from "../src/adapters/redis/scripts.ts";
import { openSqliteStore } from "../src/adapters/sqlite/sqlite-store.ts";
import { systemClock } from "../src/adapters/system/system.ts";
import { createSystemLog } from "../src/adapters/system/system-log.ts";
import type { ClaimedJob } from "../src/control/jobs/offers.ts";
import { type ControlPlane, createControlPlane, storeSettings } from "../src/control-plane.ts";
import type { RunId } from "../src/domain/run.ts";
import type { TenantId } from "../src/domain/tenant.ts";
import { type RedisServer, startRedisServer } from "../src/drills/servers/start-servers.ts";
import { loadConfig } from "../src/load-config.ts";
import { executeOn, type Store, storeFrom } from "../src/ports/store.ts";
import { addTime, type OperationTimes, type Times, type ToldTime, timesChannel } from "./operation-times.ts";
import type { RunsStore } from "./runs-target.ts";
import { median } from "./statistics.ts";

export type ForEachScale = {
  readonly items: number;
  /** Results before the first that counts. */
  readonly warmUp: number;
  /** Results at either end that are compared. */
  readonly window: number;
};

export type ForEachCost = {
  readonly firstUs: number;
  readonly lastUs: number;
  /** The last result also puts the outputs of all items together. */
  readonly endMs: number;
  /** Inside the store: on SQLite in the thread that owns the file, on Redis in the server. */
  readonly operations: OperationTimes;
};

const tenant = "bench" as TenantId;
const caller = { tenant, actor: "bench" };
const topic = "bench.item";

export async function measureForEach(
  store: RunsStore,
  directory: string,
  { items, warmUp, window }: ForEachScale,
): Promise<ForEachCost> {
  const opened = await openBenchStore(store, directory);
  const counter = createCounter();
  const plane = await createControlPlane({
    ports: { store: counter.over(opened.store), log: createSystemLog("error") },
  });
  try {
    await startRun(plane, items);
    const timesUs: number[] = [];
    const jobs = claimedJobs(plane);
    for (let results = 0; results < items; results += 1) {
      const job = await jobs.next();
      timesUs.push(await timeOf(plane, counter, job));
    }
    return {
      firstUs: median(timesUs.slice(warmUp, warmUp + window)),
      lastUs: median(timesUs.slice(-window)),
      endMs: (timesUs.at(-1) ?? Number.NaN) / 1_000,
      operations: await opened.times(),
    };
  } finally {
    await plane.close();
    await opened.close();
  }
}

async function startRun(plane: ControlPlane, items: number): Promise<RunId> {
  const definition = {
    id: "for-each",
    steps: { each: { topic, for_each: "input.items", max_parallel: 20, input: { order: "${item}" } } },
  };
  const saved = await plane.api.saveWorkflow({ caller, definition });
  if (saved.kind !== "saved") throw new Error(`the workflow was not saved: ${JSON.stringify(saved)}`);
  const input = { items: Array.from({ length: items }, (_, index) => `order-${index}`) };
  const started = await plane.api.startWorkflow({ caller, workflow: "for-each", input });
  if (started.kind !== "admitted") throw new Error(`a run was not admitted: ${JSON.stringify(started)}`);
  return started.runId;
}

function claimedJobs({ api }: ControlPlane) {
  let batch: ClaimedJob[] = [];
  let polls = 0;
  return {
    async next(): Promise<ClaimedJob> {
      if (batch.length === 0) {
        polls += 1;
        const poll = { worker: "bench", topics: [topic], pollId: String(polls), places: 20, waitMs: 10_000 };
        const answer = await api.pollJobs({ caller, ...poll });
        if (answer.kind !== "jobs") throw new Error(`no jobs: ${answer.kind}`);
        batch = [...answer.jobs];
      }
      const job = batch.shift();
      if (job === undefined) throw new Error("no job came within the wait");
      return job;
    },
  };
}

async function timeOf({ api }: ControlPlane, counter: Counter, { job, token }: ClaimedJob): Promise<number> {
  const applied = counter.next();
  const startMs = performance.now();
  const output = { sent: job.step };
  const answer = await api.reportResult({ caller, jobId: job.jobId, token, outcome: "succeeded", output });
  if (answer.kind !== "accepted") throw new Error(`a result was not taken: ${JSON.stringify(answer)}`);
  await applied;
  return (performance.now() - startMs) * 1_000;
}

type Counter = { next(): Promise<void>; over(store: Store): Store };

/** Sees in the answers of the store when an entry has been applied: by its delivery, or by a commit of the run's owner. */
function createCounter(): Counter {
  let tell = () => {};
  return {
    next: () =>
      new Promise((resolve) => {
        tell = resolve;
      }),
    over(store) {
      const execute = executeOn(store);
      return storeFrom(
        async (name, request, options) => {
          const answer = await execute(name, request, options);
          const consumed = "consumed" in request ? Number(request.consumed) : 0;
          if (answer.kind === "applied" || (answer.kind === "committed" && consumed > 0)) tell();
          return answer;
        },
        () => store.close(),
      );
    },
  };
}

type OpenedStore = { readonly store: Store; times(): Promise<OperationTimes>; close(): Promise<unknown> };

async function openBenchStore(store: RunsStore, directory: string): Promise<OpenedStore> {
  const { config } = loadConfig({});
  const common = { settings: storeSettings(config), clock: systemClock, log: createSystemLog("error") };
  if (store === "embedded") {
    const watch = watchThread();
    const operationsModule = new URL("./sqlite-timed-operations.ts", import.meta.url);
    const opened = await openSqliteStore({ ...common, directory, operationsModule });
    return { store: opened, times: watch.times, close: async () => watch.close() };
  }
  const server = await startRedisServer();
  const urls = [server.url];
  const opened = await openRedisStore({ ...common, urls, mode: "standalone", prefix: "bench" });
  await server.command("CONFIG", "SET", "slowlog-max-len", "100000");
  await server.command("CONFIG", "SET", "slowlog-log-slower-than", String(noticedUs));
  await server.command("SLOWLOG", "RESET");
  return { store: opened, times: () => readSlowLog(server), close: () => server.stop() };
}

function watchThread() {
  const times = new Map<string, Times>();
  const channel = new BroadcastChannel(timesChannel);
  channel.onmessage = (message) => {
    const { name, us } = (message as { readonly data: ToldTime }).data;
    addTime(times, name, us);
  };
  return { times: async () => times, close: () => channel.close() };
}

/** Redis writes down what takes longer; what took less cannot be told apart, and need not be. */
const noticedUs = 200;

type SlowLogRow = readonly [id: number, atSeconds: number, us: number, command: readonly string[]];

/** By the script that each operation is. */
async function readSlowLog(server: RedisServer): Promise<OperationTimes> {
  const names = new Map(Object.entries(loadScripts()).map(([name, { sha1 }]) => [sha1, name]));
  const times = new Map<string, Times>();
  for (const name of names.values()) addTime(times, name, noticedUs);
  const rows = await server.command<readonly SlowLogRow[]>("SLOWLOG", "GET", "-1");
  for (const [, , us, [, sha1 = ""]] of rows) {
    const name = names.get(sha1);
    if (name !== undefined) addTime(times, name, us);
  }
  return times;
}
