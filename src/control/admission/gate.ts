// What the admission flows share: what they work with, and what they decide.
import type { Config } from "../../config.ts";
import type { RunId, RunStatus } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { ClaimGrant, NewRun } from "../../ports/admission-operations.ts";
import type { Ports } from "../../ports/ports.ts";
import type { AskLimits } from "../ask-until-known.ts";
import type { StartAnswer } from "./start-answer.ts";
import type { TenantCache } from "./tenant-cache.ts";

export type Gate = { readonly ports: Ports; readonly config: Config; readonly tenants: TenantCache };

/** A run to be admitted, and the key that asks for it. */
export type AskedRun = {
  readonly tenant: TenantId;
  readonly run: NewRun;
  readonly credential?: string;
  /** The strategy was chosen for this very run. */
  readonly decided?: true;
};

/** An answer that still lacks its Retry-After, which is drawn last so that every refusal gets its own. */
export type Decision = WithoutRetryAfter<StartAnswer>;
type WithoutRetryAfter<Answer> = Answer extends unknown ? Omit<Answer, "retryAfterSeconds"> : never;

export function askLimits(config: Config): AskLimits {
  return { callTimeoutMs: config["admission.callTimeoutMs"], budgetMs: config["admission.resolveMs"] };
}

/** What both strategies say of a run that now exists. */
export function admitted(answer: {
  readonly runId: RunId;
  readonly status: RunStatus;
  readonly claims: readonly ClaimGrant[];
  readonly active: number;
  readonly limit?: number;
  readonly storeTimeMs: number;
}): Extract<Decision, { kind: "admitted" }> {
  const { runId, status, claims, active, limit, storeTimeMs } = answer;
  const known = { kind: "admitted", runId, status, claims, active, storeTimeMs } as const;
  return limit === undefined ? known : { ...known, limit };
}
