// A child process that simulates the seeds it is sent and reports each; see worker-pool.ts.
import type { Chunk } from "./seed-work.ts";
import { simulateWork } from "./seed-work.ts";
import type { FromWorker } from "./worker-pool.ts";

// Ctrl-C reaches every process of the terminal; the one that asked decides when this one ends.
process.on("SIGINT", () => {});
process.on("disconnect", () => process.exit(0));
process.on("message", (chunk: Chunk) => void simulateChunk(chunk));
tell({ kind: "free" });

async function simulateChunk({ from, seeds, work, stopAt = [] }: Chunk): Promise<void> {
  for (let seed = from; seed < from + seeds; seed += 1) {
    const report = await simulateWork(seed, work);
    tell({ kind: "report", report });
    if (report.violation !== undefined && stopAt.includes(report.violation.invariant)) break;
  }
  tell({ kind: "free" });
}

function tell(message: FromWorker): void {
  // An error of the channel means that the other side is gone, which `disconnect` tells.
  process.send?.(message, undefined, undefined, () => {});
}
