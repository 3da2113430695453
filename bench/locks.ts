// The locks benchmark: 100 contenders for one lock on Redis, with our strategies of waiting and with lock libraries.
import { locksBars, locksTable } from "./locks-bars.ts";
import { locksPlan } from "./locks-plan.ts";
import type { BenchOptions } from "./options.ts";
import { runBenchmark } from "./program.ts";
import { createProgress } from "./progress.ts";
import type { Measured } from "./report.ts";
import { installPeers } from "./runs-peer.ts";
import { measureInSlices, sliceCount } from "./slices.ts";

const setup =
  "One Redis server and one process with one connection for each. A wait that is open at the window's end counts with what it\n" +
  "had waited by then; whoever gives up goes on waiting. Commands are those that clients send, not those that scripts call.";

async function measure({ scale }: BenchOptions): Promise<readonly Measured[]> {
  await installPeers();
  const measurements = locksPlan(scale);
  const progress = createProgress(sliceCount(measurements));
  const rounds = { open: async () => {}, close: async () => {}, progress };
  try {
    return await measureInSlices({ measurements, ...rounds });
  } finally {
    progress.end();
  }
}

await runBenchmark({
  name: "locks",
  setup,
  measure,
  tables: (lookup) => locksTable(lookup),
  bars: locksBars,
});
