// What metrics say of queues: read from the store now and then, of tenants of whose queues this process has heard.
import type { TenantId } from "../../domain/tenant.ts";
import type { GateState } from "../../ports/queue-operations.ts";
import { ask } from "../ask-until-known.ts";
import type { Engine } from "../engine/engine.ts";

export type TenantGauges = {
  /** There is something to read of the tenant: a run waits, or has got its place; a job was claimed that a budget pays for. */
  heard(tenant: TenantId): void;
  close(): void;
};

/** A gauge that is later than this is of no use to an alert. */
const readEveryMs = 10_000;
/** Bounds the memory and the reads; labels of metrics end sooner. */
const tenantsMax = 1_000;
const gatesMax = 100;
/** Of a tenant's gates those with the longest queues. */
const headsMax = 5;

type Gauged = Pick<Engine<"queues" | "tenants">, "ports" | "terms" | "storeTime" | "background">;

/** Sets the gauges of a tenant, and says whether there is more to come. */
type Reading = (tenant: TenantId) => Promise<boolean>;

/** Nothing is read, and no timer runs, while no tenant has anything to tell. */
export function createTenantGauges({ ports, background }: Gauged, what: string, read: Reading): TenantGauges {
  const tenants = new Set<TenantId>();
  let cancelTimer: (() => void) | undefined;
  let isClosed = false;

  function later(): void {
    if (isClosed || cancelTimer !== undefined || tenants.size === 0) return;
    cancelTimer = ports.clock.timer(readEveryMs, () => {
      cancelTimer = undefined;
      background.run(what, readAll);
    });
  }

  async function readAll(): Promise<void> {
    for (const tenant of [...tenants]) if (!(await read(tenant))) tenants.delete(tenant);
    later();
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

export function createQueueGauges(engine: Gauged): TenantGauges {
  const { metrics } = engine.ports;
  return createTenantGauges(engine, "reading queues", async (tenant) => {
    const listed = await ask(engine, "listGates", { tenant, after: "", limit: gatesMax });
    if (listed.kind !== "listed") return true;
    metrics.set("queued_runs", { tenant }, listed.queued);
    metrics.set("queue_head_age_seconds", { tenant }, await headAgeSeconds(engine, tenant, listed.gates));
    return listed.queued > 0;
  });
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
