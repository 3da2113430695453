// Fan-out: one step over a thousand items, done by one worker, fifty at a time.
//
//   npx tsx examples/04-fan-out.ts
//
// It starts a server of its own, and stops it at the end.
import { createClient, defineWorkflow, type, worker } from "interlock/sdk";
import { startServer } from "./support/server.ts"; // yours is there already: npx interlock serve

const measureAll = defineWorkflow({
  id: "measure-all",
  input: type<{ words: string[] }>(),
  steps: ({ input, each, transform }) => {
    const measure = each(input.words, {
      topic: "words.measure",
      input: (word) => ({ word }),
      output: type<{ letters: number }>(),
      max_parallel: 200, // jobs of one run that are open at once, whatever the workers could do
    });
    const sum = transform({ after: [measure], input: { measured: "${length(steps.measure.output)}" } });
    return { measure, sum };
  },
});

const server = await startServer();
const client = createClient({ url: server.url, apiKey: server.keys.admin });
await client.workflows.save(measureAll);

let done = 0;
const measurer = worker({
  url: server.url,
  apiKey: server.keys.worker,
  concurrency: 50,
  topics: measureAll.handlers({
    "words.measure": ({ input }) => {
      done += 1;
      if (done % 250 === 0) console.log(`${done} done`);
      return { letters: input.word.length };
    },
  }),
});

const words = Array.from({ length: 1_000 }, (_, index) => `word-${index}`);
const startedAt = performance.now();
const { run_id } = await client.runs.start(measureAll, { words });
const run = await client.runs.wait(run_id, { timeoutMs: 60_000 });
const seconds = (performance.now() - startedAt) / 1_000;

console.log(`${run.status}:`, JSON.stringify(measureAll.outputs(run).sum));
console.log(
  `${words.length} items in ${seconds.toFixed(1)} s, ${Math.round(words.length / seconds)} a second`,
);

await measurer.stop();
await server.stop();
