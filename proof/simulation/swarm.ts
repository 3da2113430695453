// What one seed is about: its size, its numbers, and which faults exist in it. Drawn first, so that seeds differ in kind.
import type { Config } from "../../src/config.ts";
import type { AdmissionStrategy, TenantSettings, WaitPolicy } from "../../src/domain/tenant.ts";
import { loadConfig } from "../../src/load-config.ts";
import { defaultStoreSettings, type StoreSettings } from "../../src/ports/store.ts";
import type { SeededRandom } from "../../src/testing/seeded-random.ts";
import { noStoreFaults, type StoreFaults } from "../../src/testing/store-link.ts";
import { type BusFaults, noBusFaults } from "./bus/simulated-bus.ts";
import { drawEmbedded, drawHarderFaults, drawTail, type HarderFaults } from "./faults/loss-faults.ts";
import type { GateLoad } from "./gated-swarm.ts";
import type { MeterLoad } from "./metered-swarm.ts";
import { type Narrowing, narrowSwarm } from "./narrow-swarm.ts";

export type Swarm = UsualSwarm & HarderFaults & Narrowing;

type UsualSwarm = {
  /** True when no fault exists: then nothing may be unknown. */
  readonly calm: boolean;
  /** Parents start children in such a seed, whatever the limit of their tenant. */
  readonly large?: true;
  readonly chaosMs: number;
  readonly gateways: ReadonlyArray<{ readonly strategy: AdmissionStrategy; readonly wait: WaitPolicy }>;
  /** Processes that only sweep and apply, or only ask the dispatch check; without engines every gateway does all of it. */
  readonly engines: number;
  readonly schedulers: number;
  readonly tenants: number;
  readonly clientsPerGateway: number;
  readonly endersPerGateway: number;
  readonly lockUsersPerGateway: number;
  /** Present when workflows have gates at which runs wait. */
  readonly gates?: GateLoad;
  /** Present when starts and work are limited by rates and budgets, too. */
  readonly meters?: MeterLoad;
  /** Present when gateways also run workflows. */
  readonly workflows?: Crowd;
  /** Limits on running jobs that every tenant has from its first change on, and the pools of the workers. */
  readonly places: Pick<TenantSettings, "topics" | "pools">;
  readonly pools: ReadonlyArray<string | undefined>;
  /** How long a worker may be silent. */
  readonly leaseMs: number;
  /** Keys in use at a time; they are replaced by new ones every `keyEpochMs`. */
  readonly keys: number;
  readonly keyEpochMs: number;
  readonly keylessRate: number;
  readonly otherFingerprintRate: number;
  readonly abortRate: number;
  /** The longest that a caller waits between two requests. */
  readonly thinkMsMax: number;
  /** How often an operator changes a tenant. */
  readonly changeEveryMs: number;
  readonly config: Partial<Config>;
  readonly storeSettings: StoreSettings;
  readonly faults: StoreFaults;
  readonly busFaults: BusFaults;
  readonly processFaults: ProcessFaults;
};

/** How many of each kind, per gateway; workers have processes of their own. */
export type Crowd = {
  readonly workers: number;
  readonly starters: number;
  readonly approvers: number;
  readonly cancellers: number;
  readonly deleters: number;
  readonly authors: number;
  readonly takersInVain: number;
  readonly letterKeepers: number;
  readonly rerunners: number;
  /** Those who take public locks have processes of their own, too. */
  readonly lockAgents: number;
  readonly lockBreakers: number;
  readonly followers: number;
  /** Those who move runs that wait at gates; none where there are no gates. */
  readonly movers: number;
};

type ProcessFaults = {
  /** Mean time between two of a kind over all gateways; absent means that this fault does not exist. */
  readonly pauseEveryMs?: number;
  readonly pauseMsMax: number;
  readonly crashEveryMs?: number;
  readonly wallJumpEveryMs?: number;
  /** Clock rates lie within this fraction of 1. */
  readonly clockSkewMax: number;
};

