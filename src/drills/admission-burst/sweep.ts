// The grid of --sweep: lock waits by how long clients go on trying, and how far their retries come in waves.
import type { Stage } from "../drill.ts";
import { openTarget } from "../target/open-target.ts";
import type { Target } from "../target/target.ts";
import { type BurstContext, type Measured, measure, openVariant } from "./measure.ts";
import type { Plan } from "./plan.ts";

export type Cell = {
  /** Absent: as the deployment has it. */
  readonly waitMs?: number;
  readonly budgetMs: number;
  readonly measured: Measured;
};

/** The variant whose wait budget matters, as it is by default. */
const variant = "lock-jitter";

export async function sweep(stage: Stage, crowds: BurstContext["crowds"], plan: Plan): Promise<Cell[]> {
  const { kind } = stage.target;
  const { waitsMs, budgetsMs } = plan.sweep ?? { waitsMs: [], budgetsMs: [] };
  if (kind === "deployment") return rowOf(stage, stage.target, { crowds, plan, budgetsMs });
  const cells: Cell[] = [];
  for (const waitMs of waitsMs) {
    // How long to wait is a setting of the process: an instance for each.
    const settings = () => ({ "locks.admission.waitMs": waitMs });
    const target = await openTarget({ kind }, { kind: "inside", settings }, stage.size);
    try {
      cells.push(...(await rowOf(stage, target, { crowds, plan, budgetsMs, waitMs })));
    } finally {
      await target.close();
    }
  }
  return cells;
}

type Row = {
  readonly crowds: BurstContext["crowds"];
  readonly plan: Plan;
  readonly budgetsMs: readonly number[];
  readonly waitMs?: number;
};

async function rowOf(
  { signal, progress }: Stage,
  target: Target,
  { crowds, plan, budgetsMs, waitMs }: Row,
): Promise<Cell[]> {
  const tenant = await openVariant(target, variant);
  const cells: Cell[] = [];
  for (const budgetMs of budgetsMs) {
    progress(`sweep: wait budget ${waitMs ?? "as deployed"}, client budget ${budgetMs} ms`);
    const terms = { ...plan.clients, budgetMs };
    const wanted = { variant, policy: "jitter", clients: plan.requests, terms } as const;
    const measured = await measure({ target, crowds, signal }, tenant, wanted);
    cells.push({ ...(waitMs === undefined ? {} : { waitMs }), budgetMs, measured });
  }
  return cells;
}

export type Comb = {
  /** About a third when they are spread at random, towards 1 when all come together; not a number when there are too few. */
  readonly share: number;
  /** From one wave to the next, as it fits best: the poll interval and what a try takes. */
  readonly beatMs: number;
  /** How many stretches of time were looked at. */
  readonly windows: number;
};

/** A beat may be up to this much slower than the poll: a try takes time, and so does a wave of many. */
const slowestBeat = 3;
const beatStepMs = 0.25;
/** A window is no longer than it must be: a beat that drifts by a millisecond or two is still one beat within so few. */
const beatsMin = 5;
/** With fewer the fullest fifth is random: of 60 arrivals at random times about 20 are in it, of 20 half. */
const arrivalsMin = 60;
const phases = 20;
const fullestPhases = phases / 5;

/**
 * `timesMs` are in order. The median over windows, each with the beat that fits it best: a comb stays one although garbage
 * collection shifts it.
 */
export function combOf(timesMs: readonly number[], pollMs: number): Comb {
  const fits = windowsOf(timesMs, beatsMin * pollMs).map((window) => bestFit(window, pollMs));
  return {
    share: median(fits.map(({ share }) => share)),
    beatMs: median(fits.map(({ beatMs }) => beatMs)),
    windows: fits.length,
  };
}

/** What is left at the end is no window. */
function windowsOf(timesMs: readonly number[], lengthMinMs: number): number[][] {
  const windows: number[][] = [];
  let window: number[] = [];
  for (const timeMs of timesMs) {
    const isFull = window.length >= arrivalsMin && timeMs - (window[0] ?? timeMs) >= lengthMinMs;
    if (isFull) {
      windows.push(window);
      window = [];
    }
    window.push(timeMs);
  }
  return windows;
}

function bestFit(window: readonly number[], pollMs: number): Omit<Comb, "windows"> {
  let best = { share: 0, beatMs: pollMs };
  for (let beatMs = pollMs; beatMs <= slowestBeat * pollMs; beatMs += beatStepMs) {
    const share = fullestFifth(window, beatMs);
    if (share > best.share) best = { share, beatMs };
  }
  return best;
}

function fullestFifth(window: readonly number[], beatMs: number): number {
  const counts = phaseCounts(window, beatMs);
  let most = 0;
  for (let first = 0; first < phases; first += 1) {
    let count = 0;
    for (let offset = 0; offset < fullestPhases; offset += 1) count += counts[(first + offset) % phases] ?? 0;
    most = Math.max(most, count);
  }
  return most / window.length;
}

function phaseCounts(timesMs: readonly number[], beatMs: number): number[] {
  const counts = new Array<number>(phases).fill(0);
  for (const timeMs of timesMs) {
    const phase = Math.floor(((timeMs % beatMs) / beatMs) * phases) % phases;
    counts[phase] = (counts[phase] ?? 0) + 1;
  }
  return counts;
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((left, right) => left - right);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}
