// Reads and removes workflows; runs that are pinned to a definition keep it.
import type { JsonValue } from "../../domain/fingerprint.ts";
import type { TenantId } from "../../domain/tenant.ts";
import { credentialIn, writeTroubleOf } from "../acting.ts";
import { ask } from "../ask-until-known.ts";
import type { Caller, Trouble, WriteTrouble } from "../control-api.ts";
import type { Engine } from "../engine/engine.ts";
import type { WorkflowDocument } from "./definitions.ts";
import type { WorkflowInfo } from "./workflow-api.ts";

export async function getWorkflow(
  engine: Engine,
  tenant: TenantId,
  id: string,
): Promise<
  { readonly kind: "workflow"; readonly workflow: WorkflowInfo } | { readonly kind: "not_found" } | Trouble
> {
  const answer = await ask(engine, "getDocument", { tenant, collection: "workflow", id });
  if (answer.kind === "not_found") return answer;
  if (answer.kind !== "document") return { kind: answer.kind, cause: answer.cause };
  const { body, revision, savedAtMs } = answer.document;
  const definition = await readText(engine, tenant, (JSON.parse(body) as WorkflowDocument).hash);
  if (definition.kind !== "text") return definition;
  return { kind: "workflow", workflow: { id, revision, savedAtMs, definition: definition.value } };
}

export async function listWorkflows(
  engine: Engine,
  tenant: TenantId,
  page: { readonly after: string; readonly limit: number },
): Promise<{ readonly kind: "listed"; readonly workflows: readonly WorkflowInfo[] } | Trouble> {
  const answer = await ask(engine, "listDocuments", { tenant, collection: "workflow", ...page });
  if (answer.kind !== "listed") return { kind: answer.kind, cause: answer.cause };
  const workflows: WorkflowInfo[] = [];
  for (const { id, body, revision, savedAtMs } of answer.documents) {
    const definition = await readText(engine, tenant, (JSON.parse(body) as WorkflowDocument).hash);
    if (definition.kind === "text") workflows.push({ id, revision, savedAtMs, definition: definition.value });
    else if (definition.kind !== "not_found") return definition;
  }
  return { kind: "listed", workflows };
}

export async function removeWorkflow(
  engine: Engine,
  caller: Caller,
  id: string,
): Promise<{ readonly kind: "removed" } | { readonly kind: "not_found" } | WriteTrouble> {
  const { tenant, actor } = caller;
  const request = { tenant, collection: "workflow", id, actor, ...credentialIn(tenant, caller) } as const;
  const answer = await ask(engine, "removeDocument", request);
  engine.definitions.forgetCurrent(tenant, id);
  return answer.kind === "removed" || answer.kind === "not_found"
    ? { kind: answer.kind }
    : writeTroubleOf(answer);
}

type Text = { readonly kind: "text"; readonly value: JsonValue } | { readonly kind: "not_found" } | Trouble;

async function readText(engine: Engine, tenant: TenantId, hash: string): Promise<Text> {
  const answer = await ask(engine, "getDocument", { tenant, collection: "definition", id: hash });
  if (answer.kind === "document")
    return { kind: "text", value: JSON.parse(answer.document.body) as JsonValue };
  return answer.kind === "not_found" ? answer : { kind: answer.kind, cause: answer.cause };
}
