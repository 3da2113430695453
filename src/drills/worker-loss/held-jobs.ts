// Which jobs a worker has in hand, and which of them somebody else has taken over since.
import type { TimedNote } from "../load/ledger.ts";

export type Claim = Extract<TimedNote, { kind: "claimed" }>;

/** Claimed by it and not done: from its own notes. */
export function heldBy(work: readonly TimedNote[], worker: string): readonly Claim[] {
  const over = new Set(
    work.flatMap((note) => (note.worker === worker && note.kind !== "claimed" ? [note.jobId] : [])),
  );
  return work.filter(
    (note): note is Claim => note.kind === "claimed" && note.worker === worker && !over.has(note.jobId),
  );
}

export type TakenOver = { readonly held: Claim; readonly by: Claim | undefined };

/** For each job, the first claim of a later attempt of the same step by another worker. */
export function takenOver(work: readonly TimedNote[], held: readonly Claim[]): readonly TakenOver[] {
  return held.map((claim) => ({
    held: claim,
    by: work.find(
      (note): note is Claim =>
        note.kind === "claimed" &&
        note.worker !== claim.worker &&
        note.runId === claim.runId &&
        note.step === claim.step &&
        note.attempt > claim.attempt,
    ),
  }));
}

/** How long after the loss the last of them was in other hands; undefined while one is not. */
export function takenOverAfterMs(taken: readonly TakenOver[], lostAtMs: number): number | undefined {
  if (taken.some(({ by }) => by === undefined)) return undefined;
  return Math.max(0, ...taken.map(({ by }) => (by?.atMs ?? lostAtMs) - lostAtMs));
}
