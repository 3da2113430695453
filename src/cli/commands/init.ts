// interlock init: an example to begin with, a workflow and a worker, and the next three commands.
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import type { Cli, Context } from "../context.ts";
import { UsageError } from "../run-program.ts";
import { shellWord } from "../terminal.ts";

export function addInitCommand({ program, does }: Cli): void {
  program
    .command("init")
    .description("write an example workflow and a worker, and say how to run them")
    .argument("[folder]", "target folder, created if missing", ".")
    .addHelpText("after", "\nExample:\n  interlock init hello")
    .action(does(init));
}

async function init(context: Context, folder: string): Promise<void> {
  const { output, terminal } = context;
  const target = resolve(terminal.typedFolder, folder);
  const files = new Map([
    ["workflow.yaml", workflowText],
    ["worker.js", workerText],
  ]);
  const inTheWay = [...files.keys()].filter((name) => existsSync(join(target, name)));
  if (inTheWay.length > 0)
    throw new UsageError(
      `init overwrites nothing, and ${inTheWay.join(" and ")} ${inTheWay.length === 1 ? "is" : "are"} there already: name another folder`,
    );
  if (!existsSync(join(target, "package.json"))) files.set("package.json", packageText(target));
  mkdirSync(target, { recursive: true });
  // `wx`: what has appeared meanwhile is not overwritten either.
  for (const [name, text] of files) writeFileSync(join(target, name), text, { flag: "wx" });
  const next = nextCommands(context, target);
  output.answer({ folder: target, files: [...files.keys()], next }, () => [
    ...[...files.keys()].map((name) => `wrote ${join(folder, name)}`),
    "",
    "Next, each in a terminal of its own:",
    ...next.map((command) => `   ${command}`),
  ]);
}

/** The root of this package: the checkout, or where it is installed. */
const packageRoot = dirname(dirname(dirname(dirname(fileURLToPath(import.meta.url)))));

/** `type: module`, since the worker imports. */
function packageText(target: string): string {
  const name =
    basename(target)
      .toLowerCase()
      .replaceAll(/[^a-z0-9-]+/g, "-")
      .replaceAll(/^-+|-+$/g, "") || "workflows";
  return `${JSON.stringify({ name, private: true, type: "module" }, null, 2)}\n`;
}

/** Three, and before them what is still missing. */
function nextCommands({ terminal }: Context, target: string): string[] {
  const folder = relative(terminal.typedFolder, target);
  const enter = folder === "" ? [] : [`cd ${shellWord(folder)}`];
  const install = isInstalled(target) ? [] : [`npm install ${shellWord(packageRoot)}`];
  return [
    ...enter,
    ...install,
    "npx --no-install interlock serve",
    "node worker.js",
    `npx --no-install interlock workflows save workflow.yaml && npx --no-install interlock run hello --input '{"name": "Ada"}'`,
  ];
}

/** As Node looks for it: in this folder's node_modules, and in those above. */
function isInstalled(folder: string): boolean {
  if (existsSync(join(folder, "node_modules", "interlock", "package.json"))) return true;
  const parent = dirname(folder);
  return parent !== folder && isInstalled(parent);
}

const workflowText = `# A workflow: steps, what they need, and what they wait for.
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

const workerText = `// A worker: it asks for jobs of its topics, does several at a time, and reports what came of them.
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
