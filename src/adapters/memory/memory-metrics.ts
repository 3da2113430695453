// Metrics kept in memory: counts, gauges and the values observed, readable by tests, benchmarks and the demonstration.
import type { CounterName, GaugeName, HistogramName, LabelsOf, MetricName } from "../../metrics.ts";
import type { Metrics } from "../../ports/metrics.ts";

export class MemoryMetrics implements Metrics {
  readonly #series = new Map<
    string,
    { name: MetricName; labels: Record<string, string>; values: number[] }
  >();
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
    this.#seriesFor(name, labels).values.push(value);
  }

  set<Name extends GaugeName>(name: Name, labels: LabelsOf<Name>, value: number): void {
    this.#seriesFor(name, labels).values[0] = value;
  }

  /** The sum of a counter, or of a gauge, over all series whose labels include the given ones. */
  total<Name extends CounterName | GaugeName>(name: Name, labels: Partial<LabelsOf<Name>> = {}): number {
    return this.#matching(name, labels).reduce((sum, values) => sum + (values[0] ?? 0), 0);
  }

  /** All values observed in the series whose labels include the given ones. */
  observed<Name extends HistogramName>(name: Name, labels: Partial<LabelsOf<Name>> = {}): number[] {
    return this.#matching(name, labels).flat();
  }

  #matching(name: MetricName, labels: Readonly<Record<string, string | undefined>>): number[][] {
    return [...this.#series.values()]
      .filter((series) => series.name === name)
      .filter((series) => Object.entries(labels).every(([label, value]) => series.labels[label] === value))
      .map((series) => series.values);
  }

  #seriesFor(name: MetricName, labels: Readonly<Record<string, string>>) {
    const capped = this.#capTenant(labels);
    const key = `${name} ${JSON.stringify(Object.entries(capped).sort())}`;
    let series = this.#series.get(key);
    if (series === undefined) {
      series = { name, labels: capped, values: [] };
      this.#series.set(key, series);
    }
    return series;
  }

  /** Tenants are many: beyond the cap they share the label `other`, so that the number of series stays bounded. */
  #capTenant(labels: Readonly<Record<string, string>>): Record<string, string> {
    const tenant = labels.tenant;
    if (tenant === undefined) return { ...labels };
    if (this.#tenants.size < this.#tenantLabelsMax) this.#tenants.add(tenant);
    return { ...labels, tenant: this.#tenants.has(tenant) ? tenant : "other" };
  }
}
