// What the CPU benchmark measures, in slices that take turns: the floors, then starts, results and three-step runs on each store.
import { type ClusterLoader, startClusterLoader } from "./cluster-load.ts";
import type { Measuring } from "./cpu-process.ts";
import { type ResultsLoader, startResultsLoader } from "./cpu-results-load.ts";
import {
  type CpuStore,
  type CpuTarget,
  type FloorTarget,
  openCpuTarget,
  openFloorTarget,
  type ProductProfile,
  partsOf,
} from "./cpu-target.ts";
import { type CountedProcess, cpuMicroseconds, type Part, readCpuTimes } from "./cpu-time.ts";
import {
  expectSuccess,
  type HttpLoad,
  type HttpLoader,
  repeatUntil,
  startHttpLoader,
  warmUpSliceMs,
  warmUpWith,
} from "./http-load.ts";
import { type FloorName, floorConnections, floorLoad, floorNames } from "./runs-floors.ts";
import { startsUntilCompiled } from "./runs-plan.ts";
import { benchTopic, oneStep, threeSteps } from "./runs-target.ts";
import type { Measurement } from "./slices.ts";

export const cpuOperations = ["start", "result", "run"] as const;
export type CpuOperation = (typeof cpuOperations)[number];

export type CpuProfile = ProductProfile & {
  readonly store: CpuStore;
  readonly operation: CpuOperation;
  /** Done while it was taken. */
  readonly operations: number;
};

export type CpuRound = {
  readonly measuring: Measuring;
  readonly floors: FloorTarget;
  readonly loader: HttpLoader;
  readonly resultsLoader: ResultsLoader;
  readonly runsLoader: ClusterLoader;
  /** On a real disk, for each target another. */
  freshFolder(): string;
  /** Taken in the first slice, after what is measured; absent when nobody asked for them. */
  readonly profiles?: { readonly folder: string; readonly taken: CpuProfile[] };
  close(): Promise<void>;
};

export type CpuScale = {
  readonly slices: number;
  /** So many operations of each kind: a time would warm up less on a busy machine. */
  readonly warmUp: Readonly<Record<CpuOperation | "floor", number>>;
  readonly durationMs: number;
  /** Of the results that are measured there is a number, too: their jobs have to be there. */
  readonly results: number;
};

/** Runs cost the same from the 3,000th on: then V8 has compiled what it will. */
export const cpuScales: Readonly<Record<"quick" | "full", CpuScale>> = {
  quick: {
    slices: 1,
    warmUp: { floor: 500, start: 500, result: 300, run: 200 },
    durationMs: 500,
    results: 600,
  },
  full: {
    slices: 3,
    warmUp: { floor: 10_000, start: startsUntilCompiled, result: 4_000, run: 3_000 },
    durationMs: 3_000,
    results: 8_000,
  },
};

export const floorParts: Readonly<Record<FloorName, readonly Part[]>> = {
  http_echo: ["gateway", "gc"],
  http_evalsha: ["gateway", "gc", "store"],
  http_commit: ["gateway", "gc", "store"],
};

/** The floors that the stores can be compared with. */
export function floorsOf(stores: readonly CpuStore[]): readonly FloorName[] {
  const isOnRedis = stores.some((store) => store !== "embedded");
  return floorNames.filter(
    (name) => name === "http_echo" || (name === "http_commit" ? stores.includes("embedded") : isOnRedis),
  );
}

export function cpuPlan(stores: readonly CpuStore[], scale: CpuScale): readonly Measurement<CpuRound>[] {
  return [
    ...floorsOf(stores).map((name) => floorMeasurement(name, scale)),
    ...stores.map((store) => storeMeasurement(store, scale)),
  ];
}

export async function openCpuRound(
  options: Omit<CpuRound, "floors" | "loader" | "resultsLoader" | "runsLoader" | "close">,
): Promise<CpuRound> {
  const floors = await openFloorTarget({ measuring: options.measuring, folder: options.freshFolder() });
  const [loader, resultsLoader, runsLoader] = [startHttpLoader(), startResultsLoader(), startClusterLoader()];
  return {
    ...options,
    ...{ floors, loader, resultsLoader, runsLoader },
    async close() {
      await Promise.all([loader, resultsLoader, runsLoader].map((each) => each.stop()));
      await floors.close();
    },
  };
}

const microseconds = { unit: "us", over: "median" } as const;

function fieldsOf(names: readonly string[]): Measurement<CpuRound>["fields"] {
  return Object.fromEntries(
    [...names.map((name) => `${name}_us`), "total_us"].map((name) => [name, microseconds]),
  );
}

/** Of every store the same names: the bus that one does without costs nothing. */
const withBus = (named: readonly Part[]) => [...new Set<Part>([...named, "bus"])];

function floorMeasurement(name: FloorName, { slices, warmUp, durationMs }: CpuScale): Measurement<CpuRound> {
  const named = floorParts[name];
  return {
    name: `cpu.floor.${name}`,
    slices,
    fields: fieldsOf(named),
    async measure({ floors, loader }) {
      const load = floorLoad(name, floors.port);
      await warmUpWith(loader, load, warmUp.floor);
      const count = () => request(loader, { ...load, warmUpMs: 0, durationMs });
      return await measureParts(floors.processes, named, count);
    },
  };
}

