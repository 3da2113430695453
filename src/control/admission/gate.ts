// What the admission flows share: what they work with, and what they decide.
import type { Config } from "../../config.ts";
import type { Ports } from "../../ports/ports.ts";
import type { AskLimits } from "../ask-until-known.ts";
import type { StartAnswer } from "./start-answer.ts";
import type { TenantCache } from "./tenant-cache.ts";

export type Gate = { readonly ports: Ports; readonly config: Config; readonly tenants: TenantCache };

/** An answer that still lacks its Retry-After, which is drawn last so that every refusal gets its own. */
export type Decision = WithoutRetryAfter<StartAnswer>;
type WithoutRetryAfter<Answer> = Answer extends unknown ? Omit<Answer, "retryAfterSeconds"> : never;

export function askLimits(config: Config): AskLimits {
  return { callTimeoutMs: config["admission.callTimeoutMs"], budgetMs: config["admission.resolveMs"] };
}
