// Reads enough of PromQL to say which metrics an expression names, and whether their labels and the values asked for exist.
import { type MetricRow, metrics } from "../../src/metrics.ts";

/** Labels that Prometheus itself puts on every series. */
const scrapeLabels = ["job", "instance"];

export type Recorded = ReadonlyMap<string, readonly string[]>;

export type Selector = {
  readonly name: string;
  readonly matchers: ReadonlyArray<{
    readonly label: string;
    readonly operator: string;
    readonly values: readonly string[];
  }>;
};

const names = /(?<![\w:$"])(interlock[_:][\w:]+|up|ALERTS)(?:\{([^}]*)\})?/g;

/** Every series that the expression selects. */
export function selectorsIn(expr: string): readonly Selector[] {
  return [...expr.matchAll(names)].map(([, name = "", inner = ""]) => ({
    name,
    matchers: [...inner.matchAll(/(\w+)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"/g)].map(
      ([, label = "", operator = "", text = ""]) => ({
        label,
        operator,
        values: operator.endsWith("~") ? text.split("|") : [text],
      }),
    ),
  }));
}

/** The row behind a series: a histogram's has three endings. */
export function rowOf(
  series: string,
): { readonly metric: string; readonly labels: readonly string[] } | undefined {
  const rows: Readonly<Record<string, MetricRow>> = metrics;
  const bare = series.replace(/^interlock_/, "");
  const row = rows[bare];
  if (row !== undefined && row.kind !== "histogram") return { metric: bare, labels: row.labels };
  const ending = /_(bucket|sum|count)$/.exec(bare)?.[0] ?? "";
  const metric = bare.slice(0, bare.length - ending.length);
  const histogram = rows[metric];
  if (ending === "" || histogram?.kind !== "histogram") return undefined;
  return { metric, labels: ending === "_bucket" ? [...histogram.labels, "le"] : histogram.labels };
}

function labelsOf(name: string, recorded: Recorded): readonly string[] | undefined {
  if (name === "up") return scrapeLabels;
  if (name === "ALERTS") return [...scrapeLabels, "alertname", "alertstate", "severity"];
  const own = name.startsWith("interlock:") ? recorded.get(name) : rowOf(name)?.labels;
  return own === undefined ? undefined : [...own, ...scrapeLabels];
}

/** What is wrong with an expression: a metric, a label or a value that nobody exports. */
export function problemsIn(expr: string, recorded: Recorded = new Map()): readonly string[] {
  return [
    ...selectorsIn(expr).flatMap((selector) => problemsOf(selector, recorded)),
    ...groupingProblems(expr, recorded),
  ];
}

function problemsOf({ name, matchers }: Selector, recorded: Recorded): readonly string[] {
  const labels = labelsOf(name, recorded);
  if (labels === undefined) return [`${name} is not exported`];
  const rows: Readonly<Record<string, MetricRow>> = metrics;
  const closed = rows[rowOf(name)?.metric ?? ""]?.values ?? {};
  return matchers.flatMap(({ label, values }) => {
    if (!labels.includes(label)) return [`${name} has no label ${label}`];
    const known = closed[label];
    const wrong = known === undefined ? [] : values.filter((value) => !known.includes(value));
    return wrong.map((value) => `${label} of ${name} is never ${value}`);
  });
}

/** `sum by (a, b) (...)`: every series inside must have a and b. */
function groupingProblems(expr: string, recorded: Recorded): readonly string[] {
  return [...expr.matchAll(/\bby \(([^)]*)\) (?=\()/g)].flatMap((found) => {
    const inside = enclosed(expr, found.index + found[0].length);
    return selectorsIn(inside).flatMap(({ name }) => {
      const labels = labelsOf(name, recorded);
      return groupingIn(found[1] ?? "")
        .filter((label) => labels !== undefined && !labels.includes(label))
        .map((label) => `${name} has no label ${label}`);
    });
  });
}

/** From an opening bracket to the one that closes it. */
function enclosed(expr: string, from: number): string {
  let depth = 0;
  for (let index = from; index < expr.length; index += 1) {
    if (expr[index] === "(") depth += 1;
    if (expr[index] === ")") depth -= 1;
    if (depth === 0) return expr.slice(from, index + 1);
  }
  throw new Error(`a bracket is never closed: ${expr}`);
}

function groupingIn(text: string): readonly string[] {
  return text.split(",").map((label) => label.trim());
}

/** The labels that the outermost grouping leaves, without `le`, which a percentile uses up. */
export function labelsLeftBy(expr: string): readonly string[] {
  const groupings = [...expr.matchAll(/\bby \(([^)]*)\)/g)].map(([, text = ""]) => groupingIn(text));
  return (groupings[0] ?? []).filter((label) => label !== "le");
}
