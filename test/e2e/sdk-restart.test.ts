// The SDK against a server in a process of its own that is killed and started again: the program goes on as if nothing was.
import { readFileSync, rmSync } from "node:fs";
import { afterEach, expect, onTestFailed, test } from "vitest";
import { createClient, defineWorkflow, type, withLock, worker } from "../../src/sdk/index.ts";
import { type Program, servedBy, startProgram } from "../support/program.ts";
import { eventually } from "../support/sdk-world.ts";
import { diskFolder } from "../support/stores.ts";

const directory = diskFolder();
let server: Program;

afterEach(async () => {
  await server.kill();
  rmSync(directory, { recursive: true, force: true });
});

function serve(port: string): Program {
  const settings = { DATA_DIRECTORY: directory, GATEWAY_PORT: port, JOBS_LEASE_MS: "30000" };
  return startProgram("serve.ts", { settings });
}

const flow = defineWorkflow({
  id: "restarted",
  input: type<{ n: number }>(),
  steps: ({ input, worker: work }) => {
    const first = work({ topic: "restart.first", input: { n: input.n }, output: type<{ n: number }>() });
    const second = work({
      topic: "restart.second",
      input: { n: first.output.n },
      output: type<{ n: number }>(),
    });
    return { first, second };
  },
});

test("a client, a worker and a follower outlive the server they talk to", async () => {
  onTestFailed(() => console.log(server.output().slice(-5_000)));
  server = serve("0");
  const { url } = await servedBy(server);
  const keys = JSON.parse(readFileSync(`${directory}/keys.json`, "utf8")) as Record<string, string>;
  const admin = createClient({ url, apiKey: keys.admin });
  await admin.workflows.save(flow);

  const leaving = new AbortController();
  const sequences: number[] = [];
  const following = (async () => {
    for await (const event of admin.events.follow({ from: "start", signal: leaving.signal })) {
      if (event.kind === "event") sequences.push(event.data.sequence);
    }
  })().catch((error: unknown) => error);

  const begun: string[] = [];
  let goOn = () => {};
  const held = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  const working = worker({
    url,
    apiKey: keys.worker,
    topics: flow.handlers({
      "restart.first": async (job) => {
        begun.push(job.id);
        await held;
        return { n: job.input.n + 1 };
      },
      "restart.second": (job) => ({ n: job.input.n * 10 }),
    }),
    onTrouble: () => {},
  });
  const { run_id } = await admin.runs.start(flow, { n: 1 });
  const waiting = admin.runs.wait(run_id, { timeoutMs: 40_000 });
  await eventually("the first step is at work", () => begun.length === 1);

  server.process.kill("SIGKILL");
  await server.ended;
  goOn();
  const started = admin.runs.start(flow, { n: 2 }, { idempotencyKey: "while-it-is-away" });
  server = serve(new URL(url).port);
  await servedBy(server);

  const run = await waiting;
  expect([run.status, flow.outputs(run).second]).toEqual(["succeeded", { n: 20 }]);
  const second = await admin.runs.wait((await started).run_id, { timeoutMs: 20_000 });
  expect(flow.outputs(second).second).toEqual({ n: 30 });
  // The claim outlived the kill, and so did the work: nothing was done twice.
  expect(begun.filter((id) => id.startsWith(run_id))).toEqual([`${run_id}:first@1`]);
  expect(await withLock(admin, "after", ({ fence }) => fence > 0)).toBe(true);

  const { last } = await admin.events.page({ from: "now" });
  await eventually("all events are seen", () => sequences.at(-1) === last);
  expect(sequences).toEqual(sequences.map((_, index) => index + 1));
  leaving.abort();
  await following;
  expect((await working.stop()).abandoned).toEqual([]);
});
