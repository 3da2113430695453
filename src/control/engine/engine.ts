// What the flows share, and how it is put together: ports, settings, and what this process remembers between calls.
import type { Config } from "../../config.ts";
import { defaultLimits, type EngineLimits } from "../../domain/engine/draft.ts";
import type { RunId } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { Bus } from "../../ports/bus.ts";
import type { CancelTimer, Clock, DefinitionJudge, Log, Ports } from "../../ports/ports.ts";
import {
  type CallOptions,
  type OperationName,
  operationNames,
  type RequestOf,
  type Store,
  type StoreGroup,
  type StoreMethods,
  type StoreOf,
} from "../../ports/store.ts";
import {
  createSlotHolders,
  createTenantCache,
  type SlotHolders,
  type TenantCache,
} from "../admission/tenant-cache.ts";
import type { AskLimits } from "../ask-until-known.ts";
import { createSealBook, type SealBook } from "../audit/seal-trail.ts";
import { type CollectedSamples, createCollectedSamples } from "../canaries/collected-samples.ts";
import { type CanarySamples, createCanarySamples } from "../canaries/samples.ts";
import { type Computing, createComputing } from "../computing.ts";
import { createEventFeeds, type EventFeeds } from "../events/event-feeds.ts";
import {
  type ChangeAnnouncer,
  createChangeAnnouncer,
  createWakes,
  isAudited,
  isChange,
  type Wakes,
} from "../events/wakes.ts";
import { type BusyResults, createBusyResults } from "../jobs/busy-results.ts";
import { claimMatches } from "../jobs/claim-jobs.ts";
import { createHeldHints, type HeldHints } from "../jobs/held-hints.ts";
import { createPendingPublications, type PendingPublications, publishHints } from "../jobs/hints.ts";
import { createOffers, type Offers } from "../jobs/offers.ts";
import { createPolledBatches, type PolledBatches } from "../jobs/poll-jobs.ts";
import { failUnpaid, type Unpaid } from "../jobs/report-result.ts";
import { createWorkers, type SharedWorkers, shareWorkers, type Workers } from "../jobs/workers.ts";
import { createKeyCache, type KeyCache } from "../keys/api-keys.ts";
import { type LockTerms, lockTerms } from "../locks/lease-terms.ts";
import { createLockWaiters, type LockWaiters } from "../locks/lock-waiters.ts";
import { createPlatformSettings, type PlatformSettings } from "../policies/platform-settings.ts";
import {
  createFullLimits,
  createRateAlarms,
  type FullLimits,
  type RateAlarms,
} from "../pools/full-limits.ts";
import { noticePlaces } from "../pools/places.ts";
import { createBudgetGauges } from "../queues/budget-gauges.ts";
import { createQueueGauges, type TenantGauges } from "../queues/queue-gauges.ts";
import { createReadiness, type Readiness } from "../readiness.ts";
import { createDefinitions, type Definitions } from "../workflows/definitions.ts";
import { createTurns, type Turns } from "../workflows/turns.ts";
import { createJudgeHere } from "../workflows/workflows.ts";
import { createRunCache, type RunCache } from "./after-commit.ts";
import { deliverEntry } from "./deliver-entry.ts";
import { wakeRuns } from "./drain-run.ts";
import { createStoreTime, type StoreTime } from "./store-time.ts";

