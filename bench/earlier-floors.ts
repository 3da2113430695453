// Floors and the peer of this tree beside those of an earlier commit, in turns: a ratio to a floor that became slower is no progress.
import { dirname, join } from "node:path";
import { startRedisServer } from "../src/drills/servers/start-servers.ts";
import { typescriptLoader } from "../test/support/child-program.ts";
import { openEarlierTree } from "./earlier-tree.ts";
import type { BenchOptions, OwnOptions } from "./options.ts";
import { runForNumbers } from "./peer-process.ts";
import { formatNumber, formatTable, type Lookup } from "./report.ts";
import { peerScales } from "./runs-peer.ts";
import type { Measurement } from "./slices.ts";

export const floorsOfGroup = {
  http: ["http_echo", "http_evalsha", "http_commit"],
  jetstream: ["jetstream"],
  stores: ["redis.evalsha", "sqlite.row"],
} as const;
export type FloorGroup = keyof typeof floorsOfGroup;

/** The last commit before the work on speed that these bars are about. */
const defaultCommit = "9f4f79e";

export const floorsOption: OwnOptions = {
  "floors-of": {
    value: "COMMIT",
    help: `measure that commit's floors in turns with ours (full runs: ${defaultCommit}; none: do not)`,
  },
};

export type EarlierFloors = {
  readonly measurements: readonly Measurement<unknown>[];
  /** A title and the table, or why there is none. */
  table(lookup: Lookup): string;
};

/** `peer` measures BullMQ's chain as well. */
export async function earlierFloors(
  { scale, own }: BenchOptions,
  parts: { readonly groups: readonly FloorGroup[]; readonly peer?: boolean },
): Promise<EarlierFloors> {
  const commit = own["floors-of"] ?? (scale === "full" ? defaultCommit : "none");
  if (commit === "none") return { measurements: [], table: () => "" };
  const tree = await openEarlierTree(String(commit));
  if (tree.kind === "absent") {
    return {
      measurements: [],
      table: () => `\n\nFloors of ${String(commit)} were not measured: ${tree.reason}`,
    };
  }
  const trees = [
    { label: "now", folder: dirname(import.meta.dirname) },
    { label: tree.commit, folder: tree.folder },
  ];
  const sizes = scale === "full" ? { slices: 3, durationMs: 2_000 } : { slices: 1, durationMs: 500 };
  const names = [
    ...parts.groups.flatMap((group): readonly string[] => floorsOfGroup[group]),
    ...(parts.peer === true ? ["bullmq"] : []),
  ];
  return {
    measurements: [
      ...parts.groups.flatMap((group) => trees.map((each) => groupMeasurement(each, group, sizes))),
      ...(parts.peer === true ? trees.map((each) => peerMeasurement(each, sizes)) : []),
    ],
    table: (lookup) => `\n\n${floorsTable(lookup, names, tree.commit)}`,
  };
}

type Tree = { readonly label: string; readonly folder: string };
type Sizes = { readonly slices: number; readonly durationMs: number };

const perSecond = { unit: "per second", over: "median" } as const;

function groupMeasurement(
  { label, folder }: Tree,
  group: FloorGroup,
  { slices, durationMs }: Sizes,
): Measurement<unknown> {
  const program = join(import.meta.dirname, "floor-program.ts");
  return {
    name: `floors.${label}`,
    slices,
    fields: Object.fromEntries(floorsOfGroup[group].map((floor) => [`${floor}.per_s`, perSecond])),
    async measure() {
      const rates = await runForNumbers([
        "--import",
        typescriptLoader,
        program,
        folder,
        group,
        String(durationMs),
      ]);
      return Object.fromEntries(Object.entries(rates).map(([floor, rate]) => [`${floor}.per_s`, rate]));
    },
  };
}

function peerMeasurement({ label, folder }: Tree, { slices, durationMs }: Sizes): Measurement<unknown> {
  const program = join(folder, "bench/peers/bullmq-three-step.mjs");
  const { inFlight } = peerScales.full;
  const options = { concurrencies: [20], inFlight, saturationMs: durationMs, oneByOneRuns: 50 };
  return {
    name: `floors.${label}.bullmq`,
    slices,
    fields: { per_s: perSecond },
    async measure() {
      const server = await startRedisServer();
      try {
        const { per_s } = await runForNumbers<"per_s">([program, server.url, JSON.stringify(options)]);
        return { per_s };
      } finally {
        await server.stop();
      }
    },
  };
}

function floorsTable({ value }: Lookup, names: readonly string[], commit: string): string {
  const rows = names.map((name) => {
    const [now, before] = [value(`floors.now.${name}.per_s`), value(`floors.${commit}.${name}.per_s`)];
    return [name, formatNumber(now), formatNumber(before), formatNumber(now / before)];
  });
  const title = `Floors and BullMQ's chain in processes of their own, per second: this tree and commit ${commit} in turns`;
  return `${title}\n${formatTable(["", "now", commit, "now / then"], rows)}`;
}
