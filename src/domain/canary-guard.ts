// What is measured of the two sides of a canary, how the sides are compared, and the guards that a measure must keep.
import { type PolicyName, policyNames, policyTable } from "./policy.ts";

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

/** `results` are measured for policies about results and renewal, `starts` for those about admission. */
export type SampleFamily = "results" | "starts";

type MetricRow = {
  readonly family: SampleFamily;
  readonly unit: "ms" | "count" | "share";
  /** Differences up to this mean nothing, whatever their ratio: 0.2 ms against 0.3 ms is no regression. */
  readonly floor: number;
  measure(samples: ArmSamples): number | undefined;
};

export const canaryMetrics = {
  busy_retries_per_result: {
    family: "results",
    unit: "count",
    floor: 0.05,
    measure: ({ busyRetries, results }) => ratio(busyRetries, results),
  },
  /** Of the results that found their run busy, the share that got it at the next try. */
  first_retry_success: {
    family: "results",
    unit: "share",
    floor: 0.02,
    measure: ({ acquired: [, second, later] }) =>
      second + later < retriedMin ? undefined : second / (second + later),
  },
  lock_wait_p95: timed("results", ({ lockWait }) => percentileMs(lockWait, 0.95)),
  lock_wait_p99: timed("results", ({ lockWait }) => percentileMs(lockWait, 0.99)),
  result_latency_p50: timed("results", ({ latency }) => percentileMs(latency, 0.5)),
  result_latency_p95: timed("results", ({ latency }) => percentileMs(latency, 0.95)),
  result_latency_p99: timed("results", ({ latency }) => percentileMs(latency, 0.99)),
  busy_retries_per_start: {
    family: "starts",
    unit: "count",
    floor: 0.05,
    measure: ({ startBusyRetries, starts }) => ratio(startBusyRetries, starts),
  },
  start_wait_p95: timed("starts", ({ startWait }) => percentileMs(startWait, 0.95)),
  start_wait_p99: timed("starts", ({ startWait }) => percentileMs(startWait, 0.99)),
  /** The share of starts answered 503. */
  start_unavailable: {
    family: "starts",
    unit: "share",
    floor: 0.01,
    measure: ({ startsUnavailable, starts }) => ratio(startsUnavailable, starts),
  },
} as const satisfies Record<string, MetricRow>;

export type CanaryMetric = keyof typeof canaryMetrics;

export const canaryMetricNames = Object.keys(canaryMetrics) as readonly CanaryMetric[];

/** Fewer say nothing about their share. */
const retriedMin = 5;

export function measure(metric: CanaryMetric, samples: ArmSamples): number | undefined {
  return (canaryMetrics[metric] as MetricRow).measure(samples);
}

export function samplesOf(family: SampleFamily, samples: ArmSamples): number {
  return samples[family];
}

export function familiesOf(policies: readonly PolicyName[]): readonly SampleFamily[] {
  const known = policyNames.filter((name) => policies.includes(name));
  const measuring = new Set(known.map((name) => policyTable[name].measuredBy));
  return (["results", "starts"] as const).filter((family) => measuring.has(family));
}

/** As people read it: `512 ms`, `93 %`, `2.10`. */
export function shown(metric: CanaryMetric, value: number | undefined): string {
  if (value === undefined) return "unknown";
  switch (canaryMetrics[metric].unit) {
    case "ms":
      return `${value < 10 ? value.toFixed(1) : Math.round(value)} ms`;
    case "share":
      return `${(value * 100).toFixed(1)} %`;
    case "count":
      return value.toFixed(2);
  }
}

function timed(family: SampleFamily, of: MetricRow["measure"]) {
  return { family, unit: "ms", floor: 5, measure: of } as const;
}

function ratio(amount: number, all: number): number | undefined {
  return all === 0 ? undefined : amount / all;
}

export type CanaryGuard = {
  readonly metric: CanaryMetric;
  readonly comparison: "<=" | ">=";
  readonly bound:
    | { readonly kind: "relative"; readonly factor: number }
    | { readonly kind: "absolute"; readonly value: number };
};

const defaults: Readonly<Record<SampleFamily, readonly string[]>> = {
  results: [
    "busy_retries_per_result<=1.1x",
    "first_retry_success>=0.9x",
    "lock_wait_p95<=1.25x",
    "lock_wait_p99<=1.5x",
    "result_latency_p95<=1.25x",
  ],
  starts: [
    "busy_retries_per_start<=1.1x",
    "start_unavailable<=1.1x",
    "start_wait_p95<=1.25x",
    "start_wait_p99<=1.5x",
  ],
};

/** Those given, and the usual ones for measures that none of them is about. */
export function withDefaultGuards(
  given: readonly CanaryGuard[],
  families: readonly SampleFamily[],
): readonly CanaryGuard[] {
  const named = new Set(given.map(({ metric }) => metric));
  const usual = families
    .flatMap((family) => defaults[family])
    .flatMap((text) => {
      const read = readGuard(text);
      return read.kind === "guard" ? [read.guard] : [];
    });
  return [...given, ...usual.filter(({ metric }) => !named.has(metric))];
}

