// Looks at every metric that any test counts: what a label says must stand in the table, where the table names what it can say.
import { afterAll, expect } from "vitest";
import { LabelledSeries, type Labels } from "../../src/adapters/labelled-series.ts";
import { type MetricName, type MetricRow, metrics } from "../../src/metrics.ts";

const strangers = new Set<string>();

const { of } = LabelledSeries.prototype;
LabelledSeries.prototype.of = function lookedAt(
  this: LabelledSeries<unknown>,
  name: MetricName,
  labels: Labels,
) {
  const row: MetricRow = metrics[name];
  for (const label of row.labels) {
    const value = labels[label];
    const known = row.values?.[label];
    const isKnown = value !== undefined && (known === undefined || known.includes(value));
    if (!isKnown) strangers.add(`${name}{${label}="${value}"}`);
  }
  return of.call(this, name, labels);
};

afterAll(() => {
  // A process may run a file many times: it looks once each time.
  LabelledSeries.prototype.of = of;
  expect([...strangers]).toEqual([]);
});
