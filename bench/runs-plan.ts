// What the runs benchmark measures, in slices that take turns: floors, starts, three-step runs, hot runs, parked runs, the peer.
import { join } from "node:path";
import type { JsonValue } from "../src/domain/fingerprint.ts";
import type { RunId } from "../src/domain/run.ts";
import { startChildProgram } from "../test/support/child-program.ts";
import { expectSuccess, type HttpLoader, warmUpWith } from "./http-load.ts";
import { closedLoop } from "./load.ts";
import { floorConnections, floorMeasurements, floorScales, type HttpFloors } from "./runs-floors.ts";
import { forEachMeasurements, forEachScales } from "./runs-foreach.ts";
import { bullmqMeasurement, peerScales } from "./runs-peer.ts";
import { hotRunMeasurements } from "./runs-results.ts";
import { benchTenant, benchTopic, type RunsStore, type RunsTarget, runsStores } from "./runs-target.ts";
import type { Measurement } from "./slices.ts";
import { percentile } from "./statistics.ts";

export type RunsRound = {
  readonly httpFloors: HttpFloors;
  readonly loader: HttpLoader;
  /** For files of its own, on a real disk. */
  readonly folder: string;
  open(store: RunsStore): Promise<RunsTarget>;
};

export type RunsScale = {
  readonly slices: number;
  readonly startMs: number;
  /** Before the starts that are measured. */
  readonly startsBefore: number;
  readonly saturationMs: number;
  readonly oneByOneRuns: number;
  readonly parkedRuns: number;
};

/**
 * A server that has just started spends 40 to 80 us of each start on compiling (Node 26): V8's helpers took 47 us of the 10,000th
 * start on Redis, 13 of the 25,000th and 12 of the 55,000th; on the embedded store 79, 33 and 25. The floors are in a process that is as old
 * as the benchmark.
 */
export const startsUntilCompiled = 40_000;

export const runsScales: Readonly<Record<"quick" | "full", RunsScale>> = {
  quick: {
    slices: 1,
    startMs: 700,
    startsBefore: 1_000,
    saturationMs: 1_000,
    oneByOneRuns: 60,
    parkedRuns: 2_000,
  },
  full: {
    slices: 3,
    startMs: 3_000,
    startsBefore: startsUntilCompiled,
    saturationMs: 4_000,
    oneByOneRuns: 300,
    parkedRuns: 10_000,
  },
};

export function runsPlan(scale: "quick" | "full"): readonly Measurement<RunsRound>[] {
  const sizes = runsScales[scale];
  return [
    ...floorMeasurements(floorScales[scale]),
    bullmqMeasurement(peerScales[scale]),
    ...runsStores.flatMap((store) => [
      startMeasurement(store, sizes),
      threeStepMeasurement(store, sizes, "inprocess"),
      threeStepMeasurement(store, sizes, "http"),
      parkedRuns(store, sizes),
    ]),
    ...hotRunMeasurements({ ...sizes, slices: 1 }),
    ...forEachMeasurements(forEachScales[scale]),
  ];
}

/** With authentication, validation, a schema and an idempotency key, at as many connections as the floors. */
export function startMeasurement(
  store: RunsStore,
  { slices, startMs, startsBefore }: Pick<RunsScale, "slices" | "startMs" | "startsBefore">,
): Measurement<Pick<RunsRound, "loader" | "open">> {
  return {
    name: `runs.${store}.start`,
    slices,
    fields: {
      per_s: { unit: "per second", over: "median" },
      p99_ms: { unit: "ms", over: "median" },
    },
    async measure(round) {
      const target = await round.open(store);
      try {
        const load = {
          port: target.port,
          path: "/api/v1/workflows/one-step/runs",
          headers: { "x-api-key": target.keys.operator, "idempotency-key": "order-{n}" },
          body: JSON.stringify({ order: "order-{n}", customer: "customer-004711", week: "2026-W46" }),
          connections: floorConnections,
          succeeds: [200],
        };
        await warmUpWith(round.loader, load, startsBefore);
        const result = await round.loader.run({ ...load, warmUpMs: 0, durationMs: startMs });
        expectSuccess("a start", result);
        return { per_s: result.perSecond, p99_ms: result.p99Ms };
      } finally {
        await target.close();
      }
    },
  };
}

