// The edges of rates: the millisecond at which a unit drains, a turn is over, and a run that waited for its rate begins.
import type { JobId } from "../../domain/job.ts";
import type { TopicRate } from "../../domain/rates.ts";
import {
  beatWith,
  claimSaid,
  held,
  jobWith,
  perHour,
  ratedRun,
  report,
  runIdOf,
  startRun,
  startSaid,
  usd,
} from "./budget-steps.ts";
import type { Edge } from "./edge.ts";
import { type Harness, only } from "./harness.ts";
import { callOff, claim, headerOf, sweepOnce } from "./run-steps.ts";
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
      const slow = perHour(30, { perMs: 3_000, burst: 1, atLimit: "queue", of: "w" });
      const rates = [slow, ...perSecond(2, "queue")];
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
    name: "the turn of a claim ends when it is granted: a younger one passes at its own time",
    decidedBy: [],
    ...{ below: "topic_rate", at: "claimed", above: "claimed" },
    async look(harness, offset, time) {
      await harness.set(topic());
      await held(harness);
      const oldest = await jobWith(harness);
      await time.pass(1);
      const young = await jobWith(harness);
      await time.pass(await again(harness, oldest));
      await claim(harness, oldest);
      await time.pass(100 + offset);
      return claimSaid(harness, young);
    },
  },
  {
    name: "a claim that is refused again, since an older one came before it, has its turn from then on",
    decidedBy: [],
    ...{ below: "topic_rate", at: "claimed", above: "claimed" },
    async look(harness, offset, time) {
      await harness.set(topic());
      const older = await jobWith(harness);
      await time.pass(1);
      await held(harness);
      const second = await jobWith(harness);
      await time.pass(1);
      const young = await jobWith(harness);
      await time.pass(await again(harness, second));
      await claim(harness, older);
      const waits = await again(harness, second);
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
  {
    name: "what a lost claim's late report says counts in the place of what was counted when it was lost",
    decidedBy: [],
    ...{ below: "topic_rate", at: "claimed", above: "claimed" },
    async look(harness, offset, time) {
      await harness.set(topic({ unit: "tokens", burst: 10 }));
      const job = await held(harness, tokens(4));
      await beatWith(harness, job, { tokens: 8 * usd });
      await callOff(harness, runIdOf(job.jobId), { voidJobs: [job.jobId] });
      // Two more than were counted then, and only once.
      for (let times = 0; times < 2; times += 1) await report(harness, job, { usage: { tokens: 10 * usd } });
      const next = await jobWith(harness, tokens(3));
      await time.pass(300 + offset);
      return claimSaid(harness, next);
    },
  },
];

export const rateEdges: readonly Edge[] = [...startEdges, ...claimEdges];
