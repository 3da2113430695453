// What can be seen of the admission gate during a burst: who arrives at the lock key, and what the store says it admitted.
import type { Answer, OperationName, RequestOf } from "../../ports/store.ts";
import { runtime } from "../../sdk/runtime.ts";
import type { DrillTenant, Inside, Target } from "../target/target.ts";

export type GateSeen = {
  /** When each try for the admission lock was sent, from the first on; absent when the gate is in another process. */
  readonly arrivalsMs?: readonly number[];
  /** When each that found the lock busy is due to come back, in order: arrivals without what a busy machine adds to them. */
  readonly dueMs?: readonly number[];
  /** The most active runs that the store has reported with an admission; absent likewise. */
  readonly activeMost?: number;
  /** Tries that found the lock busy and waited. Of a deployment, everybody's. */
  readonly busyRetries: number;
};

export type GateWatch = { seen(): Promise<GateSeen> };

export async function watchGate(target: Target, tenant: DrillTenant): Promise<GateWatch> {
  const busyBefore = await busyRetriesOf(target);
  const inside = target.inside === undefined ? undefined : watchInside(target.inside, tenant.id);
  return {
    async seen() {
      const busyRetries = (await busyRetriesOf(target)) - busyBefore;
      return inside === undefined ? { busyRetries } : { busyRetries, ...inside.seen() };
    },
  };
}

/** A gateway that a burst has just been through may shed this request as well: it is asked again. */
async function busyRetriesOf(target: Target): Promise<number> {
  for (let tries = 1; ; tries += 1) {
    try {
      return (await target.readMetrics()).sum("lock_busy_retries_total", { path: "admission" });
    } catch (error) {
      if (tries === metricsTriesMax) throw error;
      await runtime.sleep(500);
    }
  }
}

const metricsTriesMax = 10;

function watchInside(inside: Inside, tenant: string) {
  const arrivalsMs: number[] = [];
  const dueMs: number[] = [];
  let activeMost = 0;
  const nowMs = () => runtime.now().monotonicMs;
  const leaveMetrics = inside.watchMetrics({
    observe(name, _labels, value) {
      if (name === "lock_busy_retry_delay_seconds") dueMs.push(nowMs() + value * 1_000);
    },
  });
  const leaveStore = inside.watchStore({
    sent(name, request) {
      if (isArrival(name, request, tenant)) arrivalsMs.push(nowMs());
    },
    answered(name, request, answer) {
      activeMost = Math.max(activeMost, activeAfter(name, request, answer, tenant));
    },
  });
  return {
    seen() {
      leaveStore();
      leaveMetrics();
      const firstMs = arrivalsMs[0] ?? 0;
      const sinceFirst = (timesMs: readonly number[]) =>
        timesMs.map((timeMs) => timeMs - firstMs).sort((left, right) => left - right);
      return { arrivalsMs: sinceFirst(arrivalsMs), dueMs: sinceFirst(dueMs), activeMost };
    },
  };
}

function isArrival<Name extends OperationName>(
  name: Name,
  request: RequestOf<Name>,
  tenant: string,
): boolean {
  if (name !== "acquireLock") return false;
  const { lock, tenant: asking } = request as RequestOf<"acquireLock">;
  return lock.namespace === "admission" && asking === tenant;
}

/** The active runs that an admission of this tenant tells, its own among them; 0 for everything else. */
function activeAfter<Name extends OperationName>(
  name: Name,
  request: RequestOf<Name>,
  answer: Answer<Name>,
  tenant: string,
): number {
  if (name !== "admit" && name !== "createRun") return 0;
  if ((request as RequestOf<"admit">).tenant !== tenant) return 0;
  const admission = answer as Answer<"admit"> | Answer<"createRun">;
  return admission.kind === "admitted" || admission.kind === "created" ? admission.active : 0;
}
