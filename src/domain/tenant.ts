// A tenant: its id and partition, its settings, its quotas, and the documents that it keeps.
import type { TenantBudget } from "./budgets.ts";
import type { PoolLimits, TopicLimits } from "./job.ts";
import type { StartRate, TopicRate } from "./rates.ts";

declare const brand: unique symbol;

/** A string or number type that only its own constructor can produce, so that ids cannot be mixed up. */
export type Brand<Value, Name extends string> = Value & { readonly [brand]: Name };

export type TenantId = Brand<string, "TenantId">;

export type AdmissionStrategy = "atomic" | "lock";
export type WaitPolicy = "fixed" | "jitter";
/** How an entry meets a busy run: handed to its owner, or tried again later. */
type ResultsStrategy = "handoff" | "retry";
type ApprovalsStrategy = "atomic" | "lock";
/** What a failed renewal of a run lock means: by the workflow's risk, or stricter or milder than that. */
export type RenewalChoice = "by_risk" | "fence" | "continue";

/** How runs are handled, as far as it may be set while they run. */
export type Policies = {
  readonly "admission.strategy": AdmissionStrategy;
  readonly "admission.wait": WaitPolicy;
  readonly "results.strategy": ResultsStrategy;
  readonly "results.wait": WaitPolicy;
  readonly "renewal.policy": RenewalChoice;
} & PolicyNumbers;

/** Each has the name and the bounds of its setting. */
export type PolicyNumbers = {
  readonly [Name in
    | `results.retry.${"baseMs" | "jitterFraction"}`
    | `locks.${"admission" | "run" | "approval" | "job"}.${"waitMs" | "pollMs"}`
    | "locks.admission.pollMaxMs"]: number;
};

/** Policies for a share of the runs. */
export type Rollout = {
  readonly id: string;
  /** 0 to 100, decimals allowed. */
  readonly percent: number;
  readonly policies: Partial<Policies>;
  /** Both shares are measured, in windows counted from here in the store's time. */
  readonly canary?: { readonly startedAtMs: number; readonly windowMs: number };
};

/** What an operator may set for one tenant; an absent field means the process-wide setting applies. */
export type TenantSettings = {
  /** Root runs that may be active at once; absent means unlimited. */
  readonly maxConcurrentRuns?: number;
  readonly admissionStrategy?: AdmissionStrategy;
  readonly admissionWait?: WaitPolicy;
  /** The kill switch: while true no run of this tenant starts and no job is claimed. */
  readonly stopped?: boolean;
  /** Keys revoked lately: the operations that act for a key refuse these at once, whatever a cache still says. */
  readonly revokedKeyIds?: readonly string[];
  /** What stands before this key in the list was revoked before this time. */
  readonly revokedSince?: { readonly atMs: number; readonly keyId: string };
  /** The tenant is being removed, or was: no key is made in it and none is accepted. */
  readonly removed?: true;
  readonly resultsStrategy?: ResultsStrategy;
  readonly resultsWait?: WaitPolicy;
  readonly renewalPolicy?: RenewalChoice;
  /** The policies that are numbers, for all runs. */
  readonly policyNumbers?: Partial<PolicyNumbers>;
  /** Policies that some of the runs follow instead. */
  readonly rollout?: Rollout;
  /** The person who started a run may not approve its steps. */
  readonly separateDuties?: boolean;
  readonly approvalsStrategy?: ApprovalsStrategy;
  /** How many jobs may run at once, by topic and by pool of workers. While there is any, running jobs are counted. */
  readonly topics?: Readonly<Record<string, TopicLimits>>;
  readonly pools?: Readonly<Record<string, PoolLimits>>;
  /** What a start does that finds the tenant at its own limit; absent means `reject`. */
  readonly atLimit?: "reject" | "queue";
  /** The gates that workflows share by name; a name that is absent has no limit. */
  readonly gates?: Readonly<Record<string, { readonly max: number }>>;
  /** How many runs may start in a span of time, whatever their workflow. */
  readonly startRate?: Omit<StartRate, "rate">;
  /** By topic: how many jobs may be claimed in a span of time, or how many units they may need. While there is any, running jobs are counted. */
  readonly topicRates?: Readonly<Record<string, readonly TopicRate[]>>;
  /** What all runs together may spend. */
  readonly budgets?: Readonly<Record<string, TenantBudget>>;
  /** How much the tenant may store and hold open; a name that is absent has the process-wide number. */
  readonly quotas?: Partial<Quotas>;
};

/** `undefined` removes a setting; of the quotas, gates, rates of topics and budgets, one that is named. */
export type TenantChanges = {
  readonly [Name in Exclude<keyof TenantSettings, "quotas" | "gates" | "topicRates" | "budgets">]?:
    | TenantSettings[Name]
    | undefined;
} & {
  readonly topicRates?: Readonly<Record<string, readonly TopicRate[] | undefined>> | undefined;
  readonly budgets?: Readonly<Record<string, TenantBudget | undefined>> | undefined;
  readonly quotas?: { readonly [Name in QuotaName]?: number | undefined } | undefined;
  readonly gates?: Readonly<Record<string, { readonly max: number } | undefined>> | undefined;
};

