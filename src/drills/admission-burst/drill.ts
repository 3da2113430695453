// Many starts at once for few slots: what the admission gate answers, how fast, and how those who are refused come back.
import type { Drill, Outcome, Stage } from "../drill.ts";
import type { StartTry } from "../load/steady-load.ts";
import { binned } from "../load/times.ts";
import type { DrillTenant } from "../target/target.ts";
import {
  clientPolicies,
  clientPolicyNames,
  openCrowds,
  type Plan,
  planOf,
  type Variant,
  variants,
} from "./crowd.ts";
import {
  type BurstContext,
  combOf,
  type Measured,
  measure,
  openVariant,
  type Retried,
  sweep,
} from "./measure.ts";
import {
  type Burst,
  burstTable,
  clientsTable,
  isComb,
  judgeBursts,
  judgeCrowds,
  judgeSweep,
  latencyPlot,
  lockPlots,
  successPlots,
  sweepTable,
} from "./tables.ts";

export const admissionBurst: Drill = {
  name: "admission-burst",
  question: "What does a burst of starts for few slots meet, and how do those who are refused come back?",
  expectation:
    "Every variant admits exactly the limit; atomic answers none with 503, is not slower, and nobody crowds at a lock; lock-fixed shows the comb of its polls.",
  steps: [
    "a tenant with max_concurrent_runs=2 for each of lock-fixed, lock-jitter and atomic",
    "all starts at the same moment; P50, P95, P99 and the shares of 200, 429 and 503",
    "the same with clients that retry at a fixed delay while slots free up, at 1x and at 10x",
    "the same with clients that retry at jittered exponential delays",
    "compare the arrivals at the lock key and the spread of successes",
    "with --sweep: the lock's wait budget x the clients' retry budget",
  ],
  locks: ["admission"],
  instance: {
    kind: "inside",
    settings: (size) => (size === "quick" ? { "locks.admission.waitMs": quickWaitMs } : {}),
  },
  run,
};

/** Instead of 2 s: a 503 comes sooner. */
const quickWaitMs = 600;

async function run(stage: Stage): Promise<Outcome> {
  const plan = planOf(stage.size, stage.options);
  const crowds = openCrowds();
  try {
    const { bursts, retried } = await measureAll(stage, plan, crowds);
    const cells = plan.sweep === undefined ? [] : await sweep(stage, crowds, plan);
    const waits = stage.target.kind === "deployment" ? "as deployed" : "own";
    return {
      checks: [...judgeBursts(bursts), ...judgeCrowds(retried), ...judgeSweep(cells)],
      tables: [
        burstTable(bursts),
        clientsTable(retried),
        ...(cells.length === 0 ? [] : [sweepTable(cells, waits)]),
      ],
      plots: [...lockPlots(bursts), latencyPlot(bursts), ...successPlots(retried)],
      data: {
        plan,
        bursts: bursts.map(rawOf),
        retried: retried.map(rawOf),
        sweep: cells.map(({ measured, ...cell }) => ({ ...cell, ...rawOf(measured) })),
      },
    };
  } finally {
    await crowds.close();
  }
}

async function measureAll(
  stage: Stage,
  plan: Plan,
  crowds: BurstContext["crowds"],
): Promise<{ readonly bursts: readonly Burst[]; readonly retried: readonly Retried[] }> {
  const { target, signal, progress } = stage;
  const scene = { context: { target, crowds, signal }, plan, progress };
  const tenants = new Map<Variant, DrillTenant>();
  const bursts: Burst[] = [];
  const retried: Retried[] = [];
  for (const variant of variants) {
    const tenant = await openVariant(target, variant);
    tenants.set(variant, tenant);
    bursts.push(await measureBurst(scene, variant, tenant));
    retried.push(...(await measureCrowds(scene, variant, tenant)));
  }
  for (let again = 1; again < combTriesMax && hidesComb(bursts); again += 1) {
    progress("the machine is too busy to see the comb: once more");
    for (const [index, { variant }] of bursts.entries()) {
      const tenant = tenants.get(variant);
      if (tenant !== undefined && variant !== "atomic")
        bursts[index] = await measureBurst(scene, variant, tenant);
    }
  }
  return { bursts, retried };
}

type Scene = {
  readonly context: BurstContext;
  readonly plan: Plan;
  readonly progress: Stage["progress"];
};

async function measureBurst(
  { context, plan, progress }: Scene,
  variant: Variant,
  tenant: DrillTenant,
): Promise<Burst> {
  progress(`${variant}: ${plan.requests} starts at once`);
  const burst = await measure(context, tenant, { variant, clients: plan.requests });
  const { dueMs } = burst.gate;
  return { ...burst, comb: dueMs === undefined ? undefined : combOf(dueMs, pollMs) };
}

async function measureCrowds(
  { context, plan, progress }: Scene,
  variant: Variant,
  tenant: DrillTenant,
): Promise<Retried[]> {
  const retried: Retried[] = [];
  for (const policy of clientPolicies) {
    for (const { name, clients } of plan.bursts) {
      progress(`${variant}: ${name} that retry, ${clientPolicyNames[policy]}`);
      const wanted = { variant, clients, policy, terms: plan.clients };
      retried.push({ ...(await measure(context, tenant, wanted)), ...wanted, name });
    }
  }
  return retried;
}

/** A machine that does not let the process run for tens of milliseconds gives everybody the same beat, or leaves too few retries. */
const combTriesMax = 3;

function hidesComb(bursts: readonly Burst[]): boolean {
  const combOfVariant = (name: Variant) => bursts.find(({ variant }) => variant === name)?.comb;
  const fixed = combOfVariant("lock-fixed");
  return fixed !== undefined && !isComb(fixed, combOfVariant("lock-jitter"));
}

/** Of an instance of the drill's own, which has the default: the comb is looked for around this beat. */
const pollMs = 10;

export function rawOf<Seen extends Measured>({ tries, ends, gate, ...rest }: Seen) {
  const { arrivalsMs, dueMs, ...gateRest } = gate;
  return {
    ...rest,
    ...gateRest,
    /** Sent at, answered after, with what: `12+340:429`, in whole milliseconds. */
    tries: tries.map(shortTry).join(" "),
    gotRunAtMs: ends
      .filter(({ isStarted }) => isStarted)
      .map(({ atMs }) => Math.round(atMs))
      .join(" "),
    ...(dueMs === undefined ? {} : { retriesDuePerMs: countsPerMs(dueMs) }),
    ...(arrivalsMs === undefined ? {} : { arrivalsPerMs: countsPerMs(arrivalsMs) }),
  };
}

function shortTry(tried: StartTry): string {
  return `${Math.round(tried.sentMs)}+${Math.round(tried.tookMs)}:${answerOf(tried)}`;
}

function answerOf(tried: StartTry): string | number {
  switch (tried.kind) {
    case "started":
      return 200;
    case "refused":
      return tried.status;
    case "no_answer":
      return tried.why;
  }
}

function countsPerMs(timesMs: readonly number[]): string {
  const untilMs = Math.floor(timesMs.at(-1) ?? -1) + 1;
  return binned(timesMs, { binMs: 1, untilMs })
    .map(([, count]) => count)
    .join(" ");
}
