// The bars of the runs benchmark, and its tables.
import type { Bar } from "./bars.ts";
import { formatNumber, formatTable, type Lookup } from "./report.ts";
import { forEachBars, forEachTables } from "./runs-foreach.ts";
import { resultStrategies } from "./runs-results.ts";
import { runsStores } from "./runs-target.ts";

/** Starts against the floor with the same store behind it, and three-step runs against BullMQ's chain; the targets stand with them. */
export function runsBars(lookup: Lookup): readonly Bar[] {
  const { value } = lookup;
  const atLeast = (bound: number) => ({ bound: { kind: "at_least", value: bound } }) as const;
  const atMost = (bound: number) => ({ bound: { kind: "at_most", value: bound } }) as const;
  const perPeer = (name: string) => value(name) / value("peer.bullmq.three_step.per_s");
  return [
    {
      what: "starts on embedded over HTTP / floor with one group commit (target 0.5)",
      measured: value("runs.embedded.start.per_s") / value("floor.http_commit.per_s"),
      ...atLeast(0.4),
    },
    {
      what: "starts on Redis over HTTP / floor with one EVALSHA (target 0.5)",
      measured: value("runs.redis.start.per_s") / value("floor.http_evalsha.per_s"),
      ...atLeast(0.4),
    },
    {
      what: "three-step runs on embedded, in process / BullMQ's chain (target 1)",
      measured: perPeer("runs.embedded.three_step.inprocess.per_s"),
      ...atLeast(0.8),
    },
    {
      what: "three-step runs on embedded, HTTP workers / BullMQ's chain",
      measured: perPeer("runs.embedded.three_step.http.per_s"),
      ...atLeast(0.6),
    },
    {
      what: "p50 of a three-step run alone, embedded, in process / BullMQ's",
      measured: value("runs.embedded.three_step.inprocess.p50_ms") / value("peer.bullmq.three_step.p50_ms"),
      ...atMost(1.2),
    },
    {
      what: "p50 of a three-step run alone, embedded, HTTP workers, ms",
      measured: value("runs.embedded.three_step.http.p50_ms"),
      ...atMost(4),
    },
    {
      what: "p50 of a three-step run alone, Redis, HTTP workers, ms",
      measured: value("runs.redis.three_step.http.p50_ms"),
      ...atMost(3),
    },
    {
      what: "results applied by handoff, of 200 at once",
      measured: value("results.handoff.n200.applied"),
      bound: { kind: "at_least", value: 200 },
    },
    {
      what: "busy retries by handoff",
      measured: value("results.handoff.n200.busy_retries"),
      bound: { kind: "at_most", value: 0 },
    },
    ...forEachBars(lookup),
  ];
}

export function runsTables(lookup: Lookup): string {
  const { value } = lookup;
  const number = (name: string) => formatNumber(value(name));
  const floors = ["http_echo", "http_evalsha", "http_commit"].map((name) => [
    name,
    number(`floor.${name}.per_s`),
  ]);
  const starts = runsStores.map((store) => [
    store,
    number(`runs.${store}.start.per_s`),
    number(`runs.${store}.start.p99_ms`),
  ]);
  const fields = ["per_s", "p50_ms", "p99_ms", "saturated_p50_ms", "saturated_p99_ms"];
  const chains = runsStores.flatMap((store) =>
    ["inprocess", "http"].map((workers) => [
      `${store}, ${workers} workers`,
      ...fields.map((field) => number(`runs.${store}.three_step.${workers}.${field}`)),
    ]),
  );
  const peer = [
    "BullMQ on Redis",
    ...["per_s", "p50_ms", "p99_ms"].map((field) => number(`peer.bullmq.three_step.${field}`)),
    "",
    "",
  ];
  const hotFields = ["applied", "busy_retries", "dead_lettered", "total_ms", "p95_ms"];
  const hot = resultStrategies.map((strategy) => [
    strategy,
    ...hotFields.map((field) => number(`results.${strategy}.n200.${field}`)),
  ]);
  const parked = runsStores.map((store) => [store, number(`runs.${store}.parked10k_mib`)]);
  return [
    ["Floors, requests per second at 100 connections", formatTable(["floor", "per second"], floors)],
    ["Starts over HTTP at 100 connections", formatTable(["store", "per second", "p99 ms"], starts)],
    [
      "Three-step runs: per second with 300 under way; start to end alone, and with 300 under way",
      formatTable(["", "per second", "p50 ms", "p99 ms", "busy p50", "busy p99"], [...chains, peer]),
    ],
    ["200 results of one run at once, cut off at 10 s", formatTable(["strategy", ...hotFields], hot)],
    ["Memory of 10,000 runs that wait for an approval", formatTable(["store", "MiB"], parked)],
    ...forEachTables(lookup),
  ]
    .map(([title, table]) => `${title}\n${table}`)
    .join("\n\n");
}
