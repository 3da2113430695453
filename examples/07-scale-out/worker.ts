// A worker of this example, in a process of its own: worker.ts <name> <gateway> <gateway>
import { setTimeout as sleep } from "node:timers/promises";
import { stopOnSignals, worker } from "interlock/sdk";
import { fetchOver } from "./fetch-over.ts";

const [name, ...gateways] = process.argv.slice(2);

const running = worker({
  name,
  url: gateways[0],
  fetch: fetchOver(gateways),
  concurrency: 10,
  leaseMs: 2_000, // so that the example is quick; 30 s unless you say otherwise
  topics: {
    "report.step": async (job) => {
      await sleep(20, undefined, { signal: job.signal });
      return { by: name };
    },
  },
  onTrouble: () => {}, // a gateway that is killed is no news here
});
console.log("waits for jobs");
void stopOnSignals(running);
await running.finished;
