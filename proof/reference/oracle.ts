// The answers of workers and people, decided beforehand by run, step and attempt.
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import { fnv1a, fnv1aStart } from "../../src/testing/seeded-random.ts";

/** Where an answer is asked for. `run` is the path from the root: empty, or `<path>/<step>@<attempt>` of a child run. */
export type Attempt = { readonly run: string; readonly step: string; readonly attempt: number };

type Answer =
  | { readonly kind: "output"; readonly output: JsonValue }
  | { readonly kind: "retryable" | "failed" | "timeout" | "lost" | "handed_back" | "never" };

type Verdict = "approved" | "rejected" | "expired" | "never";

export type Oracle = {
  work(attempt: Attempt, input: JsonValue): Answer;
  decide(attempt: Attempt): Verdict;
  /** Whether somebody retries the dead letter of an attempt that was the last. */
  isRetried?(attempt: Attempt): boolean;
};

/**
 * How the work of one step goes. `good` succeeds at once; `moody` may do anything at every attempt; `failing` never
 * succeeds; `hanging` never answers, nor does anybody below it.
 */
export type Mood = {
  readonly kind: "good" | "moody" | "failing" | "hanging";
  /** Has a time limit of its own, so that an attempt may time out. */
  readonly isTimed: boolean;
};

/** By `<workflow>/<step>`; items of a for_each go by the name of their step. */
type Moods = ReadonlyMap<string, Mood>;

const good: Mood = { kind: "good", isTimed: false };

/** `workflowOf` tells the workflow of a run by its path. */
export function createOracle(seed: number, moods: Moods, workflowOf: (run: string) => string): Oracle {
  const moodOf = (run: string, step: string) =>
    moods.get(`${workflowOf(run)}/${step.replace(/\[\d+\]$/, "")}`) ?? good;
  const hangs = (run: string, step: string): boolean => {
    if (moodOf(run, step).kind === "hanging") return true;
    const above = parentOf(run);
    return above !== undefined && hangs(above.run, above.step);
  };
  const draw = ({ run, step, attempt }: Attempt, sides: number) =>
    mixed(fnv1a(fnv1aStart, `${seed} ${run} ${step} ${attempt}`)) % sides;
  return {
    work: (attempt, input) => {
      if (hangs(attempt.run, attempt.step)) return { kind: "never" };
      const { kind, isTimed } = moodOf(attempt.run, attempt.step);
      if (kind === "failing") return { kind: "failed" };
      const drawn = draw(attempt, 11);
      if (kind === "good" || drawn < 4) return { kind: "output", output: outputOf(attempt, input) };
      if (drawn < 7) return { kind: "retryable" };
      if (drawn < 8) return { kind: "lost" };
      if (drawn === 10) return { kind: "handed_back" };
      return { kind: drawn === 8 && isTimed ? "timeout" : "failed" };
    },
    decide: (attempt) => {
      if (hangs(attempt.run, attempt.step)) return "never";
      const { kind, isTimed } = moodOf(attempt.run, attempt.step);
      if (kind === "failing") return "rejected";
      const drawn = draw(attempt, 4);
      if (kind === "good" || drawn < 2) return "approved";
      return drawn === 2 && isTimed ? "expired" : "rejected";
    },
  };
}

/** A number that was asked for, or one of its own, the same at every attempt. */
export function outputOf({ step }: Attempt, input: JsonValue): JsonValue {
  const { echo } = (input ?? {}) as { readonly echo?: JsonValue };
  return { v: typeof echo === "number" ? echo : mixed(fnv1a(fnv1aStart, step)) % 6 };
}

function parentOf(run: string): Attempt | undefined {
  const [, above = "", step, attempt] = /^(.*)\/([^/@]+)@(\d+)$/.exec(run) ?? [];
  return step === undefined ? undefined : { run: above, step, attempt: Number(attempt) };
}

export const childPath = ({ run, step, attempt }: Attempt): string => `${run}/${step}@${attempt}`;

/** Similar texts have similar hashes; their lowest bits must not. */
function mixed(hash: number): number {
  const once = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  const twice = Math.imul(once ^ (once >>> 13), 0xc2b2ae35);
  return (twice ^ (twice >>> 16)) >>> 0;
}
