// Metrics kept in memory: counts, gauges and the last values observed, for tests, benchmarks and the demonstration.
import type { CounterName, GaugeName, HistogramName, LabelsOf, MetricName } from "../metrics.ts";
import type { Metrics } from "../ports/ports.ts";
import { LabelledSeries, type Labels } from "./labelled-series.ts";

type Series = { readonly labels: Labels; readonly values: number[]; next: number };

/** Values kept of each histogram: the latest ones, so that a process may run for ever. */
const valuesMax = 10_000;

export class MemoryMetrics implements Metrics {
  readonly #series: LabelledSeries<Series>;

  constructor(tenantLabelsMax: number) {
    this.#series = new LabelledSeries(tenantLabelsMax, (_name, labels) => ({ labels, values: [], next: 0 }));
  }

  count<Name extends CounterName>(name: Name, labels: LabelsOf<Name>): void {
    const { values } = this.#series.of(name, labels);
    values[0] = (values[0] ?? 0) + 1;
  }

  observe<Name extends HistogramName>(name: Name, labels: LabelsOf<Name>, value: number): void {
    const series = this.#series.of(name, labels);
    series.values[series.next] = value;
    series.next = (series.next + 1) % valuesMax;
  }

  set<Name extends GaugeName>(name: Name, labels: LabelsOf<Name>, value: number): void {
    this.#series.of(name, labels).values[0] = value;
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
    return [...this.#series.allOf(name)]
      .filter((series) => Object.entries(labels).every(([label, value]) => series.labels[label] === value))
      .map((series) => series.values);
  }
}
