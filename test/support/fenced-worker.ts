// A worker process that calls a guarded tool, waits for a signal, and calls it again with the same fields.
import { createInterface } from "node:readline";
import { JobStopped, worker } from "../../src/sdk/index.ts";

const { url, apiKey, tool, topic } = JSON.parse(process.argv[2] ?? "{}") as Record<string, string>;
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const say = (line: object) => process.stdout.write(`${JSON.stringify(line)}\n`);

worker({
  url,
  apiKey,
  name: "pausing",
  // No poll is open while it works: the next attempt cannot come to the paused process.
  concurrency: 1,
  topics: {
    [String(topic)]: async (job) => {
      const headers = job.headers();
      const first = await fetch(String(tool), { method: "POST", headers });
      say({ said: "called", status: first.status, attempt: job.attempt });
      await lines.next();
      // A timer has not fired since the pause: only the clocks tell.
      const isStopped = job.signal.aborted;
      // A worker that does not look at its signal is stopped by the tool.
      const second = await fetch(String(tool), { method: "POST", headers });
      say({
        said: "called again",
        status: second.status,
        isStopped,
        refusesHeaders: refused(() => job.headers()),
      });
      return { attempt: job.attempt };
    },
  },
  onTrouble: ({ kind }) => say({ said: "trouble", kind }),
});

function refused(make: () => unknown): boolean {
  try {
    make();
    return false;
  } catch (error) {
    return error instanceof JobStopped;
  }
}
