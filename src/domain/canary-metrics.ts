// What two sides of a canary are compared by: each measure of one side's samples, its unit, and how far apart two values must be to differ.
import type { ArmSamples } from "./canary-samples.ts";
import { percentileMs } from "./canary-samples.ts";
import type { PolicyName } from "./policy.ts";

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
  const ofStarts = policies.some((name) => name.startsWith("admission."));
  const ofResults = policies.some((name) => !name.startsWith("admission."));
  return [...(ofResults ? (["results"] as const) : []), ...(ofStarts ? (["starts"] as const) : [])];
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
