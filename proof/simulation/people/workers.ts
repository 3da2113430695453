// Workers in processes of their own: they poll gateways, work too long, fall silent, hand back, report twice, late, and for others.

import type { Caller } from "../../../src/control/caller.ts";
import { publishResult } from "../../../src/control/jobs/hear-results.ts";
import type { ClaimedJob } from "../../../src/control/jobs/offers.ts";
import type { ResultReport } from "../../../src/control/jobs/result-entry.ts";
import type { ClaimToken, JobId } from "../../../src/domain/job.ts";
import type { TenantId } from "../../../src/domain/tenant.ts";
import type { SeededRandom } from "../../../src/testing/seeded-random.ts";
import type { SimulatedProcess } from "../../../src/testing/simulated-process.ts";
import { drawUsage, type UsageHabit, usageHabits } from "../metered-swarm.ts";
import type { World } from "../world.ts";
import { credentials } from "./operators.ts";
import { callRemotely } from "./remote-call.ts";
import { topics } from "./workflow-shapes.ts";

/** How one worker behaves; from the moment of peace on all are good. */
type Habits = {
  readonly leaseMs: number;
  readonly places: number;
  readonly beats: boolean;
  /** Times the lease, at most. */
  readonly workMax: number;
};

type Worker = {
  readonly world: World;
  readonly process: SimulatedProcess;
  readonly random: SeededRandom;
  /** Of its own, so that what else happens does not depend on it. */
  readonly handsBack: SeededRandom;
  /** Present where somebody counts what work uses. */
  readonly usage: SeededRandom | undefined;
  readonly habits: Habits;
  readonly tenant: TenantId;
  readonly credential: string;
  readonly pool: string | undefined;
  /** A claim it once had: what a confused worker reports with. */
  stale: { readonly claimed: ClaimedJob; readonly token: ClaimToken } | undefined;
};

const answerWithinMs = 1_500;

export async function runWorker(world: World, process: SimulatedProcess): Promise<void> {
  const random = process.random.stream("work");
  const tenant = random.pick(world.tenants);
  const leaseMs = world.swarm.leaseMs;
  const habits = {
    leaseMs,
    places: random.integer(1, 3),
    beats: random.chance(world.swarm.meters === undefined ? 0.7 : 0.9),
    workMax: random.pick([0.1, 0.5, 1.3]),
  };
  const credential = random.pick(credentials);
  const pool = process.random.stream("pool").pick(world.swarm.pools);
  const handsBack = process.random.stream("hand back");
  const usage = world.swarm.meters === undefined ? undefined : process.random.stream("usage");
  const about = { habits, tenant, credential, pool, usage };
  const worker: Worker = { world, process, random, handsBack, ...about, stale: undefined };
  let pollId = random.token();
  while (!world.peace.over) {
    const jobs = await poll(worker, pollId);
    // Without an answer it asks again for the same batch, as a good client does, or forgets it.
    if (jobs === undefined && random.chance(0.5)) continue;
    pollId = random.token();
    await Promise.all((jobs ?? []).map((job) => work(worker, job)));
    await process.clock.sleep(random.integer(1, 60));
  }
}

async function poll(worker: Worker, pollId: string): Promise<readonly ClaimedJob[] | undefined> {
  const { world, process, habits, tenant, random } = worker;
  // Without faults every tenant is served by the workers that are left.
  const served = world.peace.begun ? random.pick(world.tenants) : tenant;
  const request = {
    caller: callerOf(worker, served),
    worker: process.name,
    topics: [...topics],
    pollId,
    places: habits.places,
    waitMs: random.integer(0, 300),
    leaseMs: habits.leaseMs,
    ...(worker.pool === undefined ? {} : { pool: worker.pool }),
  };
  const gateway = random.pick(world.gateways);
  const answer = await callRemotely(world, process, gateway, answerWithinMs, () =>
    gateway.api.pollJobs(request),
  );
  if (answer.kind === "jobs") return answer.jobs;
  if (answer.kind === "no_answer") return undefined;
  await process.clock.sleep(100);
  return [];
}

async function work(worker: Worker, claimed: ClaimedJob): Promise<void> {
  const { world, process, random, habits } = worker;
  const { clock } = process;
  const { leaseMs } = habits;
  const workMax = world.peace.begun ? 0.2 : habits.workMax;
  const habit = worker.usage?.pick(usageHabits);
  const endMs = clock.monotonicMs() + random.integer(1, Math.max(1, Math.floor(leaseMs * workMax)));
  let wanted = true;
  while (wanted && clock.monotonicMs() < endMs) {
    await clock.sleep(Math.min(leaseMs / 3, Math.max(1, endMs - clock.monotonicMs())));
    if (habits.beats || world.peace.begun) wanted = await beat(worker, claimed, habit);
  }
  const { token } = claimed;
  if (!wanted && !random.chance(0.3)) {
    worker.stale = { claimed, token };
    return;
  }
  const { stale } = worker;
  // A confused worker: the claim of one job, reported for another.
  if (stale !== undefined && !world.peace.begun && random.chance(0.1)) {
    await reportOnce(worker, drawReport(worker, claimed, stale.token));
  }
  const report = drawReport(worker, claimed, token);
  if (random.chance(0.2)) await reportByBus(worker, report);
  else await reportUntilTaken(worker, report);
  if (world.peace.begun) return;
  if (random.chance(0.2)) await reportOnce(worker, report);
  if (random.chance(0.1)) await reportOnce(worker, drawReport(worker, claimed, token));
  if (stale !== undefined && random.chance(0.3)) {
    await reportOnce(worker, drawReport(worker, stale.claimed, stale.token));
  }
  worker.stale = { claimed, token };
}

