// A worker's step inside a loop, through the real SDK and gateway: every iteration has an idempotency key of its own, and keeps it.
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Job } from "../../src/sdk/index.ts";
import { eventually, openSdkWorld, type SdkWorld } from "../support/sdk-world.ts";

let world: SdkWorld;
beforeAll(async () => {
  world = await openSdkWorld();
});
afterAll(() => world.close());

type Seen = Pick<Job, "idempotencyKey" | "attempt" | "iteration">;

/** Runs the workflow with a worker whose first attempt at each `fails` has its effect and reports a failure. */
async function run(id: string, steps: object, fails: readonly number[] = []) {
  const seen: Seen[] = [];
  const charged = new Set<string>();
  world.work({
    topics: {
      [id](job: Job) {
        seen.push({ idempotencyKey: job.idempotencyKey, attempt: job.attempt, iteration: job.iteration });
        charged.add(job.idempotencyKey);
        if (fails.includes(seen.length)) throw new Error("charged, and the answer was lost");
      },
    },
  });
  await world.admin.workflows.save({ id, steps });
  const { run_id } = await world.admin.runs.start(id, {});
  const status = () => world.admin.runs.get(run_id).then((found) => found.status);
  expect(await eventually("it ends", async () => /ed$/.exec(await status())?.input)).toBe("succeeded");
  const shown = seen.map((job) => ({ ...job, idempotencyKey: job.idempotencyKey.replace(run_id, "run") }));
  return { seen: shown, charges: charged.size };
}

const job = (topic: string) => ({ topic, retry: { max_retries: 2, initial_backoff_sec: 0.001 } });

test("outside a loop the key is that of the step, and there is no iteration", async () => {
  const { seen } = await run("plain", { charge: job("plain") }, [1]);
  expect(seen).toEqual([
    { idempotencyKey: "run:charge", attempt: 1, iteration: undefined },
    { idempotencyKey: "run:charge", attempt: 2, iteration: undefined },
  ]);
});

test("three iterations, the second of which is tried twice, make three charges", async () => {
  const invoices = { type: "loop", input: { body: "charge", max_iterations: 3 } };
  const { seen, charges } = await run("invoices", { invoices, charge: job("invoices") }, [2]);
  expect(charges).toBe(3);
  expect(seen).toEqual([
    { idempotencyKey: "run:charge", attempt: 1, iteration: 1 },
    { idempotencyKey: "run:charge#2", attempt: 1, iteration: 2 },
    { idempotencyKey: "run:charge#2", attempt: 2, iteration: 2 },
    { idempotencyKey: "run:charge#3", attempt: 1, iteration: 3 },
  ]);
});

test("a loop inside a loop has a key for every pair of iterations", async () => {
  const steps = {
    months: { type: "loop", input: { body: "invoices", max_iterations: 2 } },
    invoices: { type: "loop", input: { body: "charge", max_iterations: 2 } },
    charge: job("months"),
  };
  const { seen, charges } = await run("months", steps);
  expect(charges).toBe(4);
  expect(seen.map(({ idempotencyKey }) => idempotencyKey)).toEqual([
    "run:charge",
    "run:charge#1.2",
    "run:charge#2.1",
    "run:charge#2.2",
  ]);
});

test("each item of a list inside a loop has a key for every iteration", async () => {
  const steps = {
    rounds: { type: "loop", input: { body: "each", max_iterations: 2 } },
    each: { for_each: `\${[1, 2]}`, ...job("each") },
  };
  const { seen, charges } = await run("each", steps);
  expect(charges).toBe(4);
  expect(seen.map(({ idempotencyKey }) => idempotencyKey).sort()).toEqual([
    "run:each[0]",
    "run:each[0]#2",
    "run:each[1]",
    "run:each[1]#2",
  ]);
});
