// Metrics kept in memory: counts, gauges and the last values observed, for tests, benchmarks and the demonstration.
import {
  type CounterName,
  type GaugeName,
  type HistogramName,
  type LabelsOf,
  type MetricName,
  metrics,
} from "../../metrics.ts";
import type { Metrics } from "../../ports/metrics.ts";

type Labels = Readonly<Record<string, string | undefined>>;

type Series = { readonly name: MetricName; readonly labels: Labels; readonly values: number[]; next: number };

/** Values kept of each histogram: the latest ones, so that a process may run for ever. */
const valuesMax = 10_000;

export class MemoryMetrics implements Metrics {
  readonly #series = new Map<string, Series>();
  readonly #tenants = new Set<string>();
  readonly #tenantLabelsMax: number;

  constructor(tenantLabelsMax: number) {
    this.#tenantLabelsMax = tenantLabelsMax;
  }

  count<Name extends CounterName>(name: Name, labels: LabelsOf<Name>): void {
    const { values } = this.#seriesFor(name, labels);
    values[0] = (values[0] ?? 0) + 1;
  }

  observe<Name extends HistogramName>(name: Name, labels: LabelsOf<Name>, value: number): void {
    const series = this.#seriesFor(name, labels);
    series.values[series.next] = value;
    series.next = (series.next + 1) % valuesMax;
  }

  set<Name extends GaugeName>(name: Name, labels: LabelsOf<Name>, value: number): void {
    this.#seriesFor(name, labels).values[0] = value;
  }

  /** The sum of a counter, or of a gauge, over all series whose labels include the given ones. */
  total<Name extends CounterName | GaugeName>(name: Name, labels: Partial<LabelsOf<Name>> = {}): number {
    return this.#matching(name, labels).reduce((sum, values) => sum + (values[0] ?? 0), 0);
  }

  /** The values observed in the series whose labels include the given ones. */
  observed<Name extends HistogramName>(name: Name, labels: Partial<LabelsOf<Name>> = {}): number[] {
    return this.#matching(name, labels).flat();
  }

  #matching(name: MetricName, labels: Labels): number[][] {
    return [...this.#series.values()]
      .filter((series) => series.name === name)
      .filter((series) => Object.entries(labels).every(([label, value]) => series.labels[label] === value))
      .map((series) => series.values);
  }

  /** The labels' values in the table's order name a series; looked up on every count, so it is only joined text. */
  #seriesFor(name: MetricName, labels: Labels): Series {
    let key: string = name;
    for (const label of metrics[name].labels) {
      const value = labels[label] ?? "";
      key += `\n${label === "tenant" ? this.#tenantLabel(value) : value}`;
    }
    let series = this.#series.get(key);
    if (series === undefined) {
      const tenant = labels.tenant;
      const kept = tenant === undefined ? labels : { ...labels, tenant: this.#tenantLabel(tenant) };
      series = { name, labels: kept, values: [], next: 0 };
      this.#series.set(key, series);
    }
    return series;
  }

  /** Tenants are many: beyond the cap they share the label `other`, so that the number of series stays bounded. */
  #tenantLabel(tenant: string): string {
    if (this.#tenants.has(tenant)) return tenant;
    if (this.#tenants.size >= this.#tenantLabelsMax) return "other";
    this.#tenants.add(tenant);
    return tenant;
  }
}
