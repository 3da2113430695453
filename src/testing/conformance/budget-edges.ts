// The edges of budgets: amounts that just fit, percents that are just reached, and the millisecond at which a period ends.
import { periodAt } from "../../domain/budgets.ts";
import {
  beatWith,
  claimSaid,
  costs,
  crossingsSaid,
  held,
  jobWith,
  ledgerSaid,
  ledgers,
  ratedRun,
  report,
  startSaid,
  tenantBudget,
  usd,
  uses,
} from "./budget-steps.ts";
import type { Edge } from "./edge.ts";
import type { Harness } from "./harness.ts";
import { claim, jobState, sweepOnce } from "./run-steps.ts";
import { dueFrom } from "./time-edges.ts";

const amountEdges: readonly Edge[] = [
  {
    name: "a claim fits if what is spent and reserved and its estimate are the amount at the most",
    decidedBy: [],
    ...{ below: "claimed", at: "claimed", above: "budget_held" },
    async look(harness, offset) {
      await harness.set(tenantBudget(10 * usd));
      await report(harness, await held(harness, costs(3)), uses(3));
      await held(harness, costs(3));
      return claimSaid(harness, await jobWith(harness, { estimate: { usd: 4 * usd + offset } }));
    },
  },
  {
    name: "nothing passes a budget that is used up, not even what is estimated to cost nothing",
    decidedBy: [],
    ...{ below: "claimed", at: "budget_held", above: "budget_held" },
    async look(harness, offset) {
      await harness.set(tenantBudget(10 * usd));
      await report(harness, await held(harness, costs(3)), { usage: { usd: 10 * usd + offset } });
      return claimSaid(harness, await jobWith(harness));
    },
  },
  {
    name: "an estimate of the whole amount waits for it, and one beyond it is granted as over it",
    decidedBy: ['budgets.ts atLimit === "stop" || estimate > amount'],
    ...{ below: "budget_held", at: "budget_held", above: "claimed over tenant.all~usd~month" },
    async look(harness, offset) {
      await harness.set(tenantBudget(10 * usd));
      await held(harness, costs(2));
      return claimSaid(harness, await jobWith(harness, { estimate: { usd: 10 * usd + offset } }));
    },
  },
  {
    name: "a parked job whose estimate is beyond an amount that was lowered is let go, one of the whole amount is not",
    decidedBy: ["parked.ts stops || estimate > amount"],
    ...{ below: "parked", at: "parked", above: "ready" },
    async look(harness, offset, time) {
      await harness.set(tenantBudget(10 * usd));
      await held(harness, costs(10));
      const jobId = await jobWith(harness, { estimate: { usd: 5 * usd + offset } });
      await claim(harness, jobId);
      await harness.set(tenantBudget(5 * usd));
      // The first looks at all lines of the tenant, the second at this one.
      await sweepOnce(harness);
      await time.pass(500);
      await sweepOnce(harness);
      return jobState(harness, jobId);
    },
  },
  {
    name: "a start begins as long as anything is left of a budget that rejects, what is reserved counted as used",
    decidedBy: [],
    ...{ below: "admitted", at: "budget_exhausted", above: "budget_exhausted" },
    async look(harness, offset) {
      await harness.set(tenantBudget(10 * usd, { atLimit: "reject" }));
      await report(harness, await held(harness, costs(3)), uses(3));
      await beatWith(harness, await held(harness, costs(3)), { usd: 7 * usd + offset });
      return startSaid(harness, ratedRun(harness, []));
    },
  },
  {
    name: "a heartbeat is told to stop when what it has used brings the budget beyond its amount",
    decidedBy: ["charges.ts spent + reserved > amount", "charges.ts more > 0"],
    ...{
      below: "extended 0+9.999999 0 parked",
      at: "extended 0+10 0 parked",
      above: "extended stop tenant.all~usd~month 0+10.000001 0 parked",
    },
    async look(harness, offset) {
      await harness.set(tenantBudget(10 * usd, { atLimit: "stop" }));
      const job = await held(harness, costs(4));
      await held(harness, costs(4));
      const answer = await beatWith(harness, job, { usd: 6 * usd + offset });
      return `${answer} ${await ledgerSaid(harness)}`;
    },
  },
  {
    name: "a heartbeat within its estimate is not stopped for what others have used",
    decidedBy: ["charges.ts reserved > estimateOf"],
    ...{ below: "extended", at: "extended", above: "extended stop tenant.all~usd~month" },
    async look(harness, offset) {
      await harness.set(tenantBudget(10 * usd, { atLimit: "stop" }));
      const job = await held(harness, costs(4));
      await beatWith(harness, await held(harness, costs(4)), { usd: 9 * usd });
      return beatWith(harness, job, { usd: 4 * usd + offset });
    },
  },
  {
    name: "a percent is told when exactly so much is spent",
    decidedBy: ["budgets.ts change.spent > 0"],
    ...{ below: "all usd 50", at: "all usd 50 all usd 80", above: "all usd 50 all usd 80" },
    async look(harness, offset) {
      await harness.set(tenantBudget(10 * usd));
      await report(harness, await held(harness), { usage: { usd: 8 * usd + offset } });
      return (await crossingsSaid(harness)).join(" ");
    },
  },
  {
    name: "a settlement wakes a line if it leaves more, and not if it leaves the same",
    decidedBy: ["budgets.ts spent + reserved < kept.spent + kept.reserved"],
    ...{ below: "ready", at: "parked", above: "parked" },
    async look(harness, offset) {
      await harness.set(tenantBudget(10 * usd));
      const holder = await held(harness, costs(8));
      const jobId = await jobWith(harness, { estimate: { usd: 2 * usd + 1 } });
      await claim(harness, jobId);
      await report(harness, holder, { usage: { usd: 8 * usd + offset } });
      await sweepOnce(harness);
      return jobState(harness, jobId);
    },
  },
];

