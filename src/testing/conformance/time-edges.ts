// The edges of runs in time: claims, timers, approvals, sweeps, and calls that arrive late.
import type { Edge } from "./edge.ts";
import { call, type Harness, only } from "./harness.ts";
import {
  approvalOf,
  beat,
  claim,
  decisionOf,
  deliver,
  entryKinds,
  jobOf,
  jobState,
  resultOf,
  runWithClaim,
  sweepOnce,
  timerOf,
} from "./run-steps.ts";

export const dueFrom = "sweep.ts member < later";

/** The kinds of what one sweep found, or why it did nothing. */
export async function swept(harness: Harness): Promise<string> {
  const answer = await sweepOnce(harness);
  if (answer.kind !== "swept") return answer.kind;
  const { waiting, unclaimed, lostClaims } = answer;
  return `${waiting.length} waiting, ${unclaimed.length} unclaimed, ${lostClaims} lost`;
}

export const nothingFound = "0 waiting, 0 unclaimed, 0 lost";

async function isDue({ store, partition }: Harness): Promise<boolean> {
  return only(await store.findDue({ partitions: [partition] }, call), "found").partitions.length > 0;
}

const claimEdges: readonly Edge[] = [
  {
    name: "a claim that a sweep finds at its end is lost, and its run hears of it",
    decidedBy: [dueFrom, "sweep.ts job.claim.expiresAtMs > nowMs(context)"],
    ...{ below: "claimed nobody", at: "lost claim_lost", above: "lost claim_lost" },
    async look(harness, offset, time) {
      const { runId, jobId } = await runWithClaim(harness, 1_000);
      await time.pass(1_000 + offset);
      const found = await swept(harness);
      const heard = found === nothingFound ? ["nobody"] : await entryKinds(harness, runId);
      return `${await jobState(harness, jobId)} ${heard.join()}`;
    },
  },
  {
    name: "a claim that a worker took later ends as long after that",
    decidedBy: [dueFrom, "sweep.ts job.claim.expiresAtMs > nowMs(context)"],
    ...{ below: "claimed", at: "lost", above: "lost" },
    async look(harness, offset, time) {
      const runId = harness.runId();
      const job = jobOf(runId);
      await harness.admit(harness.newRun({ runId, change: { jobs: [job] } }));
      await time.pass(300);
      only(await claim(harness, job.jobId, harness.claim(1_000)), "claimed");
      await time.pass(1_000 + offset);
      await sweepOnce(harness);
      return jobState(harness, job.jobId);
    },
  },
  {
    name: "a claim that is not yet swept is extended at its end, and ends at its new time",
    decidedBy: [dueFrom, "sweep.ts job.claim.expiresAtMs > nowMs(context)"],
    ...{ below: "extended claimed claimed", at: "extended claimed lost", above: "extended claimed lost" },
    async look(harness, offset, time) {
      const { jobId, token } = await runWithClaim(harness, 1_000);
      await time.pass(1_000 + offset);
      const { kind } = await beat(harness, jobId, token, 2_000);
      await sweepOnce(harness);
      const before = await jobState(harness, jobId);
      await time.pass(2_000 + Math.min(offset, 0));
      await sweepOnce(harness);
      return `${kind} ${before} ${await jobState(harness, jobId)}`;
    },
  },
  {
    name: "a result comes in time as long as no sweep has found its claim",
    decidedBy: [dueFrom],
    ...{ below: "delivered", at: "stale_claim", above: "stale_claim" },
    async look(harness, offset, time) {
      const { runId, ...job } = await runWithClaim(harness, 1_000);
      await time.pass(1_000 + offset);
      await sweepOnce(harness);
      return (await deliver(harness, runId, resultOf(harness, job))).kind;
    },
  },
  {
    name: "a claim asked for again says how long it still lasts, and never less than nothing",
    decidedBy: [],
    ...{ below: 1, at: 0, above: 0 },
    async look(harness, offset, time) {
      const runId = harness.runId();
      const job = jobOf(runId);
      const terms = harness.claim(1_000);
      await harness.admit(harness.newRun({ runId, change: { jobs: [job] } }));
      await claim(harness, job.jobId, terms);
      await time.pass(1_000 + offset);
      return only(await claim(harness, job.jobId, terms), "claimed").expiresInMs;
    },
  },
  {
    name: "a claim granted with an admission says how long it still lasts when the start is repeated",
    decidedBy: [],
    ...{ below: [1], at: [0], above: [0] },
    async look(harness, offset, time) {
      const { store, tenant } = harness;
      const runId = harness.runId();
      const job = jobOf(runId, { claim: harness.claim(1_000) });
      const run = harness.newRun({ runId, change: { jobs: [job] } });
      await harness.admit(run);
      await time.pass(1_000 + offset);
      const { claims } = only(await store.admit({ tenant, run }, call), "admitted");
      return claims.map(({ expiresInMs }) => expiresInMs);
    },
  },
];