/** `Groups` are those of the store's operations that a flow uses, such as `Engine<"documents">`: all unless it says which. */
export type Engine<Groups extends StoreGroup = StoreGroup> = {
  readonly ports: Ports<StoreOf<Groups>>;
  readonly bus: Bus;
  readonly config: Config;
  readonly terms: EngineTerms;
  readonly tenants: TenantCache;
  readonly keys: KeyCache;
  readonly platform: PlatformSettings;
  readonly busyResults: BusyResults;
  readonly samples: CanarySamples;
  readonly collected: CollectedSamples;
  readonly definitions: Definitions;
  readonly judge: DefinitionJudge;
  /** A dry run is in no hurry: half of the time is everybody else's, however many there are. */
  readonly dryRuns: Turns;
  readonly runs: RunCache;
  readonly alarms: Alarms;
  readonly offers: Offers;
  readonly polledBatches: PolledBatches;
  /** Workers that have spoken to this process. */
  readonly workers: Workers;
  /** Workers that have spoken to any process lately. */
  readonly sharedWorkers: SharedWorkers;
  readonly limits: FullLimits;
  readonly rateAlarms: RateAlarms;
  /** In the background: a job that its budget does not pay for. */
  readonly failUnpaid: (job: Unpaid) => void;
  readonly heldHints: HeldHints;
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
  readonly queueGauges: TenantGauges;
  readonly budgetGauges: TenantGauges;
  readonly readiness: Readiness;
};

/** What the flows of settings, keys, audit trails and canaries use: all of it is kept in the tenant's record and in documents. */
export type SettingsEngine = Engine<"tenants" | "documents">;

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

export function createEngine(given: Ports, bus: Bus, config: Config): Engine {
  const storeTime = createStoreTime(given.clock, given.metrics);
  const wakes = createWakes();
  const announcer = createChangeAnnouncer(given.clock, bus);
  const changed: Observed = (tenant, audited) => {
    wakes.changed(tenant);
    if (audited) wakes.audited(tenant);
    announcer.changed(tenant);
  };
  const ports = { ...given, store: observingAnswers(given.store, storeTime, changed, () => engine) };
  const terms = engineTerms(config);
  const background = createBackground(ports.log);
  const limits = createFullLimits(ports.clock);
  const workers = createWorkers(ports.clock);
  const tenants = createTenantCache(ports.clock, config["admission.tenantCacheMs"]);
  const offers = createOffers(ports, limits, config["jobs.hintsMax"]);
  const sharedWorkers = shareWorkers({ ports, bus }, workers);
  const engine: Engine = {
    ports,
    bus,
    config,
    terms,
    tenants,
    keys: createKeyCache(ports.clock, config["admission.tenantCacheMs"]),
    platform: createPlatformSettings({ ports, terms }, tenants),
    busyResults: createBusyResults(ports.clock),
    samples: createCanarySamples(storeTime, ports.metrics),
    collected: createCollectedSamples(),
    definitions: createDefinitions({ ports, terms }, ports.compile),
    judge: ports.judge ?? createJudgeHere(ports.random),
    dryRuns: createTurns(ports.clock, "as long as a slice"),
    runs: createRunCache({
      runsMax: config["engine.cachedRunsMax"],
      runBytesMax: config["engine.cachedRunBytesMax"],
      bytesMax: config["engine.cachedBytesMax"],
    }),
    alarms: createAlarms(ports.clock, ({ tenant, runId, timerId }) => {
      const entry = { kind: "timer", entryId: `timer:${timerId}`, timerId } as const;
      background.run("a timer", () => deliverEntry(engine, { tenant, runId, entry }));
    }),
    offers,
    polledBatches: createPolledBatches(ports.clock),
    workers,
    sharedWorkers,
    limits,
    rateAlarms: createRateAlarms(ports.clock, (tenant, topic) =>
      background.run("claiming what a rate let wait", () => claimMatches(engine, tenant, [topic])),
    ),
    failUnpaid: (job) => failUnpaid(engine, job),
    heldHints: createHeldHints({
      clock: ports.clock,
      publish: (batch) => publishHints(engine, batch),
      isLeft: offers.remembers,
      isPolledElsewhere: sharedWorkers.isPolledElsewhere,
    }),
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
    queueGauges: createQueueGauges({ ports, terms, storeTime, background }),
    budgetGauges: createBudgetGauges({ ports, config, terms, storeTime, tenants, background }),
    readiness: createReadiness({ ports, config }),
  };
  return engine;
}

type Observed = (tenant: TenantId, audited: boolean) => void;

