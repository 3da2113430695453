// All the load of a chaos run, from its first request to its last answer.
import { setTimeout as sleep } from "node:timers/promises";
import type { SeededRandom } from "../src/testing/seeded-random.ts";
import type { Asker } from "./asking.ts";
import { type Knowledge, type Lane, useLedger } from "./ledger-load.ts";
import { useLocks } from "./lock-load.ts";
import type { System } from "./system.ts";
import { anyQueued, anyWork, decideApprovals, useWorkers } from "./work-load.ts";

export type Load = {
  readonly knowledge: Knowledge;
  /** Nothing is started any more. Resolves when every client has its last answer; rejects when one of them is broken. */
  stop(): Promise<void>;
  /** The approvers as well. */
  rest(): Promise<void>;
};

export type LoadOptions = {
  readonly system: System;
  readonly asker: Asker;
  readonly random: SeededRandom;
  readonly restFactor: number;
};

const ledgersAtOnce = 3;
const lockGroups = 2;
/** Its history is decided as a whole: the longer it is, the dearer. */
const ledgerMs = 45_000;

export function startLoad({ system, asker, random, restFactor }: LoadOptions): Load {
  const stopping = new AbortController();
  const knowledge: Knowledge = { runs: new Map(), keys: new Map(), runOfKey: new Map() };
  const lane: Lane = { asker, urls: system.urls, random, signal: stopping.signal, restFactor };
  let ledgers = 0;
  const ledgerLane = async () => {
    while (!stopping.signal.aborted) {
      ledgers += 1;
      const tenant = await system.tenants.makeLedger(ledgers);
      const over = AbortSignal.any([stopping.signal, AbortSignal.timeout(ledgerMs)]);
      await useLedger({ ...lane, signal: over }, knowledge, tenant, system.tenants.platform);
    }
  };
  const { work, queued, locks } = system.tenants;
  const all = Promise.all([
    ...Array.from({ length: ledgersAtOnce }, ledgerLane),
    ...work.map((tenant) => useWorkers(lane, knowledge, tenant, anyWork)),
    useWorkers(lane, knowledge, queued, anyQueued),
    useLocks({ lane, tenant: locks, outsideUrl: system.outsideUrl, groups: lockGroups }),
  ]);
  const resting = new AbortController();
  const approving = Promise.all(
    work.map((tenant) => decideApprovals({ ...lane, signal: resting.signal }, tenant)),
  );
  approving.catch(() => undefined);
  // Told by `stop`, and not as a rejection that nobody handles meanwhile.
  all.catch(() => undefined);
  return {
    knowledge,
    async stop() {
      stopping.abort();
      await all;
    },
    async rest() {
      resting.abort();
      await approving;
    },
  };
}

/** Waits for a condition; false when it did not come in time. */
export async function cameTrue(withinMs: number, condition: () => Promise<boolean>): Promise<boolean> {
  const endMs = performance.now() + withinMs;
  while (performance.now() < endMs) {
    if (await condition()) return true;
    await sleep(200);
  }
  return false;
}
