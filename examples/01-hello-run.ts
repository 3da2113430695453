// A workflow, a worker and a run: the smallest whole program.
//
//   npx tsx examples/01-hello-run.ts
//
// It starts a server of its own, and stops it at the end.
import { createClient, worker } from "interlock/sdk";
import { startServer } from "./support/server.ts"; // yours is there already: npx interlock serve

const server = await startServer();
const client = createClient({ url: server.url, apiKey: server.keys.admin });

// Two steps. The second one begins when the first is done, with what the first has answered.
await client.workflows.save({
  id: "hello",
  steps: {
    greet: { topic: "hello.greet", input: { name: "${input.name}" }, retry: { max_retries: 3 } },
    count: { topic: "hello.count", depends_on: ["greet"], input: { text: "${steps.greet.output.text}" } },
  },
});

// A worker asks for the jobs of its topics. What a handler returns is the step's output; what it throws fails the attempt.
const greeter = worker({
  url: server.url,
  apiKey: server.keys.worker,
  topics: {
    "hello.greet": (job) => ({ text: `Hello, ${(job.input as { readonly name: string }).name}!` }),
    "hello.count": (job) => ({ letters: (job.input as { readonly text: string }).text.length }),
  },
});

const { run_id } = await client.runs.start("hello", { name: "Ada" });
const run = await client.runs.wait(run_id);
console.log(run.status);
console.log("greet:", run.steps.greet?.output);
console.log("count:", run.steps.count?.output);

await greeter.stop();
await server.stop();
