// A workflow while it is drawn: its steps so far, where a step stands, and what it may read there.
import type { SeededRandom } from "../../src/testing/seeded-random.ts";
import type { StepText } from "./language.ts";
import type { Mood } from "./oracle.ts";

export type DrawOptions = {
  /** Steps that begin by themselves, at most. */
  readonly rootsMax: number;
  /** Workflows that steps of it may start, and those of them, and so on. */
  readonly childWorkflows: number;
  /** Whether several children may be open where one of them decides about the others. */
  readonly races: boolean;
  /** Whether failures may be handled, and parallels may do without some of their children. */
  readonly mayDoWithout: boolean;
  /** Whether steps have time limits, and what waits for ever is given up by them. */
  readonly timeouts: boolean;
  /** How often work may go any way. */
  readonly moodyRate: number;
  readonly delaySec: number;
  readonly topics: readonly string[];
};

/** One workflow while it is drawn. */
export type Sketch = {
  readonly random: SeededRandom;
  readonly options: DrawOptions;
  readonly workflow: string;
  readonly steps: Record<string, StepText>;
  readonly moods: Map<string, Mood>;
  /** Workflows that it may start. */
  readonly others: readonly string[];
  /** Places in ctx, each with the step that used it last. */
  readonly places: Map<string, string>;
  /** Draws another step and gives its id. */
  add(kind: string, spot: Spot): string;
};

/** Where a step stands. */
export type Spot = {
  /** What has ended when it begins, and may be read. */
  readonly before: readonly string[];
  readonly depth: number;
  readonly isInLoop: boolean;
  /** Whether its end may depend on the order of things. */
  readonly isRacing: boolean;
  /** Something above gives up after a while: so many leaves below may hang. */
  readonly hangs?: { left: number };
};

/** A text that gives a number, unless what it reads was not done. */
export function drawNumber({ random, steps }: Sketch, before: readonly string[]): string {
  const readable = before.filter((id) => isNumbered(steps[id]));
  if (readable.length > 0 && random.chance(0.6)) return `steps.${random.pick(readable)}.output.v`;
  return "input.n";
}

function isNumbered(step: StepText | undefined): boolean {
  if (step === undefined || step.for_each !== undefined || step.result_data_path !== undefined) return false;
  return step.type === "worker" || step.type === "transform";
}
