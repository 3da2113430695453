// What the flow benchmark measures, by name and size, and the arithmetic that makes its numbers out of what was seen.
import type { Bar } from "./bars.ts";
import { jainIndex } from "./lock-contention.ts";
import { formatNumber, formatRange, formatTable, type Lookup, type Measured } from "./report.ts";

export const limit = 10;
export const workMs = 20;
export const customers = 10;

/** How the clients come to their runs: by the queue, or by asking again after a 429, with one of two pauses. */
export const crowdWays = ["queue", "retry_sdk", "retry_jitter"] as const;
export type CrowdWay = (typeof crowdWays)[number];

export const grantStores = ["embedded", "memory", "redis"] as const;
export type GrantStore = (typeof grantStores)[number];
export const waitingCounts = [10, 1_000, 100_000] as const;

/** Before gates: what a start without any cost then. */
export const commitBefore = "00ca851";

export type FlowScale = {
  readonly slices: number;
  readonly starts: number;
  /** Of five ended runs each. */
  readonly grantChunks: number;
  readonly pairs: number;
  readonly plainStarts: number;
};

export const flowScales: Readonly<Record<"quick" | "full", FlowScale>> = {
  quick: { slices: 1, starts: 500, grantChunks: 40, pairs: 12, plainStarts: 3_000 },
  full: { slices: 3, starts: 1_000, grantChunks: 200, pairs: 60, plainStarts: 5_000 },
};

/** The embedded store is what the name without a store means. */
export const grantName = (store: GrantStore) => (store === "embedded" ? "flow.grant" : `flow.grant.${store}`);
export const grantField = (waiting: number) => `n${waiting}.us`;

export const plainStartName = "flow.plain_start";

/** What was seen of a crowd: all times of one clock. */
export type SeenCrowd = {
  readonly requests: number;
  readonly beganMs: number;
  readonly endedMs: number;
  /** The customer of each run, in the order in which the results were accepted. */
  readonly ends: readonly number[];
};

export type CrowdNumbers = Readonly<Record<"total_ms" | "use" | "requests_per_run" | "jain", number>>;

/**
 * `use` counts 20 ms for each run, whatever a busy machine made of them. `jain` compares how many runs each customer had by the
 * time half of all were done: at the end every customer has all of its runs.
 */
export function crowdNumbers({ requests, beganMs, endedMs, ends }: SeenCrowd): CrowdNumbers {
  const totalMs = endedMs - beganMs;
  const counts = new Array<number>(customers).fill(0);
  for (const customer of ends.slice(0, Math.ceil(ends.length / 2))) {
    counts[customer] = (counts[customer] ?? 0) + 1;
  }
  return {
    total_ms: totalMs,
    use: (ends.length * workMs) / (limit * totalMs),
    requests_per_run: requests / ends.length,
    jain: jainIndex(counts),
  };
}

/** The better of the two ways to ask again stands for all clients that do. */
export function betterRetry(measured: readonly Measured[]): readonly Measured[] {
  const useOf = (way: string) => measured.find(({ name }) => name === `flow.${way}.use`)?.value ?? 0;
  const better = useOf("retry_sdk") > useOf("retry_jitter") ? "retry_sdk" : "retry_jitter";
  const prefix = `flow.${better}.`;
  return measured
    .filter(({ name }) => name.startsWith(prefix))
    .map((metric) => ({ ...metric, name: `flow.retry.${metric.name.slice(prefix.length)}` }));
}

export function flowBars({ value, slices }: Lookup, hasBefore: boolean): readonly Bar[] {
  const atLeast = (bound: number) => ({ kind: "at_least", value: bound }) as const;
  const atMost = (bound: number) => ({ kind: "at_most", value: bound }) as const;
  const of = (what: string, name: string, bound: NonNullable<Bar["bound"]>): Bar => ({
    ...{ what, measured: value(name), slices: slices(name), bound },
  });
  const use = value("flow.queue.use");
  const [fewest, , most] = waitingCounts;
  return [
    of("use of the places with the queue", "flow.queue.use", atLeast(0.9)),
    {
      what: "use with the queue / with clients that retry",
      measured: use / value("flow.retry.use"),
      bound: atLeast(1),
    },
    of("requests for each run with the queue", "flow.queue.requests_per_run", atMost(1)),
    of("Jain's index of the customers with the queue", "flow.queue.jain", atLeast(0.99)),
    ...grantStores.map((store): Bar => {
      const name = (waiting: number) => `${grantName(store)}.${grantField(waiting)}`;
      const few = slices(name(fewest));
      return {
        what: `a grant on ${store}, ${most} waiting / ${fewest} waiting`,
        measured: value(name(most)) / value(name(fewest)),
        slices: slices(name(most)).map((us, index) => us / (few[index] ?? Number.NaN)),
        bound: atMost(1.5),
      };
    }),
    ...(hasBefore
      ? [
          {
            what: `CPU time of a start without gates / at ${commitBefore}`,
            measured: value(`${plainStartName}.ratio`),
            bound: atMost(1.03),
          },
        ]
      : []),
  ];
}

const crowdFields = ["total_ms", "use", "requests_per_run", "jain"] as const;

export function flowTables({ value, slices }: Lookup, starts: number, before: string | undefined): string {
  const crowd = crowdWays.map((way) => [
    way,
    ...crowdFields.map((field) => formatNumber(value(`flow.${way}.${field}`))),
  ]);
  const grants = grantStores.map((store) => [
    store,
    ...waitingCounts.map((waiting) => formatNumber(value(`${grantName(store)}.${grantField(waiting)}`))),
  ]);
  const ratio = `${plainStartName}.ratio`;
  return [
    `${starts} starts of ${customers} customers at a limit of ${limit}, ${workMs} ms of work each`,
    formatTable(["", "total ms", "use", "requests per run", "Jain at half"], crowd),
    "",
    "CPU time of the operation that ends a run and hands its place on, us, by how many wait",
    formatTable(["store", ...waitingCounts.map((waiting) => formatNumber(waiting))], grants),
    "",
    before === undefined
      ? `A start without gates: ${formatNumber(value(`${plainStartName}.us`))} us of CPU time, ${formatNumber(value(`${plainStartName}.before_us`))} at ${commitBefore}; ` +
        `ratio ${value(ratio).toFixed(3)}, by pair of slices ${quartiles(slices(ratio))} (quartiles), ${formatRange(slices(ratio))} (all)`
      : `A start without gates was not compared with ${commitBefore}: ${before}`,
  ].join("\n");
}

/** The half of the values in the middle. */
export function quartiles(values: readonly number[]): string {
  const sorted = [...values].sort((one, other) => one - other);
  const at = (share: number) => sorted[Math.round((sorted.length - 1) * share)] ?? Number.NaN;
  return `${at(0.25).toFixed(3)} to ${at(0.75).toFixed(3)}`;
}
