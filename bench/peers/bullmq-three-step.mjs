// The peer: a bare BullMQ chain of three steps. The worker of a step adds the job of the next, and nothing else happens.
//   node bullmq-three-step.mjs <redis URL> '<options as JSON>'
// Prints one line of JSON. The Redis server must be empty and its own; all processes of the chain are this one.
import { createRequire } from "node:module";
import { Queue, Worker } from "bullmq";

/**
 * What was tried in BullMQ's favour, in runs per second on 2 cores, the median of 3: ioredis 5 (4,760) against 6 (3,990);
 * auto-pipelining (3,930); one connection for all queues and workers (4,700); 500 and 5,000 runs in flight (4,620 and
 * 4,800, against 2,000 here). Concurrencies from 10 to 200 were best between 20 and 50. A second process made it no faster
 * (4,300 together), since Redis needs a core of its own.
 */
const DEFAULTS = {
  /** Jobs at once per worker; the best one counts. */
  concurrencies: [20, 50],
  inFlight: 2_000,
  /** Under load like the rest, but not counted. */
  warmUpMs: 500,
  /** For each concurrency, at the least. */
  saturationMs: 5_000,
  /** Runs one at a time, for the time that a run takes when nothing else happens. */
  oneByOneRuns: 300,
};

async function main([url, json = "{}"]) {
  if (url === undefined) throw new Error("usage: node bullmq-three-step.mjs <redis URL> '<options as JSON>'");
  const options = { ...DEFAULTS, ...JSON.parse(json) };
  const { concurrencies, inFlight, warmUpMs, saturationMs, oneByOneRuns } = options;
  // The very first load is on code that is not compiled yet, and tells nothing about its concurrency.
  await withChain(url, concurrencies[0], (chain) => saturate(chain, { inFlight, warmUpMs, durationMs: 500 }));
  const tried = [];
  for (const concurrency of concurrencies) {
    const load = { inFlight, warmUpMs, durationMs: saturationMs };
    tried.push({ concurrency, per_s: await withChain(url, concurrency, (chain) => saturate(chain, load)) });
  }
  const best = tried.reduce((one, other) => (other.per_s > one.per_s ? other : one));
  const times = await withChain(url, best.concurrency, (chain) => oneByOne(chain, oneByOneRuns));
  console.log(JSON.stringify({ ...best, ...times, tried, versions: versions() }));
}

async function withChain(url, concurrency, work) {
  const chain = await openChain(url, concurrency);
  try {
    return await work(chain);
  } finally {
    await chain.close();
  }
}

const STEPS = ["fetch", "summarise", "deliver"];

/** A run is over when its last job is completed in Redis. Its worker tells, in this process: the soonest way to know. */
async function openChain(url, concurrency) {
  const connection = { url, maxRetriesPerRequest: null };
  const defaultJobOptions = { removeOnComplete: true };
  const queues = STEPS.map((step) => new Queue(step, { connection, defaultJobOptions }));
  const underWay = new Map();
  const settle = (runId, how, value) => {
    const run = underWay.get(runId);
    if (run === undefined) throw new Error(`run ${runId} ended twice`);
    underWay.delete(runId);
    run[how](value);
  };
  const workers = STEPS.map((step, index) => {
    const next = queues[index + 1];
    const perform = async ({ data }) => {
      const result = { ...data, [step]: "done" };
      if (next !== undefined) await next.add("job", result);
      return result;
    };
    const worker = new Worker(step, perform, { connection, concurrency });
    worker.on("error", (error) => process.emitWarning(error));
    worker.on("failed", (job, error) => settle(job.data.runId, "reject", error));
    if (next === undefined)
      worker.on("completed", ({ data: { runId } }, result) => settle(runId, "resolve", result));
    return worker;
  });
  await Promise.all([...queues, ...workers].map((each) => each.waitUntilReady()));
  return {
    run: (runId) =>
      new Promise((resolve, reject) => {
        underWay.set(runId, { resolve, reject });
        queues[0].add("job", { runId, customer: "customer-004711", report: "sales" }).catch(reject);
      }),
    async close() {
      await Promise.all(workers.map((worker) => worker.close()));
      await Promise.all(queues.map((queue) => queue.close()));
    },
  };
}

let runsMade = 0;

async function runOnce(chain) {
  runsMade += 1;
  const result = await chain.run(`run-${runsMade}`);
  const missing = STEPS.filter((step) => result[step] !== "done");
  if (missing.length > 0) throw new Error(`a run ended without ${missing.join(" and ")}`);
}

/**
 * Completed runs per second, with always as many under way: each that ends makes room for the next, whose start counts too.
 * The runs fall into step and end in waves of `inFlight`, so whole waves are counted: with a fixed end, 2 s of 2,000 runs
 * could only give multiples of 1,000 per second.
 */
async function saturate(chain, { inFlight, warmUpMs, durationMs }) {
  const beginMs = performance.now();
  let completed = 0;
  let first;
  let last;
  const onWave = (nowMs) => {
    if (first !== undefined) last = { nowMs, completed };
    else if (nowMs - beginMs >= warmUpMs) first = { nowMs, completed };
  };
  const isOver = () => last !== undefined && last.nowMs - first.nowMs >= durationMs;
  const repeat = async () => {
    while (!isOver()) {
      await runOnce(chain);
      completed += 1;
      if (completed % inFlight === 0 && !isOver()) onWave(performance.now());
    }
  };
  await Promise.all(Array.from({ length: inFlight }, repeat));
  return ((last.completed - first.completed) / (last.nowMs - first.nowMs)) * 1000;
}

async function oneByOne(chain, runs) {
  const times = [];
  for (let made = 0; made < runs; made += 1) {
    const startMs = performance.now();
    await runOnce(chain);
    times.push(performance.now() - startMs);
  }
  times.sort((left, right) => left - right);
  const percentile = (percent) => times[Math.max(0, Math.ceil((percent / 100) * times.length) - 1)];
  return { p50_ms: percentile(50), p99_ms: percentile(99) };
}

function versions() {
  const require = createRequire(import.meta.url);
  const { dependencies } = require("./package.json");
  return { node: process.version, ...dependencies };
}

/** Without its server it would try to connect for ever, also when nobody waits for it any more. */
const LIVES_MAX_MS = 60_000;
setTimeout(() => {
  throw new Error(`the peer was not done after ${LIVES_MAX_MS} ms`);
}, LIVES_MAX_MS).unref();

await main(process.argv.slice(2));
