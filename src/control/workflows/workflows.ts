// Workflows: saving them, checking a definition without saving it, reading and removing them.
import { hash } from "node:crypto";
import type { JsonValue } from "../../domain/fingerprint.ts";
import type { QuotaReached, TenantId } from "../../domain/tenant.ts";
import { limitsStarts } from "../../domain/workflow/flow-control.ts";
import {
  judgeDefinition,
  newWorkflowId,
  type SentDefinition,
  type Verdict,
} from "../../domain/workflow/judge.ts";
import type { LocatedProblem } from "../../domain/workflow/yaml-text.ts";
import type { DefinitionJudge, JudgeAnswer, Random } from "../../ports/ports.ts";
import { ask } from "../ask-until-known.ts";
import { type Caller, credentialIn, type Trouble, type WriteTrouble, writeTroubleOf } from "../caller.ts";
import type { Engine, SettingsEngine } from "../engine/engine.ts";
import { readRecord } from "../tenants/tenants.ts";
import type { WorkflowDocument } from "./definitions.ts";

export const workflowFlows = { getWorkflow, listWorkflows, removeWorkflow, saveWorkflow, validateWorkflow };

/** What a definition is refused for before anything is stored. */
type NotValid = Exclude<JudgeAnswer, { readonly kind: "valid" }>;

type SaveWorkflowAnswer =
  | { readonly kind: "saved"; readonly id: string; readonly revision: number }
  | NotValid
  | QuotaReached
  | WriteTrouble;

/** The definition is stored once per content, and then the name that points to it, with a revision. */
async function saveWorkflow(
  engine: SettingsEngine,
  { caller, definition }: { readonly caller: Caller; readonly definition: SentDefinition },
): Promise<SaveWorkflowAnswer> {
  const { tenant, actor } = caller;
  const credential = credentialIn(tenant, caller);
  const verdict = await engine.judge.judge(tenant, definition);
  if (verdict.kind !== "valid") return verdict;
  const { id, text, hash: contentHash, limits } = verdict;
  const unset = await unsetGates(engine, tenant, verdict);
  if (unset.kind !== "read") return unset;
  if (unset.problems.length > 0) return { kind: "workflow_invalid", problems: unset.problems };
  const put = (collection: "workflow" | "definition", documentId: string, body: string, changeId: string) =>
    ask(engine, "putDocument", {
      ...{ tenant, collection, id: documentId, body, changeId, actor, ...credential },
      ...(collection === "workflow" ? { limits } : {}),
    });
  // The same content again changes nothing: the change is named by what it says.
  const stored = await put("definition", contentHash, text, contentHash);
  if (stored.kind === "quota_reached")
    return { kind: stored.kind, quota: "definitions", limit: stored.quota };
  if (stored.kind !== "saved") return writeTroubleOf(stored);
  const saved = await put(
    "workflow",
    id,
    JSON.stringify({ hash: contentHash }),
    hash("sha256", `${id} ${contentHash}`),
  );
  engine.definitions.forgetCurrent(tenant, id);
  if (saved.kind === "saved") return { kind: "saved", id, revision: saved.revision };
  if (saved.kind === "quota_reached") return { kind: saved.kind, quota: "workflows", limit: saved.quota };
  return writeTroubleOf(saved);
}

type ReadProblems = { readonly kind: "read"; readonly problems: readonly LocatedProblem[] } | Trouble;

/** A gate that workflows share has its limit in the tenant's settings: one that nobody has set would let everybody through. */
async function unsetGates(
  engine: SettingsEngine,
  tenant: TenantId,
  { namedGates }: Pick<Verdict & { readonly kind: "valid" }, "namedGates">,
): Promise<ReadProblems> {
  if (namedGates.length === 0) return { kind: "read", problems: [] };
  const known = await readRecord(engine, tenant);
  if (known.kind !== "tenant") return known;
  const { gates = {} } = known.record.settings;
  const problems = namedGates.flatMap(({ name, ...position }) => {
    if (Object.hasOwn(gates, name)) return [];
    const change = JSON.stringify({ gates: { [name]: { max: 10 } } });
    const message = `the tenant has no gate "${name}": a platform key sets it with PATCH /api/v1/tenants/${tenant} ${change}, or interlock tenants set ${tenant} --gate ${name}=10`;
    return [{ ...position, message }];
  });
  return { kind: "read", problems };
}

