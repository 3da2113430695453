// The guards of a canary: what one side's measure may be at most or at least, in itself or compared with the other side.
import {
  type CanaryMetric,
  canaryMetricNames,
  canaryMetrics,
  measure,
  type SampleFamily,
  shown,
} from "./canary-metrics.ts";
import type { BothArms } from "./canary-samples.ts";

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
