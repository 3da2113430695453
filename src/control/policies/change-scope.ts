// Changes the settings of a tenant or of the platform, if they are still such that the change makes sense.
import {
  platformTenant,
  type TenantId,
  type TenantRecord,
  type TenantSettings,
} from "../../domain/tenant.ts";
import { troubleOf } from "../acting.ts";
import type { Trouble } from "../control-api.ts";
import type { Engine } from "../engine/engine.ts";
import { changeTenant, readRecord } from "../tenants/tenants.ts";

/** The tenant whose record holds the policies: without one it is the platform's, for all. */
export function recordOf(tenant: TenantId | undefined): TenantId {
  return tenant ?? platformTenant;
}

type SettingsChange = {
  readonly [Name in keyof TenantSettings]?: TenantSettings[Name] | undefined;
};

export type ScopeDecision<Refusal> =
  | { readonly kind: "change"; readonly changes: SettingsChange }
  | { readonly kind: "refuse"; readonly refusal: Refusal };

type ScopeAnswer<Refusal> =
  | { readonly kind: "saved"; readonly record: TenantRecord }
  | { readonly kind: "refused"; readonly refusal: Refusal }
  | { readonly kind: "version_conflict" }
  | Trouble;

/** `decide` may ask the store: what it finds was read after the settings, which are saved only if nobody changed them since. */
export async function changeScope<Refusal>(
  engine: Engine,
  actor: string,
  tenant: TenantId | undefined,
  decide: (settings: TenantSettings) => ScopeDecision<Refusal> | Promise<ScopeDecision<Refusal> | Trouble>,
): Promise<ScopeAnswer<Refusal>> {
  for (let tries = 1; ; tries += 1) {
    const current = await readRecord(engine, recordOf(tenant));
    if (current.kind !== "tenant") return current;
    const { record } = current;
    const decision = await decide(record.settings);
    if (decision.kind === "refuse") return { kind: "refused", refusal: decision.refusal };
    if (decision.kind !== "change") return decision;
    if (Object.keys(decision.changes).length === 0) return { kind: "saved", record };
    const { changes } = decision;
    const answer = await changeTenant(engine, actor, recordOf(tenant), () => changes, record.version);
    if (answer.kind === "saved") return answer;
    if (answer.kind !== "version_conflict") return troubleOf(answer);
    if (tries === 5) return { kind: "version_conflict" };
  }
}
