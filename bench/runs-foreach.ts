// The for_each part of the runs benchmark: what a result costs early and late, its bars, and what held the stores longest.
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Bar } from "./bars.ts";
import { type ForEachScale, measureForEach } from "./foreach-cost.ts";
import { budgetUs, transaction } from "./operation-times.ts";
import { formatNumber, formatTable, type Lookup } from "./report.ts";
import type { RunsRound } from "./runs-plan.ts";
import { type RunsStore, runsStores } from "./runs-target.ts";
import type { Measurement } from "./slices.ts";

/** What a run with a for_each asks of its store; the transaction is SQLite's only. */
const operations = [
  "admit",
  "takeRun",
  "loadRun",
  "commit",
  "claimJobs",
  "deliver",
  "sweep",
  transaction,
] as const;

export type ForEachSizes = ForEachScale & { readonly slices: number };

export const forEachScales: Readonly<Record<"quick" | "full", ForEachSizes>> = {
  quick: { slices: 1, items: 1_500, warmUp: 500, window: 100 },
  full: { slices: 3, items: 5_000, warmUp: 500, window: 100 },
};

/** The name says 5,000 also in a quick run, which has fewer items and says so. */
const nameOf = (store: RunsStore) => `runs.${store}.foreach5000`;

export function forEachMeasurements(sizes: ForEachSizes): readonly Measurement<RunsRound>[] {
  return runsStores.map((store) => ({
    name: nameOf(store),
    slices: sizes.slices,
    fields: {
      items: { unit: "items", over: "median" },
      first100_us: { unit: "us", over: "median" },
      last100_us: { unit: "us", over: "median" },
      end_ms: { unit: "ms", over: "median" },
      ...Object.fromEntries(
        operations.flatMap((name) => [
          [`slowest_${name}_us`, { unit: "us", over: "median" } as const],
          [`over_budget_${name}`, { unit: "operations", over: "mean" } as const],
        ]),
      ),
    },
    measure: (round) => measureOnce(round, store, sizes),
  }));
}

async function measureOnce({ folder }: RunsRound, store: RunsStore, sizes: ForEachSizes) {
  const directory = mkdtempSync(join(folder, "for-each-"));
  try {
    const cost = await measureForEach(store, directory, sizes);
    const times = operations.flatMap((name) => {
      const { slowestUs = 0, overBudget = 0 } = cost.operations.get(name) ?? {};
      return [
        [`slowest_${name}_us`, slowestUs],
        [`over_budget_${name}`, overBudget],
      ] as const;
    });
    return {
      items: sizes.items,
      first100_us: cost.firstUs,
      last100_us: cost.lastUs,
      end_ms: cost.endMs,
      ...Object.fromEntries(times),
    };
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

export function forEachBars({ value, slices }: Lookup): readonly Bar[] {
  return runsStores.flatMap((store) => {
    const name = nameOf(store);
    const first = slices(`${name}.first100_us`);
    const slowest = operations
      .filter((operation) => operation !== transaction)
      .map((operation) => value(`${name}.slowest_${operation}_us`));
    return [
      {
        what: `a result of a for_each on ${store}, the last 100 / the first 100 of ${formatNumber(value(`${name}.items`))}`,
        measured: value(`${name}.last100_us`) / value(`${name}.first100_us`),
        slices: slices(`${name}.last100_us`).map((last, index) => last / (first[index] ?? Number.NaN)),
        bound: { kind: "at_most", value: 1.5 },
      },
      {
        what: `the slowest operation of a for_each on ${store}, in us`,
        measured: Math.max(...slowest),
        bound: { kind: "at_most", value: budgetUs },
      },
    ];
  });
}

export function forEachTables({ value }: Lookup): readonly (readonly [title: string, table: string])[] {
  const number = (store: RunsStore, field: string) => formatNumber(value(`${nameOf(store)}.${field}`));
  const costs = runsStores.map((store) => [
    store,
    ...["items", "first100_us", "last100_us", "end_ms"].map((field) => number(store, field)),
  ]);
  const held = operations.map((name) => [
    name,
    ...runsStores.flatMap((store) =>
      name === transaction && store === "redis"
        ? ["", ""]
        : [number(store, `slowest_${name}_us`), number(store, `over_budget_${name}`)],
    ),
  ]);
  const heldHeader = ["operation", ...runsStores.flatMap((store) => [`${store}, us`, `over ${budgetUs}`])];
  return [
    [
      "A result of one for_each, from its report to the store's answer, one after the other: medians of 100, after 500 results and at the end",
      formatTable(["store", "items", "first us", "last us", "end ms"], costs),
    ],
    [
      "The longest that an operation held the store meanwhile: SQLite's thread by the clock without the time it had no processor, Redis by SLOWLOG (200: none took longer)",
      formatTable(heldHeader, held),
    ],
  ];
}
