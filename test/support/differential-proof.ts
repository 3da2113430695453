// Draws random operation sequences and compares stores on each.
import { randomBytes } from "node:crypto";
import fc from "fast-check";
import { expect } from "vitest";
import type { Clock } from "../../src/ports/ports.ts";
import { type Candidate, compare } from "./differential.ts";
import type { sequences } from "./differential-commands.ts";

/** Shrinking replays sequences in real time: this bounds how long a failure takes to be told. */
const shrinkWithinMs = 240_000;

type Proof = { readonly numRuns: number; readonly clock: Pick<Clock, "monotonicMs" | "sleep"> };

/** Fails when two stores answer one of the sequences differently. */
export async function proveAmong(
  stores: readonly Candidate[],
  chosen: typeof sequences,
  { numRuns, clock }: Proof,
): Promise<void> {
  let slow = 0;
  let total = 0;
  await fc.assert(
    fc.asyncProperty(chosen, async (commands) => {
      total += 1;
      const verdict = await compare(stores, commands, randomBytes(6).toString("hex"), clock);
      if (verdict.kind === "too_slow") slow += 1;
    }),
    { seed: 20261115, numRuns, interruptAfterTimeLimit: shrinkWithinMs, markInterruptAsFailure: true },
  );
  // Sequences in which a short time could not be compared prove nothing: most must not be of that kind.
  expect(slow).toBeLessThan(total / 2);
}
