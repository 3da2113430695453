// What may be asked about policies: what holds on which layer, setting them, and giving them to a share of the runs.
import type { PolicyName, PolicySource, PolicyValue } from "../../domain/policy.ts";
import type { Policies, Rollout, TenantId } from "../../domain/tenant.ts";
import type { Trouble } from "../control-api.ts";

export type PolicyLayer = { readonly policies: Partial<Policies>; readonly rollout?: Rollout };

export type PolicyView = {
  /** Absent for the platform's own. */
  readonly tenant?: TenantId;
  /** What runs follow that no rollout takes, and where it comes from. */
  readonly effective: {
    readonly [Name in PolicyName]: { readonly value: Policies[Name]; readonly source: PolicySource };
  };
  readonly process: Policies;
  readonly platform: PolicyLayer;
  /** Absent when no tenant was asked about. */
  readonly own?: PolicyLayer;
};

/** Undefined lets a policy be decided elsewhere again. */
type PolicyChanges = { readonly [Name in PolicyName]?: PolicyValue | undefined };

export type PolicyAnswer =
  | { readonly kind: "policies"; readonly view: PolicyView }
  | { readonly kind: "tenant_not_found" }
  | Trouble;

export type ChangePolicyAnswer =
  | PolicyAnswer
  /** A canary tries these policies: it must be ended first. */
  | { readonly kind: "canary_running"; readonly canary: string }
  | { readonly kind: "rollout_not_found" }
  | { readonly kind: "version_conflict" };

export type PolicyApi = {
  getPolicies(tenant: TenantId | undefined): Promise<PolicyAnswer>;
  setPolicies(
    actor: string,
    tenant: TenantId | undefined,
    changes: PolicyChanges,
  ): Promise<ChangePolicyAnswer>;
  /** At 100 percent they become settings. The same policies with another percentage are the same rollout: it only adds or takes runs. */
  rollOut(
    actor: string,
    tenant: TenantId | undefined,
    rollout: Pick<Rollout, "policies" | "percent">,
  ): Promise<ChangePolicyAnswer>;
  /** The rollback knob: never refused while there is a rollout. A canary that used it is stopped. */
  removeRollout(actor: string, tenant: TenantId | undefined): Promise<ChangePolicyAnswer>;
};
