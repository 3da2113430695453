// The edges of rates and budgets: the millisecond at which a unit drains, a turn is over and a period ends, and amounts that just fit.
import { periodAt } from "../../domain/budgets.ts";
import type { JobId } from "../../domain/job.ts";
import type { TopicRate } from "../../domain/rates.ts";
import {
  beatWith,
  claimSaid,
  costs,
  crossingsSaid,
  held,
  jobWith,
  ledgerSaid,
  ledgers,
  perHour,
  ratedRun,
  report,
  startRun,
  startSaid,
  tenantBudget,
  usd,
  uses,
} from "./budget-steps.ts";
import type { Edge } from "./edge.ts";
import { type Harness, only } from "./harness.ts";
import { claim, headerOf, jobState, sweepOnce } from "./run-steps.ts";
import { dueFrom } from "./time-edges.ts";

/** Ten a second: one drains in 100 ms. */
const perSecond = (burst: number, atLimit: "reject" | "queue" = "reject") => [
  perHour(10, { perMs: 1_000, burst, atLimit }),
];

async function statusOf(harness: Harness, runId: Parameters<typeof headerOf>[1]): Promise<string> {
  return (await headerOf(harness, runId)).status;
}

const startEdges: readonly Edge[] = [
  {
    name: "after a burst the next start passes when one unit has drained, to the millisecond",
    decidedBy: [],
    ...{ below: "start_rate_exceeded 1", at: "admitted", above: "admitted" },
    async look(harness, offset, time) {
      for (let index = 0; index < 3; index += 1) await startRun(harness, ratedRun(harness, perSecond(3)));
      await time.pass(100 + offset);
      return startSaid(harness, ratedRun(harness, perSecond(3)));
    },
  },
  {
    name: "a rate that has drained whole lets its burst through again, and no more after a longer pause",
    decidedBy: [],
    ...{ below: 2, at: 3, above: 3 },
    async look(harness, offset, time) {
      for (let index = 0; index < 3; index += 1) await startRun(harness, ratedRun(harness, perSecond(3)));
      await time.pass(offset === 1 ? 500_000 : 300 + offset);
      let admitted = 0;
      while ((await startSaid(harness, ratedRun(harness, perSecond(3)))) === "admitted") admitted += 1;
      return admitted;
    },
  },
  {
    name: "a run that waits for its rate begins at its millisecond, not before",
    decidedBy: [dueFrom, "sweep.ts if (startsAtMs > nowMs(context))", "rates.ts waits > 0 && startsAtMs >"],
    ...{ below: "queued", at: "pending", above: "pending" },
    async look(harness, offset, time) {
      const rates = [
        ...perSecond(2, "queue"),
        perHour(30, { perMs: 3_000, burst: 1, atLimit: "queue", of: "w" }),
      ];
      await startRun(harness, ratedRun(harness, rates));
      await startRun(harness, ratedRun(harness, rates));
      const run = ratedRun(harness, rates);
      await startRun(harness, run);
      await time.pass(200 + offset);
      await sweepOnce(harness);
      return statusOf(harness, run.runId);
    },
  },
  {
    name: "a start that would begin at its deadline, or later, is refused with the time after which it begins before",
    decidedBy: ["rates.ts if (waitsInVain <= 0)"],
    ...{ below: "start_rate_exceeded 2", at: "start_rate_exceeded 1", above: "queued" },
    async look(harness, offset) {
      await startRun(harness, ratedRun(harness, perSecond(1, "queue")));
      return startSaid(harness, ratedRun(harness, perSecond(1, "queue"), { deadlineMs: 100 + offset }));
    },
  },
  {
    name: "what a refusal says of its deadline is so: a start that is repeated then is queued",
    decidedBy: ["rates.ts if (waitsInVain <= 0)"],
    ...{ below: "start_rate_exceeded 1", at: "queued", above: "queued" },
    async look(harness, offset, time) {
      const run = () => ratedRun(harness, perSecond(1, "queue"), { deadlineMs: 60 });
      await startRun(harness, run());
      const { retryAfterMs } = only(await startRun(harness, run()), "start_rate_exceeded");
      await time.pass(retryAfterMs + offset);
      return startSaid(harness, run());
    },
  },
  {
    name: "while its tenant is stopped a run is put off, and begins within attentionMs when it is not any more",
    decidedBy: [dueFrom, "sweep.ts if (startsAtMs > nowMs(context))"],
    ...{ below: "queued", at: "pending", above: "pending" },
    async look(harness, offset, time) {
      await startRun(harness, ratedRun(harness, perSecond(1, "queue")));
      const run = ratedRun(harness, perSecond(1, "queue"));
      await startRun(harness, run);
      await harness.set({ stopped: true });
      await time.pass(100);
      await sweepOnce(harness);
      await harness.set({});
      await time.pass(2_000 + offset);
      await sweepOnce(harness);
      return statusOf(harness, run.runId);
    },
  },
  {
    name: "a run that is put off beyond its deadline ends there",
    decidedBy: [dueFrom, "sweep.ts state.gates.deadlineAtMs > nowMs(context)"],
    ...{ below: "queued", at: "timed_out", above: "timed_out" },
    async look(harness, offset, time) {
      await startRun(harness, ratedRun(harness, perSecond(1, "queue")));
      const run = ratedRun(harness, perSecond(1, "queue"), { deadlineMs: 1_000 });
      await startRun(harness, run);
      await harness.set({ stopped: true });
      await time.pass(500);
      await sweepOnce(harness);
      await time.pass(500 + offset);
      await sweepOnce(harness);
      return statusOf(harness, run.runId);
    },
  },
  {
    name: "as many of a tenant wait for their rates as may wait at gates",
    decidedBy: ['runs.ts size("queued", tenant) >= limit'],
    ...{ below: "queued", at: "queue_full", above: "queue_full" },
    async look(harness, offset) {
      const run = () => ratedRun(harness, perSecond(1, "queue"));
      for (let index = 0; index < 11 + Math.min(0, offset); index += 1) await startRun(harness, run());
      if (offset === 1) await startRun(harness, run());
      const answer = await startRun(harness, run());
      return answer.kind;
    },
  },
  {
    name: "a run counts at its gates from when its rate lets it through, behind those that came to them before",
    decidedBy: [dueFrom],
    ...{ below: "rate", at: "gate 2", above: "gate 2" },
    async look(harness, offset, time) {
      await harness.set({ maxConcurrentRuns: 1 });
      await startRun(harness, ratedRun(harness, perSecond(1, "queue")));
      const run = ratedRun(harness, perSecond(1, "queue"));
      await startRun(harness, run);
      await startRun(harness, ratedRun(harness, []));
      await time.pass(100 + offset);
      await sweepOnce(harness);
      const again = only(await startRun(harness, run), "queued");
      return "rate" in again ? "rate" : `gate ${again.position}`;
    },
  },
];

