// A client holds a public lock and cannot renew it: with `withLock`, or with a program of its own that never looks.
import { fenceHeaders } from "../../sdk/fence.ts";
import { runtime } from "../../sdk/runtime.ts";
import type { Stage } from "../drill.ts";
import { holdWithoutRenewals, openFencedSink, writeTo } from "../locks/public-locks.ts";
import type { DrillTenant } from "../target/target.ts";
import type { Outage, Policy } from "./outcome.ts";

type ClientLockTerms = {
  readonly policy: Policy;
  readonly ttlMs: number;
  readonly secondWorksMs: number;
};

export async function loseClientLock(stage: Stage, terms: ClientLockTerms): Promise<Outage> {
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
      lateWrite: { expected: "refused", seen: status === 412 ? "refused" : "accepted" },
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
