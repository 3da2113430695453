// A broken invariant: which one, and what happened.
export class Violation extends Error {
  /** The number in the correctness specification, such as `INV-6`. */
  readonly invariant: string;

  constructor(invariant: string, what: string) {
    super(what);
    this.name = "Violation";
    this.invariant = invariant;
  }
}

/** Throws a violation unless the condition holds; `what` is only put into words then. */
export function mustHold(condition: boolean, invariant: string, what: () => string): void {
  if (!condition) throw new Violation(invariant, what());
}
