// What every store must do with budgets: a claim reserves, and its end settles it exactly once.
import assert from "node:assert/strict";
import { workflowBudgetId } from "../../domain/budgets.ts";
import {
  beatWith,
  byWorkflow,
  claimSaid,
  costs,
  held,
  jobWith,
  ledgerSaid,
  ledgers,
  report,
  runIdOf,
  saveAmount,
  tenantBudget,
  tenantSpend,
  usd,
  uses,
  workflow,
  workflowBudget,
} from "./budget-steps.ts";
import { type ConformanceCase, call, only } from "./harness.ts";
import { callOff, deliver, resultOf } from "./run-steps.ts";

export const budgetCases: readonly ConformanceCase[] = [
  {
    name: "a claim reserves its estimate, and its result settles what it says, more or less",
    async check(harness) {
      await harness.set(tenantBudget(100 * usd));
      const [one, two] = [await held(harness, costs(10)), await held(harness, costs(20))];
      assert.equal(await ledgerSaid(harness), "0+30 0 parked");
      await report(harness, one, uses(4));
      assert.equal(await ledgerSaid(harness), "4+20 0 parked");
      await report(harness, two, uses(70));
      assert.equal(await ledgerSaid(harness), "74+0 0 parked");
    },
  },
  {
    name: "a result that says nothing counts the most that heartbeats said, and without them the estimate, each unit by itself",
    async check(harness) {
      await harness.set({
        budgets: {
          ...tenantBudget(100 * usd).budgets,
          tokens: { unit: "tokens", amount: 100 * usd, per: "month", atLimit: "hold" },
        },
      });
      const estimate = { usd: 10 * usd, tokens: 5 * usd };
      const jobs = [await held(harness, { estimate }), await held(harness, { estimate })] as const;
      await beatWith(harness, jobs[0], { usd: 3 * usd });
      await beatWith(harness, jobs[0], { usd: 2 * usd });
      await report(harness, jobs[0]);
      const [spend, tokens] = await ledgers(harness);
      assert.deepEqual([spend?.spent, tokens?.spent], [3 * usd, 5 * usd]);
      assert.equal(spend?.reserved, 10 * usd);
      await report(harness, jobs[1], { usage: { tokens: 1 * usd } });
      assert.deepEqual(
        (await ledgers(harness)).map(({ spent }) => spent),
        [13 * usd, 6 * usd],
      );
    },
  },
  {
    name: "what was handed back counts what heartbeats said, else nothing; a failure counts like any result",
    async check(harness) {
      await harness.set(tenantBudget(100 * usd));
      const [silent, heard, failed] = [
        await held(harness, costs(10)),
        await held(harness, costs(10)),
        await held(harness, costs(10)),
      ];
      await beatWith(harness, heard, { usd: 2 * usd });
      await report(harness, silent, { outcome: "handed_back" });
      assert.equal(await ledgerSaid(harness), "0+20 0 parked");
      await report(harness, heard, { outcome: "handed_back" });
      assert.equal(await ledgerSaid(harness), "2+10 0 parked");
      await report(harness, failed, { outcome: "failed" });
      assert.equal(await ledgerSaid(harness), "12+0 0 parked");
    },
  },
  {
    name: "a report that is repeated, and another of the same claim, settle nothing more",
    async check(harness) {
      await harness.set(tenantBudget(100 * usd));
      const job = await held(harness, costs(10));
      const entry = resultOf(harness, job, uses(4));
      const runId = runIdOf(job.jobId);
      for (let time = 0; time < 3; time += 1)
        assert.equal((await deliver(harness, runId, entry)).kind, "delivered");
      assert.equal(await report(harness, job, uses(9)), "duplicate");
      assert.equal(await ledgerSaid(harness), "4+0 0 parked");
    },
  },
  {
    name: "a claim that was called off counts the larger of estimate and heartbeats; the late report of its token corrects it once",
    async check(harness) {
      await harness.set(tenantBudget(100 * usd));
      const [one, two] = [await held(harness, costs(10)), await held(harness, costs(10))];
      // What others have reserved stays as it is.
      await held(harness, costs(30));
      await beatWith(harness, two, { usd: 15 * usd });
      for (const { jobId } of [one, two]) await callOff(harness, runIdOf(jobId), { voidJobs: [jobId] });
      assert.equal(await ledgerSaid(harness), "25+30 0 parked");
      const stranger = { ...one, token: harness.claim().token };
      assert.equal(await report(harness, stranger, uses(1)), "stale_claim");
      assert.equal(await ledgerSaid(harness), "25+30 0 parked");
      const late = resultOf(harness, one, uses(3));
      for (let time = 0; time < 3; time += 1) {
        assert.equal((await deliver(harness, runIdOf(one.jobId), late)).kind, "stale_claim");
        assert.equal(await ledgerSaid(harness), "18+30 0 parked");
      }
      assert.equal(await report(harness, two, uses(20)), "stale_claim");
      assert.equal(await report(harness, two, uses(50)), "stale_claim");
      assert.equal(await ledgerSaid(harness), "23+30 0 parked");
    },
  },
  {
    name: "a late report that hands back, or says nothing, counts what heartbeats said, else nothing or the estimate",
    async check(harness) {
      await harness.set(tenantBudget(100 * usd));
      const jobs = [
        await held(harness, costs(10)),
        await held(harness, costs(10)),
        await held(harness, costs(10)),
      ];
      const [back, heard, silent] = jobs as [(typeof jobs)[0], (typeof jobs)[0], (typeof jobs)[0]];
      await beatWith(harness, heard, { usd: 4 * usd });
      for (const { jobId } of jobs) await callOff(harness, runIdOf(jobId), { voidJobs: [jobId] });
      assert.equal(await ledgerSaid(harness), "30+0 0 parked");
      await report(harness, back, { outcome: "handed_back" });
      assert.equal(await ledgerSaid(harness), "20+0 0 parked");
      await report(harness, heard);
      assert.equal(await ledgerSaid(harness), "14+0 0 parked");
      await report(harness, silent);
      assert.equal(await ledgerSaid(harness), "14+0 0 parked");
    },
  },
  {
    name: "a late report counts also when the run has ended, but not one of a key that was revoked",
    async check(harness) {
      await harness.set(tenantBudget(100 * usd));
      const job = await held(harness, costs(10));
      const runId = runIdOf(job.jobId);
      await callOff(harness, runId, { voidJobs: [job.jobId], status: "failed" });
      await harness.set({ ...tenantBudget(100 * usd), revokedKeyIds: ["key_1"] });
      const late = resultOf(harness, job, uses(1));
      const refused = await deliver(harness, runId, late, { credential: "key_1" });
      assert.equal(refused.kind, "unauthenticated");
      assert.equal(await ledgerSaid(harness), "10+0 0 parked");
      assert.equal((await deliver(harness, runId, late)).kind, "run_ended");
      assert.equal(await ledgerSaid(harness), "1+0 0 parked");
    },
  },
  {
    name: "a heartbeat that tells of more than is reserved reserves the difference, of its own claim, and each amount once",
    async check(harness) {
      await harness.set(tenantBudget(100 * usd));
      const [job, other] = [await held(harness, costs(10)), await held(harness)];
      const reserved: string[] = [];
      for (const amount of [4, 10, 12, 12, 11, 30]) {
        assert.equal(await beatWith(harness, job, { usd: amount * usd, tokens: 1 }), "extended");
        reserved.push(await ledgerSaid(harness));
      }
      const expected = [10, 10, 12, 12, 12, 30].map((amount) => `0+${amount} 0 parked`);
      assert.deepEqual(reserved, expected);
      assert.equal(await beatWith(harness, { ...job, token: other.token }, { usd: 90 * usd }), "lost");
      await beatWith(harness, other, { usd: 1 * usd });
      assert.equal(await ledgerSaid(harness), "0+31 0 parked");
      await report(harness, job);
      assert.equal(await ledgerSaid(harness), "30+1 0 parked");
    },
  },
  {
    name: "of a run that is removed, what was claimed counts, and a late report counts nothing more",
    async check(harness) {
      await harness.set(tenantBudget(100 * usd));
      const job = await held(harness, costs(10));
      const runId = runIdOf(job.jobId);
      await harness.end(runId);
      const { store, tenant } = harness;
      only(await store.deleteRun({ tenant, runId, actor: "ops" }, call), "deleted");
      assert.equal(await ledgerSaid(harness), "10+0 0 parked");
      assert.equal(await report(harness, job, uses(1)), "run_not_found");
      assert.equal(await ledgerSaid(harness), "10+0 0 parked");
    },
  },
  {
    name: "usage without a budget, and of a claim that was made before there was one, counts nowhere",
    async check(harness) {
      const job = await held(harness, costs(10));
      assert.equal(await beatWith(harness, job, { usd: 3 * usd }), "extended");
      await harness.set(tenantBudget(100 * usd));
      assert.equal(await beatWith(harness, job, { usd: 4 * usd }), "extended");
      assert.equal(await report(harness, job, uses(5)), "delivered");
      assert.deepEqual(await ledgers(harness), []);
    },
  },
  {
    name: "a job without an estimate is paid by the tenant's budget with what it has used, and asks for nothing before",
    async check(harness) {
      await harness.set(tenantBudget(10 * usd));
      const job = await held(harness);
      assert.equal(await ledgerSaid(harness), "0+0 0 parked");
      await report(harness, job, uses(10));
      assert.equal(await ledgerSaid(harness), "10+0 0 parked");
      assert.equal(await claimSaid(harness, await jobWith(harness)), "budget_held");
    },
  },
  {
    name: "a job is paid by the budgets of its workflow and of its tenant; one that is not set stops nobody, and its ledger goes on",
    async check(harness) {
      await harness.set(tenantBudget(100 * usd));
      const job = await held(harness, { ...costs(10), budgets: [byWorkflow("hold")] });
      assert.equal(await ledgerSaid(harness, workflowBudget), "0+10 0 parked");
      assert.equal(await ledgerSaid(harness), "0+10 0 parked");
      await report(harness, job, uses(7));
      const listed = await ledgers(harness);
      const shown = listed.map(({ budget, amount, spent }) => ({ budget, amount, spent }));
      assert.deepEqual(shown, [
        { budget: tenantSpend, amount: 100 * usd, spent: 7 * usd },
        { budget: workflowBudget, amount: undefined, spent: 7 * usd },
      ]);
      assert.ok(listed.every(({ ledger, periodStartMs }) => ledger.endsWith(` 000${periodStartMs}`)));
      await saveAmount(harness, 7 * usd);
      assert.equal(
        await claimSaid(harness, await jobWith(harness, { budgets: [byWorkflow("hold")] })),
        "budget_held",
      );
    },
  },
  {
    name: "with another unit or period a tenant's budget is another one, and a workflow's of another key as well",
    async check(harness) {
      await harness.set(tenantBudget(10 * usd));
      await held(harness, costs(10));
      await harness.set(tenantBudget(10 * usd, { per: "week" }));
      await held(harness, costs(10));
      await harness.set(tenantBudget(10 * usd, { unit: "eur" }));
      await held(harness, costs(10));
      await saveAmount(harness, 10 * usd);
      for (const hash of ["0", "1"]) {
        const budget = workflowBudgetId(workflow, "spend~usd~month", hash.repeat(32));
        await held(harness, { ...costs(6), budgets: [{ budget, atLimit: "hold" }] });
        const second = await jobWith(harness, { ...costs(6), budgets: [{ budget, atLimit: "hold" }] });
        assert.equal(await claimSaid(harness, second), "budget_held");
      }
      const { store, tenant } = harness;
      const all = await ledgers(harness);
      assert.deepEqual(
        all.map(({ amount }) => amount),
        [10 * usd, undefined, undefined, 10 * usd, 10 * usd],
      );
      const page = async (after: string) =>
        only(await store.listLedgers({ tenant, after, limit: 2 }, call), "listed").ledgers.map(
          ({ ledger }) => ledger,
        );
      const ids = all.map(({ ledger }) => ledger);
      assert.deepEqual(await page(""), ids.slice(0, 2));
      assert.deepEqual(await page(ids[1] ?? ""), ids.slice(2, 4));
      assert.deepEqual([...ids], [...ids].sort());
    },
  },
];
