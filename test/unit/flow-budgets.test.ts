// Budgets as whole flows: what a claim reserves and a result settles, and what each answer at the end of a budget does.
import { describe, expect, test } from "vitest";
import type { StartAnswer } from "../../src/control/admission/start-run.ts";
import type { ClaimedJob } from "../../src/control/jobs/offers.ts";
import type { Amounts } from "../../src/domain/budgets.ts";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import type { ClaimToken, JobId } from "../../src/domain/job.ts";
import type { RunId } from "../../src/domain/run.ts";
import type { TenantSettings } from "../../src/domain/tenant.ts";
import {
  acme,
  ann,
  FlowWorld,
  only,
  type PlaneOptions,
  type Steps,
  single,
  work,
  workerCaller,
} from "../support/flow-world.ts";

type Header = { readonly [name: string]: JsonValue };

const usd = 1_000_000;
const daily = { name: "daily", unit: "usd", amount: 10, per: "day" };

async function setUp(
  header: Header,
  {
    settings = {},
    steps,
    options = {},
  }: { settings?: TenantSettings; steps?: Steps; options?: PlaneOptions } = {},
) {
  const flow = new FlowWorld();
  await flow.tenant(settings);
  const plane = await flow.open("p", options);
  await plane.save("tickets", steps ?? { one: work({ estimate: { usd: 6 } }) }, header);
  return { flow, plane };
}

type Scene = Awaited<ReturnType<typeof setUp>>;

const start = ({ flow, plane }: Scene, input: JsonValue = {}): Promise<StartAnswer> =>
  flow.finish(plane.api.startWorkflow({ caller: ann, workflow: "tickets", input }));

async function begin(scene: Scene, input: JsonValue = {}): Promise<RunId> {
  return only(await start(scene, input), "admitted").runId;
}

const settle = ({ flow, plane }: Scene, { job, token }: ClaimedJob, usage: Amounts) =>
  flow.finish(
    plane.api.reportResult({
      ...{ caller: workerCaller, jobId: job.jobId, token, outcome: "succeeded", output: {} },
      usage,
    }),
  );

async function budgetsOf({ flow, plane }: Scene, periods: "present" | "all" = "present") {
  const request = { tenant: acme, after: "", limit: 50, periods };
  return only(await flow.finish(plane.api.listBudgets(request)), "listed").ledgers;
}

describe("a budget that holds", () => {
  test("parks the job that does not fit, and lets it go when the one before has used less", async () => {
    const scene = await setUp({ budgets: [daily] });
    const { flow, plane } = scene;
    const runs = [await begin(scene), await begin(scene)];
    const first = single(await plane.poll());
    const second = runs.find((runId) => runId !== first.job.runId) as RunId;
    expect((await flow.job(first.job.jobId)).meter).toEqual({
      estimate: { usd: 6 * usd },
      budgets: [{ budget: "workflow.tickets.daily~usd~day.-", atLimit: "hold" }],
    });
    expect(await budgetsOf(scene)).toMatchObject([
      { spent: 0, reserved: 6 * usd, parked: 1, amount: 10 * usd },
    ]);
    const why = only(await flow.finish(plane.api.explainRun({ tenant: acme, runId: second })), "explained");
    expect(why.explanation.waiting_for).toMatchObject([
      { kind: "job_parked", unit: "usd", spent: 0, reserved: 6, amount: 10, estimate: 6 },
    ]);
    await settle(scene, first, { usd: 2 * usd });
    await flow.until(async () => (await budgetsOf(scene))[0]?.parked === 0);
    const again = single(await flow.finish(plane.poll({ waitMs: 5_000 })));
    expect(again.job.runId).toBe(second);
    expect(await budgetsOf(scene)).toMatchObject([{ spent: 2 * usd, reserved: 6 * usd }]);
    await plane.close();
  });

  test("lets a held job go when the amount is raised by saving the workflow", async () => {
    const scene = await setUp({ budgets: [{ ...daily, amount: 6 }] });
    const { flow, plane } = scene;
    await begin(scene);
    await begin(scene);
    await settle(scene, single(await plane.poll()), { usd: 6 * usd });
    expect(await plane.poll()).toEqual([]);
    await plane.save(
      "tickets",
      { one: work({ estimate: { usd: 6 } }) },
      { budgets: [{ ...daily, amount: 20 }] },
    );
    expect(await flow.finish(plane.poll({ waitMs: 5_000 }))).toHaveLength(1);
    await plane.close();
  });

  test("counts for the jobs of child runs, too", async () => {
    const scene = await setUp(
      { budgets: [daily] },
      {
        steps: { child: { type: "subworkflow", input: { workflow_id: "answer" } } },
      },
    );
    const { flow, plane } = scene;
    await plane.save("answer", { one: work({ estimate: { usd: 4 } }) });
    await begin(scene);
    const child = single(await flow.finish(plane.poll({ waitMs: 5_000 })));
    expect(child.job.meter?.budgets).toEqual([
      { budget: "workflow.tickets.daily~usd~day.-", atLimit: "hold" },
    ]);
    await settle(scene, child, { usd: 3 * usd });
    expect(await budgetsOf(scene)).toMatchObject([{ spent: 3 * usd, reserved: 0 }]);
    await plane.close();
  });

  test("of a key counts each value apart", async () => {
    const scene = await setUp({ budgets: [{ ...daily, key: "${input.customer}" }] });
    for (const customer of ["c1", "c2"]) await begin(scene, { customer });
    expect(await scene.plane.poll()).toHaveLength(2);
    expect(await budgetsOf(scene)).toHaveLength(2);
    await scene.plane.close();
  });
});

