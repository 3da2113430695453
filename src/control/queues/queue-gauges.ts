// What metrics say of queues: read from the store now and then, of tenants of whose queues this process has heard.
import type { TenantId } from "../../domain/tenant.ts";
import type { GateState } from "../../ports/queue-operations.ts";
import { ask } from "../ask-until-known.ts";
import type { Engine } from "../engine/engine.ts";

export type QueueGauges = {
  /** A run waits in the tenant, or has got its place. */
  heard(tenant: TenantId): void;
  close(): void;
};

/** While runs wait: a gauge that is later than this is of no use to an alert. */
const readEveryMs = 10_000;
/** Bounds the memory and the reads; labels of metrics end sooner. */
const tenantsMax = 1_000;
const gatesMax = 100;
/** Of a tenant's gates those with the longest queues. */
const headsMax = 5;

type Gauged = Pick<Engine<"queues">, "ports" | "terms" | "storeTime" | "background">;

/** Nothing is read, and no timer runs, while no run waits. */
export function createQueueGauges(engine: Gauged): QueueGauges {
  const { clock, metrics } = engine.ports;
  const tenants = new Set<TenantId>();
  let cancelTimer: (() => void) | undefined;
  let isClosed = false;

  function later(): void {
    if (isClosed || cancelTimer !== undefined || tenants.size === 0) return;
    cancelTimer = clock.timer(readEveryMs, () => {
      cancelTimer = undefined;
      engine.background.run("reading queues", readAll);
    });
  }

  async function readAll(): Promise<void> {
    for (const tenant of [...tenants]) await read(tenant);
    later();
  }

  async function read(tenant: TenantId): Promise<void> {
    const listed = await ask(engine, "listGates", { tenant, after: "", limit: gatesMax });
    if (listed.kind !== "listed") return;
    metrics.set("queued_runs", { tenant }, listed.queued);
    metrics.set("queue_head_age_seconds", { tenant }, await headAgeSeconds(engine, tenant, listed.gates));
    if (listed.queued === 0) tenants.delete(tenant);
  }

  return {
    heard(tenant) {
      if (tenants.size < tenantsMax) tenants.add(tenant);
      later();
    },
    close() {
      isClosed = true;
      cancelTimer?.();
    },
  };
}

/** Of the runs that are next at their gates, the one that has waited longest. */
async function headAgeSeconds(
  engine: Gauged,
  tenant: TenantId,
  gates: readonly GateState[],
): Promise<number> {
  const longest = gates.toSorted((one, other) => other.waiting - one.waiting).slice(0, headsMax);
  let sinceMs = engine.storeTime.nowMs();
  for (const { gate } of longest) {
    const answer = await ask(engine, "inspectGate", { tenant, gate, limit: 1 });
    const waits = answer.kind === "gate" ? answer.queue[0]?.gates?.waits : undefined;
    if (waits !== undefined) sinceMs = Math.min(sinceMs, waits.sinceMs);
  }
  return Math.max(0, engine.storeTime.nowMs() - sinceMs) / 1_000;
}
