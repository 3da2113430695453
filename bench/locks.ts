// The locks benchmark: 100 contenders for one lock on Redis, with our strategies of waiting and with lock libraries.
import { constants } from "node:os";
import { formatBar, isMet } from "./bars.ts";
import { locksBars, locksTable } from "./locks-bars.ts";
import { locksPlan } from "./locks-plan.ts";
import { describeMachine } from "./machine.ts";
import { type BenchOptions, parseBenchOptions, UsageError } from "./options.ts";
import { createProgress } from "./progress.ts";
import { lookupIn, type Measured, writeMetrics } from "./report.ts";
import { installPeers } from "./runs-peer.ts";
import { measureInSlices, sliceCount } from "./slices.ts";

async function main(): Promise<number> {
  const parsed = parseBenchOptions("locks", process.argv.slice(2));
  if (parsed.kind === "help") {
    console.log(parsed.text);
    return 0;
  }
  const { options } = parsed;
  const machine = describeMachine();
  const metrics = await measure(options);
  const lookup = lookupIn(metrics);
  console.log(`${machine}\n${setup}\n\n${locksTable(lookup)}`);
  writeMetrics(options.jsonPath, metrics);
  const bars = locksBars(lookup);
  console.log(["", "Bars", ...bars.map(formatBar)].join("\n"));
  console.log(`\nNumbers: ${options.jsonPath}`);
  return options.missedBar === "fails" && !bars.every(isMet) ? 1 : 0;
}

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

// Ending through `exit` lets the handlers stop the servers.
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => process.exit(128 + constants.signals[signal]));
}

try {
  process.exitCode = await main();
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  console.error(error.message);
  process.exitCode = 2;
}
