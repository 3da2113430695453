// Drill: the owner of a lock cannot renew it for longer than its ttl, under each policy.

import { fenceHeaders } from "../../sdk/fence/fence-headers.ts";
import { runtime } from "../../sdk/runtime.ts";
import type { Drill, Outcome, Size, Stage } from "../drill.ts";
import { holdWithoutRenewals } from "../locks/dropped-renewals.ts";
import { openFencedSink, writeTo } from "../locks/fenced-sink.ts";
import type { DrillTenant } from "../target/target.ts";
import type { Outage, Policy } from "./outcome.ts";
import { outcomeOf } from "./outcome.ts";
import { loseRunLock } from "./run-lock-outage.ts";

export const renewalOutage: Drill = {
  name: "renewal-outage",
  question:
    "When renewals fail for longer than a lock lives, who goes on working, and is anything written twice?",
  expectation:
    "Strict owners are fenced before the lock can be another's, so that two never work at once; owners under continuity warn and go on; a late write is refused under both.",
  steps: [
    "a run of each risk class gets a result: its owner commits, and the commit is on its way for longer than the lock lives",
    "no renewal of that owner gets through; high and standard risk are strict, low goes on",
    "a second result waits for the run and takes it when the lock has expired",
    "the first owner's commit arrives at last",
    "on a deployment: the same with two clients and a public lock, whose renewals the drill drops itself",
  ],
  instance: {
    kind: "inside",
    settings: (size) => {
      const { ttlMs, renewEveryMs, callTimeoutMs } = numbersOf[size];
      return {
        "locks.run.ttlMs": ttlMs,
        "locks.run.renewEveryMs": renewEveryMs,
        "locks.run.callTimeoutMs": callTimeoutMs,
      };
    },
  },
  run: runRenewalOutage,
};

/** `full` is the product's own run lock. */
const numbersOf: Readonly<Record<Size, RunLockNumbers>> = {
  quick: { ttlMs: 1_600, renewEveryMs: 400, callTimeoutMs: 100, secondWorksMs: 200 },
  full: { ttlMs: 30_000, renewEveryMs: 7_500, callTimeoutMs: 2_000, secondWorksMs: 1_000 },
};

type RunLockNumbers = {
  readonly ttlMs: number;
  readonly renewEveryMs: number;
  readonly callTimeoutMs: number;
  readonly secondWorksMs: number;
};

async function runRenewalOutage(stage: Stage): Promise<Outcome> {
  const { target, size, progress } = stage;
  const { ttlMs, secondWorksMs } = numbersOf[size];
  const outages: Outage[] = [];
  if (target.inside === undefined) {
    for (const policy of ["strict", "continuity"] as const satisfies readonly Policy[]) {
      progress(`a client under ${policy} cannot renew its lock of ${ttlMs} ms`);
      outages.push(await loseClientLock(stage, { policy, ttlMs, secondWorksMs }));
    }
    return outcomeOf(outages);
  }
  for (const risk of ["high", "standard", "low"] as const) {
    progress(`the owner of a run of risk ${risk} cannot renew its lock of ${ttlMs} ms`);
    outages.push(await loseRunLock(stage, target.inside, { risk, ttlMs, secondWorksMs }));
  }
  return outcomeOf(outages);
}

type ClientLockTerms = {
  readonly policy: Policy;
  readonly ttlMs: number;
  readonly secondWorksMs: number;
};

async function loseClientLock(stage: Stage, terms: ClientLockTerms): Promise<Outage> {
  const { policy, ttlMs, secondWorksMs } = terms;
  const { signal } = stage;
  const tenant = await stage.target.createTenant();
  const startedMs = runtime.now().monotonicMs;
  const sinceMs = (atMs: number) => atMs - startedMs;
  const nowMs = () => sinceMs(runtime.now().monotonicMs);
  const sink = await openFencedSink(startedMs);
  const resource = `drill/renewal-outage/${policy}`;
  const lock = { resource, owner: "first", ttlMs, signal };
  try {
    const held =
      policy === "strict" ? await holdWithoutRenewals(tenant, lock) : await holdByHand(tenant, lock);
    await writeTo(sink.url, "first", fenceHeaders({ resource, fence: held.fence }));
    const waitMs = Math.min(60_000, 3 * ttlMs);
    const second = await tenant.client.locks.acquire({
      ...{ resource, owner: "second", ttl_ms: ttlMs, wait_ms: waitMs },
    });
    const secondFromMs = nowMs();
    await writeTo(sink.url, "second", fenceHeaders({ resource, fence: second.fence }));
    await runtime.sleep(secondWorksMs, signal);
    const status = await writeTo(sink.url, "first", fenceHeaders({ resource, fence: held.fence }));
    const firstToMs = nowMs();
    await tenant.client.locks.release({ resource, token: second.token });
    const fencedMs = held.lostMs === undefined ? undefined : sinceMs(await held.lostMs);
    return {
      name: policy === "strict" ? "client with withLock" : "client that goes on",
      policy,
      ttlMs,
      first: { fromMs: sinceMs(held.grantedMs), toMs: fencedMs ?? firstToMs },
      second: { fromMs: secondFromMs, toMs: nowMs() },
      fencedMs,
      tolerated: undefined,
      renewalsFailed: held.renewalsFailed(),
      ...{ failedCounted: undefined, abandonedCounted: undefined, refusedCounted: undefined },
      staleWrite: status === 412 ? "refused" : "accepted",
      isWhole: sink.writes.some(({ by, accepted }) => by === "second" && accepted),
    };
  } finally {
    await sink.close();
  }
}

/** A program that neither renews nor looks whether the lock is still its own. */
async function holdByHand(
  tenant: DrillTenant,
  { resource, owner, ttlMs }: { readonly resource: string; readonly owner: string; readonly ttlMs: number },
) {
  const { fence } = await tenant.client.locks.acquire({ resource, owner, ttl_ms: ttlMs });
  const grantedMs = runtime.now().monotonicMs;
  return { fence, grantedMs, lostMs: undefined, renewalsFailed: () => 0 };
}