test("a budget that rejects refuses starts when it is used up, and says when it begins anew", async () => {
  const scene = await setUp({ budgets: [{ ...daily, at_limit: "reject" }] });
  await begin(scene);
  await settle(scene, single(await scene.plane.poll()), { usd: 10 * usd });
  const refused = only(await start(scene), "budget_exhausted");
  expect(refused.budget).toBe("workflow.tickets.daily~usd~day.-");
  expect(refused.resetsAtMs % 86_400_000).toBe(0);
  expect(refused.resetsInMs).toBeGreaterThan(86_000_000);
  await scene.plane.close();
});

test("a tenant's budget that rejects holds for every workflow, also under the lock strategy", async () => {
  const budgets = { all: { unit: "usd", amount: 5 * usd, per: "day", atLimit: "reject" } } as const;
  const scene = await setUp(
    {},
    {
      settings: { admissionStrategy: "lock", budgets },
      steps: { one: work({ estimate: { usd: 5 } }) },
    },
  );
  expect(await budgetsOf(scene)).toMatchObject([{ budget: "tenant.all~usd~day", spent: 0, amount: 5 * usd }]);
  await begin(scene);
  await settle(scene, single(await scene.plane.poll()), { usd: 5 * usd });
  expect((await start(scene)).kind).toBe("budget_exhausted");
  await scene.plane.close();
});

