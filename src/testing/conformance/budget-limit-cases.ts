// What every store must do at the end of a budget: what does not fit is parked, refused or granted as over it, and crossings are told.
import assert from "node:assert/strict";
import { type AtBudget, periodAt } from "../../domain/budgets.ts";
import { type JobId, notifyTopic } from "../../domain/job.ts";
import {
  beatWith,
  byWorkflow,
  claimSaid,
  costs,
  crossingsSaid,
  held,
  jobWith,
  ledgerSaid,
  meteredJob,
  perHour,
  ratedRun,
  readyJobs,
  report,
  runIdOf,
  runOf,
  said,
  saveAmount,
  startRun,
  states,
  tenantBudget,
  tenantSpend,
  usd,
  uses,
  workflowBudget,
} from "./budget-steps.ts";
import { planOf, tenantGate } from "./gate-steps.ts";
import { type ConformanceCase, call, only } from "./harness.ts";
import { callOff, counts, jobState, sweepUntil } from "./run-steps.ts";

export const budgetLimitCases: readonly ConformanceCase[] = [
  {
    name: "of more jobs than one visit lets go the others follow at once, and not at the end of the period",
    async check(harness) {
      await saveAmount(harness, usd);
      const paid = { budgets: [byWorkflow("hold")] };
      await held(harness, { ...costs(1), ...paid });
      const { jobIds } = await runOf(
        harness,
        Array.from({ length: 101 }, () => ({ ...costs(1), ...paid })),
      );
      assert.deepEqual([...new Set(await said(harness, jobIds))], ["budget_held"]);
      await saveAmount(harness, 1_000 * usd);
      await sweepUntil(harness, async () => (await ledgerSaid(harness, workflowBudget)) === "0+1 0 parked");
    },
  },
  {
    name: "what does not fit beside what is spent and reserved is parked: it hides nobody, and a repeat is answered the same",
    async check(harness) {
      await saveAmount(harness, 10 * usd);
      const paid = { budgets: [byWorkflow("hold")] };
      await report(harness, await held(harness, { ...costs(4), ...paid }), uses(4));
      await held(harness, { ...costs(4), ...paid });
      const { jobIds } = await runOf(harness, [
        { ...costs(3), ...paid },
        costs(50),
        { ...costs(2), ...paid },
      ]);
      assert.deepEqual(await said(harness, jobIds), ["budget_held", "claimed", "claimed"]);
      assert.equal(await claimSaid(harness, jobIds[0] as JobId), "budget_held");
      assert.deepEqual(await readyJobs(harness), []);
      assert.equal((await counts(harness)).split(" ")[0], "0/0");
      const { job } = only(
        await harness.store.getJob({ tenant: harness.tenant, jobId: jobIds[0] as JobId }, call),
        "job",
      );
      assert.deepEqual([job.state, job.parkedFor, job.claim], ["parked", workflowBudget, undefined]);
      assert.equal(await ledgerSaid(harness, workflowBudget), "4+6 1 parked");
    },
  },
  {
    name: "all budgets are judged before anything is taken, in the order of their ids, and after the rates",
    async check(harness) {
      await saveAmount(harness, 5 * usd);
      const rate = { limit: 1, perMs: 3_600_000, burst: 1 };
      await harness.set({ ...tenantBudget(5 * usd), topicRates: { shell: [rate] } });
      const paid = { budgets: [byWorkflow("stop")] };
      await held(harness, { ...costs(4), ...paid });
      const late = await jobWith(harness, { ...costs(4), ...paid });
      assert.equal(await claimSaid(harness, late), "topic_rate");
      await harness.set(tenantBudget(5 * usd));
      assert.equal(await claimSaid(harness, late), "budget_held");
      const { job } = only(await harness.store.getJob({ tenant: harness.tenant, jobId: late }, call), "job");
      assert.equal(job.parkedFor, tenantSpend);
      await harness.set({
        ...tenantBudget(50 * usd),
        topicRates: { shell: [{ ...rate, limit: 2, burst: 2 }] },
      });
      const other = await jobWith(harness, { ...costs(4), ...paid, topic: "other" });
      assert.equal(await claimSaid(harness, other), `claimed over ${workflowBudget}`);
      assert.equal(await ledgerSaid(harness), "0+4 1 parked");
      assert.equal(await ledgerSaid(harness, workflowBudget), "0+4 0 parked");
    },
  },
  {
    name: "what the control plane itself writes to its log is paid by no budget",
    async check(harness) {
      await harness.set(tenantBudget(0));
      const [notice, other] = (await runOf(harness, [{ topic: notifyTopic }, {}])).jobIds;
      assert.deepEqual(await said(harness, [notice as JobId, other as JobId]), ["claimed", "budget_held"]);
    },
  },
  {
    name: "of two budgets of a tenant that do not fit, the first by its name holds the job, however they are written",
    async check(harness) {
      const { all } = tenantBudget(0).budgets;
      await harness.set({ budgets: { second: all, first: all } });
      const jobId = await jobWith(harness);
      assert.equal(await claimSaid(harness, jobId), "budget_held");
      const { job } = only(await harness.store.getJob({ tenant: harness.tenant, jobId }, call), "job");
      assert.equal(job.parkedFor, "tenant.first~usd~month");
    },
  },
  {
    name: "an estimate over the whole amount is granted as over the budget, takes nothing, and is told so again",
    async check(harness) {
      const topicRates = { shell: [{ limit: 1, perMs: 3_600_000, burst: 1, unit: "usd" }] };
      for (const atLimit of ["hold", "reject", "stop"] as const) {
        await harness.set({ ...tenantBudget(10 * usd, { atLimit }), topicRates });
        const jobId = await jobWith(harness, costs(11));
        const terms = harness.claim();
        for (let time = 0; time < 2; time += 1)
          assert.equal(await claimSaid(harness, jobId, terms), `claimed over ${tenantSpend}`);
        const job = { jobId, token: terms.token };
        assert.equal(await beatWith(harness, job, { usd: 90 * usd }), "extended");
        assert.equal(await report(harness, job, { outcome: "failed", ...uses(90) }), "delivered");
        assert.equal(await ledgerSaid(harness), "no ledger");
      }
      assert.equal(await claimSaid(harness, await jobWith(harness, costs(1))), "claimed");
      assert.equal(await claimSaid(harness, await jobWith(harness, costs(1))), "topic_rate");
    },
  },
  {
    name: "a budget that stops grants what does not fit as over it, and stops what spends beyond its estimate and the amount",
    async check(harness) {
      await harness.set(tenantBudget(10 * usd, { atLimit: "stop" }));
      const [spender, modest] = [await held(harness, costs(4)), await held(harness, costs(4))];
      assert.equal(await claimSaid(harness, await jobWith(harness, costs(3))), `claimed over ${tenantSpend}`);
      assert.equal(await ledgerSaid(harness), "0+8 0 parked");
      assert.equal(await beatWith(harness, spender, { usd: 6 * usd }), "extended");
      for (let time = 0; time < 2; time += 1)
        assert.equal(await beatWith(harness, spender, { usd: 7 * usd }), `extended stop ${tenantSpend}`);
      assert.equal(await beatWith(harness, spender), "extended");
      assert.equal(await beatWith(harness, modest, { usd: 4 * usd }), "extended");
      assert.equal(await ledgerSaid(harness), "0+11 0 parked");
      await report(harness, spender, { outcome: "failed", ...uses(8) });
      assert.equal(await ledgerSaid(harness), "8+4 0 parked");
    },
  },
  {
    name: "a budget that holds or rejects stops nobody who has begun",
    async check(harness) {
      for (const atLimit of ["hold", "reject"] as const) {
        await harness.set(tenantBudget(10 * usd, { atLimit, per: atLimit === "hold" ? "month" : "week" }));
        assert.equal(await beatWith(harness, await held(harness, costs(4)), { usd: 70 * usd }), "extended");
      }
    },
  },
  {
    name: "a start is refused when nothing is left of a budget that rejects, of its workflow or its tenant, and begins at others",
    async check(harness) {
      await saveAmount(harness, 10 * usd);
      const start = async (atLimit: AtBudget) => {
        const answer = await startRun(harness, ratedRun(harness, [], { budgets: [byWorkflow(atLimit)] }));
        return answer.kind === "budget_exhausted" ? `${answer.kind} ${answer.budget}` : answer.kind;
      };
      const job = await held(harness, { ...costs(9), budgets: [byWorkflow("reject")] });
      assert.equal(await start("reject"), "admitted");
      await beatWith(harness, job, { usd: 10 * usd });
      assert.equal(await start("reject"), `budget_exhausted ${workflowBudget}`);
      assert.equal(await start("hold"), "admitted");
      assert.equal(await start("stop"), "admitted");
      await report(harness, job, uses(9));
      assert.equal(await start("reject"), "admitted");
      await harness.set(tenantBudget(0, { atLimit: "reject" }));
      assert.equal(await start("hold"), `budget_exhausted ${tenantSpend}`);
      await harness.set(tenantBudget(0, { atLimit: "hold" }));
      assert.equal(await start("reject"), "admitted");
    },
  },
  {
    name: "rates come before budgets and budgets before gates; a start that is refused has counted in no rate, and knows when the budget is new",
    async check(harness) {
      const none = tenantBudget(0, { atLimit: "reject" });
      await harness.set({ ...none, maxConcurrentRuns: 0 });
      const run = () => ratedRun(harness, [perHour(1)], { gates: planOf([[tenantGate, "reject"]]) });
      const refused = only(await startRun(harness, run()), "budget_exhausted");
      assert.equal(refused.resetsAtMs, periodAt("month", refused.storeTimeMs).endMs);
      const { store, tenant } = harness;
      const guard = await harness.acquire({ namespace: "admission", name: "slots" }, 60_000);
      assert.equal((await store.createRun({ tenant, guard, run: run() }, call)).kind, "budget_exhausted");
      await harness.set({});
      assert.equal((await startRun(harness, run())).kind, "admitted");
      await harness.set(none);
      assert.equal((await startRun(harness, run())).kind, "start_rate_exceeded");
    },
  },
  {
    name: "each percent of the amount is told once when it is spent, the lowest first, and not what is reserved",
    async check(harness) {
      await harness.set(tenantBudget(100 * usd));
      const holder = await held(harness, costs(30));
      const spend = async (amount: number) => report(harness, await held(harness, costs(1)), uses(amount));
      await spend(49);
      assert.deepEqual(await crossingsSaid(harness), []);
      await spend(1);
      assert.deepEqual(await crossingsSaid(harness), ["all usd 50"]);
      await harness.set(tenantBudget(1000 * usd));
      await harness.set(tenantBudget(500 * usd));
      await spend(449);
      assert.deepEqual(await crossingsSaid(harness), ["all usd 50", "all usd 80"]);
      await report(harness, holder, uses(0));
      await spend(300);
      assert.deepEqual(await crossingsSaid(harness), ["all usd 50", "all usd 80", "all usd 100"]);
      const { events } = only(
        await harness.store.readEvents({ tenant: harness.tenant, after: 0, limit: 100 }, call),
        "events",
      );
      const [row] = events.filter(({ type }) => type === "budget_crossed");
      assert.deepEqual([row?.subject, row?.actor], [tenantSpend, "engine"]);
    },
  },
  {
    name: "one settlement that crosses several percents tells of each; a correction that takes some back tells nothing, nor when they come again",
    async check(harness) {
      await harness.set(tenantBudget(100 * usd));
      const job = await held(harness, costs(90));
      await callOff(harness, runIdOf(job.jobId), { voidJobs: [job.jobId] });
      assert.deepEqual(await crossingsSaid(harness), ["all usd 50", "all usd 80"]);
      await report(harness, job, uses(10));
      await report(harness, await held(harness, costs(1)), uses(75));
      assert.deepEqual(await crossingsSaid(harness), ["all usd 50", "all usd 80"]);
      await report(harness, await held(harness, costs(1)), uses(15));
      assert.deepEqual(await crossingsSaid(harness), ["all usd 50", "all usd 80", "all usd 100"]);
    },
  },
  {
    name: "an amount that was lowered is compared with what is spent when more is",
    async check(harness) {
      await harness.set(tenantBudget(100 * usd));
      await report(harness, await held(harness, costs(1)), uses(40));
      const job = await held(harness, costs(1));
      await harness.set(tenantBudget(50 * usd));
      await beatWith(harness, job, { usd: 5 * usd });
      await report(harness, await held(harness, costs(1)), { outcome: "handed_back" });
      assert.deepEqual(await crossingsSaid(harness), []);
      await report(harness, job, { usage: { usd: 1 } });
      assert.deepEqual(await crossingsSaid(harness), ["all usd 50", "all usd 80"]);
    },
  },
  {
    name: "a job is born claimed only if its budgets can pay for it, and is charged; else it is born ready",
    async check(harness) {
      await harness.set(tenantBudget(10 * usd));
      const terms = [0, 1, 2].map(() => harness.claim());
      const [first, second, third] = terms;
      const { jobIds } = await runOf(harness, [
        { ...costs(8), ...(first && { claim: first }) },
        { ...costs(3), ...(second && { claim: second }) },
        { ...costs(11), ...(third && { claim: third }) },
      ]);
      assert.deepEqual(await states(harness, jobIds), ["claimed", "ready", "ready"]);
      assert.equal(await ledgerSaid(harness), "0+8 0 parked");
      await report(
        harness,
        { jobId: jobIds[0] as JobId, token: first?.token ?? harness.claim().token },
        uses(2),
      );
      assert.equal(await ledgerSaid(harness), "2+0 0 parked");
    },
  },
  {
    name: "a held job is parked by a claim after its release, and a parked job that is called off leaves its line",
    async check(harness) {
      await harness.set(tenantBudget(0));
      const runId = harness.runId();
      const job = meteredJob(runId, 0, { ...costs(0), held: true });
      await harness.admit(harness.newRun({ runId, change: { jobs: [job] } }));
      const { jobId, topic } = job;
      assert.equal(await claimSaid(harness, jobId), "not_ready");
      await callOff(harness, runId, { releaseJobs: [{ jobId, topic }] });
      assert.equal(await claimSaid(harness, jobId), "budget_held");
      await harness.commit(runId, { voidJobs: [jobId] });
      assert.equal(await jobState(harness, jobId), "voided");
      assert.equal(await claimSaid(harness, jobId), "not_ready");
      await harness.set(tenantBudget(1));
      await held(harness);
      assert.equal(await ledgerSaid(harness), "0+0 0 parked");
    },
  },
];