/** Judges definitions in the process itself: for programs and tests that bring their own store, and the simulator. */
export function createJudgeHere(random: Random): DefinitionJudge {
  const newId = () => newWorkflowId(random.token());
  return {
    judge: async (tenant, sent) => judgeDefinition(sent, { tenant, newId }),
    close: async () => undefined,
  };
}

type ValidateAnswer =
  | {
      readonly kind: "valid";
      readonly steps: number;
      /** Of the definition as it would be stored; absent when it has no id yet. */
      readonly hash?: string;
      /** What would fail only when a run gets there. */
      readonly warnings: readonly LocatedProblem[];
    }
  | NotValid
  /** Nothing was changed, whatever is not known. */
  | { readonly kind: "store_unavailable"; readonly cause: string };

/** Reads a definition as `saveWorkflow` would, and stores nothing; warns of workflows that do not exist yet. */
async function validateWorkflow(
  engine: SettingsEngine,
  { tenant, definition }: { readonly tenant: TenantId; readonly definition: SentDefinition },
): Promise<ValidateAnswer> {
  const verdict = await engine.judge.judge(tenant, definition);
  if (verdict.kind !== "valid") return verdict;
  const { runs, steps, hash: contentHash, isNamed } = verdict;
  const unset = await unsetGates(engine, tenant, verdict);
  if (unset.kind !== "read") return { kind: "store_unavailable", cause: unset.cause };
  if (unset.problems.length > 0) return { kind: "workflow_invalid", problems: unset.problems };
  const warnings = await missingWorkflows(engine, tenant, runs);
  if (warnings.kind !== "warnings") return { kind: "store_unavailable", cause: warnings.cause };
  return { kind: "valid", steps, ...(isNamed ? { hash: contentHash } : {}), warnings: warnings.problems };
}

/** Each is a question to the store; a definition that names more is looked at as far as this. */
const lookedUpMax = 50;

async function missingWorkflows(
  engine: Engine<"documents">,
  tenant: TenantId,
  named: (Verdict & { readonly kind: "valid" })["runs"],
): Promise<{ readonly kind: "warnings"; readonly problems: readonly LocatedProblem[] } | Trouble> {
  const missing = new Set<string>();
  const limited = new Set<string>();
  for (const workflow of [...new Set(named.map((one) => one.workflow))].slice(0, lookedUpMax)) {
    const answer = await ask(engine, "getDocument", { tenant, collection: "workflow", id: workflow });
    if (answer.kind === "not_found") missing.add(workflow);
    else if (answer.kind !== "document") return { kind: answer.kind, cause: answer.cause };
    else if (await hasStartLimits(engine, tenant, answer.document.body)) limited.add(workflow);
  }
  const problems = named.flatMap(({ workflow, ...position }) => {
    const message = missing.has(workflow)
      ? `there is no workflow "${workflow}" yet; a run that gets here before there is one fails`
      : `the gates, rates and budgets of "${workflow}" do not count here: a run that a step starts has the places and budgets of the first`;
    return missing.has(workflow) || limited.has(workflow) ? [{ ...position, message }] : [];
  });
  return { kind: "warnings", problems };
}

async function hasStartLimits(engine: Engine<"documents">, tenant: TenantId, body: string): Promise<boolean> {
  const pinned = await engine.definitions.pinned(tenant, (JSON.parse(body) as WorkflowDocument).hash);
  if (pinned.kind !== "compiled") return false;
  const { flowControl } = pinned.definition;
  return flowControl !== undefined && limitsStarts(flowControl);
}

/** Read at a time, and named at the most. */
const gatedPage = 100;
export const gatedMax = 5;