export type TenantRecord = {
  readonly settings: TenantSettings;
  /** Grows by one with every change; 0 means never set. */
  readonly version: number;
};

/** Owns what belongs to no tenant: the list of tenants and the platform's keys. No customer may have this name. */
export const platformTenant = "platform" as TenantId;

/** Fields by which a body or a query may name a tenant. */
export const tenantNames: readonly string[] = ["tenant", "tenant_id", "org_id"];

const tenantPattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

/** Gives the tenant id, or undefined when the text is not a valid one (1-64 characters of A-Z a-z 0-9 . _ -). */
export function parseTenantId(text: string): TenantId | undefined {
  return tenantPattern.test(text) ? (text as TenantId) : undefined;
}

export const partitionCount = 64;

/** The atomicity domain that a tenant belongs to: every operation touches the keys of exactly one partition. */
export type Partition = Brand<number, "Partition">;

export const allPartitions: readonly Partition[] = Array.from(
  { length: partitionCount },
  (_, partition) => partition as Partition,
);

/** FNV-1a over the bytes of the id: the same on every machine and version, since stored keys depend on it. */
export function partitionOf(tenant: TenantId): Partition {
  let hash = 0x811c9dc5;
  // Tenant ids are ASCII, of which a character is its byte.
  for (let index = 0; index < tenant.length; index += 1) {
    hash ^= tenant.charCodeAt(index);
    hash = Math.imul(hash, 0x01000193) >>> 0;
  }
  return (hash % partitionCount) as Partition;
}

export function partitionLabel(partition: Partition): string {
  return `p${String(partition).padStart(2, "0")}`;
}

/** What is counted in the store; streams are counted by the process that serves them. */
export const storeQuotaNames = [
  "api_keys",
  "workflows",
  "definitions",
  "active_runs",
  "locks",
  "lock_tickets",
] as const;
type StoreQuotaName = (typeof storeQuotaNames)[number];

export const quotaNames = [...storeQuotaNames, "streams"] as const;
export type QuotaName = (typeof quotaNames)[number];

export type Quotas = { readonly [Name in QuotaName]: number };
export type StoreQuotas = { readonly [Name in StoreQuotaName]: number };

/** What a tenant has now. Idempotency keys have a limit of their own, which gives way to new ones. */
export type Usage = StoreQuotas & { readonly idempotency_keys: number };

/** Refused without effect: the tenant has as much of it as it may. */
export type QuotaReached = {
  readonly kind: "quota_reached";
  readonly quota: QuotaName;
  readonly limit: number;
};

/** Time to think about it: four fifths of the quota are used. */
export function isNearlySpent({ limit, used }: { readonly limit: number; readonly used: number }): boolean {
  return used >= 0.8 * limit;
}

/** The tenant's own number, or the one for every tenant. */
export function quotaOf<Name extends QuotaName>(
  settings: TenantSettings,
  defaults: { readonly [Each in Name]: number },
  name: Name,
): number {
  return settings.quotas?.[name] ?? defaults[name];
}

/** How room is made, as the caller reads it; `lasting` has no end of its own that could be waited for. */
const hints: { readonly [Name in QuotaName]: readonly [hint: string, lasting?: "lasting"] } = {
  api_keys: ["revoke keys that nobody uses", "lasting"],
  workflows: ["remove workflows that nobody starts", "lasting"],
  definitions: ["every changed text of a workflow is kept for the runs pinned to it", "lasting"],
  active_runs: ["end or cancel runs, or wait for their end"],
  locks: ["release locks, or wait until they expire"],
  lock_tickets: ["let fewer callers wait at a time"],
  streams: ["close streams that nobody reads"],
};

/** What a refusal for want of room tells besides its code; nothing when the answer names no quota. */
export function refineQuota(answer: Readonly<Record<string, unknown>>) {
  const { quota, limit } = answer as Partial<QuotaReached>;
  if (quota === undefined) return {};
  const [hint, lasting] = hints[quota];
  return {
    detail: `the tenant's quota ${quota} is ${limit}: ${hint}, or let the platform raise it (PATCH /tenants/{id}, quotas.${quota})`,
    ...(lasting === undefined ? {} : { retryable: false }),
    ...(quota === "active_runs" ? ({ retryAfter: "admission.retryAfterSeconds" } as const) : {}),
  };
}

const collections = [
  "workflow",
  "definition",
  "apiKey",
  "deadLetter",
  "tenant",
  "seal",
  "refusal",
  "canary",
  "process",
] as const;
export type Collection = (typeof collections)[number];

/** Changes of these are no events: seals are about events, and each would call for the next; processes write every ten seconds. */
const uneventful: ReadonlySet<Collection> = new Set<Collection>(["seal", "process"]);

export function isEventful(collection: Collection): boolean {
  return !uneventful.has(collection);
}

/** Collections whose documents the tenant adds itself, one by one, and what bounds their number. */
export const collectionQuotas: { readonly [Each in Collection]?: StoreQuotaName } = {
  apiKey: "api_keys",
  workflow: "workflows",
  definition: "definitions",
};

/** A named text that a tenant keeps. The store never looks inside. */
export type Document = {
  readonly id: string;
  readonly body: string;
  /** Grows by one with every change, starting at 1. */
  readonly revision: number;
  readonly savedAtMs: number;
};