export function drawSwarm(random: SeededRandom): Swarm {
  const ttls = drawTtls(random);
  const longestTtlMs = Math.max(...Object.values(ttls));
  const calm = random.chance(0.1);
  const storeSettings = drawStoreSettings(random);
  const drawn = keepingGraves({
    calm,
    // Most seeds are small: twice as many in the same time find more than fewer large ones do.
    chaosMs: random.integer(700, random.pick([1_200, 1_400, 1_600, 2_000, 6_000])),
    gateways: Array.from({ length: random.pick([1, 1, 1, 2, 2, 2, 3, 4]) }, () => ({
      strategy: random.pick(["atomic", "lock"]),
      wait: random.pick(["fixed", "jitter"]),
    })),
    tenants: random.pick([1, 1, 2, 3]),
    ...drawTopology(random.stream("topology")),
    ...drawCallers(random),
    keys: random.integer(1, 5),
    keyEpochMs: random.integer(200, 2_500),
    keylessRate: random.pick([0.1, 0.4, 0.8]),
    otherFingerprintRate: random.pick([0, 0.05, 0.2]),
    abortRate: random.pick([0, 0.05, 0.2]),
    changeEveryMs: random.pick([100, 400, 3_000]),
    leaseMs: ttls.claimMs,
    ...drawPlaces(random.stream("places")),
    config: drawConfig(random, ttls),
    storeSettings,
    busFaults: calm ? noBusFaults : { ...drawBusFaults(random), ...drawBusIncidents(random.stream("bus")) },
    faults: calm ? noStoreFaults : keepingRetention(storeSettings, drawStoreFaults(random, longestTtlMs)),
    processFaults: calm ? noProcessFaults : drawProcessFaults(random, longestTtlMs),
    ...(calm ? {} : drawHarderFaults(random.stream("harder"), longestTtlMs)),
  });
  return narrowSwarm(random.stream("narrow"), embedSome(random.stream("embedded"), drawn));
}

/** Only where a jump of days would be noticed: what is kept for seconds must not end by the clock that the store is opened with. */
function embedSome(random: SeededRandom, swarm: Swarm): Swarm {
  const { calm, losses, storeSettings, workflows } = swarm;
  const { runRetentionMs, keyRetentionMs = dayMs } = storeSettings;
  const keepsLong = Math.min(runRetentionMs, keyRetentionMs) >= dayMs && !workflows?.deleters;
  return calm || losses !== undefined || !keepsLong ? swarm : asEmbedded(swarm, drawEmbedded(random));
}

function asEmbedded(swarm: Swarm, drawn: Pick<Swarm, "embedded">): Swarm {
  if (drawn.embedded === undefined) return swarm;
  return { ...swarm, ...drawn, faults: { ...swarm.faults, clockJumpRate: 0 } };
}

/** What is left of a deleted run keeps its place for a minute: no start takes longer, unless the clock jumps over it. */
function keepingGraves(swarm: Swarm): Swarm {
  const { faults, workflows } = swarm;
  if (workflows === undefined || workflows.deleters === 0) return swarm;
  return { ...swarm, faults: { ...faults, clockJumpMsMax: Math.min(faults.clockJumpMsMax, 3_000) } };
}

function drawTopology(random: SeededRandom): Pick<Swarm, "engines" | "schedulers"> {
  if (random.chance(0.6)) return { engines: 0, schedulers: 0 };
  return { engines: random.integer(1, 2), schedulers: random.integer(1, 2) };
}

type Callers = Pick<
  Swarm,
  "clientsPerGateway" | "endersPerGateway" | "lockUsersPerGateway" | "thinkMsMax" | "workflows"
>;

const kinds = [
  ...(["starts", "locks", "locks", "everything"] as const),
  ...(["workflows", "workflows", "workflows", "all"] as const),
];

/** Much of one thing and little of the others meets what a bit of everything does not. */
function drawCallers(random: SeededRandom): Callers {
  switch (random.pick(kinds)) {
    case "starts":
      return {
        clientsPerGateway: random.integer(4, 6),
        endersPerGateway: random.integer(1, 3),
        lockUsersPerGateway: 0,
        thinkMsMax: random.pick([60, 150]),
      };
    case "locks":
      return {
        clientsPerGateway: 1,
        endersPerGateway: 1,
        lockUsersPerGateway: random.integer(3, 5),
        thinkMsMax: random.pick([100, 300]),
      };
    case "workflows":
      return {
        clientsPerGateway: 0,
        endersPerGateway: 0,
        lockUsersPerGateway: 0,
        thinkMsMax: random.pick([200, 400]),
        workflows: drawCrowd(random),
      };
    case "all":
      return {
        clientsPerGateway: 1,
        endersPerGateway: 1,
        lockUsersPerGateway: random.integer(0, 1),
        thinkMsMax: random.pick([200, 400]),
        workflows: drawCrowd(random),
      };
    case "everything":
      return {
        clientsPerGateway: random.integer(2, 4),
        endersPerGateway: random.integer(1, 3),
        lockUsersPerGateway: random.integer(1, 2),
        thinkMsMax: random.pick([60, 200, 400]),
      };
  }
}

