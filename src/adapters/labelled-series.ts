// Finds the series of a metric by the values of its labels; the number of tenants that have series of their own is capped.
import { type MetricName, metrics } from "../metrics.ts";

export type Labels = Readonly<Record<string, string | undefined>>;

/** One level per label of a metric; the series hangs where the labels end. */
type Branch<Series> = { readonly branches: Map<string, Branch<Series>>; series: Series | undefined };

/** A class, since it is asked several times per request: a map per label costs a third of joining the values to one key. */
export class LabelledSeries<Series> {
  readonly #roots = new Map<MetricName, Branch<Series>>();
  readonly #tenants = new Set<string>();
  readonly #tenantLabelsMax: number;
  readonly #make: (name: MetricName, labels: Labels) => Series;

  /** `make` gets the labels that the series is shown with. */
  constructor(tenantLabelsMax: number, make: (name: MetricName, labels: Labels) => Series) {
    this.#tenantLabelsMax = tenantLabelsMax;
    this.#make = make;
  }

  of(name: MetricName, labels: Labels): Series {
    let branch = this.#roots.get(name);
    if (branch === undefined) {
      branch = { branches: new Map(), series: undefined };
      this.#roots.set(name, branch);
    }
    for (const label of metrics[name].labels) {
      const value = labels[label] ?? "";
      branch = branchOf(branch, label === "tenant" ? this.#tenantLabel(value) : value);
    }
    branch.series ??= this.#make(name, this.#kept(labels));
    return branch.series;
  }

  /** All of a metric, in the order in which their labels were first seen. */
  allOf(name: MetricName): Iterable<Series> {
    return seriesBelow(this.#roots.get(name));
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

function branchOf<Series>({ branches }: Branch<Series>, value: string): Branch<Series> {
  let branch = branches.get(value);
  if (branch === undefined) {
    branch = { branches: new Map(), series: undefined };
    branches.set(value, branch);
  }
  return branch;
}

function* seriesBelow<Series>(branch: Branch<Series> | undefined): Generator<Series> {
  if (branch === undefined) return;
  if (branch.series !== undefined) yield branch.series;
  for (const below of branch.branches.values()) yield* seriesBelow(below);
}
