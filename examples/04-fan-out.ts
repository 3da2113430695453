// Fan-out: one step over a thousand items, done by one worker, fifty at a time.
//
//   npx tsx examples/04-fan-out.ts
//
// It starts a server of its own, and stops it at the end.
import { createClient, worker } from "interlock/sdk";
import { startServer } from "./support/server.ts"; // yours is there already: npx interlock serve

const server = await startServer();
const client = createClient({ url: server.url, apiKey: server.keys.admin });

await client.workflows.save({
  id: "measure-all",
  steps: {
    measure: {
      for_each: "input.words",
      max_parallel: 200, // of one run at once, whatever the workers could do
      topic: "words.measure",
      input: { word: "${item}" },
    },
    sum: {
      type: "transform",
      depends_on: ["measure"],
      input: { measured: "${length(steps.measure.output)}" },
    },
  },
});

let done = 0;
const measurer = worker({
  url: server.url,
  apiKey: server.keys.worker,
  concurrency: 50,
  topics: {
    "words.measure": (job) => {
      const { word } = job.input as { readonly word: string };
      done += 1;
      if (done % 250 === 0) console.log(`${done} done`);
      return { word, letters: word.length };
    },
  },
});

const words = Array.from({ length: 1_000 }, (_, index) => `word-${index}`);
const startedAt = performance.now();
const { run_id } = await client.runs.start("measure-all", { words });
const run = await client.runs.wait(run_id, { timeoutMs: 60_000 });
const seconds = (performance.now() - startedAt) / 1_000;

console.log(`${run.status}:`, JSON.stringify(run.steps.sum?.output));
console.log(
  `${words.length} items in ${seconds.toFixed(1)} s, ${Math.round(words.length / seconds)} a second`,
);

await measurer.stop();
await server.stop();
