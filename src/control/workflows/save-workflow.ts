// Saves a workflow: its definition once per content, and the name that points to it, with a revision.
import { hash } from "node:crypto";
import type { JsonValue } from "../../domain/fingerprint.ts";
import { definitionHash, definitionText, readDefinition } from "../../domain/workflow/definition.ts";
import { credentialIn, writeTroubleOf } from "../acting.ts";
import { askUntilKnown } from "../ask-until-known.ts";
import type { Caller, ControlApi } from "../control-api.ts";
import { type Engine, storeLimits } from "../engine/engine.ts";
import { roomForWorkflow } from "../tenants/quotas.ts";

export async function saveWorkflow(
  engine: Engine,
  caller: Caller,
  value: JsonValue,
): Promise<Awaited<ReturnType<ControlApi["saveWorkflow"]>>> {
  const reading = readDefinition(value);
  if (reading.kind === "invalid") return reading;
  const id = reading.definition.id ?? `wf-${engine.ports.random.token().slice(0, 20)}`;
  // The id is part of what is stored: a run pinned to the definition knows its workflow by it.
  const text = definitionText({ ...(value as { readonly [name: string]: JsonValue }), id });
  const contentHash = definitionHash(text);
  const { tenant, actor } = caller;
  const credential = credentialIn(tenant, caller);
  const put = (collection: "workflow" | "definition", documentId: string, body: string, changeId: string) =>
    askUntilKnown(engine.ports, "putDocument", storeLimits(engine.config), (deadlineMs) =>
      engine.ports.store.putDocument(
        { tenant, collection, id: documentId, body, changeId, actor, ...credential },
        { deadlineMs },
      ),
    );
  const room = await roomForWorkflow(engine, tenant, id);
  if (room.kind !== "room") return room;
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
