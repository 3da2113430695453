// A broken invariant: which one, and what happened.
import type { InvariantName } from "./invariants.ts";

export class Violation extends Error {
  /** Its row in the table of invariants. */
  readonly invariant: InvariantName;

  constructor(invariant: InvariantName, what: string) {
    super(what);
    this.name = "Violation";
    this.invariant = invariant;
  }
}

/** Who hears of violations instead of their ending the simulation; one is run at a time. */
let listener: ((violation: Violation) => void) | undefined;

/** Throws a violation unless the condition holds; `what` is only put into words then. */
export function mustHold(condition: boolean, invariant: InvariantName, what: () => string): void {
  if (condition) return;
  const violation = new Violation(invariant, what());
  if (listener === undefined) throw violation;
  listener(violation);
}

/** Lets a simulation go on after what it breaks: for what is known to be broken, to see how much. */
export async function hearingOf<Value>(
  hear: (violation: Violation) => void,
  simulation: () => Promise<Value>,
): Promise<Value> {
  listener = hear;
  try {
    return await simulation();
  } finally {
    listener = undefined;
  }
}
