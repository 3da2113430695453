// What a soak measures again and again: each series with its bound, the samples of a run, and what is judged of them.
import { median, percentile } from "../bench/statistics.ts";
import { type Bound, type Flatness, judgeFlatness, type Point } from "./slope.ts";
import type { Tally } from "./tally.ts";
import type { Target } from "./target.ts";

type Measure = { readonly unit: string; readonly bound: Bound };

/**
 * How much each may rise over the measured time, by the last words of its name. Shares are of the level; the floors keep small
 * levels from failing by noise, and are what a leak must exceed: 2 MB of heap in 30 minutes of 10 starts a second are 116 bytes
 * per start.
 */
const measures: Readonly<Record<string, Measure>> = {
  // Live data after a full collection moves by 0.3 MB with what is under way.
  heap: { unit: "MB", bound: { share: 0.05, floor: 2 } },
  // Before the memory of processes, whose name ends alike.
  "redis memory": { unit: "MB", bound: { share: 0.05, floor: 1 } },
  // What V8 and malloc keep for later moves by up to 10 MB a process.
  memory: { unit: "MB", bound: { share: 0.1, floor: 12 } },
  // Beyond those of the clients. One lost for every 1,800th start of half an hour exceeds it.
  descriptors: { unit: "", bound: { share: 0.1, floor: 10 } },
  // Timers, threads and pipes: requests under way have some, and there are more of them while the machine is busy.
  resources: { unit: "", bound: { share: 0.1, floor: 20 } },
  // Pages are used again: the file has the size of the fullest moment.
  file: { unit: "MB", bound: { share: 0.05, floor: 1 } },
  log: { unit: "MB", bound: { share: 0.1, floor: 2 } },
  "redis keys": { unit: "", bound: { share: 0.05, floor: 100 } },
  // Of all processes, for one start with all that follows. It moved by 40 % when other work on the machine ended: batches get
  // smaller. Work that grows with what was done before shows as a multiple.
  "CPU per start": { unit: "ms", bound: { share: 1, floor: 5 } },
  // With other work on two cores the median of a run moved by 13 ms in two minutes; a leak of time shows as a multiple.
  "start p50": { unit: "ms", bound: { share: 0.5, floor: 10 } },
  "start p99": { unit: "ms", bound: { share: 1, floor: 60 } },
  "run p50": { unit: "ms", bound: { share: 0.5, floor: 25 } },
  "run p99": { unit: "ms", bound: { share: 1, floor: 100 } },
};

export function measureOf(series: string): Measure {
  const [, known] = Object.entries(measures).find(([ending]) => series.endsWith(ending)) ?? [];
  if (known === undefined) throw new Error(`there is no bound for ${series}`);
  return known;
}

export type Series = {
  readonly name: string;
  readonly points: readonly Point[];
  /** Of the points from `judgedFromMs` on. */
  readonly flatness: Flatness;
};

/** As often as this, and latencies a sixth as often: a p99 needs more than the 100 starts of five seconds. */
export function sampleEveryMs(durationMs: number): number {
  return Math.min(5_000, Math.max(100, durationMs / 360));
}

const latenciesEvery = 6;

export type Sampling = {
  stop(): Promise<ReadonlyMap<string, readonly Point[]>>;
};

export function startSampling(target: Target, tally: Tally, everyMs: number): Sampling {
  const points = new Map<string, Point[]>();
  const beganMs = performance.now();
  let last = Promise.resolve();
  let samples = 0;
  let failure: unknown;
  let before: { readonly starts: number; readonly cpuMs: number } | undefined;
  const perStart = (cpuMs: number | undefined) => {
    if (cpuMs === undefined) return {};
    const { starts } = tally;
    const spent = before === undefined ? Number.NaN : (cpuMs - before.cpuMs) / (starts - before.starts);
    before = { starts, cpuMs };
    return { "CPU per start": spent };
  };
  const sample = async () => {
    samples += 1;
    const atMs = performance.now() - beganMs;
    const { cpuMs, ...numbers } = await target.measure();
    const latencies = samples % latenciesEvery === 0 ? { ...perStart(cpuMs), ...takeLatencies(tally) } : {};
    for (const [name, value] of Object.entries({ ...numbers, ...latencies })) {
      if (!Number.isFinite(value)) continue;
      const own = points.get(name) ?? [];
      points.set(name, own);
      own.push({ atMs, value });
    }
  };
  const timer = setInterval(() => {
    last = last.then(sample).catch((error: unknown) => {
      failure ??= error;
    });
  }, everyMs);
  return {
    async stop() {
      clearInterval(timer);
      await last;
      if (failure !== undefined) throw failure;
      return points;
    },
  };
}

function takeLatencies(tally: Tally): Readonly<Record<string, number>> {
  const { startMs, runMs } = tally;
  tally.startMs = [];
  tally.runMs = [];
  return {
    "start p50": median(startMs),
    "start p99": percentile(startMs, 99),
    "run p50": median(runMs),
    "run p99": percentile(runMs, 99),
  };
}

export function judgeSeries(
  points: ReadonlyMap<string, readonly Point[]>,
  judgedFromMs: number,
): readonly Series[] {
  return [...points].map(([name, all]) => {
    const judged = all.filter(({ atMs }) => atMs >= judgedFromMs);
    return { name, points: all, flatness: judgeFlatness(judged, measureOf(name).bound) };
  });
}

/** From then on it must be flat: after the first tenth, and once twice the longest window has filled every stock. */
export function judgedFrom(durationMs: number, windowSeconds: number): number {
  // Audit records go by whole days, and are kept for up to two.
  const longestWindowMs = 2 * windowSeconds * 1_000;
  return Math.max(durationMs / 10, 2 * longestWindowMs);
}