const daily = (amount: number) => tenantBudget(amount, { per: "day" });

async function untilTomorrow(harness: Harness): Promise<number> {
  const now = await harness.now();
  return periodAt("day", now).endMs - now;
}

const periodEdges: readonly Edge[] = [
  {
    name: "at the end of its period a line is visited, and what it held goes on in the next",
    decidedBy: [dueFrom, "parked.ts planned > nowMs(context)", "parked.ts planned <= atMs"],
    ...{ below: "parked", at: "ready", above: "ready" },
    async look(harness, offset, time) {
      await harness.set(daily(10 * usd));
      await held(harness, costs(10));
      const jobId = await jobWith(harness, costs(10));
      await claim(harness, jobId);
      await time.pass((await untilTomorrow(harness)) + offset);
      await sweepOnce(harness);
      return jobState(harness, jobId);
    },
  },
  {
    name: "a claim counts in the period in which it is made, whenever it ends",
    decidedBy: [],
    ...{ below: "9", at: "6 3", above: "6 3" },
    async look(harness, offset, time) {
      await harness.set(daily(10 * usd));
      const first = await held(harness, costs(6), 100_000_000);
      await time.pass((await untilTomorrow(harness)) + offset);
      const second = await held(harness, costs(1));
      await time.pass(2);
      await report(harness, second, uses(3));
      await report(harness, first);
      return (await ledgers(harness)).map(({ spent }) => spent / usd).join(" ");
    },
  },
  {
    name: "a ledger is removed 35 days after its period, and no late report makes it anew",
    decidedBy: [dueFrom],
    ...{ below: 1, at: 0, above: 0 },
    async look(harness, offset, time) {
      await harness.set(daily(10 * usd));
      const lost = await held(harness, costs(6), 1_000);
      await time.pass((await untilTomorrow(harness)) + 35 * 86_400_000 + offset);
      for (let round = 0; round < 2; round += 1) {
        await sweepOnce(harness);
        await time.pass(0);
      }
      await report(harness, lost, uses(7));
      return (await ledgers(harness)).length;
    },
  },
];

export const budgetEdges: readonly Edge[] = [...amountEdges, ...periodEdges];
