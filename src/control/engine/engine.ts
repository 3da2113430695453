// What the flows of runs share: ports, settings, and what this process remembers between calls.
import type { Config } from "../../config.ts";
import { defaultLimits, type EngineLimits } from "../../domain/engine/draft.ts";
import type { TenantId, TenantSettings } from "../../domain/tenant.ts";
import type { Bus } from "../../ports/bus.ts";
import type { DefinitionJudge, Ports } from "../../ports/ports.ts";
import type { Store, StoreOf } from "../../ports/store.ts";
import type { SlotHolders } from "../admission/slot-holders.ts";
import type { TenantCache } from "../admission/tenant-cache.ts";
import { type AskLimits, ask } from "../ask-until-known.ts";
import type { SealBook } from "../audit/seal-trail.ts";
import type { CollectedSamples } from "../canaries/collected-samples.ts";
import type { CanarySamples } from "../canaries/samples.ts";
import type { Computing } from "../computing.ts";
import type { ChangeAnnouncer } from "../events/announce-changes.ts";
import type { EventFeeds } from "../events/event-feeds.ts";
import type { Wakes } from "../events/wakes.ts";
import type { BusyResults } from "../jobs/busy-results.ts";
import type { Offers } from "../jobs/offers.ts";
import type { PendingPublications } from "../jobs/pending-publications.ts";
import { type LockTerms, lockTerms } from "../locks/lease-terms.ts";
import type { LockWaiters } from "../locks/lock-waiters.ts";
import type { PlatformSettings } from "../policies/platform-settings.ts";
import type { FullLimits } from "../pools/full-limits.ts";
import { holdsHighRisk } from "../scheduler/holding.ts";
import type { Definitions } from "../workflows/definitions.ts";
import type { Alarms } from "./alarms.ts";
import type { Background } from "./background.ts";
import type { RunCache } from "./run-cache.ts";
import type { StoreTime } from "./store-time.ts";

/** `Uses` is the part of the store that a flow uses, such as `StoreOf<"locks">`: all of it unless the flow says which. */
export type Engine<Uses = Store> = {
  readonly ports: Ports<Uses>;
  readonly bus: Bus;
  readonly config: Config;
  readonly terms: EngineTerms;
  readonly tenants: TenantCache;
  readonly platform: PlatformSettings;
  readonly busyResults: BusyResults;
  readonly samples: CanarySamples;
  readonly collected: CollectedSamples;
  readonly definitions: Definitions;
  readonly judge: DefinitionJudge;
  readonly runs: RunCache;
  readonly alarms: Alarms;
  readonly offers: Offers;
  readonly limits: FullLimits;
  readonly pendingPublications: PendingPublications;
  readonly background: Background;
  readonly computing: Computing;
  readonly storeTime: StoreTime;
  readonly feeds: EventFeeds;
  readonly wakes: Wakes;
  readonly announcer: ChangeAnnouncer;
  readonly lockWaiters: LockWaiters;
  readonly seals: SealBook;
  readonly slotHolders: SlotHolders;
};

/** What the settings say of calls, commits and locks: worked out once, when the process starts. */
type EngineTerms = {
  readonly store: AskLimits;
  readonly admission: AskLimits;
  readonly commit: EngineLimits;
  readonly locks: LockTerms;
};

export function engineTerms(config: Config): EngineTerms {
  const callTimeoutMs = config["store.callTimeoutMs"];
  return {
    store: { callTimeoutMs, budgetMs: 2 * callTimeoutMs },
    admission: { callTimeoutMs: config["admission.callTimeoutMs"], budgetMs: config["admission.resolveMs"] },
    commit: {
      ...defaultLimits,
      itemsMax: config["runs.forEachItemsMax"],
      depthMax: config["runs.depthMax"],
      startRecordsMax: config["admission.recordsMax"],
      startBytesMax: Math.min(defaultLimits.startBytesMax, config["admission.recordBytesMax"]),
      ...(holdsHighRisk(config) ? { holdsHighRisk: true as const } : {}),
    },
    locks: lockTerms(config),
  };
}

/** The tenant's settings as of at most a few seconds ago; undefined when the store does not answer. */
export function settingsOf(
  engine: Pick<Engine<StoreOf<"tenants">>, "ports" | "terms" | "tenants">,
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