type ReadGuard =
  | { readonly kind: "guard"; readonly guard: CanaryGuard }
  /** `at` counts characters from 1. */
  | { readonly kind: "invalid"; readonly at: number; readonly problem: string };

/** `result_latency_p95<=1.2x`, `result_latency_p95<=250ms`, `start_unavailable<=1%`, `busy_retries_per_result<=0.5`. */
export function readGuard(text: string): ReadGuard {
  const [, before = "", name = "", between = "", comparison = "", after = "", bound = ""] =
    /^(\s*)([a-z0-9_]*)(\s*)(<=|>=|)(\s*)(.*?)\s*$/s.exec(text) ?? [];
  const nameAt = before.length + 1;
  const metric = canaryMetricNames.find((each) => each === name);
  if (metric === undefined) {
    return invalid(
      nameAt,
      `there is no measure "${name}": it must be one of ${canaryMetricNames.join(", ")}`,
    );
  }
  const comparisonAt = nameAt + name.length + between.length;
  if (comparison === "") return invalid(comparisonAt, "expected <= or >=");
  const boundAt = comparisonAt + comparison.length + after.length;
  const read = readBound(metric, bound);
  if (read.kind === "invalid") return invalid(boundAt, read.problem);
  return { kind: "guard", guard: { metric, comparison: comparison as "<=" | ">=", bound: read.bound } };
}

function readBound(metric: CanaryMetric, text: string) {
  const { unit } = canaryMetrics[metric];
  const units = { ms: ["ms", "s"], share: ["%", ""], count: [""] }[unit];
  const [, number = "", suffix = ""] = /^(\d{1,9}(?:\.\d{1,6})?) ?(x|ms|s|%|)$/.exec(text) ?? [];
  const examples = { ms: "1.2x or 250ms", share: "0.9x or 5%", count: "1.1x or 0.5" }[unit];
  const value = Number(number);
  if (number !== "" && suffix === "x") {
    return value > 0
      ? ({ kind: "bound", bound: { kind: "relative", factor: value } } as const)
      : ({ kind: "invalid", problem: "a factor must be above 0" } as const);
  }
  if (number === "" || !units.includes(suffix)) {
    return { kind: "invalid", problem: `expected a bound such as ${examples}, not "${text}"` } as const;
  }
  const scale = suffix === "s" ? 1_000 : suffix === "%" ? 0.01 : 1;
  return { kind: "bound", bound: { kind: "absolute", value: value * scale } } as const;
}

function invalid(at: number, problem: string): ReadGuard {
  return { kind: "invalid", at, problem };
}

export function guardText({ metric, comparison, bound }: CanaryGuard): string {
  if (bound.kind === "relative") return `${metric}${comparison}${bound.factor}x`;
  const { unit } = canaryMetrics[metric];
  if (unit === "share") return `${metric}${comparison}${Number((bound.value * 100).toFixed(4))}%`;
  return `${metric}${comparison}${bound.value}${unit === "ms" ? "ms" : ""}`;
}

export type GuardFinding = {
  readonly verdict: "holds" | "broken" | "unknown";
  readonly canary?: number;
  readonly control?: number;
};

export function judgeGuard({ metric, comparison, bound }: CanaryGuard, arms: BothArms): GuardFinding {
  const canary = measure(metric, arms.canary);
  const control = measure(metric, arms.control);
  const values = {
    ...(canary === undefined ? {} : { canary }),
    ...(control === undefined ? {} : { control }),
  };
  // Where nobody on the other side had to try twice, nobody failed to.
  const against = control ?? (metric === "first_retry_success" ? 1 : undefined);
  if (canary === undefined || (bound.kind === "relative" && against === undefined)) {
    return { verdict: "unknown", ...values };
  }
  const limit = bound.kind === "absolute" ? bound.value : bound.factor * (against ?? 0);
  const isBeyond = comparison === "<=" ? canary > limit : canary < limit;
  // Compared with the other side, a difference must also be worth speaking of.
  const isTiny =
    bound.kind === "relative" && Math.abs(canary - (against ?? 0)) <= canaryMetrics[metric].floor;
  return { verdict: isBeyond && !isTiny ? "broken" : "holds", ...values };
}

/** `result_latency_p95 was 512 ms against 4.0 ms: at most 1.25x`. */
export function findingText(guard: CanaryGuard, { canary, control }: GuardFinding): string {
  const { metric, comparison, bound } = guard;
  const most = comparison === "<=" ? "at most" : "at least";
  const limit = bound.kind === "relative" ? `${bound.factor}x` : shown(metric, bound.value);
  return `${metric} was ${shown(metric, canary)} against ${shown(metric, control)} of control (${most} ${limit})`;
}
