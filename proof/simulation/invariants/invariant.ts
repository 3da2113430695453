// What the table of invariants says of each: a sentence, who checks it, what shows that it was put to the test, and what breaks it.
import type { Mark } from "./marks.ts";

export type Invariant = {
  /** What must hold, in one sentence. */
  readonly statement: string;
  /** `file: name` of the functions and tests that look at it; the name stands in the file. */
  readonly checks: readonly string[];
  /** Situations of the simulation in which it was at stake. */
  readonly marks: readonly Mark[];
  /** Bugs of the simulation that break it, though another invariant is the first to notice; most name theirs themselves. */
  readonly simulationBugs?: readonly string[];
  /** Bugs of proof/planted/planted-bugs.ts. */
  readonly productBugs?: readonly string[];
};
