// What is remembered of tenants for a moment: their settings, so that a start costs no call for them, and who holds their slots.
import { type GateId, tenantGate } from "../../domain/gates.ts";
import type { TenantId, TenantSettings } from "../../domain/tenant.ts";
import { type SlotHolder, slotHolder } from "../../domain/why/explanation.ts";
import type { Clock } from "../../ports/ports.ts";
import { ask } from "../ask-until-known.ts";
import type { Engine } from "../engine/engine.ts";

export type TenantCache = {
  /** The settings as they were last learnt, unless that is too long ago. */
  recall(tenant: TenantId): TenantSettings | undefined;
  learn(tenant: TenantId, settings: TenantSettings): void;
  /** However many ask at once, one asks the store. What it read is learnt, unless it was changed meanwhile. */
  shareRead(
    tenant: TenantId,
    read: () => Promise<TenantSettings | undefined>,
  ): Promise<TenantSettings | undefined>;
  /** Another process has changed them. */
  forget(tenant: TenantId): void;
};

type Entry = { readonly settings: TenantSettings; readonly learntAtMs: number };

/** Bounds the memory; when full the tenant learnt first is forgotten and simply looked up again. */
const tenantsMax = 10_000;

export function createTenantCache(clock: Clock, keepMs: number): TenantCache {
  const entries = new Map<TenantId, Entry>();
  const reads = new Map<TenantId, Promise<TenantSettings | undefined>>();
  const learn = (tenant: TenantId, settings: TenantSettings) => {
    const [oldest] = entries.keys();
    if (entries.size >= tenantsMax && oldest !== undefined) entries.delete(oldest);
    entries.set(tenant, { settings, learntAtMs: clock.monotonicMs() });
  };
  return {
    recall(tenant) {
      const entry = entries.get(tenant);
      if (entry === undefined) return undefined;
      if (clock.monotonicMs() - entry.learntAtMs < keepMs) return entry.settings;
      entries.delete(tenant);
      return undefined;
    },
    learn,
    shareRead(tenant, read) {
      const underWay = reads.get(tenant);
      if (underWay !== undefined) return underWay;
      const begun = read().then((settings) => {
        if (settings !== undefined && reads.get(tenant) === begun) learn(tenant, settings);
        return settings;
      });
      reads.set(tenant, begun);
      const end = () => void (reads.get(tenant) === begun && reads.delete(tenant));
      begun.then(end, end);
      return begun;
    },
    forget(tenant) {
      entries.delete(tenant);
      reads.delete(tenant);
    },
  };
}

/** The tenant's settings as of at most a few seconds ago; undefined when the store does not answer. */
export function settingsOf(
  engine: Pick<Engine<"tenants">, "ports" | "terms" | "tenants">,
  tenant: TenantId,
): TenantSettings | undefined | Promise<TenantSettings | undefined> {
  const { tenants } = engine;
  const known = tenants.recall(tenant);
  if (known !== undefined) return known;
  return tenants.shareRead(tenant, async () => {
    const answer = await ask(engine, "getTenant", { tenant });
    return answer.kind === "tenant" ? answer.record.settings : undefined;
  });
}

/** The runs that hold the places of a gate, by default a tenant's slots, for refusals that name them: remembered for a moment, so that hammering costs one read. */
export type SlotHolders = {
  /** Oldest first; undefined when the store does not say in time. Never fails and never keeps a refusal waiting for long. */
  of(tenant: TenantId, gate?: GateId): Promise<readonly SlotHolder[] | undefined>;
};

/** Named in one answer. */
const shownMax = 10;

/** However many are refused meanwhile, the store is asked once. */
const rememberedMs = 250;

/** A refusal is due at once: names that take longer are left out. */
const waitMaxMs = 250;

/** Bounds the memory; when full all are forgotten and simply read again. */
const tenantsReadMax = 1_000;

export function createSlotHolders({
  ports,
  config,
}: Pick<Engine<"admission" | "queues">, "ports" | "config">): SlotHolders {
  const { clock, store } = ports;
  const read = new Map<
    string,
    { readonly atMs: number; readonly holders: Promise<readonly SlotHolder[] | undefined> }
  >();
  const deadlineMs = Math.min(waitMaxMs, config["store.callTimeoutMs"]);

  async function readHolders(
    tenant: TenantId,
    gate: GateId | undefined,
  ): Promise<readonly SlotHolder[] | undefined> {
    const request = { tenant, limit: shownMax, describe: shownMax };
    try {
      if (gate !== undefined && gate !== tenantGate) {
        const inspected = await store.inspectGate({ tenant, gate, limit: shownMax }, { deadlineMs });
        return inspected.kind === "gate" ? inspected.holders.map(slotHolder) : undefined;
      }
      const answer = await store.listActive(request, { deadlineMs });
      return answer.kind === "listed" ? answer.runs.map(slotHolder) : undefined;
    } catch (error) {
      ports.log.warn("the runs that hold the slots could not be read", { tenant, cause: String(error) });
      return undefined;
    }
  }

  return {
    of(tenant, gate) {
      const nowMs = clock.monotonicMs();
      const key = `${tenant} ${gate ?? ""}`;
      const known = read.get(key);
      if (known !== undefined && nowMs - known.atMs < rememberedMs) return known.holders;
      if (read.size >= tenantsReadMax) read.clear();
      const holders = readHolders(tenant, gate);
      read.set(key, { atMs: nowMs, holders });
      return holders;
    },
  };
}
