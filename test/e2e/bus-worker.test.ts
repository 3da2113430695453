// Workers that speak NATS alone, against gateways and an engine in processes of their own, with the permissions that the guide gives them.
import { spawn, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Client, createClient, type Job, type WorkerTrouble, worker } from "../../src/sdk/index.ts";
import { type Cluster, startCluster } from "../support/cluster.ts";
import { type Program, plainEnvironment, watchChild } from "../support/program.ts";

const root = dirname(dirname(import.meta.dirname));

let cluster: Cluster;
let client: Client;
let bus: string;

beforeAll(async () => {
  const guide = readFileSync(join(root, "docs/guide/nats.md"), "utf8");
  const users = (/```conf\n([\s\S]*?)```/.exec(guide)?.[1] ?? "")
    .replace("$CONTROL_PLANE_PASSWORD", "control-secret")
    .replace("$ACME_WORKER_PASSWORD", "worker-secret")
    // The tenant that the first start makes.
    .replaceAll(/\bacme\b(?!-)/g, "default");
  const settings = { NATS_USER: "control-plane", NATS_PASSWORD: "control-secret", JOBS_LEASE_MS: "4000" };
  cluster = await startCluster({ gateways: 2, engines: 1, natsConfig: users, settings });
  client = createClient({ url: cluster.gateways[0]?.url, apiKey: cluster.keys.admin });
  bus = cluster.nats.url.replace("//", "//acme-worker:worker-secret@");
}, 60_000);
afterAll(() => cluster?.stop());

async function outputsOf(id: string, steps: object, input: object): Promise<unknown> {
  await client.workflows.save({ id, steps } as Parameters<Client["workflows"]["save"]>[0]);
  const { run_id } = await client.runs.start(id, input);
  const run = await client.runs.wait(run_id, { timeoutMs: 20_000 });
  return [run.status, Object.values(run.steps).map(({ output }) => output)];
}

test.concurrent("a worker of the SDK does the steps of a run, one of them longer than its lease", async ({
  onTestFailed,
  onTestFinished,
}) => {
  onTestFailed(() => console.log(cluster.report().slice(-5_000)));
  const troubles: WorkerTrouble[] = [];
  const started = worker({
    bus,
    apiKey: cluster.keys.worker,
    topics: {
      "bus.double": (job: Job<{ n: number }>) => ({ n: job.input.n * 2 }),
      "bus.slow": async (job: Job<{ n: number }>) => {
        await new Promise((resolve) => setTimeout(resolve, 4_400));
        job.check();
        return { n: job.input.n + 1 };
      },
    },
    onTrouble: (trouble) => troubles.push(trouble),
  });
  onTestFinished(async () => {
    await started.stop({ graceMs: 0 });
  });
  const steps = {
    double: { topic: "bus.double", input: { n: "${input.n}" } },
    slow: { topic: "bus.slow", depends_on: ["double"], input: { n: "${steps.double.output.n}" } },
  };
  expect(await outputsOf("bus-steps", steps, { n: 20 })).toEqual(["succeeded", [{ n: 40 }, { n: 41 }]]);
  expect(troubles).toEqual([]);
});

test.concurrent("a worker that stops hands its job back, and the next one gets it at once", async ({
  onTestFinished,
}) => {
  const login = { bus, apiKey: cluster.keys.worker };
  let begin = () => {};
  const began = new Promise<void>((resolve) => {
    begin = resolve;
  });
  const first = worker({
    ...login,
    topics: {
      "bus.handed": (job) => {
        begin();
        return new Promise((_, reject) =>
          job.signal.addEventListener("abort", () => reject(new Error("stop"))),
        );
      },
    },
  });
  const outputs = outputsOf("bus-handed", { only: { topic: "bus.handed" } }, {});
  await began;
  const { handedBack, abandoned } = await first.stop({ graceMs: 0 });
  expect(handedBack[0]).toMatch(/:only@1$/);
  // Its open poll may get the next attempt before a gateway has ended it: that one goes back, too.
  expect(abandoned).toEqual([]);
  const second = worker({ ...login, topics: { "bus.handed": () => "done" } });
  onTestFinished(async () => {
    await second.stop();
  });
  expect(await outputs).toEqual(["succeeded", ["done"]]);
});

test.concurrent("10-bus-worker.py does the jobs of its topic, and ends when it is asked to", async ({
  onTestFailed,
  onTestFinished,
}) => {
  const example = startPython([join("examples", "10-bus-worker.py"), bus, "bus.hello"]);
  onTestFinished(() => example.kill());
  onTestFailed(() => console.log(example.output()));
  expect(await outputsOf("bus-hello", { greet: { topic: "bus.hello" } }, { name: "Ada" })).toEqual([
    "succeeded",
    [{ text: "Hello, Ada!" }],
  ]);
  await example.shows(/^\S+:greet@1 accepted/m);
  example.process.kill("SIGTERM");
  expect(await example.ended).toBe(0);
});

function startPython(args: readonly string[]): Program {
  const { error } = spawnSync("python3", ["--version"]);
  if (error !== undefined) throw new Error(`Install Python 3.9 or later as python3: ${error.message}`);
  const child = spawn("python3", args, {
    cwd: root,
    env: { ...plainEnvironment(), INTERLOCK_API_KEY: cluster.keys.worker },
    stdio: ["ignore", "pipe", "pipe"],
  });
  return watchChild(child, "10-bus-worker.py");
}
