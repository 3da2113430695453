// A worker that is paused past its lease wakes up and goes on: the tool refuses it, its result is not taken, nothing breaks.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { fenceGuard } from "../../src/sdk/index.ts";
import { startChildProgram } from "../support/child-program.ts";
import { eventually, openSdkWorld } from "../support/sdk-world.ts";

const world = await openSdkWorld({ "jobs.leaseMs": 2_000 });
const guard = fenceGuard();
const effects: string[] = [];
const tool = createServer((request, response) => {
  guard.express(request, response, () => {
    effects.push(String(request.headers["interlock-job"]));
    response.end("{}");
  });
});
await new Promise<void>((resolve) => tool.listen(0, "127.0.0.1", resolve));
const toolUrl = `http://127.0.0.1:${(tool.address() as AddressInfo).port}`;
const paused = startChildProgram(join(import.meta.dirname, "../support/fenced-worker.ts"), {
  url: world.gateway.url,
  apiKey: world.gateway.acme.worker.text,
  tool: toolUrl,
  topic: "pay",
});

afterAll(async () => {
  paused.process.kill("SIGCONT");
  await paused.stop();
  tool.closeAllConnections();
  await new Promise((resolve) => tool.close(resolve));
  await world.close();
});

test("a paused worker wakes up and is refused by the tool", async () => {
  const runId = await world.start("pay");
  const first = `${runId}:only@1`;
  const second = `${runId}:only@2`;
  expect(await paused.next()).toEqual({ said: "called", status: 200, attempt: 1 });
  paused.process.kill("SIGSTOP");
  await eventually(
    "the claim is lost",
    async () => (await world.admin.jobs.get(first)).state === "lost",
    20_000,
  );

  world.work({
    topics: {
      pay: async (job) => {
        const response = await fetch(toolUrl, { method: "POST", headers: job.headers() });
        return { attempt: job.attempt, status: response.status };
      },
    },
  });
  const run = await world.admin.runs.wait(runId, { timeoutMs: 20_000 });
  expect(run.steps.only?.output).toEqual({ attempt: 2, status: 200 });

  paused.say("go");
  paused.process.kill("SIGCONT");
  const said = [await paused.next(), await paused.next()];
  expect(said).toContainEqual({ said: "called again", status: 412, isStopped: true, refusesHeaders: true });
  expect(said).toContainEqual({ said: "trouble", kind: "claim_lost" });
  // Each accepted attempt had its effect once; the one after the pause had none.
  expect(effects).toEqual([first, second]);
  expect((await world.admin.runs.get(runId)).steps.only).toMatchObject({
    output: { attempt: 2 },
    lost_claims: 1,
  });
});
