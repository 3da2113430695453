// The example that `interlock init` writes. A test runs it as it stands here.

export const workflowText = `# A workflow: steps, what they need, and what they wait for.
#   interlock workflows save workflow.yaml
#   interlock run hello --input '{"name": "Ada"}'
id: hello

# What a run is started with is checked against this before anything happens.
input_schema:
  type: object
  required: [name]
  properties:
    name: { type: string }

steps:
  # A job: a worker that asks for this topic gets it.
  greet:
    topic: hello.greet
    input:
      name: \${input.name}
    # When the worker fails, or falls silent, another one tries again.
    retry:
      max_retries: 3

  # It begins when greet is done, with what greet has answered.
  count:
    depends_on: [greet]
    topic: hello.count
    input:
      text: \${steps.greet.output.text}
`;

export const workerText = `// A worker: it asks for jobs of its topics, does several at a time, and reports what came of them.
import { readFileSync } from "node:fs";
import { env } from "node:process";
import { stopOnSignals, worker } from "interlock/sdk";

// Where the server is, and a key for workers: from the environment, or beside an embedded server from its data folder.
const data = (name) => JSON.parse(readFileSync(\`.interlock/\${name}\`, "utf8"));
const url = env.INTERLOCK_URL ?? data("server.json").url;
const apiKey = env.INTERLOCK_API_KEY ?? data("keys.json").worker;

const running = worker({
  url,
  apiKey,
  // A handler for each topic. What it returns is the step's output; what it throws fails the attempt.
  topics: {
    "hello.greet": async (job) => ({ text: \`Hello, \${job.input.name}!\` }),

    // job.signal is aborted when the work is no longer wanted. job.idempotencyKey is the same for every attempt of a step:
    // give it to whatever makes a side effect, such as a payment, so that a second attempt does not make another.
    "hello.count": async (job) => ({ letters: job.input.text.length }),
  },
});
console.log(\`\${running.name} waits for jobs. Ctrl-C finishes what is under way and ends.\`);

void stopOnSignals(running);
await running.finished;
`;
