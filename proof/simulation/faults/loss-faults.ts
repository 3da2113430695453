// How much the store of a seed can lose, by its level of durability, and what happens to processes in the middle of a call.
import { isPromise } from "../../../src/adapters/redis/durability.ts";
import type { SeededRandom } from "../../../src/testing/seeded-random.ts";
import type { StoreCall } from "../../../src/testing/simulated-store.ts";
import type { LatencyTail } from "../../../src/testing/store-link.ts";

/**
 * `synced`: no answer before its change is durable, as with SQLite. `replicated`: so for the answers that the product waits
 * for, as with Redis and WAIT. `process`: every answer at once, so that what was acknowledged can be lost.
 */
export type DurabilityLevel = "synced" | "replicated" | "process";

export type LossFaults = {
  readonly level: DurabilityLevel;
  /** A change is durable after up to this long; those before it are by then. */
  readonly lagMsMax: number;
  /** Mean time between two losses. */
  readonly lossEveryMs: number;
  /** Before most losses nothing becomes durable for up to this long: a replica that was cut off, a disk that hangs. */
  readonly stallMsMax: number;
  /** How long nobody is there to answer. */
  readonly downMsMax: number;
};

/** Crashes and pauses right before a call is sent, right after, and right when its answer arrives; rates per moment. */
type CallFaults = {
  readonly crashRate: number;
  readonly pauseRate: number;
  readonly pauseMsMax: number;
};

/** Every gateway in turn is replaced by one with other settings, and stops as the product does. */
type RollingFaults = {
  readonly startMs: number;
  /** Between the start of one and the next. */
  readonly everyMs: number;
  /** After this the old process is ended, whatever it still does. */
  readonly graceMs: number;
};

/** The store is inside a process: its machine's wall clock is set, also while it is away, and it takes its time from the product's own clock. */
type EmbeddedFaults = {
  /** Mean time between two steps of the wall clock, and between two restarts of the store. */
  readonly stepEveryMs: number;
  readonly restartEveryMs: number;
  readonly downMsMax: number;
  /** What the clock is set by, live and while the store is away; a step of each kind by default. */
  readonly stepsMs?: readonly number[];
};

export type HarderFaults = {
  readonly embedded?: EmbeddedFaults;
  readonly losses?: LossFaults;
  readonly callFaults?: CallFaults;
  readonly rolling?: RollingFaults;
};

/** Streams of their own leave all else as it is. */
export function drawHarderFaults(random: SeededRandom, longestTtlMs: number): HarderFaults {
  return {
    ...drawLosses(random.stream("losses")),
    ...drawCallFaults(random.stream("call faults"), longestTtlMs),
    ...drawRolling(random.stream("rolling")),
  };
}

function drawLosses(random: SeededRandom): HarderFaults {
  if (!random.chance(0.28)) return {};
  return {
    losses: {
      level: random.pick(["synced", "replicated", "replicated", "process"]),
      lagMsMax: random.pick([2, 20, 120]),
      lossEveryMs: random.pick([400, 1_000]),
      // Longer than most calls wait: then what a lost change has told others by reads matters as well.
      stallMsMax: random.pick([100, 1_000, 2_000]),
      downMsMax: random.pick([50, 300, 1_500]),
    },
  };
}

function drawCallFaults(random: SeededRandom, longestTtlMs: number): HarderFaults {
  if (!random.chance(0.3)) return {};
  return {
    callFaults: {
      crashRate: random.pick([0, 0.002, 0.006]),
      pauseRate: random.pick([0, 0.002, 0.006]),
      pauseMsMax: random.pick([0.5, 1.5, 3]) * longestTtlMs,
    },
  };
}

function drawRolling(random: SeededRandom): HarderFaults {
  if (!random.chance(0.15)) return {};
  return {
    rolling: {
      startMs: random.integer(500, 2_500),
      everyMs: random.pick([100, 500, 900]),
      graceMs: random.pick([300, 1_500, 5_000]),
    },
  };
}

/** In some seeds travel times have a heavy tail, up to far beyond the longest lease. */
export function drawTail(random: SeededRandom, longestTtlMs: number): { readonly tail?: LatencyTail } {
  if (!random.chance(0.25)) return {};
  return { tail: { alpha: random.pick([0.9, 1.2, 1.8]), msMax: 2 * longestTtlMs } };
}

/** Nothing is lost here, and what is kept for seconds only must not end by a step of the clock over a restart. */
export function drawEmbedded(random: SeededRandom): HarderFaults {
  if (!random.chance(0.3)) return {};
  return {
    embedded: {
      stepEveryMs: random.pick([200, 700, 2_000]),
      restartEveryMs: random.pick([700, 2_000, 10_000]),
      downMsMax: random.pick([50, 300, 1_500]),
    },
  };
}

export type HoldsBack = (level: DurabilityLevel, call: StoreCall) => boolean;

/** Whose answers wait, by the table that the product goes by. */
export const holdsBack: HoldsBack = (level, { name, request }) =>
  level === "synced" || (level === "replicated" && isPromise(name, request));
