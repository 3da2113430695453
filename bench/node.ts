// The Node benchmark: the same floors, starts, runs and BullMQ chain on every Node that is supported, in turns.
import { join } from "node:path";
import { typescriptLoader } from "../test/support/child-program.ts";
import { nodeProgram, nodeVersions } from "./node-choice.ts";
import { nodeFields, nodeScales } from "./node-plan.ts";
import type { BenchOptions } from "./options.ts";
import { runForNumbers } from "./peer-process.ts";
import { runBenchmark } from "./program.ts";
import { createProgress } from "./progress.ts";
import { formatNumber, formatTable, type Lookup, type Measured } from "./report.ts";
import { installPeers } from "./runs-peer.ts";
import { type Measurement, measureInSlices, sliceCount } from "./slices.ts";

const setup =
  "Every slice is a new process of its version, with the loader, the workers and BullMQ on the same version. The setup is that of\n" +
  "bench:runs, with shorter slices. Redis is one server without an append-only file.";

async function measure({ scale }: BenchOptions): Promise<readonly Measured[]> {
  await installPeers();
  const { slices } = nodeScales[scale];
  const programs = new Map<string, string>();
  for (const version of nodeVersions) programs.set(version, await nodeProgram(version));
  const slice = join(import.meta.dirname, "node-slice-program.ts");
  const measurements = [...programs].map(
    ([version, program]): Measurement<unknown> => ({
      name: nameOf(version),
      slices,
      fields: nodeFields,
      measure: () => runForNumbers(["--import", typescriptLoader, slice, scale], program),
    }),
  );
  const progress = createProgress(sliceCount(measurements));
  try {
    return await measureInSlices({
      measurements,
      open: async () => {},
      close: async () => {},
      progress,
    });
  } finally {
    progress.end();
  }
}

/** By the line of releases: node.22. */
const nameOf = (version: string) => `node.${version.split(".")[0]}`;

const titles: Readonly<Record<keyof typeof nodeFields, string>> = {
  "floor.http_echo.per_s": "floor: echo, per second",
  "floor.http_evalsha.per_s": "floor: one EVALSHA, per second",
  "floor.http_commit.per_s": "floor: one group commit, per second",
  "runs.embedded.start.per_s": "starts, embedded, per second",
  "runs.redis.start.per_s": "starts, Redis, per second",
  "runs.embedded.three_step.inprocess.per_s": "runs in process, per second",
  "runs.embedded.three_step.inprocess.p50_ms": "one run in process, p50 ms",
  "runs.embedded.three_step.http.per_s": "runs, HTTP workers, per second",
  "runs.embedded.three_step.http.p50_ms": "one run, HTTP workers, p50 ms",
  "peer.bullmq.three_step.per_s": "BullMQ's chain, per second",
};

function table({ value }: Lookup): string {
  const rows = Object.entries(titles).map(([field, title]) => [
    title,
    ...nodeVersions.map((version) => formatNumber(value(`${nameOf(version)}.${field}`))),
  ]);
  return formatTable(["", ...nodeVersions.map((version) => `Node ${version}`)], rows);
}

await runBenchmark({ name: "node", setup, measure, tables: table, bars: () => [] });