function storeMeasurement(store: CpuStore, scale: CpuScale): Measurement<CpuRound> {
  const named = withBus(partsOf[store]);
  return {
    name: `cpu.${store}`,
    slices: scale.slices,
    fields: Object.fromEntries(
      cpuOperations.flatMap((operation) =>
        Object.entries(fieldsOf(named)).map(([field, unit]) => [`${operation}.${field}`, unit]),
      ),
    ),
    async measure(round) {
      const target = await openCpuTarget(store, { measuring: round.measuring, folder: round.freshFolder() });
      const isFirst = round.profiles?.taken.every((profile) => profile.store !== store) === true;
      const sample: Record<string, number> = {};
      try {
        for (const operation of cpuOperations) {
          const load = loadOf[operation]({ target, round, scale });
          await load.warmUp();
          const measured = await measureParts(target.processes, named, load.measured);
          for (const [field, value] of Object.entries(measured)) sample[`${operation}.${field}`] = value;
          if (isFirst) await takeProfiles({ store, operation, target, round, load });
        }
      } finally {
        await target.close();
      }
      return sample;
    },
  };
}

/** CPU time by part for one operation; `work` gives how many it has done. */
async function measureParts(
  processes: readonly CountedProcess[],
  named: readonly Part[],
  work: () => Promise<number>,
): Promise<Readonly<Record<string, number>>> {
  const before = readCpuTimes(processes);
  const operations = await work();
  const spent = cpuMicroseconds(before, readCpuTimes(processes));
  const each = named.map((part) => [`${part}_us`, spent[part] / operations] as const);
  return { ...Object.fromEntries(each), total_us: each.reduce((sum, [, value]) => sum + value, 0) };
}

type Loading = { readonly target: CpuTarget; readonly round: CpuRound; readonly scale: CpuScale };

/** `warmUp` is repeated before every stretch, so that a stretch never begins on a process that was idle. */
type Load = { warmUp(): Promise<unknown>; measured(): Promise<number> };

type Profiling = {
  readonly store: CpuStore;
  readonly operation: CpuOperation;
  readonly target: CpuTarget;
  readonly round: CpuRound;
  readonly load: Load;
};

async function takeProfiles({ store, operation, target, round, load }: Profiling): Promise<void> {
  if (round.profiles === undefined) return;
  const { folder, taken } = round.profiles;
  let operations = 0;
  await load.warmUp();
  const written = await target.profile(`${folder}/cpu-${store}-${operation}`, async () => {
    operations = await load.measured();
  });
  taken.push(...written.map((each) => ({ ...each, store, operation, operations })));
}

const loadOf: Readonly<Record<CpuOperation, (loading: Loading) => Load>> = {
  start: startLoad,
  result: resultLoad,
  run: runLoad,
};

/** With a key, a schema and one step that nobody works on. */
function startLoad({ target, round, scale }: Loading): Load {
  const load = {
    port: target.port,
    path: `/api/v1/workflows/${oneStep.id}/runs`,
    headers: { "x-api-key": target.keys.client, "idempotency-key": "order-{n}" },
    body: JSON.stringify({ order: "order-{n}", customer: "customer-004711", week: "2026-W46" }),
    connections: floorConnections,
    succeeds: [200],
  };
  return {
    warmUp: () => warmUpWith(round.loader, load, scale.warmUp.start),
    measured: () => request(round.loader, { ...load, warmUpMs: 0, durationMs: scale.durationMs }),
  };
}

/** Of the jobs that the starts have left; each ends its run. */
function resultLoad({ target, round, scale }: Loading): Load {
  const common = { port: target.port, key: target.keys.worker };
  let claimed = 0;
  return {
    async warmUp() {
      const { topic } = oneStep.steps.only;
      const wanted = scale.warmUp.result + scale.results;
      claimed = await round.resultsLoader.run({ kind: "claim", ...common, topic, jobsMax: wanted });
      const results = Math.floor((claimed * scale.warmUp.result) / wanted);
      await round.resultsLoader.run({ kind: "report", ...common, results });
    },
    measured: () => round.resultsLoader.run({ kind: "report", ...common, results: claimed }),
  };
}

/** Runs under way at once. */
const runsInFlight = 300;

function runLoad({ target, round, scale }: Loading): Load {
  const run = async (durationMs: number) => {
    const { runs } = await round.runsLoader.run({
      ports: [target.port],
      keys: target.keys,
      workflow: threeSteps.id,
      topic: benchTopic,
      lastStep: "third",
      how: { kind: "saturated", inFlight: runsInFlight, warmUpMs: 0, durationMs },
    });
    return runs;
  };
  return {
    warmUp: () => repeatUntil(scale.warmUp.run, () => run(warmUpSliceMs)),
    measured: () => run(scale.durationMs),
  };
}

async function request(loader: HttpLoader, load: HttpLoad): Promise<number> {
  const result = await loader.run(load);
  expectSuccess(load.path, result);
  return result.requests;
}
