// The first stage: renewals fail, the lock expires, and its old owner renews, releases and writes, all in one scenario.
import { fenceHeaders } from "../../sdk/fence/fence-headers.ts";
import { runtime } from "../../sdk/runtime.ts";
import { type Check, check, type Stage } from "../drill.ts";
import { asked, describeOutcome, isNotOwned } from "../locks/asked.ts";
import { holdWithoutRenewals } from "../locks/dropped-renewals.ts";
import { openFencedSink, type SinkWrite, writeTo } from "../locks/fenced-sink.ts";
import type { DrillTenant } from "../target/target.ts";

export type StageResult = { readonly checks: readonly Check[]; readonly writes: readonly SinkWrite[] };

const [oldOwner, newOwner] = ["old-owner", "new-owner"];

/** At least so long the new owner has the lock: everything is looked at while it does. */
const newTtlMs = 30_000;

export async function failThreeWays(
  { target, signal }: Stage,
  {
    tenant,
    ttlMs,
    startedMs,
  }: { readonly tenant: DrillTenant; readonly ttlMs: number; readonly startedMs: number },
): Promise<StageResult> {
  const resource = "drill/staged-failure/three";
  const sink = await openFencedSink(startedMs);
  const other = tenant.clientAt(target.urls.at(-1) ?? tenant.client.url);
  try {
    const askedMs = runtime.now().monotonicMs;
    const old = await holdWithoutRenewals(tenant, { resource, owner: oldOwner, ttlMs, signal });
    const accepted = await writeTo(sink.url, oldOwner, fenceHeaders({ resource, fence: old.fence }));
    const next = await other.locks.acquire({
      ...{ resource, owner: newOwner, ttl_ms: newTtlMs, wait_ms: Math.min(60_000, 3 * ttlMs) },
    });
    const takenMs = runtime.now().monotonicMs - askedMs;
    const stoppedMs = (await old.lostMs) - askedMs;
    const taken = await writeTo(sink.url, newOwner, fenceHeaders({ resource, fence: next.fence }));
    const renewed = await asked(tenant.client.locks.renew({ resource, token: old.token, ttl_ms: ttlMs }));
    const released = await asked(tenant.client.locks.release({ resource, token: old.token }));
    const late = await writeTo(sink.url, oldOwner, fenceHeaders({ resource, fence: old.fence }));
    const held = await asked(other.locks.get(resource));
    const holder = held.kind === "answered" ? held.value.owner : undefined;
    const given = await asked(other.locks.release({ resource, token: next.token }));
    const checks = [
      check(
        "renew failure: the owner is told to stop before the lock can be another's",
        `before ${ttlMs} ms`,
        `after ${Math.round(stoppedMs)} ms, ${old.renewalsFailed()} renewals failed`,
        stoppedMs < ttlMs && old.renewalsFailed() > 0,
      ),
      check(
        "ttl expiry: the next owner gets the lock, with a higher fence",
        `after ${ttlMs} ms, above ${old.fence}`,
        `after ${Math.round(takenMs)} ms, ${next.fence}`,
        takenMs >= ttlMs && next.fence > old.fence,
      ),
      check("stale renew", "409 lock not owned", describeOutcome(renewed, "renewed"), isNotOwned(renewed)),
      check(
        "stale release",
        "409 lock not owned",
        describeOutcome(released, "released"),
        isNotOwned(released),
      ),
      check(
        "writes: old owner, new owner, old owner again",
        "204, 204, 412",
        [accepted, taken, late].join(", "),
        accepted === 204 && taken === 204 && late === 412,
      ),
      check(
        "the new owner holds the lock throughout, and gives it back",
        `${newOwner}, released`,
        `${holder ?? "nobody"}, ${describeOutcome(given, "released")}`,
        holder === newOwner && given.kind === "answered",
      ),
    ];
    return { checks, writes: sink.writes };
  } finally {
    await sink.close();
  }
}
