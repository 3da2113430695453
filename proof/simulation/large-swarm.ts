// Every tenth seed is large: ten times the events, several tenants, everything that people do, and clocks that are set.
import { createSeededRandom, type SeededRandom } from "../../src/testing/seeded-random.ts";
import { isGatedSeed, withGates } from "./gated-swarm.ts";
import { isMeteredSeed, withMeters } from "./metered-swarm.ts";
import { type Crowd, drawCrowd, drawSwarm, type Swarm } from "./swarm.ts";

export const largeEvery = 10;

/** The same for a seed wherever it is asked; the other nine of ten are as they were before there were large ones. */
export function swarmOfSeed(
  seed: number,
  root: Pick<SeededRandom, "stream"> = createSeededRandom(seed),
): Swarm {
  const random = root.stream("swarm");
  const swarm =
    seed % largeEvery === 0 ? enlarge(random.stream("large"), drawFaulty(random)) : drawSwarm(random);
  if (!isGatedSeed(seed)) return swarm;
  const withQueues = gated(random.stream("gates"), swarm);
  return isMeteredSeed(seed) ? withMeters(random.stream("meters"), withQueues) : withQueues;
}

/** With workflows, whatever else the seed is about. */
function gated(random: SeededRandom, swarm: Swarm): Swarm {
  return withGates(random, { ...swarm, workflows: swarm.workflows ?? drawCrowd(random.stream("crowd")) });
}

/** For what breaks only where runs wait; which load it is follows from the seed. */
export function gatedDay(swarm: Swarm): Swarm {
  return swarm.gates === undefined ? gated(createSeededRandom(swarm.chaosMs), swarm) : swarm;
}

/** For what breaks only where rates and budgets limit what runs do. */
export function meteredDay(swarm: Swarm): Swarm {
  return swarm.meters === undefined ? withMeters(createSeededRandom(swarm.chaosMs), gatedDay(swarm)) : swarm;
}

/** All runs wait at one gate. */
export function crowdedDay(swarm: Swarm): Swarm {
  for (let draw = 1; ; draw += 1) {
    const drawn = gated(createSeededRandom(draw), swarm);
    if (drawn.gates?.crowded) return drawn;
  }
}

/** A large seed without faults would have no clock that is set. */
function drawFaulty(random: SeededRandom): Swarm {
  for (let draw = 1; ; draw += 1) {
    const swarm = drawSwarm(random.stream(`draw ${draw}`));
    if (!swarm.calm) return swarm;
  }
}

const dayMs = 86_400_000;

/** An hour back is what makes a clock stand still that only ever takes the later of two times. */
const hardStepsMs = [-3_600_000, -3_600_000, -60_000, 500, 5_000, 1_200_000, 3_600_000];

function enlarge(random: SeededRandom, swarm: Swarm): Swarm {
  const { embedded: _drawn, losses, ...rest } = swarm;
  const isEmbedded = random.chance(0.5);
  const { keyRetentionMs: _days, ...storeSettings } = swarm.storeSettings;
  const crowd = everybody(random, swarm.workflows ?? drawCrowd(random.stream("crowd")));
  return {
    ...rest,
    large: true,
    chaosMs: random.integer(14_000, 20_000),
    thinkMsMax: random.pick([60, 150]),
    tenants: random.pick([3, 4]),
    clientsPerGateway: Math.max(1, swarm.clientsPerGateway),
    endersPerGateway: Math.max(1, swarm.endersPerGateway),
    // What was deleted keeps its place for a minute, which a clock that is set by an hour would end.
    workflows: { ...crowd, deleters: 0 },
    // As the product keeps runs and keys: for days, which no step of a clock ends.
    storeSettings: { ...storeSettings, runRetentionMs: 7 * dayMs },
    faults: {
      ...swarm.faults,
      clockJumpRate: isEmbedded ? 0 : random.pick([0.0005, 0.002]),
      clockJumpMsMax: random.pick([3_000, 1_200_000]),
    },
    ...(isEmbedded ? { embedded: drawHardSteps(random) } : losses === undefined ? {} : { losses }),
  };
}

function drawHardSteps(random: SeededRandom): NonNullable<Swarm["embedded"]> {
  return {
    stepEveryMs: random.pick([700, 2_000]),
    restartEveryMs: random.pick([2_000, 5_000]),
    downMsMax: random.pick([50, 300, 1_500]),
    stepsMs: hardStepsMs,
  };
}

function everybody(random: SeededRandom, crowd: Crowd): Crowd {
  const atLeast: Partial<Crowd> = {
    ...{ workers: 2, starters: 2, approvers: 1, cancellers: 1, letterKeepers: 1, rerunners: 1 },
    ...{ lockAgents: random.pick([2, 4]), followers: 1 },
  };
  const raised = Object.entries(atLeast).map(([kind, count]) => [
    kind,
    Math.max(count, crowd[kind as keyof Crowd]),
  ]);
  return { ...crowd, ...(Object.fromEntries(raised) as Partial<Crowd>) };
}
