// Metrics kept in memory: counts, gauges and the last values observed, for tests, benchmarks and the demonstration.
import {
  type CounterName,
  type GaugeName,
  type HistogramName,
  type LabelsOf,
  type MetricName,
  metrics,
} from "../metrics.ts";
import type { Metrics } from "../ports/ports.ts";

type Labels = Readonly<Record<string, string | undefined>>;

type Series = { readonly labels: Labels; readonly values: number[]; next: number };

/** One level per label of a metric; the series hangs where the labels end. */
type Branch = { readonly branches: Map<string, Branch>; series: Series | undefined };

/** Values kept of each histogram: the latest ones, so that a process may run for ever. */
const valuesMax = 10_000;

export class MemoryMetrics implements Metrics {
  readonly #roots = new Map<MetricName, Branch>();
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
    return [...seriesBelow(this.#roots.get(name))]
      .filter((series) => Object.entries(labels).every(([label, value]) => series.labels[label] === value))
      .map((series) => series.values);
  }

  /** Counted several times per start: a map per label costs a third of joining the values to one key. */
  #seriesFor(name: MetricName, labels: Labels): Series {
    let branch = branchOf(this.#roots, name);
    for (const label of metrics[name].labels) {
      const value = labels[label] ?? "";
      branch = branchOf(branch.branches, label === "tenant" ? this.#tenantLabel(value) : value);
    }
    branch.series ??= { labels: this.#kept(labels), values: [], next: 0 };
    return branch.series;
  }

  #kept(labels: Labels): Labels {
    return labels.tenant === undefined ? labels : { ...labels, tenant: this.#tenantLabel(labels.tenant) };
  }

  /** Tenants are many: beyond the cap they share the label `other`, so that the number of series stays bounded. */
  #tenantLabel(tenant: string): string {
    if (this.#tenants.has(tenant)) return tenant;
    if (this.#tenants.size >= this.#tenantLabelsMax) return "other";
    this.#tenants.add(tenant);
    return tenant;
  }
}

function branchOf<Key extends string>(branches: Map<Key, Branch>, key: Key): Branch {
  let branch = branches.get(key);
  if (branch === undefined) {
    branch = { branches: new Map(), series: undefined };
    branches.set(key, branch);
  }
  return branch;
}

function* seriesBelow(branch: Branch | undefined): Generator<Series> {
  if (branch === undefined) return;
  if (branch.series !== undefined) yield branch.series;
  for (const below of branch.branches.values()) yield* seriesBelow(below);
}