const waitEdges: readonly Edge[] = [
  {
    name: "a timer is delivered from the millisecond of its time on",
    decidedBy: ["inbox.ts timer.dueAtMs > nowMs(context)"],
    ...{ below: "timer_not_due", at: "delivered", above: "delivered" },
    async look(harness, offset, time) {
      const dueAtMs = (await harness.now()) + 1_000;
      const runId = await harness.admit(harness.newRun({ change: { timers: [{ timerId: "t", dueAtMs }] } }));
      await time.pass(1_000 + offset);
      return (await deliver(harness, runId, timerOf("t"))).kind;
    },
  },
  {
    name: "a sweep fires a timer from the millisecond of its time on",
    decidedBy: [dueFrom],
    ...{ below: nothingFound, at: "1 waiting, 0 unclaimed, 0 lost", above: "1 waiting, 0 unclaimed, 0 lost" },
    async look(harness, offset, time) {
      const dueAtMs = (await harness.now()) + 1_000;
      await harness.admit(harness.newRun({ change: { timers: [{ timerId: "t", dueAtMs }] } }));
      await time.pass(1_000 + offset);
      return swept(harness);
    },
  },
  {
    name: "an approval is decided before the millisecond of its end",
    decidedBy: ["approvals.ts nowMs(context) >= expiresAtMs"],
    ...{ below: "delivered", at: "approval_expired", above: "approval_expired" },
    async look(harness, offset, time) {
      const runId = harness.runId();
      const approval = approvalOf(runId, { expiresAtMs: (await harness.now()) + 1_000 });
      await harness.admit(harness.newRun({ runId, change: { status: "waiting", approvals: [approval] } }));
      await time.pass(1_000 + offset);
      return (await deliver(harness, runId, decisionOf(harness, approval.approvalId))).kind;
    },
  },
  {
    name: "a look finds what is due from its millisecond on",
    decidedBy: [dueFrom, "sweep.ts dueAfter("],
    ...{ below: false, at: true, above: true },
    async look(harness, offset, time) {
      await harness.admit();
      await time.pass(4_000 + offset);
      return isDue(harness);
    },
  },
  {
    name: "what is due is swept again when the pause between sweeps is over",
    decidedBy: ["sweep.ts againInMs > 0", "sweep.ts due.length > 0"],
    ...{ below: "not_due", at: "1 waiting, 0 unclaimed, 0 lost", above: "1 waiting, 0 unclaimed, 0 lost" },
    async look(harness, offset, time) {
      const timers = [
        { timerId: "a", dueAtMs: 1 },
        { timerId: "b", dueAtMs: (await harness.now()) + 100 },
      ];
      await harness.admit(harness.newRun({ change: { timers } }));
      await sweepOnce(harness);
      await time.pass(500 + offset);
      return swept(harness);
    },
  },
  {
    name: "a call that arrives at the end of its time has its effect",
    decidedBy: ["perform.ts storeTimeMs > call.notAfterMs"],
    ...{ below: "tenant admitted", at: "tenant admitted", above: "unavailable unavailable" },
    async look(harness, offset, time) {
      const { store, tenant } = harness;
      const options = { ...call, notAfterMs: (await harness.now()) + 1_000 };
      await time.pass(1_000 + offset);
      const alone = await store.getTenant({ tenant }, options);
      const shared = await store.admit({ tenant, run: harness.newRun() }, options);
      return `${alone.kind} ${shared.kind}`;
    },
  },
];

export const timeEdges: readonly Edge[] = [...claimEdges, ...waitEdges];
