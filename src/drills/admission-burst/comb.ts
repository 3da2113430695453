// How far retries beat like a comb, as one number: the share of them that is due in the fullest fifth of the beat.

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
