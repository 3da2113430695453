// The bars of the cluster benchmark, and its tables.
import type { Bar } from "./bars.ts";
import { variants } from "./cluster-plan.ts";
import { formatNumber, formatTable, type Lookup } from "./report.ts";

export function clusterBars({ value }: Lookup): readonly Bar[] {
  const peer = value("peer.bullmq.three_step.per_s");
  const two = value("runs.cluster.three_step.http.per_s");
  const one = value("runs.cluster.single.three_step.http.per_s");
  const twoPerOne = (name: string) => value(`runs.cluster.${name}`) / value(`runs.cluster.single.${name}`);
  return [
    {
      what: "three-step runs with one process of each kind / BullMQ's chain (target 0.8)",
      measured: one / peer,
      bound: { kind: "at_least", value: 0.5 },
    },
    {
      what: "p50 of a three-step run alone with one process of each kind, ms",
      measured: value("runs.cluster.single.three_step.http.p50_ms"),
      bound: { kind: "at_most", value: 4 },
    },
    {
      what: "Redis commands per run with two processes of each kind / with one",
      measured: twoPerOne("redis_commands_per_run"),
      bound: { kind: "at_most", value: 1.05 },
    },
    {
      // No ratio: one of each has 0.01, most of it heartbeats of the NATS server, so many a second for each process.
      what: "NATS messages per run that a second gateway and a second engine add",
      measured:
        value("runs.cluster.nats_messages_per_run") - value("runs.cluster.single.nats_messages_per_run"),
      bound: { kind: "at_most", value: 0.05 },
    },
    {
      what: "a killed worker's job is in other hands, ms after its lease",
      measured: value("runs.cluster.worker_loss_over_lease_ms"),
      bound: { kind: "at_most", value: 2_000 },
    },
    { what: "three-step runs with two processes of each kind / BullMQ's chain", measured: two / peer },
    { what: "three-step runs with two processes / with one", measured: two / one },
    {
      what: "starts with two processes / with one",
      measured: value("runs.cluster.start.per_s") / value("runs.cluster.single.start.per_s"),
    },
    {
      what: "steps per second with two processes / JetStream floor",
      measured: (3 * two) / value("floor.jetstream.per_s"),
    },
    {
      what: "p50 of a three-step run alone with two processes / BullMQ's",
      measured: value("runs.cluster.three_step.http.p50_ms") / value("peer.bullmq.three_step.p50_ms"),
    },
  ];
}

export function clusterTables({ value }: Lookup): string {
  const number = (name: string) => formatNumber(value(name));
  const label = (processes: number) =>
    `${processes} gateway${processes === 1 ? "" : "s"}, ${processes} engine${processes === 1 ? "" : "s"}`;
  const rows = (fields: readonly string[]) =>
    variants.map(({ processes, name }) => [
      label(processes),
      ...fields.map((field) => number(`${name}.${field}`)),
    ]);
  const chainFields = ["per_s", "p50_ms", "p99_ms", "saturated_p50_ms", "saturated_p99_ms"];
  const chains = rows(chainFields.map((field) => `three_step.http.${field}`));
  const peer = [
    "BullMQ on Redis",
    ...["per_s", "p50_ms", "p99_ms"].map((field) => number(`peer.bullmq.three_step.${field}`)),
    "",
    "",
  ];
  const tables: ReadonlyArray<readonly [string, string]> = [
    [
      "JetStream: messages published, acknowledged, fetched and acknowledged, by one process",
      formatTable(["floor", "per second"], [["jetstream", number("floor.jetstream.per_s")]]),
    ],
    [
      "Starts over HTTP at 100 connections",
      formatTable(["", "per second", "p99 ms"], rows(["start.per_s", "start.p99_ms"])),
    ],
    [
      "Three-step runs over HTTP: per second with 300 under way; start to end alone, and with 300 under way",
      formatTable(["", "per second", "p50 ms", "p99 ms", "busy p50", "busy p99"], [...chains, peer]),
    ],
    [
      "What a three-step run costs the servers, sweeps included",
      formatTable(
        ["", "Redis commands", "NATS messages"],
        rows(["redis_commands_per_run", "nats_messages_per_run"]),
      ),
    ],
  ];
  return tables.map(([title, table]) => `${title}\n${table}`).join("\n\n");
}
