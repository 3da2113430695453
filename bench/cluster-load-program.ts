// The program behind cluster-load: reads a load per line, starts the runs, does their jobs, and prints what it measured as JSON.
import { createInterface } from "node:readline";
import type { ClusterLoad, ClusterLoadAnswer, ClusterLoadResult } from "./cluster-load.ts";
import { type Exchange, openExchange, postText } from "./http-exchange.ts";
import { closedLoop } from "./load.ts";
import { percentile } from "./statistics.ts";

type Polled = {
  readonly jobs: ReadonlyArray<{
    readonly job_id: string;
    readonly run_id: string;
    readonly step_id: string;
    readonly claim_token: string;
    readonly input: unknown;
  }>;
};
type Reported = { readonly results: ReadonlyArray<{ readonly job_id: string; readonly kind: string }> };

/** Per gateway. */
const clientConnections = 32;
const workerLanes = 4;
const batch = 100;
/** Short, because a load ends when the polls under way are answered. */
const pollWaitMs = 500;

async function post<Body>(exchange: Exchange, path: string, key: string, body: object): Promise<Body> {
  ordersMade += 1;
  const headers = { "x-api-key": key, "idempotency-key": `order-${process.pid}-${ordersMade}` };
  const answer = await exchange.send(postText(`/api/v1${path}`, headers, JSON.stringify(body)));
  const text = answer.bytes.toString("utf8", answer.bodyAt);
  if (answer.status !== 200) throw new Error(`${path} answered ${answer.status}: ${text}`);
  return JSON.parse(text) as Body;
}

let ordersMade = 0;

/** Runs that somebody waits for, and those that ended before anybody did. */
function createWatch() {
  const waiting = new Map<string, () => void>();
  const over = new Set<string>();
  return {
    ended: (runId: string) =>
      over.delete(runId) ? Promise.resolve() : new Promise<void>((resolve) => waiting.set(runId, resolve)),
    end(runId: string) {
      const resolve = waiting.get(runId);
      if (resolve === undefined) over.add(runId);
      else resolve();
      waiting.delete(runId);
    },
  };
}

async function putOn(load: ClusterLoad): Promise<ClusterLoadResult> {
  const open = (count: number) =>
    Promise.all(load.ports.flatMap((port) => Array.from({ length: count }, () => openExchange(port))));
  const clients = spread(await open(clientConnections), load.ports.length);
  const workers = await open(workerLanes);
  const watch = createWatch();
  const stopped = { stopped: false };
  const lanes = workers.map((exchange, lane) =>
    work({ load, exchange, name: `bench-${lane}`, watch, stopped }),
  );
  const broken = Promise.race(lanes);
  try {
    const measured = measure(load, async () => {
      const startMs = performance.now();
      const started = await withOne(clients, (exchange) =>
        post<{ run_id: string }>(exchange, `/workflows/${load.workflow}/runs`, load.keys.client, {
          order: `order-${ordersMade}`,
        }),
      );
      await watch.ended(started.run_id);
      return performance.now() - startMs;
    });
    return (await Promise.race([measured, broken])) as ClusterLoadResult;
  } finally {
    stopped.stopped = true;
    // A gateway that has not noticed yet that a poll is gone would give it jobs of the next load, lost until their leases end.
    await Promise.allSettled(lanes);
    for (const exchange of [...clients.free, ...workers]) exchange.close();
  }
}

async function measure({ how }: ClusterLoad, oneRun: () => Promise<number>): Promise<ClusterLoadResult> {
  const times: number[] = [];
  let runs = 0;
  const counted = async () => {
    runs += 1;
    times.push(await oneRun());
    return "succeeded" as const;
  };
  let perSecond: number;
  if (how.kind === "one_by_one") {
    const startMs = performance.now();
    while (runs < how.runs) await counted();
    perSecond = (runs / (performance.now() - startMs)) * 1_000;
  } else {
    const { inFlight, warmUpMs, durationMs } = how;
    await closedLoop({ inFlight, durationMs: warmUpMs }, counted);
    times.length = 0;
    perSecond = await closedLoop({ inFlight, durationMs }, counted);
  }
  return { perSecond, p50Ms: percentile(times, 50), p99Ms: percentile(times, 99), runs };
}

type Lane = {
  readonly load: ClusterLoad;
  readonly exchange: Exchange;
  readonly name: string;
  readonly watch: ReturnType<typeof createWatch>;
  readonly stopped: { readonly stopped: boolean };
};

/** A gateway remembers polls by their ids: those of an earlier load must not come again. */
let pollsMade = 0;

/** Ends with an error, or with its poll when it is stopped. */
async function work({ load, exchange, name, watch, stopped }: Lane): Promise<void> {
  const { keys, topic, lastStep } = load;
  while (!stopped.stopped) {
    pollsMade += 1;
    const { jobs } = await post<Polled>(exchange, "/jobs/poll", keys.worker, {
      worker_id: name,
      topics: [topic],
      poll_id: `poll-${pollsMade}`,
      max_jobs: batch,
      wait_ms: pollWaitMs,
    });
    if (jobs.length === 0) continue;
    const results = jobs.map(({ job_id, claim_token, input }) => ({
      job_id,
      claim_token,
      status: "succeeded",
      output: input,
    }));
    const reported = await post<Reported>(exchange, "/jobs/results", keys.worker, {
      worker_id: name,
      results,
    });
    for (const [index, { kind }] of reported.results.entries()) {
      const job = jobs[index];
      if (kind !== "accepted" || job === undefined) throw new Error(`a result was ${kind}`);
      if (job.step_id === lastStep) watch.end(job.run_id);
    }
  }
}

/** Connections to use one at a time; those of all gateways take turns. */
type Pool = { readonly free: Exchange[]; readonly waiting: Array<(exchange: Exchange) => void> };

function spread(exchanges: readonly Exchange[], gateways: number): Pool {
  const each = exchanges.length / gateways;
  const order = exchanges.map((_, index) => (index % gateways) * each + Math.floor(index / gateways));
  return { free: order.map((index) => exchanges[index] as Exchange), waiting: [] };
}

async function withOne<Value>(pool: Pool, use: (exchange: Exchange) => Promise<Value>): Promise<Value> {
  const exchange =
    pool.free.shift() ?? (await new Promise<Exchange>((resolve) => pool.waiting.push(resolve)));
  try {
    return await use(exchange);
  } finally {
    const next = pool.waiting.shift();
    if (next === undefined) pool.free.push(exchange);
    else next(exchange);
  }
}

async function answerTo(line: string): Promise<ClusterLoadAnswer> {
  try {
    return { kind: "measured", result: await putOn(JSON.parse(line) as ClusterLoad) };
  } catch (error) {
    return { kind: "broken", cause: error instanceof Error ? error.message : String(error) };
  }
}

// Ends with its input: when the process that started it is gone, so is this one.
for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await answerTo(line)));
}
