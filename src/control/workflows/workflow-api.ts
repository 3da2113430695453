// What may be asked about workflows.
import type { JsonValue } from "../../domain/fingerprint.ts";
import type { QuotaReached, TenantId } from "../../domain/tenant.ts";
import type { SentDefinition, Verdict } from "../../domain/workflow/judge.ts";
import type { PlacedProblem } from "../../domain/workflow/yaml-text.ts";
import type { NotJudged } from "../../ports/ports.ts";
import type { Caller, Trouble, WriteTrouble } from "../control-api.ts";

export type WorkflowInfo = {
  readonly id: string;
  readonly revision: number;
  readonly savedAtMs: number;
  /** As it was sent. */
  readonly definition: JsonValue;
};

export type ValidateAnswer =
  | {
      readonly kind: "valid";
      readonly steps: number;
      /** Of the definition as it would be stored; absent when it has no id yet. */
      readonly hash?: string;
      /** What would fail only when a run gets there. */
      readonly warnings: readonly PlacedProblem[];
    }
  | Refused
  | NotJudged
  | Trouble;

/** What a definition is refused for before anything is stored. */
type Refused = Exclude<Verdict, { readonly kind: "valid" }>;

export type WorkflowApi = {
  saveWorkflow(
    caller: Caller,
    definition: SentDefinition,
  ): Promise<
    | { readonly kind: "saved"; readonly id: string; readonly revision: number }
    | Refused
    | NotJudged
    | QuotaReached
    | WriteTrouble
  >;
  /** Reads a definition as `saveWorkflow` would, and stores nothing. */
  validateWorkflow(tenant: TenantId, definition: SentDefinition): Promise<ValidateAnswer>;
  getWorkflow(
    tenant: TenantId,
    id: string,
  ): Promise<
    { readonly kind: "workflow"; readonly workflow: WorkflowInfo } | { readonly kind: "not_found" } | Trouble
  >;
  listWorkflows(
    tenant: TenantId,
    page: { readonly after: string; readonly limit: number },
  ): Promise<{ readonly kind: "listed"; readonly workflows: readonly WorkflowInfo[] } | Trouble>;
  removeWorkflow(
    caller: Caller,
    id: string,
  ): Promise<{ readonly kind: "removed" } | { readonly kind: "not_found" } | WriteTrouble>;
};
