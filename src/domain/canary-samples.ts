// What is measured of one side of a canary: how results met their runs and starts the gate, counted in histograms.

export type ArmSamples = {
  /** Results that arrived, each once, however often it was tried. */
  readonly results: number;
  /** Tries that found the run busy. */
  readonly busyRetries: number;
  /** Results that got their run at the first try, after one busy try, after more. */
  readonly acquired: readonly [first: number, second: number, later: number];
  readonly lockWait: Histogram;
  /** From the first arrival to being durable. */
  readonly latency: Histogram;
  readonly starts: number;
  /** Tries that found the admission lock busy. */
  readonly startBusyRetries: number;
  /** Starts answered 503. */
  readonly startsUnavailable: number;
  readonly startWait: Histogram;
};

export const noSamples: ArmSamples = {
  results: 0,
  busyRetries: 0,
  acquired: [0, 0, 0],
  lockWait: {},
  latency: {},
  starts: 0,
  startBusyRetries: 0,
  startsUnavailable: 0,
  startWait: {},
};

export type BothArms = { readonly canary: ArmSamples; readonly control: ArmSamples };

export const noSamplesAtAll: BothArms = { canary: noSamples, control: noSamples };

export function mergedArms(one: BothArms, other: BothArms): BothArms {
  return { canary: merged(one.canary, other.canary), control: merged(one.control, other.control) };
}

function merged(one: ArmSamples, other: ArmSamples): ArmSamples {
  const [first, second, later] = other.acquired;
  return {
    results: one.results + other.results,
    busyRetries: one.busyRetries + other.busyRetries,
    acquired: [one.acquired[0] + first, one.acquired[1] + second, one.acquired[2] + later],
    lockWait: mergedHistogram(one.lockWait, other.lockWait),
    latency: mergedHistogram(one.latency, other.latency),
    starts: one.starts + other.starts,
    startBusyRetries: one.startBusyRetries + other.startBusyRetries,
    startsUnavailable: one.startsUnavailable + other.startsUnavailable,
    startWait: mergedHistogram(one.startWait, other.startWait),
  };
}

/** Counts by number of bucket; only those that hold something. */
export type Histogram = Readonly<Record<string, number>>;

const smallestMs = 0.1;
const growth = 1.05;
/** About ten minutes: 320 buckets at most. */
const lastBucket = 320;

export function bucketOf(durationMs: number): number {
  if (!(durationMs > smallestMs)) return 0;
  return Math.min(lastBucket, Math.ceil(Math.log(durationMs / smallestMs) / Math.log(growth)));
}

/** The middle of a bucket, at most 2.5 % from what fell into it. */
function bucketMs(bucket: number): number {
  return bucket === 0 ? 0 : smallestMs * growth ** (bucket - 0.5);
}

export function countOf(histogram: Histogram): number {
  return Object.values(histogram).reduce((sum, amount) => sum + amount, 0);
}

/** The duration that this share of all is not above; undefined when there is none. */
export function percentileMs(histogram: Histogram, fraction: number): number | undefined {
  const wanted = Math.ceil(countOf(histogram) * fraction);
  let seen = 0;
  // Names that are whole numbers come in ascending order.
  for (const [bucket, amount] of Object.entries(histogram)) {
    seen += amount;
    if (seen >= wanted) return bucketMs(Number(bucket));
  }
  return undefined;
}

export function mergedHistogram(one: Histogram, other: Histogram): Histogram {
  const sum: Record<string, number> = { ...one };
  for (const [bucket, amount] of Object.entries(other)) sum[bucket] = (sum[bucket] ?? 0) + amount;
  return sum;
}
