// Metrics for Prometheus: the whole table of src/metrics.ts, counted in place and rendered as text when scraped.
import { type MetricName, type MetricRow, metrics } from "../metrics.ts";
import type { Metrics } from "../ports/ports.ts";
import { LabelledSeries, type Labels } from "./labelled-series.ts";

export type PrometheusMetrics = Metrics & {
  /** In Prometheus' text format. */
  text(): string;
};

const prefix = "interlock_";

type Series = {
  /** As they are written: `operation="startRun",status="200"`. */
  readonly labels: string;
  /** Of a counter or a gauge; of a histogram the sum. */
  value: number;
  /** Of a histogram's buckets; others have none. */
  readonly bounds: readonly number[];
  /** Values up to each bound and above the one before it, and last those above all. */
  readonly counts: number[];
};

export function createPrometheusMetrics(tenantLabelsMax: number): PrometheusMetrics {
  const series = new LabelledSeries<Series>(tenantLabelsMax, seriesOf);
  for (const name of metricNames)
    for (const labels of shownFromTheStart(metrics[name])) series.of(name, labels);
  return {
    count(name, labels) {
      series.of(name, labels).value += 1;
    },
    observe(name, labels, value) {
      const own = series.of(name, labels);
      own.value += value;
      const { counts, bounds } = own;
      let bucket = 0;
      while (bucket < bounds.length && value > (bounds[bucket] as number)) bucket += 1;
      counts[bucket] = (counts[bucket] as number) + 1;
    },
    set(name, labels, value) {
      series.of(name, labels).value = value;
    },
    text: () => metricNames.map((name) => familyText(name, [...series.allOf(name)])).join("\n"),
  };
}

const metricNames = Object.keys(metrics) as readonly MetricName[];

function seriesOf(name: MetricName, labels: Labels): Series {
  const bounds = metrics[name].kind === "histogram" ? bucketsOf(name) : [];
  return { labels: labelsText(name, labels), value: 0, bounds, counts: [...bounds, 0].fill(0) };
}

/** A metric without labels, and every combination of a counter's labels, unless one of them is open. */
function shownFromTheStart({ kind, labels, values = {} }: MetricRow): readonly Labels[] {
  if (kind !== "counter" && labels.length > 0) return [];
  return labels.reduce<readonly Labels[]>(
    (series, label) =>
      series.flatMap((known) => (values[label] ?? []).map((value) => ({ ...known, [label]: value }))),
    [{}],
  );
}

function labelsText(name: MetricName, labels: Labels): string {
  return metrics[name].labels.map((label) => `${label}="${escaped(labels[label] ?? "")}"`).join(",");
}

/** A label may hold what its sender likes: nothing in it ends the text or the line. */
function escaped(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll('"', '\\"');
}

function familyText(name: MetricName, all: readonly Series[]): string {
  const { help, kind } = metrics[name];
  const full = prefix + name;
  const lines = all.flatMap((series) =>
    kind === "histogram" ? histogramLines(full, series) : [lineOf(full, series.labels, series.value)],
  );
  return [`# HELP ${full} ${help}`, `# TYPE ${full} ${kind}`, ...lines, ""].join("\n");
}

function lineOf(name: string, labels: string, value: number): string {
  return `${name}${labels === "" ? "" : `{${labels}}`} ${value}`;
}

function histogramLines(name: string, { labels, bounds, counts, value }: Series): readonly string[] {
  let sum = 0;
  const buckets = counts.map((count, index) => {
    sum += count;
    const bound = `le="${bounds[index] ?? "+Inf"}"`;
    return lineOf(`${name}_bucket`, labels === "" ? bound : `${bound},${labels}`, sum);
  });
  return [...buckets, lineOf(`${name}_sum`, labels, value), lineOf(`${name}_count`, labels, sum)];
}

/**
 * From half a millisecond, which an embedded decision takes, to the longest poll. A start waits 2 s for its lock and a result
 * 3 s: both are bounds, so that calls that used up the wait can be distinguished from those that got through.
 */
const seconds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5, 10, 30];
/** Delays are drawn around 500 ms by up to 30 %, or grow from 10 to 160 ms: fine enough to see whether they are spread. */
const retryDelays = [
  0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.25, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.75, 1, 2.5, 10,
];
const bytes = [256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576];
const amounts = [1, 2, 4, 8, 16, 32, 64, 128];

/** The upper bounds of a histogram's buckets. */
export function bucketsOf(name: string): number[] {
  if (name === "lock_busy_retry_delay_seconds") return retryDelays;
  if (name.endsWith("_seconds")) return seconds;
  return name.endsWith("_bytes") ? bytes : amounts;
}