const topic = (rate: Partial<TopicRate> = {}) => ({
  topicRates: { shell: [{ limit: 10, perMs: 1_000, burst: 1, ...rate }] },
});
const tokens = (amount: number) => ({ estimate: { tokens: amount * usd } });

async function again(harness: Harness, jobId: JobId): Promise<number> {
  return only(await claim(harness, jobId), "refused").againInMs ?? 0;
}

const claimEdges: readonly Edge[] = [
  {
    name: "a claim that was refused passes when its answer says",
    decidedBy: [],
    ...{ below: "topic_rate", at: "claimed", above: "claimed" },
    async look(harness, offset, time) {
      await harness.set(topic());
      await held(harness);
      const jobId = await jobWith(harness);
      await time.pass((await again(harness, jobId)) + offset);
      return claimSaid(harness, jobId);
    },
  },
  {
    name: "the turn of the oldest claim that was refused ends a second after its time",
    decidedBy: ["rates.ts first.untilMs <= now"],
    ...{ below: "topic_rate", at: "claimed", above: "claimed" },
    async look(harness, offset, time) {
      await harness.set(topic());
      await held(harness);
      const oldest = await jobWith(harness);
      await time.pass(1);
      const young = await jobWith(harness);
      const waits = await again(harness, oldest);
      await time.pass(waits + 1_000 + offset);
      return claimSaid(harness, young);
    },
  },
  {
    name: "a younger claim is told the time of the oldest, and at least a millisecond",
    decidedBy: ["rates.ts readyMember(job) <= first.member"],
    ...{ below: 1, at: 1, above: 1 },
    async look(harness, offset, time) {
      await harness.set(topic());
      await held(harness);
      const oldest = await jobWith(harness);
      await time.pass(1);
      const young = await jobWith(harness);
      await time.pass((await again(harness, oldest)) + offset);
      return again(harness, young);
    },
  },
  {
    name: "units that are not used are given back as far as they have not drained, and never more than those",
    decidedBy: [],
    ...{ below: "1 topic_rate", at: "1 claimed", above: "1 claimed" },
    async look(harness, offset, time) {
      await harness.set(topic({ unit: "tokens", burst: 10 }));
      const first = await held(harness, tokens(6));
      await time.pass(400);
      await held(harness, tokens(8));
      // Of the first claim two are left, of the second eight: two are given back, and one more drains in 100 ms.
      await report(harness, first, { usage: { tokens: 0 } });
      const ready = await jobWith(harness, tokens(2));
      const next = await jobWith(harness, tokens(1));
      const said = await claimSaid(harness, ready);
      await time.pass(100 + offset);
      return `${said === "claimed" ? 1 : 0} ${await claimSaid(harness, next)}`;
    },
  },
  {
    name: "units that were used beyond the estimate count when the result says so",
    decidedBy: [],
    ...{ below: "topic_rate", at: "claimed", above: "claimed" },
    async look(harness, offset, time) {
      await harness.set(topic({ unit: "tokens", burst: 10 }));
      await report(harness, await held(harness, tokens(4)), { usage: { tokens: 10_000_001 } });
      const next = await jobWith(harness, tokens(3));
      await time.pass(400 + offset);
      return claimSaid(harness, next);
    },
  },
];

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
    name: "a ledger is removed 35 days after its period",
    decidedBy: [dueFrom],
    ...{ below: 1, at: 0, above: 0 },
    async look(harness, offset, time) {
      await harness.set(daily(10 * usd));
      await report(harness, await held(harness, costs(6)), uses(6));
      await time.pass((await untilTomorrow(harness)) + 35 * 86_400_000 + offset);
      for (let round = 0; round < 2; round += 1) {
        await sweepOnce(harness);
        await time.pass(0);
      }
      return (await ledgers(harness)).length;
    },
  },
];

export const budgetEdges: readonly Edge[] = [...startEdges, ...claimEdges, ...amountEdges, ...periodEdges];
