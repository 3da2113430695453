// Puts together what the flows of runs share.
import type { Config } from "../config.ts";
import type { TenantId } from "../domain/tenant.ts";
import type { Bus } from "../ports/bus.ts";
import type { Ports } from "../ports/ports.ts";
import { type Execute, executeOn, type Store, storeFrom } from "../ports/store.ts";
import { createSlotHolders } from "./admission/slot-holders.ts";
import { createTenantCache } from "./admission/tenant-cache.ts";
import { createSealBook } from "./audit/seal-trail.ts";
import { createCollectedSamples } from "./canaries/collected-samples.ts";
import { createCanarySamples } from "./canaries/samples.ts";
import { createComputing } from "./computing.ts";
import { createAlarms } from "./engine/alarms.ts";
import { createBackground } from "./engine/background.ts";
import { deliverEntry } from "./engine/deliver-entry.ts";
import { type Engine, engineTerms } from "./engine/engine.ts";
import { createRunCache } from "./engine/run-cache.ts";
import { createStoreTime, type StoreTime } from "./engine/store-time.ts";
import { createChangeAnnouncer } from "./events/announce-changes.ts";
import { createEventFeeds } from "./events/event-feeds.ts";
import { createWakes, isChange } from "./events/wakes.ts";
import { createBusyResults } from "./jobs/busy-results.ts";
import { createOffers } from "./jobs/offers.ts";
import { createPendingPublications } from "./jobs/pending-publications.ts";
import { createLockWaiters } from "./locks/lock-waiters.ts";
import { createPlatformSettings } from "./policies/platform-settings.ts";
import { createFullLimits } from "./pools/full-limits.ts";
import { noticePlaces } from "./pools/places.ts";
import { createDefinitions } from "./workflows/definitions.ts";
import { createJudgeHere } from "./workflows/judge-here.ts";

export function createEngine(given: Ports, bus: Bus, config: Config): Engine {
  const storeTime = createStoreTime(given.clock);
  const wakes = createWakes();
  const announcer = createChangeAnnouncer(given.clock, bus);
  const changed = (tenant: TenantId) => {
    wakes.changed(tenant);
    announcer.changed(tenant);
  };
  const ports = { ...given, store: observingAnswers(given.store, storeTime, changed, () => engine) };
  const terms = engineTerms(config);
  const background = createBackground(ports.log);
  const limits = createFullLimits(ports.clock);
  const tenants = createTenantCache(ports.clock, config["admission.tenantCacheMs"]);
  const engine: Engine = {
    ports,
    bus,
    config,
    terms,
    tenants,
    platform: createPlatformSettings({ ports, terms }, tenants),
    busyResults: createBusyResults(ports.clock),
    samples: createCanarySamples(storeTime, ports.metrics),
    collected: createCollectedSamples(),
    definitions: createDefinitions({ ports, terms }),
    judge: ports.judge ?? createJudgeHere(ports.random),
    runs: createRunCache({
      runsMax: config["engine.cachedRunsMax"],
      runBytesMax: config["engine.cachedRunBytesMax"],
      bytesMax: config["engine.cachedBytesMax"],
    }),
    alarms: createAlarms(ports.clock, ({ tenant, runId, timerId }) => {
      const entry = { kind: "timer", entryId: `timer:${timerId}`, timerId } as const;
      background.run("a timer", () => deliverEntry(engine, { tenant, runId, entry }));
    }),
    offers: createOffers(ports, limits, config["jobs.hintsMax"]),
    limits,
    pendingPublications: createPendingPublications(ports, bus),
    background,
    computing: createComputing(ports.clock),
    storeTime,
    feeds: createEventFeeds({ ports, config, terms }, wakes),
    wakes,
    announcer,
    lockWaiters: createLockWaiters(ports, config["locks.public.waitersMax"]),
    seals: createSealBook(ports.anchors),
    slotHolders: createSlotHolders({ ports, config }),
  };
  return engine;
}

/** Learns the store's time from every answer, and wakes the watchers of a changed tenant. */
function observingAnswers(
  store: Store,
  storeTime: StoreTime,
  changed: (tenant: TenantId) => void,
  engine: () => Engine,
): Store {
  const execute = executeOn(store);
  const learn: Execute = async (name, request, options) => {
    const answer = await execute(name, request, options);
    if ("storeTimeMs" in answer) storeTime.learn(answer.storeTimeMs);
    if ("tenant" in request && isChange(name, request, answer)) changed(request.tenant);
    noticePlaces(engine(), name, request, answer);
    return answer;
  };
  return storeFrom(learn, () => store.close());
}
