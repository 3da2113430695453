// One part of the load: what it is given, and the loop that most of them are.
import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "../src/sdk/index.ts";
import type { Tally } from "./tally.ts";

/** What each lane of the load is given. */
export type Lane = {
  readonly tally: Tally;
  readonly admin: Client;
  readonly signal: AbortSignal;
};

/** One at a time, with pauses between; the last one is finished. */
export async function every(
  pauseMs: number,
  lane: Lane,
  step: (lane: Lane, turn: number) => Promise<void>,
): Promise<void> {
  for (let turn = 0; !lane.signal.aborted; turn += 1) {
    await step(lane, turn);
    await sleep(pauseMs, undefined, { signal: lane.signal }).catch(() => undefined);
  }
}
