// The flood benchmark: what one tenant's starts take while another tenant sends ten times as many, or the costliest that it may.
import type { Bar } from "./bars.ts";
import { costlyFloods, type Flood, floodRequests, floods, startBody, startPath } from "./flood-requests.ts";
import { type FloodTarget, openFloodTarget } from "./flood-target.ts";
import type { HttpLoad, HttpLoader } from "./http-load.ts";
import { startHttpLoader } from "./http-load.ts";
import type { BenchOptions } from "./options.ts";
import { runBenchmark } from "./program.ts";
import { createProgress } from "./progress.ts";
import { formatNumber, formatTable, type Lookup, type Measured } from "./report.ts";
import { type Measurement, measureInSlices, sliceCount } from "./slices.ts";

const setup =
  "One gateway on an embedded store, two processes that load it. Tenant A starts 40 runs a second; tenant B sends 400 requests a\n" +
  "second more: starts over its limit, starts that are admitted, or requests with a key that is none. Or it keeps 8 of the\n" +
  "costliest under way that it may: definitions to validate, starts with 270 KB of input, a costly loop to play through.\n" +
  "Times are A's, from each start's turn to its answer.";

const ownPerSecond = 40;

type Round = { readonly target: FloodTarget; readonly own: HttpLoader; readonly flood: HttpLoader };

const fields = {
  p50_ms: { unit: "ms", over: "median" },
  p99_ms: { unit: "ms", over: "median" },
  refused: { unit: "starts", over: "mean" },
  flood_per_s: { unit: "1/s", over: "median" },
} as const;

async function measure({ scale }: BenchOptions): Promise<readonly Measured[]> {
  const slices = scale === "full" ? 5 : 1;
  const durationMs = scale === "full" ? 10_000 : 2_000;
  const measurements: readonly Measurement<Round>[] = [
    { name: "flood.none", slices, fields, measure: (round) => slice(round, undefined, durationMs) },
    ...floods.map((flood) => ({
      name: `flood.${flood}`,
      slices,
      fields,
      measure: (round: Round) => slice(round, flood, durationMs),
    })),
  ];
  const progress = createProgress(sliceCount(measurements));
  const own = startHttpLoader();
  const flood = startHttpLoader();
  try {
    return await measureInSlices({
      measurements,
      open: async () => ({ target: await openFloodTarget(), own, flood }),
      close: ({ target }) => target.close(),
      progress,
    });
  } finally {
    progress.end();
    await Promise.all([own.stop(), flood.stop()]);
  }
}

const warmUpMs = 1_000;

async function slice(
  { target, own, flood }: Round,
  kind: Flood | undefined,
  durationMs: number,
): Promise<Readonly<Record<keyof typeof fields, number>>> {
  const load = (key: string, more: Partial<HttpLoad>): HttpLoad => ({
    port: target.port,
    path: startPath,
    headers: { "x-api-key": key, "idempotency-key": "flood-{n}" },
    body: startBody,
    connections: 20,
    warmUpMs,
    durationMs,
    succeeds: [200],
    ...more,
  });
  const [quiet, crowd] = await Promise.all([
    own.run(load(target.ownKey, { perSecond: ownPerSecond })),
    kind === undefined ? undefined : flood.run(load(target.floodKeys[kind], floodRequests[kind])),
  ]);
  const answered = Object.entries(quiet.statuses);
  const refused = answered.filter(([status]) => status !== "200").reduce((sum, [, count]) => sum + count, 0);
  return { p50_ms: quiet.p50Ms, p99_ms: quiet.p99Ms, refused, flood_per_s: crowd?.perSecond ?? 0 };
}

/** What a user feels: twice a few milliseconds is still nothing, and nobody is refused because of others. */
const ratioMax = (flood: Flood) => ({
  p50_ms: 3,
  p99_ms: costlyFloods.some((costly) => costly === flood) ? 3 : 5,
});

function bars({ value }: Lookup): readonly Bar[] {
  return floods.flatMap((flood): Bar[] => [
    ...(["p50_ms", "p99_ms"] as const).map(
      (field): Bar => ({
        what: `A's ${field.slice(0, 3)} with B ${flood} / without`,
        measured: value(`flood.${flood}.${field}`) / value(`flood.none.${field}`),
        bound: { kind: "at_most", value: ratioMax(flood)[field] },
      }),
    ),
    {
      what: `A's starts refused with B ${flood}`,
      measured: value(`flood.${flood}.refused`),
      bound: { kind: "at_most", value: 0 },
    },
  ]);
}

function table({ value }: Lookup): string {
  const rows = ["none", ...floods].map((flood) => [
    flood,
    ...Object.keys(fields).map((field) => formatNumber(value(`flood.${flood}.${field}`))),
  ]);
  return formatTable(["B's flood", "A's p50 ms", "A's p99 ms", "A refused", "B per second"], rows);
}

await runBenchmark({ name: "flood", setup, measure, tables: table, bars });
