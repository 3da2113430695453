// The runs that hold a tenant's slots, for refusals that name them: remembered for a moment, so that hammering costs one read.
import type { TenantId } from "../../domain/tenant.ts";
import { type SlotHolder, slotHolder } from "../../domain/why/explanation.ts";
import type { Engine } from "../engine/engine.ts";

export type SlotHolders = {
  /** Oldest first; undefined when the store does not say in time. Never fails and never keeps a refusal waiting for long. */
  of(tenant: TenantId): Promise<readonly SlotHolder[] | undefined>;
};

/** Named in one answer. */
const shownMax = 10;

/** However many are refused meanwhile, the store is asked once. */
const rememberedMs = 250;

/** A refusal is due at once: names that take longer are left out. */
const waitMaxMs = 250;

/** Bounds the memory; when full all are forgotten and simply read again. */
const tenantsMax = 1_000;

export function createSlotHolders({ ports, config }: Pick<Engine, "ports" | "config">): SlotHolders {
  const { clock, store } = ports;
  const read = new Map<
    TenantId,
    { readonly atMs: number; readonly holders: Promise<readonly SlotHolder[] | undefined> }
  >();
  const deadlineMs = Math.min(waitMaxMs, config["store.callTimeoutMs"]);

  async function readHolders(tenant: TenantId): Promise<readonly SlotHolder[] | undefined> {
    const request = { tenant, limit: shownMax, describe: shownMax };
    try {
      const answer = await store.listActive(request, { deadlineMs });
      return answer.kind === "listed" ? answer.runs.map(slotHolder) : undefined;
    } catch (error) {
      ports.log.warn("the runs that hold the slots could not be read", { tenant, cause: String(error) });
      return undefined;
    }
  }

  return {
    of(tenant) {
      const nowMs = clock.monotonicMs();
      const known = read.get(tenant);
      if (known !== undefined && nowMs - known.atMs < rememberedMs) return known.holders;
      if (read.size >= tenantsMax) read.clear();
      const holders = readHolders(tenant);
      read.set(tenant, { atMs: nowMs, holders });
      return holders;
    },
  };
}
