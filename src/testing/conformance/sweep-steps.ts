// Steps of the cases about the sweep: sweeping once, until something is found, or until some time has passed.
import type { RunId } from "../../domain/run.ts";
import type { OutcomeOf } from "../../ports/store.ts";
import { call, type Harness, only } from "./harness.ts";

type Swept = Extract<OutcomeOf<"sweep">, { kind: "swept" }>;

export const nothing: Swept = {
  kind: "swept",
  waiting: [],
  unclaimed: [],
  repairs: [],
  lostClaims: 0,
};

export function sweepOnce({ store, partition }: Harness) {
  return store.sweep({ partition }, call);
}

/** Sweeps until something of the kind asked for was found; adds up all that was found on the way. */
export async function sweepUntil(
  harness: Harness,
  found: (sum: Swept) => boolean | Promise<boolean>,
): Promise<Swept> {
  let sum = nothing;
  await harness.until(async () => {
    const answer = await sweepOnce(harness);
    if (answer.kind === "swept") sum = added(sum, answer);
    return found(sum);
  });
  return sum;
}

function added(left: Swept, right: Swept): Swept {
  return {
    kind: "swept",
    waiting: [...left.waiting, ...right.waiting],
    unclaimed: [...left.unclaimed, ...right.unclaimed],
    repairs: [...left.repairs, ...right.repairs],
    lostClaims: left.lostClaims + right.lostClaims,
  };
}

/** Sweeps until the run is not there any more; adds up all that was found on the way. */
export function sweepUntilRemoved(harness: Harness, runId: RunId): Promise<Swept> {
  const { store, tenant } = harness;
  const header = { tenant, runId, records: [] };
  return sweepUntil(harness, async () => (await store.loadRun(header, call)).kind === "not_found");
}

export function take(harness: Harness, runId: RunId) {
  const { tenant } = harness;
  return harness.store.takeRun({ tenant, runId, take: harness.take(), records: [] }, call);
}

export async function entryKinds(harness: Harness, runId: RunId): Promise<readonly string[]> {
  return only(await take(harness, runId), "owned").entries.map(({ kind }) => kind);
}

/** Sweeps all the time until so much of the store's time has passed. */
export async function sweepUntilPast(harness: Harness, afterMs: number): Promise<Swept> {
  const endMs = (await harness.now()) + afterMs;
  let sum = nothing;
  await harness.until(async () => {
    const answer = await sweepOnce(harness);
    if (answer.kind === "swept") sum = added(sum, answer);
    return (await harness.now()) > endMs;
  });
  return sum;
}
