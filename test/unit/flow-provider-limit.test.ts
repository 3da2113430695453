// A provider's limit on units a second, kept by eight workers whose jobs are estimated wrongly: never passed, and never left unused.
import { expect, test } from "vitest";
import type { ClaimedJob } from "../../src/control/jobs/offers.ts";
import { millionths } from "../../src/domain/budgets.ts";
import { acme, FlowWorld, pollOf, workerCaller } from "../support/flow-world.ts";

const limit = 600;
const burst = 60;
const workers = 8;
const unitsMax = 20;
/** Large and small jobs come in turns: 4,000 together, for about half a minute. */
const rounds = 20;
const itemsPerRun = 10;
const measuredMs = 30_000;

/** The same sequence in every run. */
function createFractions(): () => number {
  let state = 1;
  return () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
}

type Settled = { readonly atMs: number; readonly units: number };

/** The most and the least that was settled in any window of this length. */
function windows(settled: readonly Settled[], lengthMs: number) {
  const first = settled[0]?.atMs ?? 0;
  const last = settled.at(-1)?.atMs ?? 0;
  const sums: number[] = [];
  for (let fromMs = first; fromMs + lengthMs <= last; fromMs += 25) {
    const inside = settled.filter(({ atMs }) => atMs >= fromMs && atMs < fromMs + lengthMs);
    sums.push(inside.reduce((sum, { units }) => sum + units, 0));
  }
  return { most: Math.max(...sums), least: Math.min(...sums), count: sums.length };
}

async function setUp() {
  const flow = new FlowWorld();
  await flow.tenant({ topicRates: { llm: [{ limit, perMs: 1_000, burst, unit: "units" }] } });
  const plane = await flow.open("p");
  const items = Array.from({ length: itemsPerRun }, (_, index) => index);
  const estimates = Array.from({ length: unitsMax }, (_, index) => index + 1);
  for (const estimate of estimates) {
    const input = { estimate };
    const each = { topic: "llm", for_each: "${input.items}", input, estimate: { units: estimate } };
    await plane.save(`needs-${estimate}`, { each });
  }
  for (let round = 0; round < rounds; round += 1)
    for (const estimate of estimates) await plane.start(`needs-${estimate}`, { items });
  return { flow, plane };
}

test("eight workers with wrong estimates use 600 units a second, and no more", {
  timeout: 60_000,
}, async () => {
  const { flow, plane } = await setUp();
  const fraction = createFractions();
  const settled: Settled[] = [];
  const { api, member } = plane;
  const { clock } = member.ports;
  let isOver = false;

  async function perform({ job, token }: ClaimedJob): Promise<void> {
    await clock.sleep(10 + 40 * fraction());
    const estimate = (job.meter?.estimate.units ?? 0) / millionths;
    // Half to twice what was expected.
    const units = Math.max(1, Math.min(unitsMax, Math.round(estimate * 2 ** (2 * fraction() - 1))));
    settled.push({ atMs: flow.nowMs(), units });
    const usage = { units: units * millionths };
    const result = { jobId: job.jobId, token, outcome: "succeeded", output: {}, usage } as const;
    await api.reportResult({ caller: workerCaller, ...result });
  }

  async function work(name: string): Promise<void> {
    while (!isOver) {
      const answer = await api.pollJobs(pollOf({ worker: name, topics: ["llm"], places: 1, waitMs: 5_000 }));
      if (answer.kind === "jobs") for (const job of answer.jobs) await perform(job);
    }
  }

  const working = Array.from({ length: workers }, (_, index) => work(`w${index}`));
  await flow.pass(measuredMs);
  const ready = await flow.finish(plane.api.listReadyJobs({ tenant: acme, topic: "llm", limit: 1 }));
  expect(ready).toMatchObject({ kind: "listed", jobs: [{}] });
  const tenSeconds = windows(settled, 10_000);
  const oneSecond = windows(settled, 1_000);
  console.log(
    JSON.stringify({ jobs: settled.length, tenSeconds, oneSecond }),
    plane.metrics.total("claims_refused_total"),
  );
  expect(tenSeconds.count).toBeGreaterThan(500);
  expect(tenSeconds.most).toBeLessThanOrEqual(1.05 * 10 * limit);
  expect(tenSeconds.least).toBeGreaterThanOrEqual(0.9 * 10 * limit);
  expect(oneSecond.most).toBeLessThanOrEqual(limit + burst + workers * unitsMax);
  isOver = true;
  await flow.finish(Promise.all(working));
  await plane.close();
});
