// The peer: a chain of three durable steps on DBOS. It is a library, so client, workflow and steps are this process.
//   node dbos-three-step.mjs <PostgreSQL URL> '<options as JSON>'
// Prints one line of JSON. The database must be its own.
import { DBOS } from "@dbos-inc/dbos-sdk";

const DEFAULTS = {
  /** What DBOS's own settings are given beside the name and the database. */
  settings: {},
  /** Runs under way at once; the best one counts. */
  inFlights: [50, 200],
  /** Under load like the rest, but not counted. */
  warmUpMs: 1_000,
  /** For each number under way. */
  saturationMs: 4_000,
  /** Runs one at a time, for the time that a run takes when nothing else happens. */
  oneByOneRuns: 200,
};

const STEPS = ["fetch", "summarise", "deliver"];

const chain = DBOS.registerWorkflow(
  async (data) => {
    let result = data;
    for (const step of STEPS) {
      const input = result;
      result = await DBOS.runStep(async () => ({ ...input, [step]: "done" }), { name: step });
    }
    return result;
  },
  { name: "chain" },
);

let runsMade = 0;

/** The answer of a workflow that was called directly comes after its outcome is stored. */
async function runOnce() {
  runsMade += 1;
  const result = await chain({ runId: `run-${runsMade}`, customer: "customer-004711", report: "sales" });
  const missing = STEPS.filter((step) => result[step] !== "done");
  if (missing.length > 0) throw new Error(`a run ended without ${missing.join(" and ")}`);
}

/** Completed runs per second, with always as many under way. */
async function saturate(inFlight, durationMs) {
  const startMs = performance.now();
  let ended = 0;
  const lane = async () => {
    while (performance.now() - startMs < durationMs) {
      await runOnce();
      if (performance.now() - startMs < durationMs) ended += 1;
    }
  };
  await Promise.all(Array.from({ length: inFlight }, lane));
  return (ended / durationMs) * 1_000;
}

async function oneByOne(runs) {
  const times = [];
  for (let run = 0; run < runs; run += 1) {
    const startMs = performance.now();
    await runOnce();
    times.push(performance.now() - startMs);
  }
  times.sort((left, right) => left - right);
  const percentile = (percent) => times[Math.max(0, Math.ceil((percent / 100) * times.length) - 1)];
  return { p50_ms: percentile(50), p99_ms: percentile(99) };
}

async function main([url, json = "{}"]) {
  if (url === undefined)
    throw new Error("usage: node dbos-three-step.mjs <PostgreSQL URL> '<options as JSON>'");
  const { settings, inFlights, warmUpMs, saturationMs, oneByOneRuns } = { ...DEFAULTS, ...JSON.parse(json) };
  const common = { name: "bench", applicationVersion: "bench", logLevel: "error", enableOTLP: false };
  DBOS.setConfig({ ...common, systemDatabaseUrl: url, ...settings });
  await DBOS.launch();
  await saturate(inFlights[0], warmUpMs);
  const tried = [];
  for (const inFlight of inFlights)
    tried.push({ in_flight: inFlight, per_s: await saturate(inFlight, saturationMs) });
  const best = tried.reduce((one, other) => (other.per_s > one.per_s ? other : one));
  console.log(JSON.stringify({ ...best, ...(await oneByOne(oneByOneRuns)), tried }));
  await DBOS.shutdown();
}

/** Without its server it would try to connect for ever, also when nobody waits for it any more. */
const LIVES_MAX_MS = 60_000;
setTimeout(() => {
  throw new Error(`the peer was not done after ${LIVES_MAX_MS} ms`);
}, LIVES_MAX_MS).unref();

await main(process.argv.slice(2));
