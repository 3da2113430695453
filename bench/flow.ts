// The flow benchmark: a limit with a queue beside clients that retry, what a grant costs, and what gates cost those who have none.
import { crowdMeasurements, type FlowCrowd, openFlowCrowd } from "./flow-crowd.ts";
import { grantMeasurements } from "./flow-grants.ts";
import { measurePlainStart, type PlainStart } from "./flow-plain-start.ts";
import { betterRetry, crowdWays, flowBars, flowScales, flowTables } from "./flow-plan.ts";
import type { BenchOptions } from "./options.ts";
import { runBenchmark } from "./program.ts";
import { createProgress } from "./progress.ts";
import type { Measured } from "./report.ts";
import { type Measurement, measureInSlices, sliceCount } from "./slices.ts";

const setup =
  "The crowd: an embedded server, a process of clients that send all starts at once, customer after customer over 100 connections,\n" +
  "and one of 20 workers over HTTP. Retries: the SDK's pauses after a 429, or full jitter of 10 to 160 ms; the better one counts.\n" +
  "Grants: CPU time of the embedded and memory store, one operation a commit; Redis' time in scripts. Starts: embedded store, CPU time of all threads, 100 in flight.";

let plainStart: PlainStart = { kind: "left_out", reason: "it was not measured" };

async function measure({ scale }: BenchOptions): Promise<readonly Measured[]> {
  const sizes = flowScales[scale];
  const crowds = crowdMeasurements(sizes);
  const grants = grantMeasurements(sizes);
  const progress = createProgress(sliceCount([...crowds, ...grants]) + sizes.pairs + 6);
  const close = async () => {};
  try {
    plainStart = await measurePlainStart(sizes, progress);
    const granted = await measureInSlices({ measurements: grants, open: async () => ({}), close, progress });
    const crowd = await measureCrowds(crowds, sizes.starts, progress);
    const plain = plainStart.kind === "measured" ? plainStart.metrics : [];
    return [...crowd, ...betterRetry(crowd), ...granted, ...plain];
  } finally {
    progress.end();
  }
}

/** One server for all: a new one spends half of its first thousands of runs on compiling, and would measure that. */
async function measureCrowds(
  measurements: readonly Measurement<{ readonly crowd: FlowCrowd }>[],
  starts: number,
  progress: Parameters<typeof measureInSlices>[0]["progress"],
) {
  const crowd = await openFlowCrowd();
  try {
    for (const way of crowdWays) await crowd.run(way, starts);
    const round = { crowd };
    return await measureInSlices({ measurements, open: async () => round, close: async () => {}, progress });
  } finally {
    await crowd.close();
  }
}

await runBenchmark({
  name: "flow",
  setup,
  measure,
  tables: (lookup, { scale }) => {
    const reason = plainStart.kind === "left_out" ? plainStart.reason : undefined;
    return flowTables(lookup, flowScales[scale].starts, reason);
  },
  bars: (lookup) => flowBars(lookup, plainStart.kind === "measured"),
});