/** Runs that are under way at once at saturation. */
const inFlight = 300;

export function threeStepMeasurement(
  store: RunsStore,
  { slices, saturationMs, oneByOneRuns }: Pick<RunsScale, "slices" | "saturationMs" | "oneByOneRuns">,
  workers: "inprocess" | "http",
): Measurement<Pick<RunsRound, "open">> {
  return {
    name: `runs.${store}.three_step.${workers}`,
    slices,
    fields: {
      per_s: { unit: "per second", over: "median" },
      p50_ms: { unit: "ms", over: "median" },
      p99_ms: { unit: "ms", over: "median" },
      saturated_p50_ms: { unit: "ms", over: "median" },
      saturated_p99_ms: { unit: "ms", over: "median" },
    },
    async measure(round) {
      const target = await round.open(store);
      const crew = await startWorkers(target, workers);
      try {
        await closedLoop({ inFlight, durationMs: saturationMs / 3 }, () =>
          oneRun(target).then(() => "succeeded"),
        );
        const saturated: number[] = [];
        const perSecond = await closedLoop({ inFlight, durationMs: saturationMs }, async () => {
          saturated.push(await oneRun(target));
          return "succeeded";
        });
        const alone: number[] = [];
        for (let runs = 0; runs < oneByOneRuns; runs += 1) alone.push(await oneRun(target));
        return {
          per_s: perSecond,
          p50_ms: percentile(alone, 50),
          p99_ms: percentile(alone, 99),
          saturated_p50_ms: percentile(saturated, 50),
          saturated_p99_ms: percentile(saturated, 99),
        };
      } finally {
        await crew.stop();
        await target.close();
      }
    },
  };
}

let ordersMade = 0;

/** Milliseconds from asking for the run to its end. */
async function oneRun(target: RunsTarget): Promise<number> {
  const startMs = performance.now();
  await target.ended(await start(target, "three-steps"));
  return performance.now() - startMs;
}

export async function start({ plane }: RunsTarget, workflow: string): Promise<RunId> {
  ordersMade += 1;
  const input: JsonValue = { order: `order-${ordersMade}` };
  const caller = { tenant: benchTenant, actor: "bench" };
  const answer = await plane.api.startWorkflow({ caller, workflow, input });
  if (answer.kind !== "admitted") throw new Error(`a run was not admitted: ${JSON.stringify(answer)}`);
  return answer.runId;
}

async function startWorkers(
  target: RunsTarget,
  kind: "inprocess" | "http",
): Promise<{ stop(): Promise<void> }> {
  if (kind === "inprocess") {
    return target.plane.startWorker({
      tenant: benchTenant,
      name: "bench",
      topics: [benchTopic],
      concurrency: inFlight,
      handler: (job) => job.input,
    });
  }
  const child = startChildProgram(join(import.meta.dirname, "http-worker-program.ts"), {
    port: target.port,
    key: target.keys.worker,
    topic: benchTopic,
    workers: 4,
    batch: 100,
  });
  await child.next();
  return child;
}

/** What a run that waits for a human costs the server's process: nothing but the cache should grow. */
function parkedRuns(store: RunsStore, { parkedRuns: runs }: RunsScale): Measurement<RunsRound> {
  return {
    name: `runs.${store}`,
    slices: 1,
    fields: { parked10k_mib: { unit: "MiB", over: "median" } },
    async measure(round) {
      const target = await round.open(store);
      try {
        for (let warm = 0; warm < 200; warm += 1) await start(target, "parked");
        const before = memoryMib();
        for (let made = 0; made < runs; made += 50) {
          await Promise.all(Array.from({ length: 50 }, () => start(target, "parked")));
        }
        return { parked10k_mib: ((memoryMib() - before) * 10_000) / runs };
      } finally {
        await target.close();
      }
    },
  };
}

/** The heap after a full collection, with what buffers and SQLite hold outside it. */
function memoryMib(): number {
  globalThis.gc?.();
  const { heapUsed, external } = process.memoryUsage();
  return (heapUsed + external) / 1_048_576;
}