export function drawCrowd(random: SeededRandom): Crowd {
  return {
    workers: random.integer(1, 3),
    starters: random.integer(1, 2),
    approvers: random.integer(1, 3),
    cancellers: random.pick([0, 1, 2]),
    deleters: random.pick([0, 1]),
    authors: random.pick([0, 0, 1]),
    takersInVain: random.pick([0, 0, 1]),
    letterKeepers: random.stream("letter keepers").pick([0, 1, 1]),
    rerunners: random.stream("rerunners").pick([0, 0, 0, 1]),
    lockAgents: random.stream("lock agents").pick([0, 0, 2, 4]),
    lockBreakers: random.stream("lock breakers").pick([0, 0, 1]),
    followers: random.stream("followers").pick([0, 0, 1]),
    movers: 0,
  };
}

/** In some seeds few jobs may run at once; a stream of its own leaves all else as it is. */
function drawPlaces(random: SeededRandom): Pick<Swarm, "places" | "pools"> {
  if (random.chance(0.6)) return { places: {}, pools: [undefined] };
  const topics = { left: { maxRunning: random.integer(1, 2) } };
  const pools = { small: { maxRunning: random.integer(1, 2) } };
  return {
    places: random.pick([{ topics }, { pools }, { topics, pools }]),
    pools: [undefined, "small", "large"],
  };
}

const noProcessFaults: ProcessFaults = { pauseMsMax: 0, clockSkewMax: 0 };

type Ttls = {
  readonly admissionMs: number;
  readonly runMs: number;
  readonly jobMs: number;
  readonly approvalMs: number;
  readonly handoffMs: number;
  readonly claimMs: number;
};

/** Short, so that many leases end within one seed. */
function drawTtls(random: SeededRandom): Ttls {
  const ttlMs = () => random.pick([1_000, 1_000, 1_600, 2_400]);
  return {
    admissionMs: ttlMs(),
    runMs: ttlMs(),
    jobMs: ttlMs(),
    approvalMs: ttlMs(),
    handoffMs: ttlMs(),
    claimMs: ttlMs(),
  };
}

/** Passed through `loadConfig`, so that only what an operator could set is simulated. */
function drawConfig(random: SeededRandom, ttls: Ttls): Partial<Config> {
  const callTimeoutMs = random.pick([80, 200, 500]);
  const overrides: Partial<Config> = {
    "admission.callTimeoutMs": callTimeoutMs,
    "admission.resolveMs": Math.max(callTimeoutMs, random.pick([200, 600, 1_500])),
    "admission.tenantCacheMs": random.pick([100, 1_000, 4_000]),
    "store.callTimeoutMs": callTimeoutMs,
    "results.strategy": random.pick(["handoff", "handoff", "retry"]),
    "results.retry.baseMs": random.pick([50, 200]),
    "jobs.leaseMs": ttls.claimMs,
    "approvals.strategy": random.pick(["atomic", "atomic", "lock"]),
    "sweep.everyMs": random.pick([100, 500]),
    "engine.cachedRunsMax": random.pick([0, 1_000, 1_000]),
    "locks.run.handoffTtlMs": ttls.handoffMs,
    "locks.admission.ttlMs": ttls.admissionMs,
    "locks.admission.waitMs": Math.floor(ttls.admissionMs * random.pick([0.1, 0.4, 0.8])),
    "locks.admission.pollMs": random.pick([10, 40]),
    "locks.admission.releaseTimeoutMs": random.pick([100, 500]),
    "locks.run.ttlMs": ttls.runMs,
    "locks.run.waitMs": random.pick([0, 500, 1_500]),
    "locks.run.renewEveryMs": ttls.runMs / 4,
    "locks.run.callTimeoutMs": ttls.runMs / random.pick([20, 8]),
    "locks.run.releaseTimeoutMs": random.pick([100, 500]),
    "locks.job.ttlMs": ttls.jobMs,
    "locks.job.waitMs": random.pick([0, 500, 1_500]),
    "locks.job.renewEveryMs": ttls.jobMs / 4,
    "locks.job.callTimeoutMs": ttls.jobMs / random.pick([20, 8]),
    "locks.approval.ttlMs": ttls.approvalMs,
    "locks.approval.waitMs": Math.floor(ttls.approvalMs * random.pick([0.2, 0.4, 0.8])),
  };
  const deliveriesMax = random.stream("deliveries").pick([100, 1, 2, 1]);
  const results = { "results.deliveriesMax": deliveriesMax };
  const drawn = { ...overrides, ...results, ...drawDispatch(random.stream("dispatch")) };
  loadConfig({ overrides: drawn });
  return drawn;
}

/** In some seeds jobs of high risk wait for a check; a stream of its own leaves all others as they are. */
function drawDispatch(random: SeededRandom): Partial<Config> {
  if (random.chance(0.5)) return {};
  return {
    "dispatch.hold": "high",
    "dispatch.holdMs": random.pick([50, 300]),
    "dispatch.checkTimeoutMs": random.pick([100, 1_000, 6_000]),
  };
}

const dayMs = 86_400_000;

