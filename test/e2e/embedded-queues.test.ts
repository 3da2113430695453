// Runs that wait at a gate of the embedded server: killed in the middle and started again, and customers that share.
import { readFileSync, rmSync } from "node:fs";
import { afterEach, beforeEach, expect, onTestFailed, test } from "vitest";
import { type Client, createClient, type Worker, worker } from "../../src/sdk/index.ts";
import { expectFairShares, expectOnceEach, startCrowd, unequalCustomers } from "../support/crowd.ts";
import { type Program, servedBy, startProgram } from "../support/program.ts";
import { diskFolder } from "../support/stores.ts";

let directory: string;
let server: Program;
const crew: Worker[] = [];
beforeEach(() => {
  directory = diskFolder();
});
afterEach(async () => {
  await Promise.all(crew.splice(0).map((each) => each.stop({ graceMs: 1_000 })));
  await server.kill();
  rmSync(directory, { recursive: true, force: true });
});

const limit = 10;
const gate = { gate: "by-workflow.crowd", limit };

function serve(port: string): Program {
  return startProgram("serve.ts", {
    settings: {
      DATA_DIRECTORY: directory,
      GATEWAY_PORT: port,
      JOBS_LEASE_MS: "1500",
      LOCK_RUN_HANDOFF_TTL_MS: "1000",
    },
  });
}

type Opened = { readonly url: string; readonly client: Client; work(): { done: number } };

async function open(header: object): Promise<Opened> {
  onTestFailed(() => console.log(server.output().slice(-5_000)));
  server = serve("0");
  const { url } = await servedBy(server);
  const keys = JSON.parse(readFileSync(`${directory}/keys.json`, "utf8")) as Record<string, string>;
  const client = createClient({ url, apiKey: keys.admin as string });
  const concurrency = [{ max: limit, at_limit: "queue" }];
  await client.workflows.save({ id: "crowd", concurrency, ...header, steps: { one: { topic: "crowd" } } });
  return {
    url,
    client,
    work() {
      const seen = { done: 0 };
      const handler = () => {
        seen.done += 1;
      };
      crew.push(worker({ url, apiKey: keys.worker as string, concurrency: 20, topics: { crowd: handler } }));
      return seen;
    },
  };
}

async function untilAllSucceeded(client: Client, runs: readonly string[]): Promise<void> {
  for (const run of runs)
    expect((await client.runs.wait(run, { timeoutMs: 60_000 })).status).toBe("succeeded");
}

test("a thousand starts at a limit of ten survive a SIGKILL of the server, while they come and run: each runs once", async () => {
  const { url, client, work } = await open({});
  const seen = work();
  const started: string[] = [];
  const inputs = Array.from({ length: 1_000 }, (_, number) => ({ number }));
  const crowd = { workflow: "crowd", inputs, width: 50 };
  const starting = startCrowd([client], crowd, (status) => started.push(status));
  await expect
    .poll(() => started.length, { timeout: 30_000, interval: 5 })
    .toBeGreaterThan(inputs.length / 2);
  await expect.poll(() => seen.done, { timeout: 30_000, interval: 5 }).toBeGreaterThan(20);
  server.process.kill("SIGKILL");
  expect(await server.ended).toBe("SIGKILL");
  const doneAtTheKill = seen.done;
  server = serve(new URL(url).port);
  await servedBy(server);
  const runs = await starting;
  await untilAllSucceeded(client, runs);

  expect(started).toContain("queued");
  expect(doneAtTheKill, "runs waited at the kill").toBeLessThan(inputs.length / 2);
  await expectOnceEach(client, runs, gate);
}, 120_000);

test("one customer sends 900 and nine others 10 each: each of these is through before the large one's hundredth", async () => {
  const { client, work } = await open({ fairness: { key: "${input.customer}" } });
  const inputs = unequalCustomers.map((customer) => ({ customer }));
  const runs = await startCrowd([client], { workflow: "crowd", inputs, width: 50 });
  work();
  await untilAllSucceeded(client, runs);
  expectFairShares(await expectOnceEach(client, runs, gate), runs);
}, 120_000);
