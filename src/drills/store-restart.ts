// The drill `store-restart`: what keeps the data dies under load and comes back with what is on its disk.
import { type Check, check, type Drill, type Outcome, type Stage } from "./drill.ts";
import type { Ledger } from "./load/ledger.ts";
import {
  answersDuring,
  answersTable,
  delaysTable,
  ledgerChecks,
  loadData,
  loadPlots,
  outageSpans,
  outageTable,
  outageTimes,
  recoveryCheck,
  wrongReads,
} from "./load/load-outcome.ts";
import {
  type Fault,
  faultByCommand,
  type Outage,
  openScene,
  quickTakeOver,
  strikeUnderLoad,
} from "./load/scene.ts";

export const storeRestart: Drill = {
  name: "store-restart",
  question:
    "The store is killed and started again: is anything lost, what are clients told meanwhile, and when does it go on?",
  expectation:
    "Nothing that was acknowledged is lost, answers during the outage say 503 or nothing and never a wrong yes or no, and it goes on by itself within 5 s.",
  steps: [
    "start runs under idempotency keys, ten a second, with workers that do them; clients repeat what is not answered",
    "kill -9 redis-server; embedded: the server process that owns the data",
    "leave it away for a while, and look at every answer",
    "start it again on its own data",
    "measure how long it takes until starts are acknowledged and runs end again",
    "repeat every start under its key, and look up every acknowledged run",
  ],
  locks: [],
  instance: { kind: "processes", redis: "single", settings: quickTakeOver },
  run,
};

const sizes = {
  quick: { outageMs: 2_000, leaseMs: 3_000, warmRuns: 15 },
  full: { outageMs: 15_000, leaseMs: 30_000, warmRuns: 100 },
};
const workMs = 60;
const withinMs = 60_000;
const recoveryMsMax = 5_000;

async function run(stage: Stage): Promise<Outcome> {
  const { outageMs, leaseMs, warmRuns } = sizes[stage.size];
  const fault = faultOf(stage);
  const scene = await openScene(stage, { workers: 2, leaseMs, workMs });
  try {
    await scene.warmUp(warmRuns);
    const outage = await strikeUnderLoad(stage, scene, { fault, outageMs });
    await scene.goOn(warmRuns);
    const ledger = await scene.end(leaseMs + withinMs);
    return outcomeOf(stage, ledger, outage);
  } finally {
    await scene.close();
  }
}

function faultOf({ target: { processes, kind }, options }: Stage): Fault {
  if (processes === undefined)
    return faultByCommand(options, {
      what: "the store",
      example: {
        fault: "ssh redis-1 sudo systemctl kill -s KILL redis",
        mend: "ssh redis-1 sudo systemctl start redis",
      },
    });
  const { servers, running, start } = processes;
  if (servers !== undefined)
    return {
      striking: "killing redis-server",
      mending: "starting redis-server again",
      strike: () => servers.redis.kill(),
      mend: () => servers.redis.restart(),
    };
  return {
    striking: `killing the server process (${kind})`,
    mending: "starting it again on the same folder",
    strike: async () => running[0]?.kill(),
    mend: async () => void (await start()),
  };
}

function outcomeOf({ target }: Stage, ledger: Ledger, outage: Outage): Outcome {
  const times = outageTimes(ledger, outage);
  const { fault, all } = outageSpans(ledger, outage);
  const checks: Check[] = [
    ...answerChecks(ledger, outage, target.kind === "deployment"),
    recoveryCheck("after its return: the first acknowledged start", times.startAgainMs, recoveryMsMax),
    ...ledgerChecks(ledger),
  ];
  return {
    checks,
    tables: [outageTable(outage, times), delaysTable(ledger, all), answersTable(ledger)],
    plots: loadPlots(ledger, [fault]),
    data: loadData(ledger, { outage, times }),
  };
}

function answerChecks(ledger: Ledger, outage: Outage, isDeployment: boolean): readonly Check[] {
  const during = answersDuring(ledger, outage);
  const wrong = wrongReads(ledger);
  const { trouble, yes, no } = during;
  return [
    check("while it was away: starts told 503, or nothing", "at least 1", trouble, trouble > 0),
    check("while it was away: starts told no for another reason", "0", no, no === 0),
    // What a command does to a deployment, and how much of it, is not known here.
    ...(isDeployment ? [] : [check("while it was away: starts told yes", "0", yes, yes === 0)]),
    check("at any time: acknowledged runs told not to exist", "0", wrong.length, wrong.length === 0),
  ];
}
