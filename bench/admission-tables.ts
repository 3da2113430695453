// The admission benchmark's numbers as tables for people.
import {
  burstName,
  inFlight,
  limits,
  sustainedName,
  tenantCounts,
  tenantsInWords,
} from "./admission-plan.ts";
import { formatNumber, formatRange, formatTable, type Lookup } from "./report.ts";
import { storeKinds, strategies } from "./targets.ts";

export function admissionTables(lookup: Lookup, sizes: readonly number[]): string {
  return [
    "Simultaneous starts on one tenant (ms from the moment all are fired to the answer)",
    burstTable(lookup, sizes),
    "",
    `Sustained starts, ${inFlight} in flight, no limit (admitted per second)`,
    sustainedTable(lookup),
    "",
    "Floors",
    floorTable(lookup),
  ].join("\n");
}

function burstTable({ value }: Lookup, sizes: readonly number[]): string {
  const header = ["store strategy", "N", "limit", "p50", "p95", "p99", "503", "admitted", "commands", "busy"];
  const rows = storeKinds.flatMap((kind) =>
    sizes.flatMap((size) =>
      limits.flatMap((limit) =>
        strategies.map((strategy) => {
          const name = burstName({ kind, strategy }, size, limit);
          const number = (field: string) => formatNumber(value(`${name}.${field}`));
          return [
            `${kind} ${strategy}`,
            String(size),
            limit,
            ...["p50_ms", "p95_ms", "p99_ms"].map(number),
            formatShare(value(`${name}.share_503`)),
            number("admitted"),
            number("commands_per_decision"),
            formatShare(value(`${name}.loop_busy_share`)),
          ];
        }),
      ),
    ),
  );
  const legend =
    "commands: per decision, sent to Redis or made as store calls on SQLite; busy: share of the burst in which this\n" +
    "process was computing";
  return `${formatTable(header, rows)}\n${legend}`;
}

function sustainedTable(lookup: Lookup): string {
  const header = ["store strategy", ...tenantCounts.flatMap((count) => [tenantsInWords(count), "by slice"])];
  const rows = storeKinds.flatMap((kind) =>
    strategies.map((strategy) => [
      `${kind} ${strategy}`,
      ...tenantCounts.flatMap((count) =>
        valueAndRange(lookup, `${sustainedName({ kind, strategy }, count)}.per_s`),
      ),
    ]),
  );
  return formatTable(header, rows);
}

function floorTable(lookup: Lookup): string {
  const row = (label: string, name: string) => [label, ...valueAndRange(lookup, name)];
  return formatTable(
    ["floor", "median", "by slice"],
    [
      row("redis: bare calls of a script with one SET, per second", "floor.redis.evalsha.per_s"),
      row("redis: whole starts with that script", "floor.redis.start.per_s"),
      row("sqlite: the same starts one at a time, each with its own commit", "floor.sqlite.commit.per_s"),
      row("sqlite: one bare row per commit, one after the other", "floor.sqlite.row.per_s"),
      row("sqlite: median time of such a commit, ms", "floor.sqlite.row.p50_ms"),
      row("disk: median time of an fsync, ms", "floor.sqlite.fsync_ms"),
    ],
  );
}

function valueAndRange({ value, slices }: Lookup, name: string): readonly [string, string] {
  return [formatNumber(value(name)), formatRange(slices(name))];
}

function formatShare(share: number): string {
  return `${(share * 100).toLocaleString("en-US", { maximumFractionDigits: 1 })} %`;
}
