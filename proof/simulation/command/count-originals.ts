// Counts what the original mechanisms break, seed by seed and going on after each violation, and what a start costs by each.
import type { AdmissionStrategy, WaitPolicy } from "../../../src/domain/tenant.ts";
import { noStoreFaults } from "../../../src/testing/store-link.ts";
import type { Swap } from "../../planted/planted-bug.ts";
import { originalCommands, originalStart } from "../../planted/swaps/original-admission.ts";
import { startsAlone } from "../../planted/swaps/originals.ts";
import { noBusFaults } from "../bus/simulated-bus.ts";
import { startChaos } from "../chaos.ts";
import type { InvariantName } from "../invariants/invariants.ts";
import { hearingOf } from "../invariants/violation.ts";
import { asBaseline } from "../narrow-swarm.ts";
import { simulateSeed } from "../simulate.ts";
import type { Swarm } from "../swarm.ts";
import { createWorld } from "../world.ts";

type SeedRange = { readonly from: number; readonly seeds: number };

export type Tally = {
  readonly seedsBroken: number;
  /** Seeds in which an invariant broke, at first or later. */
  readonly seedsOf: ReadonlyMap<InvariantName, number>;
  /** Seeds in which it was the first to break. */
  readonly first: ReadonlyMap<InvariantName, number>;
};

/** Without a mechanism: the product, by its strategies `lock` and `retry` alone. */
export async function tallyOf(bug: Swap | undefined, { from, seeds }: SeedRange): Promise<Tally> {
  const seedsOf = new Map<InvariantName, number>();
  const first = new Map<InvariantName, number>();
  let seedsBroken = 0;
  for (let seed = from; seed < from + seeds; seed += 1) {
    const broken = await brokenIn(seed, bug);
    if (broken.length > 0) seedsBroken += 1;
    for (const [index, name] of broken.entries()) {
      seedsOf.set(name, (seedsOf.get(name) ?? 0) + 1);
      if (index === 0) first.set(name, (first.get(name) ?? 0) + 1);
    }
  }
  return { seedsBroken, seedsOf, first };
}

/** The invariants that a seed breaks, in the order in which each breaks for the first time. */
async function brokenIn(seed: number, bug: Swap | undefined): Promise<readonly InvariantName[]> {
  const broken = new Set<InvariantName>();
  const options =
    bug === undefined ? { parts: { swarm: (draw: () => Swarm) => asBaseline(draw()) } } : { bug };
  const { violation } = await hearingOf(
    ({ invariant }) => broken.add(invariant),
    () => simulateSeed(seed, options),
  );
  if (violation !== undefined) broken.add(violation.invariant);
  return [...broken];
}

type Mechanism = "atomic" | "lock, jitter" | "lock, fixed" | "original";

/** All of it while the callers call: what is proved afterwards is left out. */
type Cost = {
  readonly asked: number;
  readonly admitted: number;
  readonly operations: number;
  readonly events: number;
};

/** The same callers on the same seeds, without faults and limits: several gateways, one tenant, one lock. */
export async function costOf(mechanism: Mechanism, { from, seeds }: SeedRange): Promise<Cost> {
  const sum = { asked: 0, admitted: 0, operations: 0, events: 0 };
  for (let seed = from; seed < from + seeds; seed += 1) {
    const world = createWorld(seed, {
      ...(mechanism === "original" ? { bug: originalAlone } : {}),
      parts: { swarm: (draw) => contended(draw(), mechanism) },
      onNote: (line) => {
        if (/^\S+ \S+\/client-\d+\/\d+\/\d+ /.test(line)) sum.asked += 1;
      },
    });
    startChaos(world);
    await world.kernel.run({ untilMs: world.swarm.chaosMs, eventsMax: 5_000_000 });
    sum.admitted += [...world.known.runs()].length;
    sum.operations += world.operations();
    sum.events += world.kernel.events();
  }
  return sum;
}

const asWritten = { wait: "fixed", cleanup: true, keysOf: "tenant" } as const;

const originalAlone: Swap = {
  what: "the original mechanism, where nothing fails",
  caughtBy: [],
  startRun: originalStart(asWritten),
  table: originalCommands(asWritten),
};

/** Everything that costs something for another reason is left out; keys are all different. */
function contended(swarm: Swarm, mechanism: Mechanism): Swarm {
  const strategy: AdmissionStrategy = mechanism === "atomic" ? "atomic" : "lock";
  const wait: WaitPolicy = mechanism === "lock, jitter" ? "jitter" : "fixed";
  const { callFaults: _calls, rolling: _rolling, ...quiet } = startsAlone(swarm);
  return {
    ...quiet,
    ...{ unlimited: true, calm: true, tenants: 1, chaosMs: 4_000, changeEveryMs: 3_000 },
    ...{ keys: 1_000_000_000, keylessRate: 0, abortRate: 0, thinkMsMax: 60 },
    ...{ clientsPerGateway: 6, endersPerGateway: 0 },
    gateways: Array.from({ length: 3 }, () => ({ strategy, wait })),
    faults: noStoreFaults,
    busFaults: noBusFaults,
    processFaults: { pauseMsMax: 0, clockSkewMax: 0 },
    config: {
      ...quiet.config,
      "locks.admission.ttlMs": 10_000,
      "locks.admission.waitMs": 2_000,
      "locks.admission.pollMs": 10,
    },
  };
}