/** Short where something must happen within one seed, and sometimes so scarce that it runs out. */
function drawStoreSettings(random: SeededRandom): StoreSettings {
  const { keyRetentionMs: _week, ...settings } = defaultStoreSettings;
  const retention = random.pick([{}, { keyRetentionMs: dayMs }, { keyRetentionMs: 4_000 }]);
  return {
    ...settings,
    ...retention,
    keysPerTenantMax: random.pick([100_000, 100_000, 8]),
    eventsPerTenantMax: random.stream("events").pick([10_000, 10_000, 10]),
    runRetentionMs: random.pick([7 * dayMs, 4_000]),
    deadLetterRetentionMs: random.pick([7 * dayMs, 4_000]),
    republishAfterMs: random.pick([200, 1_000, 30_000]),
    republishAfterMaxMs: 30_000,
    sweepEveryMs: random.pick([100, 500]),
    attentionMs: random.pick([500, 1_500]),
    proveEveryMs: random.pick([700, 60_000]),
  };
}

function drawStoreFaults(random: SeededRandom, longestTtlMs: number): StoreFaults {
  const rate = () => (random.chance(0.5) ? random.pick([0.02, 0.05, 0.1, 0.2]) : 0);
  return {
    travelMsMax: random.pick([2, 5, 20]),
    longDelayRate: rate(),
    longDelayMsMax: random.pick([150, longestTtlMs / 3, 1.5 * longestTtlMs]),
    requestLostRate: rate(),
    replyLostRate: rate(),
    connectionResetRate: 1.5 * rate(),
    doubleExecutionRate: rate(),
    outageRate: rate() / 20,
    outageMsMax: random.pick([200, longestTtlMs]),
    clockJumpRate: rate() / 50,
    clockJumpMsMax: random.pick([300, 3_000, 1_200_000]),
    ...drawTail(random.stream("tail"), longestTtlMs),
  };
}

/**
 * Where runs and keys are kept for seconds only, no jump of the store's clock may end that time while a call is under way:
 * the product keeps them for days.
 */
function keepingRetention(settings: StoreSettings, faults: StoreFaults): StoreFaults {
  const { runRetentionMs, keyRetentionMs = dayMs } = settings;
  return Math.min(runRetentionMs, keyRetentionMs) < dayMs ? { ...faults, clockJumpRate: 0 } : faults;
}

/** What came later has a stream of its own. The window is short, so that something comes again after it. */
function drawBusIncidents(random: SeededRandom): Omit<BusFaults, keyof ReturnType<typeof drawBusFaults>> {
  const rate = (...rates: number[]) => (random.chance(0.5) ? random.pick(rates) : 0);
  const every = (name: `${string}EveryMs`) =>
    random.chance(0.25) ? { [name]: random.pick([700, 2_000, 5_000]) } : {};
  return {
    longDelayRate: rate(0.05, 0.2),
    longDelayMsMax: random.pick([500, 3_000]),
    publishLostRate: rate(0.05, 0.2),
    publishUnknownRate: rate(0.05, 0.2),
    wordLostRate: rate(0.1, 0.5),
    lateWordRefusedRate: random.pick([0, 0.5, 1]),
    ackWaitMsMax: random.pick([30_000, 1_000, 200]),
    duplicateWindowMs: random.pick([120_000, 1_000, 300]),
    echoRate: rate(0.1, 0.5),
    echoMsMax: random.pick([1_000, 4_000, 20_000]),
    outageMsMax: random.pick([300, 3_000]),
    ...every("linkOutageEveryMs"),
    ...every("outageEveryMs"),
    ...every("purgeEveryMs"),
    ...every("streamRemovedEveryMs"),
    ...every("consumerForgottenEveryMs"),
    ...every("restartEveryMs"),
  };
}

function drawBusFaults(
  random: SeededRandom,
): Pick<BusFaults, "travelMsMax" | "forgottenRate" | "doubledRate"> {
  return {
    travelMsMax: random.pick([2, 20, 200]),
    forgottenRate: random.pick([0, 0.1, 0.7]),
    doubledRate: random.pick([0, 0.3]),
  };
}

function drawProcessFaults(random: SeededRandom, longestTtlMs: number): ProcessFaults {
  const every = (name: "pauseEveryMs" | "crashEveryMs" | "wallJumpEveryMs") =>
    random.chance(0.6) ? { [name]: random.pick([700, 2_000, 5_000]) } : {};
  return {
    ...every("pauseEveryMs"),
    pauseMsMax: random.pick([0.5, 1.5, 3]) * longestTtlMs,
    ...every("crashEveryMs"),
    ...every("wallJumpEveryMs"),
    // The lease margin is a tenth of the ttl: it covers clocks that are wrong by less than that.
    clockSkewMax: random.pick([0, 0.03, 0.08]),
  };
}
