// The customer whose limits apply: its id, and the settings that decide how its runs are admitted.
import type { Brand } from "./brand.ts";
import type { PoolLimits, TopicLimits } from "./place.ts";
import type { QuotaName, Quotas } from "./quota.ts";

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
  /** Policies that some of the runs follow instead. */
  readonly rollout?: Rollout;
  /** The person who started a run may not approve its steps. */
  readonly separateDuties?: boolean;
  readonly approvalsStrategy?: ApprovalsStrategy;
  /** How many jobs may run at once, by topic and by pool of workers. While there is any, running jobs are counted. */
  readonly topics?: Readonly<Record<string, TopicLimits>>;
  readonly pools?: Readonly<Record<string, PoolLimits>>;
  /** How much the tenant may store and hold open; a name that is absent has the process-wide number. */
  readonly quotas?: Partial<Quotas>;
};

/** `undefined` removes a setting; of the quotas, one that is named. */
export type TenantChanges = {
  readonly [Name in Exclude<keyof TenantSettings, "quotas">]?: TenantSettings[Name] | undefined;
} & { readonly quotas?: { readonly [Name in QuotaName]?: number | undefined } | undefined };

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
