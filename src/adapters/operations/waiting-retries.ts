// Retries that wait in a run's inbox: while one does, its run knows the letter, and an end that discards it gives the letter back.
import { type NewEntry, retriesWaitingMax } from "../../domain/inbox.ts";
import type { Context } from "./context.ts";
import { reopenLetter } from "./documents.ts";
import type { RunState } from "./records.ts";

export function hasRoomForRetry({ retryLetters = [] }: RunState): boolean {
  return retryLetters.length < retriesWaitingMax;
}

/** Of the entry that was appended last. The caller stores the state. */
export function rememberRetry(state: RunState, entry: NewEntry): RunState {
  if (entry.kind !== "retry") return state;
  const waits = { entry: state.entriesAppended, letterId: entry.letterId };
  return { ...state, retryLetters: [...(state.retryLetters ?? []), waits] };
}

/** After entries were consumed: a retry that was applied is none that waits. */
export function forgetApplied(state: RunState): RunState {
  const { retryLetters, ...rest } = state;
  if (retryLetters === undefined) return state;
  const applied = state.entriesAppended - state.entriesWaiting;
  const waiting = retryLetters.filter(({ entry }) => entry > applied);
  return waiting.length === 0 ? rest : { ...rest, retryLetters: waiting };
}

/** Nobody will apply these any more: the retry can be requested again. */
export function giveLettersBack(context: Context, { tenant, retryLetters = [] }: RunState): void {
  for (const { letterId } of retryLetters) reopenLetter(context, tenant, letterId);
}
