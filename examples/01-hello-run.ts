// A workflow, a worker and a run: the smallest whole program.
//
//   npx tsx examples/01-hello-run.ts
//
// It starts a server of its own, and stops it at the end.
import { createClient, defineWorkflow, type, worker } from "interlock/sdk";
import { startServer } from "./support/server.ts"; // yours is there already: npx interlock serve

// Two steps. The second one begins when the first is done, with what the first has answered. It becomes JSON, the same as
// written by hand; in TypeScript the input, the handlers and the outputs are checked.
const hello = defineWorkflow({
  id: "hello",
  input: type<{ name: string }>(),
  steps: ({ input, worker }) => {
    const greet = worker({
      topic: "hello.greet",
      input: { name: input.name },
      output: type<{ text: string }>(),
      retry: { max_retries: 3 },
    });
    const count = worker({
      topic: "hello.count",
      input: { text: greet.output.text },
      output: type<{ letters: number }>(),
    });
    return { greet, count };
  },
});

const server = await startServer();
const client = createClient({ url: server.url, apiKey: server.keys.admin });
await client.workflows.save(hello);

// A worker asks for the jobs of its topics. What a handler returns is the step's output; what it throws fails the attempt.
const greeter = worker({
  url: server.url,
  apiKey: server.keys.worker,
  topics: hello.handlers({
    "hello.greet": ({ input }) => ({ text: `Hello, ${input.name}!` }),
    "hello.count": ({ input }) => ({ letters: input.text.length }),
  }),
});

const { run_id } = await client.runs.start(hello, { name: "Ada" });
const run = await client.runs.wait(run_id);
const { greet, count } = hello.outputs(run);
console.log(`${run.status}: ${greet?.text} (${count?.letters} letters)`);

await greeter.stop();
await server.stop();
