// What may be asked about canaries: starting one, how it stands, and ending it by hand.
import type { Canary, CanaryBook, GuardStanding } from "../../domain/canary.ts";
import type { CanaryGuard } from "../../domain/canary-guard.ts";
import type { Policies, TenantId } from "../../domain/tenant.ts";
import type { Trouble } from "../control-api.ts";

export type NewCanary = {
  readonly tenant?: TenantId;
  readonly policies: Partial<Policies>;
  readonly percent: number;
  readonly forMs: number;
  readonly windowMs: number;
  readonly guards: readonly CanaryGuard[];
  readonly samplesMin: number;
  readonly windowsInARow: number;
};

export type CanaryStatus = {
  readonly canary: Canary;
  readonly book: CanaryBook;
  readonly standings: readonly GuardStanding[];
  readonly missing: readonly string[];
  /** The store's time. */
  readonly nowMs: number;
};

type CanaryAnswer =
  | { readonly kind: "canary"; readonly status: CanaryStatus }
  | { readonly kind: "not_found" }
  | Trouble;

export type StartCanaryAnswer =
  | { readonly kind: "canary"; readonly status: CanaryStatus }
  | { readonly kind: "tenant_not_found" }
  /** Of the same tenant, or of the platform: one at a time. */
  | { readonly kind: "rollout_exists"; readonly rollout: string }
  | Trouble;

export type EndCanaryAnswer =
  | CanaryAnswer
  /** It had been ended otherwise. */
  | { readonly kind: "already_ended"; readonly status: CanaryStatus };

export type CanaryApi = {
  startCanary(actor: string, canary: NewCanary): Promise<StartCanaryAnswer>;
  /** The latest first. */
  listCanaries(): Promise<{ readonly kind: "listed"; readonly canaries: readonly Canary[] } | Trouble>;
  getCanary(id: string): Promise<CanaryAnswer>;
  rollBackCanary(actor: string, id: string, reason: string | undefined): Promise<EndCanaryAnswer>;
  keepCanary(actor: string, id: string, reason: string | undefined): Promise<EndCanaryAnswer>;
};
