// Judges definitions as callers send them, so that reading one holds up nobody else.
import type { TenantId } from "../domain/tenant.ts";
import type { SentDefinition, Verdict } from "../domain/workflow/judge.ts";

export type DefinitionJudge = {
  judge(tenant: TenantId, sent: SentDefinition): Promise<JudgeAnswer>;
  /** What waits is answered `overloaded`. */
  close(): Promise<void>;
};

export type JudgeAnswer = Verdict | NotJudged;

export type NotJudged =
  /** As many definitions of this tenant wait as may. */
  | { readonly kind: "tenant_busy" }
  /** As many wait as may, it took too long, or the thread ended. */
  | { readonly kind: "overloaded"; readonly cause: string };
