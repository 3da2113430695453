// How the panels of the dashboard ask: rates, shares and percentiles of the series of the chosen installation.
export type Query = { readonly expr: string; readonly legend: string };

type Matchers = Readonly<Record<string, string>>;

/** `{ status: '="503"' }` is `status="503"`: the operator is part of the value, since `!=` and `=~` are needed too. */
export function series(metric: string, matchers: Matchers = {}): string {
  const own = Object.entries(matchers).map(([label, test]) => `${label}${test}`);
  return `interlock_${metric}{${['job=~"$job"', ...own].join(",")}}`;
}

export const rate = (metric: string, matchers?: Matchers) =>
  `rate(${series(metric, matchers)}[$__rate_interval])`;

const by = (labels: readonly string[]) => (labels.length === 0 ? "" : ` by (${labels.join(", ")})`);
const legendOf = (labels: readonly string[]) => labels.map((label) => `{{${label}}}`).join(" ");

type Terms = { readonly by?: readonly string[]; readonly only?: Matchers; readonly legend?: string };

export function perSecond(metric: string, { by: labels = [], only, legend }: Terms = {}): Query {
  return { expr: `sum${by(labels)} (${rate(metric, only)})`, legend: legend ?? legendOf(labels) };
}

export function perMinute(metric: string, { by: labels = [], only, legend }: Terms = {}): Query {
  return { expr: `60 * sum${by(labels)} (${rate(metric, only)})`, legend: legend ?? legendOf(labels) };
}

/** One line for each share of the observations that lie below it. */
export function percentiles(
  metric: string,
  shares: readonly number[],
  { by: labels = [], only }: Terms = {},
): Query[] {
  const buckets = `sum by (${[...labels, "le"].join(", ")}) (${rate(`${metric}_bucket`, only)})`;
  return shares.map((share) => ({
    expr: `histogram_quantile(${share}, ${buckets})`,
    legend: [`p${share * 100}`, legendOf(labels)].join(" ").trim(),
  }));
}

export function ratio(part: string, whole: string, legend: string): Query {
  return { expr: `sum (${part}) / sum (${whole})`, legend };
}

/** The ten highest values of a gauge. */
export const top = (name: Parameters<typeof series>[0], ...labels: readonly string[]): Query => ({
  expr: `topk(10, max by (${labels.join(", ")}) (${series(name)}))`,
  legend: labels.map((label) => `{{${label}}}`).join(" "),
});
