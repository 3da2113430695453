// Depth-first search over schedules, each replayed from the start: every option within the bounds, and no state twice.
import { createHash } from "node:crypto";
import type { Option } from "./choice-kernel.ts";

export type Bounds = {
  /** How often a schedule may deviate from the order of time. */
  readonly overtakesMax: number;
  readonly faultsMax: number;
  /** The search stops here, unfinished. */
  readonly schedulesMax: number;
};

/** What is left of the bounds. */
type Budget = { readonly overtakes: number; readonly faults: number };

type ChoicePoint = {
  readonly options: readonly Option[];
  readonly budget: Budget;
  chosen: number;
  readonly untried: number[];
};

export type Exploration = {
  readonly schedules: number;
  readonly choicePoints: number;
  readonly states: number;
  /** False when the search stopped at the cap, or at a failure. */
  readonly complete: boolean;
  readonly failure?: Failure;
};

export type Failure = {
  readonly invariant: string;
  readonly what: string;
  /** The choices that lead to it. */
  readonly schedule: readonly number[];
};

/** What one schedule asks on its way. */
export type Guide = {
  /** `stop` where everything that can follow has been seen. */
  choose(options: readonly Option[], state: () => string): number | "stop";
  /** False when the same end was seen before. */
  isNewEnd(state: string): boolean;
};

type Play = (guide: Guide) => Promise<Omit<Failure, "schedule"> | undefined>;

export async function explore(bounds: Bounds, play: Play): Promise<Exploration> {
  const search = new Search(bounds);
  let schedules = 0;
  for (;;) {
    const broken = await play(search);
    schedules += 1;
    if (broken !== undefined) {
      return {
        ...search.counts(),
        schedules,
        complete: false,
        failure: { ...broken, schedule: search.schedule() },
      };
    }
    if (!search.next()) return { ...search.counts(), schedules, complete: true };
    if (schedules >= bounds.schedulesMax) return { ...search.counts(), schedules, complete: false };
  }
}

/** Follows the choices that are given, and takes the earliest event where there are no more. */
export function following(schedule: readonly number[]): Guide {
  let position = 0;
  return {
    choose: () => {
      position += 1;
      return schedule[position - 1] ?? 0;
    },
    isNewEnd: () => true,
  };
}

class Search implements Guide {
  readonly #bounds: Bounds;
  readonly #points: ChoicePoint[] = [];
  /** For each state the budgets with which it was met: with as much or less left there is nothing new in it. */
  readonly #visited = new Map<string, Budget[]>();
  readonly #ends = new Set<string>();
  #position = 0;
  #choicePoints = 0;

  constructor(bounds: Bounds) {
    this.#bounds = bounds;
  }

  choose(options: readonly Option[], state: () => string): number | "stop" {
    const known = this.#points[this.#position];
    if (known !== undefined) {
      mustBeSame(known.options, options);
      this.#position += 1;
      return known.chosen;
    }
    const budget = this.#budget();
    if (this.#isSpent(keyOf(state()), budget)) return "stop";
    const allowed = options.flatMap(({ overtakes, isFault }, index) => {
      const tooMuch = (overtakes && budget.overtakes === 0) || (isFault && budget.faults === 0);
      return index === 0 || tooMuch ? [] : [index];
    });
    this.#choicePoints += 1;
    this.#points.push({ options, budget, chosen: 0, untried: allowed });
    this.#position += 1;
    return 0;
  }

  isNewEnd(state: string): boolean {
    const key = keyOf(state);
    if (this.#ends.has(key)) return false;
    this.#ends.add(key);
    return true;
  }

  /** Goes to the last point at which something is left to try; false when nothing is. */
  next(): boolean {
    this.#position = 0;
    for (;;) {
      const last = this.#points.at(-1);
      if (last === undefined) return false;
      const next = last.untried.shift();
      if (next !== undefined) {
        last.chosen = next;
        return true;
      }
      this.#points.pop();
    }
  }

  counts(): { readonly choicePoints: number; readonly states: number } {
    return { choicePoints: this.#choicePoints, states: this.#visited.size };
  }

  schedule(): readonly number[] {
    const choices = this.#points.slice(0, this.#position).map(({ chosen }) => chosen);
    while (choices.at(-1) === 0) choices.pop();
    return choices;
  }

  #budget(): Budget {
    const last = this.#points.at(-1);
    if (last === undefined) return { overtakes: this.#bounds.overtakesMax, faults: this.#bounds.faultsMax };
    const { overtakes, isFault } = last.options[last.chosen] as Option;
    const { budget } = last;
    return {
      overtakes: budget.overtakes - (overtakes ? 1 : 0),
      faults: budget.faults - (isFault ? 1 : 0),
    };
  }

  #isSpent(key: string, budget: Budget): boolean {
    const met = this.#visited.get(key) ?? [];
    const isCovered = met.some(
      ({ overtakes, faults }) => overtakes >= budget.overtakes && faults >= budget.faults,
    );
    if (!isCovered) this.#visited.set(key, [...met, budget]);
    return isCovered;
  }
}

/** A replay that meets other options than before would make the whole search void. */
function mustBeSame(before: readonly Option[], now: readonly Option[]): void {
  const texts = (options: readonly Option[]) => options.map(({ text }) => text).join("\n");
  if (texts(before) !== texts(now)) {
    throw new Error(`the same choices led elsewhere:\n${texts(before)}\n--- now ---\n${texts(now)}`);
  }
}

function keyOf(text: string): string {
  return createHash("sha1").update(text).digest("base64");
}