describe("a budget that stops", () => {
  const stopping = { ...daily, at_limit: "stop" };

  test("fails the step of a job that does not fit, without a worker and without another attempt", async () => {
    const scene = await setUp(
      { budgets: [stopping] },
      { steps: { one: work({ estimate: { usd: 6 }, retry: { max_retries: 3 } }) } },
    );
    const { flow, plane } = scene;
    const runs = [await begin(scene), await begin(scene)];
    const paid = single(await plane.poll());
    const second = runs.find((runId) => runId !== paid.job.runId) as RunId;
    expect(await flow.ended(second)).toBe("failed");
    expect((await flow.step(second, "one")).attempt).toBe(1);
    const why = only(await flow.finish(plane.api.explainRun({ tenant: acme, runId: second })), "explained");
    expect(why.explanation.ended?.error).toMatchObject({
      code: "budget_exhausted",
      message: "the budget workflow.tickets.daily~usd~day.- does not pay for it",
    });
    expect(plane.metrics.total("jobs_over_budget_total")).toBe(1);
    await plane.close();
  });

  test("is met again by the next attempt when the process died before it reported", async () => {
    const scene = await setUp({ budgets: [stopping] });
    const { flow, plane } = scene;
    await begin(scene);
    single(await plane.poll());
    const second = await begin(scene);
    const terms = { token: "of a process that dies" as ClaimToken, worker: "w", leaseMs: 5_000 };
    const claims = [{ jobId: `${second}:one@1` as JobId, terms }];
    const claimed = await flow.world.store.claimJobs({ tenant: acme, claims }, { deadlineMs: 5_000 });
    expect(claimed).toMatchObject({
      answers: [{ kind: "claimed", overBudget: "workflow.tickets.daily~usd~day.-" }],
    });
    await flow.until(async () => (await flow.step(second, "one")).attempt === 2);
    expect(await plane.poll()).toEqual([]);
    expect(await flow.ended(second)).toBe("failed");
    await plane.close();
  });

  test("tells a worker to stop whose heartbeat goes beyond it, and fails its step", async () => {
    const scene = await setUp({ budgets: [stopping] });
    const { flow, plane } = scene;
    const runId = await begin(scene);
    const { job, token } = single(await plane.poll());
    const beatOf = (amount: number) =>
      flow.finish(
        plane.api.heartbeat({
          ...{ caller: workerCaller, worker: "w" },
          beats: [{ jobId: job.jobId, token, usage: { usd: amount * usd } }],
        }),
      );
    expect(await beatOf(9)).toMatchObject({ answers: [{ kind: "extended", stop: false }] });
    expect(await beatOf(11)).toMatchObject({ answers: [{ kind: "extended", stop: true }] });
    expect(await flow.ended(runId)).toBe("failed");
    expect(await budgetsOf(scene)).toMatchObject([{ spent: 11 * usd, reserved: 0 }]);
    await plane.close();
  });
});

test("crossing 50, 80 and 100 percent are events, each once", async () => {
  const scene = await setUp({ budgets: [daily] }, { steps: { one: work() } });
  for (const amount of [4, 2, 3, 1]) {
    await begin(scene);
    await settle(scene, single(await scene.plane.poll()), { usd: amount * usd });
  }
  const page = await scene.flow.finish(
    scene.plane.api.readEvents({ tenant: acme, after: 0, limit: 500 } as never),
  );
  expect(JSON.stringify(page).match(/daily usd \d+/g)).toEqual([
    "daily usd 50",
    "daily usd 80",
    "daily usd 100",
  ]);
  await scene.plane.close();
});

test("an in-process worker tells what it has used with its result, also when it fails", async () => {
  const scene = await setUp({ budgets: [daily] }, { steps: { one: work() } });
  const { flow, plane } = scene;
  let tries = 0;
  const worker = plane.plane.startWorker({
    ...{ tenant: acme, name: "w", topics: ["work"], concurrency: 1 },
    handler: (job) => {
      tries += 1;
      job.used({ usd: 0.1 });
      job.used({ usd: 0.2, tokens: 812 });
      if (tries === 1) throw new Error("no answer");
      return {};
    },
  });
  await flow.ended(await begin(scene));
  expect(await budgetsOf(scene)).toMatchObject([{ spent: 300_000, reserved: 0 }]);
  await flow.finish(worker.stop());
  await plane.close();
});

test("gauges tell how much is used and how many jobs are held, and go back to 0 in the next period", async () => {
  const scene = await setUp({ budgets: [{ ...daily, per: "hour", key: "${input.customer}" }] });
  const { flow, plane } = scene;
  for (const customer of ["c1", "c2", "c2"]) await begin(scene, { customer });
  const jobs = await plane.poll();
  expect(jobs).toHaveLength(2);
  const budget = "workflow.tickets.daily~usd~hour";
  await flow.until(() => plane.metrics.total("budget_used_ratio", { tenant: acme, budget }) === 0.6);
  expect(plane.metrics.total("parked_jobs", { tenant: acme })).toBe(1);
  for (const job of jobs) await settle(scene, job, { usd: 9 * usd });
  await flow.until(() => plane.metrics.total("budget_used_ratio", { tenant: acme, budget }) === 0.9);
  await flow.until(() => plane.metrics.total("budget_used_ratio", { budget }) === 0, 4_000_000);
  await plane.close();
});
