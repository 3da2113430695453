// Metrics for Prometheus: the whole table of src/metrics.ts, registered once and rendered as text when scraped.
import { Counter, Gauge, Histogram, Registry } from "prom-client";
import { type MetricRow, metrics } from "../metrics.ts";
import type { Metrics } from "../ports/ports.ts";

export type PrometheusMetrics = Metrics & {
  /** In Prometheus' text format. */
  text(): Promise<string>;
};

const prefix = "interlock_";

export function createPrometheusMetrics(tenantLabelsMax: number): PrometheusMetrics {
  const registry = new Registry();
  const counters = new Map<string, Counter<string>>();
  const gauges = new Map<string, Gauge<string>>();
  const histograms = new Map<string, Histogram<string>>();
  for (const [name, row] of Object.entries<MetricRow>(metrics)) {
    const form = {
      name: prefix + name,
      help: row.help,
      labelNames: [...row.labels],
      registers: [registry],
    };
    if (row.kind === "counter") counters.set(name, counterOf(row, form));
    else if (row.kind === "gauge") gauges.set(name, new Gauge(form));
    else histograms.set(name, new Histogram({ ...form, buckets: bucketsOf(name) }));
  }
  const capped = tenantCap(tenantLabelsMax);
  return {
    count: (name, labels) => counters.get(name)?.inc(capped(labels)),
    observe: (name, labels, value) => histograms.get(name)?.observe(capped(labels), value),
    set: (name, labels, value) => gauges.get(name)?.set(capped(labels), value),
    text: () => registry.metrics(),
  };
}

type CounterForm = ConstructorParameters<typeof Counter<string>>[0];

function counterOf(row: MetricRow, form: CounterForm): Counter<string> {
  const counter = new Counter(form);
  for (const labels of closedSeries(row)) counter.inc(labels, 0);
  return counter;
}

/** Every combination of labels, or none when one of them is open. */
function closedSeries({ labels, values = {} }: MetricRow): readonly Record<string, string>[] {
  return labels.reduce<readonly Record<string, string>[]>(
    (series, label) =>
      series.flatMap((known) => (values[label] ?? []).map((value) => ({ ...known, [label]: value }))),
    [{}],
  );
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

type Labels = Readonly<Record<string, string>>;

/** Tenants are many: beyond the cap they share the label `other`, so that the number of series stays bounded. */
function tenantCap(tenantLabelsMax: number): (labels: Labels) => Record<string, string> {
  const known = new Set<string>();
  return (labels) => {
    const { tenant } = labels;
    if (tenant === undefined || known.has(tenant)) return labels;
    if (known.size >= tenantLabelsMax) return { ...labels, tenant: "other" };
    known.add(tenant);
    return labels;
  };
}
