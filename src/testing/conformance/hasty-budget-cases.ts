// What every store must do with parked jobs: what leaves more of a budget, or changes it, lets them go in their order.
import assert from "node:assert/strict";
import type { JobId } from "../../domain/job.ts";
import {
  byWorkflow,
  claimSaid,
  costs,
  held,
  jobWith,
  ledgerSaid,
  readyJobs,
  report,
  runOf,
  said,
  saveAmount,
  states,
  tenantBudget,
  usd,
  uses,
  workflow,
} from "./budget-steps.ts";
import { type ConformanceCase, call, type Harness, only } from "./harness.ts";
import { callOff, sweepOnce, sweepUntil } from "./run-steps.ts";

async function lineOf(harness: Harness): Promise<number> {
  const { store, tenant } = harness;
  const { ledgers: all } = only(await store.listLedgers({ tenant, after: "", limit: 9 }, call), "listed");
  return all[0]?.parked ?? 0;
}

/** Sweeps until the jobs are in these states. */
async function sweptTo(
  harness: Harness,
  jobIds: readonly JobId[],
  expected: readonly string[],
): Promise<void> {
  await harness.until(async () => {
    await sweepOnce(harness);
    return (await states(harness, jobIds)).join() === expected.join();
  });
}

/** The budget is used up by one claim, and these wait. */
async function withParked(harness: Harness, amounts: readonly number[]) {
  await harness.set(tenantBudget(10 * usd));
  const holder = await held(harness, costs(10));
  const { runId, jobIds } = await runOf(harness, amounts.map(costs));
  assert.deepEqual(
    await said(harness, jobIds),
    amounts.map(() => "budget_held"),
  );
  return { holder, runId, jobIds };
}

/** Swept in haste. */
export const hastyBudgetCases: readonly ConformanceCase[] = [
  {
    name: "a settlement that leaves more lets go as many as fit, from the oldest on, and they are named again",
    async check(harness) {
      const { holder, jobIds } = await withParked(harness, [3, 3, 4, 1]);
      await sweepOnce(harness);
      assert.deepEqual(await states(harness, jobIds), ["parked", "parked", "parked", "parked"]);
      await report(harness, holder, uses(2));
      const found = await sweepUntil(harness, ({ unclaimed }) => unclaimed.length >= 2);
      const named = found.unclaimed.map(({ job }) => job.jobId);
      assert.deepEqual([...new Set(named)], jobIds.slice(0, 2));
      assert.deepEqual(await states(harness, jobIds), ["ready", "ready", "parked", "parked"]);
      assert.deepEqual(await readyJobs(harness), jobIds.slice(0, 2));
      assert.equal(await claimSaid(harness, jobIds[0] as JobId), "claimed");
    },
  },
  {
    name: "what was let go is judged again by its claim, and keeps its place in the line",
    async check(harness) {
      const { holder, jobIds } = await withParked(harness, [8, 1]);
      await report(harness, holder, uses(1));
      await sweptTo(harness, jobIds, ["ready", "ready"]);
      await held(harness, costs(5));
      assert.deepEqual(await said(harness, [...jobIds].reverse()), ["claimed", "budget_held"]);
      const younger = await jobWith(harness, costs(6));
      assert.equal(await claimSaid(harness, younger), "budget_held");
      assert.equal(await lineOf(harness), 2);
      await harness.set(tenantBudget(15 * usd));
      await sweptTo(harness, [jobIds[0] as JobId, younger], ["ready", "parked"]);
    },
  },
  {
    name: "a tenant's budget that is raised, not set any more, or that stops from now on, lets its jobs go",
    async check(harness) {
      const { jobIds } = await withParked(harness, [3, 3, 9]);
      await harness.set(tenantBudget(13 * usd));
      await sweptTo(harness, jobIds, ["ready", "parked", "parked"]);
      await harness.set(tenantBudget(16 * usd, { atLimit: "stop" }));
      await sweptTo(harness, jobIds, ["ready", "ready", "ready"]);
      await harness.set(tenantBudget(10 * usd));
      assert.deepEqual(await said(harness, jobIds.slice(0, 2)), ["budget_held", "budget_held"]);
      await harness.set({});
      await sweptTo(harness, jobIds, ["ready", "ready", "ready"]);
    },
  },
  {
    name: "a workflow's budget that is raised by saving it, or removed with it, lets its jobs go",
    async check(harness) {
      await saveAmount(harness, 10 * usd);
      const paid = { budgets: [byWorkflow("hold")] };
      await held(harness, { ...costs(10), ...paid });
      const { jobIds } = await runOf(harness, [
        { ...costs(3), ...paid },
        { ...costs(3), ...paid },
      ]);
      assert.deepEqual(await said(harness, jobIds), ["budget_held", "budget_held"]);
      await saveAmount(harness, 13 * usd);
      await sweptTo(harness, jobIds, ["ready", "parked"]);
      const { store, tenant } = harness;
      const document = { tenant, collection: "workflow", id: workflow, actor: "tester" } as const;
      only(await store.removeDocument(document, call), "removed");
      await sweptTo(harness, jobIds, ["ready", "ready"]);
    },
  },
  {
    name: "parked jobs of a run that is cancelled or removed leave the line, and the next one goes",
    async check(harness) {
      const { holder, runId, jobIds } = await withParked(harness, [9, 9]);
      const { jobIds: others } = await runOf(harness, [costs(4)]);
      assert.deepEqual(await said(harness, others), ["budget_held"]);
      await callOff(harness, runId, { voidJobs: jobIds.slice(0, 1), status: "cancelled" });
      assert.deepEqual(await states(harness, jobIds), ["voided", "parked"]);
      assert.equal(await lineOf(harness), 2);
      const { store, tenant } = harness;
      const deleted = await store.deleteRun({ tenant, runId, actor: "ops" }, call);
      assert.ok(deleted.kind === "deleted" || deleted.kind === "not_found");
      assert.equal(await lineOf(harness), 1);
      await report(harness, holder, uses(5));
      await sweptTo(harness, others, ["ready"]);
      assert.equal(await lineOf(harness), 0);
    },
  },
  {
    name: "130 parked jobs are let go by several visits, the oldest first",
    async check(harness) {
      const { jobIds } = await withParked(
        harness,
        Array.from({ length: 130 }, () => 0),
      );
      assert.equal(await lineOf(harness), 130);
      await harness.set(tenantBudget(20 * usd));
      const left = () => lineOf(harness);
      await harness.until(async () => {
        await sweepOnce(harness);
        return (await left()) < 130;
      });
      assert.equal(await left(), 30);
      const [first, last] = [...jobIds].sort().slice(99, 101) as [JobId, JobId];
      assert.deepEqual(await states(harness, [first, last]), ["ready", "parked"]);
      await harness.until(async () => {
        await sweepOnce(harness);
        return (await left()) === 0;
      });
    },
  },
  {
    name: "a claim that runs out counts the larger of estimate and heartbeats, and the late report of its token corrects it once",
    async check(harness) {
      await harness.set(tenantBudget(100 * usd));
      const job = await held(harness, costs(10), 20);
      await sweepUntil(harness, ({ lostClaims }) => lostClaims > 0);
      assert.equal(await ledgerSaid(harness), "10+0 0 parked");
      for (const amount of [3, 50]) {
        assert.equal(await report(harness, job, uses(amount)), "stale_claim");
        assert.equal(await ledgerSaid(harness), "3+0 0 parked");
      }
    },
  },
];