/** False when the claim is lost or the work no longer wanted. */
async function beat(
  worker: Worker,
  { job, token }: ClaimedJob,
  habit: UsageHabit | undefined,
): Promise<boolean> {
  const { world, process, random } = worker;
  const tells = habit !== undefined && habit !== "never" && worker.usage?.chance(0.8);
  const usage = tells ? { usage: drawUsage(habit, job.meter?.estimate) } : {};
  const { jobId } = job;
  const gateway = random.pick(world.gateways);
  const answer = await callRemotely(world, process, gateway, answerWithinMs, () =>
    gateway.api.heartbeat({
      caller: callerOf(worker, tenantOfJob(worker, jobId)),
      worker: process.name,
      beats: [{ jobId, token, ...usage }],
    }),
  );
  if (answer.kind !== "judged") return true;
  const [verdict] = answer.answers;
  if (verdict?.kind === "lost") world.marks.hit("worker_told_lost");
  if (verdict?.kind === "extended" && verdict.stop) world.marks.hit("worker_told_to_stop");
  return verdict?.kind === "extended" && !verdict.stop;
}

/** Drawn for each report: one that is sent anew may say something else. */
function usageOf({ usage }: Worker, { job }: ClaimedJob): Pick<ResultReport, "usage"> {
  const habit = usage?.pick(usageHabits);
  if (habit === undefined || habit === "never" || habit === "in beats") return {};
  return { usage: drawUsage(habit, job.meter?.estimate) };
}

type NamedReport = { readonly nonce: string; readonly report: ResultReport };

function drawReport(worker: Worker, claimed: ClaimedJob, token: ClaimToken): NamedReport {
  const { nonce, report } = drawOutcome(worker, claimed, token);
  return { nonce, report: { ...report, ...usageOf(worker, claimed) } };
}

function drawOutcome(worker: Worker, { job, input }: ClaimedJob, token: ClaimToken): NamedReport {
  const { random, handsBack, world } = worker;
  const nonce = `n${random.token()}`;
  const { jobId } = job;
  if (!world.peace.begun && handsBack.chance(0.05)) {
    return { nonce, report: { jobId, token, outcome: "handed_back", worker: nonce } };
  }
  const predicted = world.predicted.answer(jobId, input);
  if (predicted?.outcome === "succeeded") {
    return { nonce, report: { jobId, token, outcome: "succeeded", output: { ...predicted.output, nonce } } };
  }
  if (predicted !== undefined) {
    return { nonce, report: { jobId, token, outcome: predicted.outcome, error: { message: nonce } } };
  }
  const roll = world.peace.begun ? 0 : random.fraction();
  if (roll < 0.75) return { nonce, report: { jobId, token, outcome: "succeeded", output: { nonce } } };
  const outcome = roll < 0.92 ? "failed_retryable" : "failed";
  return { nonce, report: { jobId, token, outcome, error: { message: nonce } } };
}

/** Until it is durable or refused; a worker gives up after a while, and the claim runs out. */
async function reportUntilTaken(worker: Worker, named: NamedReport): Promise<void> {
  for (let tries = 0; tries < 8; tries += 1) {
    const answer = await reportOnce(worker, named);
    const isTrouble = answer.kind === "unknown" || answer.kind === "unavailable";
    if (answer.kind !== "run_busy" && answer.kind !== "no_answer" && !isTrouble) return;
    const pauseMs = answer.kind === "run_busy" ? answer.retryAfterMs : worker.random.integer(20, 200);
    await worker.process.clock.sleep(pauseMs);
  }
}

/** Over the bus nobody answers: the message is delivered until somebody has taken the result. */
async function reportByBus(worker: Worker, { report }: NamedReport): Promise<void> {
  const { world, process } = worker;
  const tenant = tenantOfJob(worker, report.jobId);
  // Signatures are not simulated: what the bus delivers has been believed.
  const sender = { keyId: worker.credential, secretHash: "" };
  await publishResult(world.bus.connect(process), { tenant, sender, report });
  world.marks.hit("result_by_bus");
}

async function reportOnce(worker: Worker, { nonce, report }: NamedReport) {
  const { world, process, random } = worker;
  const tenant = tenantOfJob(worker, report.jobId);
  const gateway = random.pick(world.gateways);
  const { jobId } = report;
  return callRemotely(world, process, gateway, answerWithinMs, async () => {
    const answered = world.failClosed.begin(gateway.process, `report of ${jobId}`);
    const answer = await gateway.api.reportResult({ caller: callerOf(worker, tenant), ...report });
    answered(answer);
    world.kernel.note(process.name, "reported", jobId, answer.kind);
    world.actions.reportAnswered({ tenant, jobId, nonce }, answer);
    if (report.outcome === "handed_back" && answer.kind === "accepted") world.marks.hit("job_handed_back");
    return answer;
  });
}

/** Known to the worker by the key that it polled with. */
function tenantOfJob({ world, tenant }: Worker, jobId: JobId): TenantId {
  return world.known.run(jobId.slice(0, jobId.indexOf(":")))?.tenant ?? tenant;
}

function callerOf({ process, credential }: Worker, tenant: TenantId): Caller {
  return { tenant, actor: process.name, credential };
}
