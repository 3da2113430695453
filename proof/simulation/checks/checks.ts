// All checks of one simulated system, and how they follow the store: what is sent, answered, performed, and lost again.
import type { Kernel } from "../../../src/testing/kernel.ts";
import type { SimulatedProcess } from "../../../src/testing/simulated-process.ts";
import type { SimulatedStoreOptions, StoreExecution } from "../../../src/testing/simulated-store.ts";
import type { FaultCounts } from "../../../src/testing/store-link.ts";
import type { Swap } from "../../planted/planted-bug.ts";
import { holdsBack } from "../faults/loss-faults.ts";
import type { Marks } from "../invariants/marks.ts";
import type { Swarm } from "../swarm.ts";
import { configOf } from "../swarm-config.ts";
import { Acknowledged } from "./acknowledged.ts";
import { AnswerChecks } from "./answer-checks.ts";
import { AnsweredActions } from "./answered-actions.ts";
import { BusChecks } from "./bus-checks.ts";
import { type DurableEntry, DurableStream } from "./durable-stream.ts";
import { FailClosedChecks } from "./fail-closed-checks.ts";
import { GrantChecks } from "./grant-checks.ts";
import { History } from "./history.ts";
import type { JournaledRecords } from "./journaled-records.ts";
import { type KnownRun, KnownState } from "./known-state.ts";
import { isPublic, LossChecks } from "./loss-checks.ts";
import { PredictedRuns } from "./predicted-runs.ts";
import { StateChecks } from "./state-checks.ts";

type ChecksParts = {
  readonly kernel: Kernel;
  readonly swarm: Swarm;
  readonly records: JournaledRecords;
  readonly marks: Marks;
  readonly faults: FaultCounts;
  readonly processes: ReadonlyMap<string, SimulatedProcess>;
  readonly bug: Swap | undefined;
  /** The store's own clock, and how far it has jumped. */
  readonly storeTimeMs: () => number;
  readonly storeJumpedMs: () => number;
};

export function createChecks(parts: ChecksParts) {
  const { kernel, swarm, records, marks, faults, processes, bug } = parts;
  const { losses } = swarm;
  const stream =
    losses === undefined
      ? undefined
      : new DurableStream({ kernel, records, faults: losses, holdsBack: bug?.holdsBack ?? holdsBack });
  const known = new KnownState();
  const grants = new GrantChecks(
    {
      storeTimeMs: () => stream?.replaying()?.execution.storeTimeMs ?? parts.storeTimeMs(),
      // What an embedded store's clock does besides is its own doing: it must take nothing from a holder.
      clockOffsetMs: (storeTimeMs) =>
        swarm.embedded === undefined
          ? storeTimeMs - (stream?.replaying()?.atMs ?? kernel.nowMs())
          : parts.storeJumpedMs(),
      isPaused: (instance) => processes.get(instance)?.state() === "paused",
      settingsOf: (tenant) => known.tenant(tenant).settings,
    },
    marks,
  );
  const acknowledged = new Acknowledged(losses?.level, marks, () => stream?.replaying() !== undefined);
  const history = new History(known, marks, acknowledged);
  const actions = new AnsweredActions(known, records, marks, acknowledged);
  const predicted = new PredictedRuns(known, records, marks);
  const failClosed = new FailClosedChecks(() => kernel.nowMs(), marks);
  const busChecks = new BusChecks({
    ...{ known, records, marks, faultCounts: faults },
    resultDeliveriesMax: configOf(swarm)["results.deliveriesMax"],
    fail: (error) => kernel.fail(error),
  });
  const lossChecks = new LossChecks({ known, records, grants, marks, acknowledged });
  const state = followState(parts, { known, grants, history, actions, predicted });
  const hooks = {
    // A flow may catch what is thrown here: the finding must not get lost in it.
    onSend: (call) => failing(kernel, () => grants.observeSend(call)),
    onAnswer: (call, answer) =>
      failing(kernel, () => {
        grants.observeAnswer(call, answer);
        lossChecks.observeAnswer(call, answer);
        failClosed.observeAnswer(call, answer);
      }),
    onOperation: (execution: StoreExecution) => {
      stream?.note(execution);
      lossChecks.observe(execution, kernel.nowMs());
      state.judge(execution);
      busChecks.observe(execution);
    },
    heldBackMs: (call) => stream?.heldBackMs(call) ?? 0,
    onGhost: (call, sentAtMs) => lossChecks.observeGhost(call, sentAtMs),
  } satisfies SimulatedStoreOptions;
  const loseUnsynced = (): number => {
    let lost: readonly DurableEntry[] = [];
    marks.mute(() => {
      lost = stream?.lose(state.startOver, state.judge) ?? [];
    });
    const isPromised = losses?.level === "synced" ? () => true : isPublic;
    grants.recovered(losses?.level === "process" ? () => false : isPromised);
    lossChecks.afterLoss(lost);
    return lost.length;
  };
  const all = { known, grants, history, actions, predicted, failClosed, busChecks };
  return { ...all, state: state.current, stream, hooks, loseUnsynced };
}

type Followed = Pick<
  ReturnType<typeof createChecks>,
  "known" | "grants" | "history" | "actions" | "predicted"
>;

/** What is a function of the operations performed, and can be learnt from them once more. */
function followState(parts: ChecksParts, checks: Followed) {
  const { swarm, processes, records, marks } = parts;
  const { known, grants, history } = checks;
  const answers = new AnswerChecks(known, grants);
  const create = () =>
    new StateChecks({
      ...{ ...checks, records, marks, settings: swarm.storeSettings },
      listener: {
        runCreated: (run: KnownRun) => history.runCreated(run),
        runEnded: (run: KnownRun) => history.runEnded(run),
      },
      isCrashed: (name) => processes.get(name)?.state() === "crashed",
      // A second is old enough in any case: the usual window is longer than most seeds.
      duplicateWindowMs: Math.min(1_000, swarm.busFaults.duplicateWindowMs),
    });
  let state = create();
  return {
    current: () => state,
    judge: (execution: StoreExecution) => {
      grants.observe(execution);
      state.observe(execution);
      answers.observe(execution);
    },
    startOver: () => {
      known.startOver();
      grants.startOver();
      history.startOver();
      state = create();
    },
  };
}

function failing(kernel: Kernel, check: () => void): void {
  try {
    check();
  } catch (error) {
    kernel.fail(error);
    throw error;
  }
}
