// The drill `bus-loss`: the bus forgets everything for a while, and nothing is lost by it but a little time.
import { type Check, check, type Drill, type Outcome, type Stage } from "./drill.ts";
import type { Ledger } from "./load/ledger.ts";
import {
  answersTable,
  delaysOf,
  delaysTable,
  ledgerChecks,
  loadData,
  loadPlots,
  outageSpans,
  outageTable,
  outageTimes,
  recoveryCheck,
} from "./load/load-outcome.ts";
import { type Fault, faultByCommand, type Outage, openScene, strikeUnderLoad } from "./load/scene.ts";
import { lengthOf, type Span } from "./load/times.ts";

export const busLoss: Drill = {
  name: "bus-loss",
  question:
    "The bus dies for a while: do runs go on, is a job lost or done twice, and how much slower is it?",
  expectation:
    "Starts and jobs go on without it, about a second slower; every run succeeds, each result counts once, and nothing is left to do by hand.",
  steps: [
    "start runs at one gateway, ten a second; workers wait at the other, so that every first job needs a hint over the bus",
    "kill -9 nats-server; embedded: the bus inside the process loses whatever it is given",
    "leave it away for a while: jobs are found by looking into the store",
    "start it again",
    "measure how long runs took before, meanwhile and afterwards",
    "compare what workers did with what runs keep",
  ],
  locks: [],
  instance: (where) => (where === "embedded" ? { kind: "inside" } : { kind: "processes", redis: "single" }),
  run,
};

const sizes = {
  quick: { outageMs: 4_000, warmRuns: 15 },
  full: { outageMs: 30_000, warmRuns: 100 },
};
/** Not what this is about: no claim should be lost by a busy machine. */
const leaseMs = 30_000;
/** Embedded, one worker is busy most of the time: only jobs that find no free place are published on the bus. */
const staff = {
  embedded: { workers: 1, places: 3, workMs: 100 },
  cluster: { workers: 2, workMs: 60 },
  deployment: { workers: 2, workMs: 60 },
};
const withinMs = 60_000;
/** Without a look into the store a job would wait for the sweep, which tells of it again after 30 s. */
const slowestMsMax = 5_000;
const withoutStartMsMax = 3_000;
/** While it is away; about ten a second are asked for. */
const goneOnMin = 5;

async function run(stage: Stage): Promise<Outcome> {
  const { target, size } = stage;
  const { outageMs, warmRuns } = sizes[size];
  const messages = { lost: 0 };
  const fault = faultOf(stage, messages);
  const [first, ...others] = target.urls as [string, ...string[]];
  const places = { startsAt: [first], workersAt: others.length === 0 ? [first] : others };
  const scene = await openScene(stage, { ...staff[target.kind], ...places, leaseMs });
  try {
    await scene.warmUp(warmRuns);
    const unpublishedBefore = await unpublishedHints(stage);
    const outage = await strikeUnderLoad(stage, scene, { fault, outageMs });
    await scene.goOn(warmRuns);
    const ledger = await scene.end(withinMs);
    messages.lost += (await unpublishedHints(stage)) - unpublishedBefore;
    return outcomeOf(stage, { ledger, outage, lost: messages.lost });
  } finally {
    await scene.close();
  }
}

function faultOf({ target: { inside, processes }, options }: Stage, messages: { lost: number }): Fault {
  const servers = processes?.servers;
  if (servers !== undefined)
    return {
      striking: "killing nats-server",
      mending: "starting nats-server again",
      strike: () => servers.nats.kill(),
      mend: () => servers.nats.restart(),
    };
  if (inside === undefined)
    return faultByCommand(options, {
      what: "the bus",
      example: {
        fault: "ssh nats-1 sudo systemctl kill -s KILL nats-server",
        mend: "ssh nats-1 sudo systemctl start nats-server",
      },
    });
  let carryAgain = () => {};
  return {
    striking: "the bus loses everything from now on",
    mending: "the bus carries messages again",
    async strike() {
      carryAgain = inside.loseBus(() => {
        messages.lost += 1;
        return true;
      });
    },
    mend: async () => carryAgain(),
  };
}

/** Messages that the servers of a cluster of the drill's own could not give to the bus. */
async function unpublishedHints({ target }: Stage): Promise<number> {
  if (target.processes === undefined) return 0;
  return (await target.readMetrics()).sum("bus_publish_total", { outcome: "unavailable" });
}

type Seen = { readonly ledger: Ledger; readonly outage: Outage; readonly lost: number };

function outcomeOf({ target }: Stage, { ledger, outage, lost }: Seen): Outcome {
  const times = outageTimes(ledger, outage);
  const { fault, all } = outageSpans(ledger, outage);
  const goneOn = endedDuring(ledger, outage);
  const checks: Check[] = [
    // What a deployment's own bus was given is not known here.
    ...(target.kind === "deployment"
      ? []
      : [check("messages that the bus did not carry", "at least 1", lost, lost > 0)]),
    check("runs asked for and ended while it was away", `at least ${goneOnMin}`, goneOn, goneOn >= goneOnMin),
    recoveryCheck(
      "the longest time without an acknowledged start",
      lengthOf(times.withoutStart),
      withoutStartMsMax,
    ),
    recoveryCheck("the slowest run that was asked for meanwhile", slowestRunMs(ledger, fault), slowestMsMax),
    recoveryCheck("after its return: until all earlier runs had succeeded", times.allWellMs, slowestMsMax),
    ...ledgerChecks(ledger),
  ];
  return {
    checks,
    tables: [outageTable(outage, times), delaysTable(ledger, all), answersTable(ledger)],
    plots: loadPlots(ledger, [fault]),
    data: loadData(ledger, { outage, times, messages_lost: lost }),
  };
}

function endedDuring({ starts, ends }: Ledger, { awayAtMs, mendingAtMs }: Outage): number {
  const askedAtMs = new Map(starts.map((start) => [start.key, start.askedAtMs]));
  return ends.filter(
    ({ key, run }) =>
      (askedAtMs.get(key) ?? 0) >= awayAtMs && run?.endedAtMs !== undefined && run.endedAtMs <= mendingAtMs,
  ).length;
}

function slowestRunMs(ledger: Ledger, { fromMs, toMs }: Span): number | undefined {
  const asked = delaysOf(ledger).filter(({ askedAtMs }) => askedAtMs >= fromMs && askedAtMs < toMs);
  if (asked.some(({ runMs }) => runMs === undefined)) return undefined;
  return Math.max(0, ...asked.map(({ runMs = 0 }) => runMs));
}