/** Workflows with gates, by their ids: `gatedMax` of them, and one more when there are others. */
export async function gatedWorkflows(
  engine: Engine<"documents">,
  tenant: TenantId,
): Promise<{ readonly kind: "gated"; readonly workflows: readonly string[] } | Trouble> {
  const workflows: string[] = [];
  for (let after = ""; ; ) {
    const page = { tenant, collection: "workflow", after, limit: gatedPage } as const;
    const answer = await ask(engine, "listDocuments", page);
    if (answer.kind !== "listed") return { kind: answer.kind, cause: answer.cause };
    for (const { id, body } of answer.documents) {
      if (await hasStartLimits(engine, tenant, body)) workflows.push(id);
      if (workflows.length > gatedMax) return { kind: "gated", workflows };
    }
    const last = answer.documents.at(-1);
    if (last === undefined || answer.documents.length < gatedPage) return { kind: "gated", workflows };
    after = last.id;
  }
}

export type WorkflowInfo = {
  readonly id: string;
  readonly revision: number;
  readonly savedAtMs: number;
  /** As it was sent. */
  readonly definition: JsonValue;
};

async function getWorkflow(
  engine: Engine<"documents">,
  { tenant, id }: { readonly tenant: TenantId; readonly id: string },
): Promise<
  | { readonly kind: "workflow"; readonly workflow: WorkflowInfo }
  | { readonly kind: "workflow_not_found" }
  | Trouble
> {
  const answer = await ask(engine, "getDocument", { tenant, collection: "workflow", id });
  if (answer.kind === "not_found") return { kind: "workflow_not_found" };
  if (answer.kind !== "document") return { kind: answer.kind, cause: answer.cause };
  const { body, revision, savedAtMs } = answer.document;
  const definition = await readText(engine, tenant, (JSON.parse(body) as WorkflowDocument).hash);
  if (definition.kind !== "text") return definition;
  return { kind: "workflow", workflow: { id, revision, savedAtMs, definition: definition.value } };
}

async function listWorkflows(
  engine: Engine<"documents">,
  { tenant, ...page }: { readonly tenant: TenantId; readonly after: string; readonly limit: number },
): Promise<{ readonly kind: "listed"; readonly workflows: readonly WorkflowInfo[] } | Trouble> {
  const answer = await ask(engine, "listDocuments", { tenant, collection: "workflow", ...page });
  if (answer.kind !== "listed") return { kind: answer.kind, cause: answer.cause };
  const workflows: WorkflowInfo[] = [];
  for (const { id, body, revision, savedAtMs } of answer.documents) {
    const definition = await readText(engine, tenant, (JSON.parse(body) as WorkflowDocument).hash);
    if (definition.kind === "text") workflows.push({ id, revision, savedAtMs, definition: definition.value });
    else if (definition.kind !== "workflow_not_found") return definition;
  }
  return { kind: "listed", workflows };
}

/** Runs that are pinned to its definition keep it. */
async function removeWorkflow(
  engine: Engine<"documents">,
  { caller, id }: { readonly caller: Caller; readonly id: string },
): Promise<{ readonly kind: "removed" } | { readonly kind: "workflow_not_found" } | WriteTrouble> {
  const { tenant, actor } = caller;
  const request = { tenant, collection: "workflow", id, actor, ...credentialIn(tenant, caller) } as const;
  const answer = await ask(engine, "removeDocument", request);
  engine.definitions.forgetCurrent(tenant, id);
  if (answer.kind === "not_found") return { kind: "workflow_not_found" };
  return answer.kind === "removed" ? { kind: "removed" } : writeTroubleOf(answer);
}

type Text =
  | { readonly kind: "text"; readonly value: JsonValue }
  | { readonly kind: "workflow_not_found" }
  | Trouble;

async function readText(engine: Engine<"documents">, tenant: TenantId, contentHash: string): Promise<Text> {
  const request = { tenant, collection: "definition", id: contentHash } as const;
  const answer = await ask(engine, "getDocument", request);
  if (answer.kind === "document")
    return { kind: "text", value: JSON.parse(answer.document.body) as JsonValue };
  if (answer.kind === "not_found") return { kind: "workflow_not_found" };
  return { kind: answer.kind, cause: answer.cause };
}