/** Learns the store's time from every answer, and wakes the watchers of a changed tenant. */
function observingAnswers(
  store: Store,
  storeTime: StoreTime,
  changed: Observed,
  engine: () => Engine,
): Store {
  const observed = <Name extends OperationName>(name: Name) => {
    const operation: StoreMethods[Name] = store[name];
    return async (request: RequestOf<Name>, options: CallOptions) => {
      const answer = await operation(request, options);
      if ("storeTimeMs" in answer) storeTime.learn(answer.storeTimeMs);
      if ("tenant" in request && isChange(name, request, answer))
        changed(request.tenant, isAudited(name, request));
      if (name === "deliver" || name === "setTenant") noticePlaces(engine(), name, request, answer);
      if ("tenant" in request && (answer.kind === "queued" || "woken" in answer))
        wakeRuns(engine(), request.tenant, name, answer);
      return answer;
    };
  };
  const methods = operationNames.map((name) => [name, observed(name)]);
  return { ...(Object.fromEntries(methods) as StoreMethods), close: () => store.close() };
}

/** Work that goes on after its caller has been answered: counted, so that a stop can wait for it. */
type Background = {
  /** A failure is logged: no caller waits for it any more. */
  run(what: string, work: () => Promise<unknown>): void;
  /** Resolves when nothing is under way. */
  idle(): Promise<void>;
};

function createBackground(log: Log): Background {
  const underWay = new Set<Promise<void>>();
  return {
    run(what, work) {
      const task = work().then(
        () => {},
        (error: unknown) => {
          log.error(`${what} failed`, {
            cause: error instanceof Error ? (error.stack ?? error.message) : String(error),
          });
        },
      );
      underWay.add(task);
      void task.then(() => underWay.delete(task));
    },
    async idle() {
      while (underWay.size > 0) await Promise.all(underWay);
    },
  };
}

type AlarmTarget = { readonly tenant: TenantId; readonly runId: RunId; readonly timerId: string };

/** Local alarms for the timers that this process set: exact while it lives. The sweep finds them after a crash. */
type Alarms = {
  set(target: AlarmTarget, afterMs: number): void;
  clear(target: AlarmTarget): void;
  /** Forgets all alarms and sets no more: what is still under way commits, and the sweep of others is its net. */
  close(): void;
};

/** The longest that a timer of the platform can wait; what is later is left to the sweep. */
const longestMs = 2_147_483_000;

/** Bounds the memory; beyond it timers are up to a sweep late. */
const alarmsMax = 100_000;

export function createAlarms(clock: Clock, ring: (target: AlarmTarget) => void): Alarms {
  const alarms = new Map<string, CancelTimer>();
  let closed = false;
  const keyOf = ({ runId, timerId }: AlarmTarget) => `${runId} ${timerId}`;
  const clear = (key: string) => {
    alarms.get(key)?.();
    alarms.delete(key);
  };
  return {
    set(target, afterMs) {
      const key = keyOf(target);
      clear(key);
      if (closed || afterMs > longestMs || alarms.size >= alarmsMax) return;
      // One millisecond more: the store compares whole milliseconds, and an alarm that is early is in vain.
      const cancel = clock.timer(Math.max(0, afterMs) + 1, () => {
        alarms.delete(key);
        ring(target);
      });
      alarms.set(key, cancel);
    },
    clear: (target) => clear(keyOf(target)),
    close() {
      closed = true;
      for (const cancel of alarms.values()) cancel();
      alarms.clear();
    },
  };
}

/** A process that enqueues jobs must know this, even if another process asks the check. */
export function holdsHighRisk(config: Config): boolean {
  const hold = config["dispatch.hold"];
  return hold === "high" || (hold === "auto" && config["dispatch.checkUrl"] !== "");
}

/** For a process that was given its check as a function: `auto` means that it has one. */
export function withDispatchCheck(config: Config): Config {
  return config["dispatch.hold"] === "auto" ? { ...config, "dispatch.hold": "high" } : config;
}
