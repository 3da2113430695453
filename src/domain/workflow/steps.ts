// Counted work: the same input takes the same number of steps on every machine, and stops at the same one.

/** What is left; several checks may share it. */
export type Steps = { left: number };

/** Ends work whose steps are spent. Not an Error: a stack trace would cost more than the work. */
export class StepsSpent {
  readonly on: "pattern" | "value";

  constructor(on: StepsSpent["on"]) {
    this.on = on;
  }
}
