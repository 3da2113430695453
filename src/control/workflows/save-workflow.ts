// Saves a workflow: its definition once per content, and the name that points to it, with a revision.
import { hash } from "node:crypto";
import type { SentDefinition } from "../../domain/workflow/judge.ts";
import { credentialIn, writeTroubleOf } from "../acting.ts";
import { ask } from "../ask-until-known.ts";
import type { Caller, ControlApi } from "../control-api.ts";
import type { Engine } from "../engine/engine.ts";

export async function saveWorkflow(
  engine: Engine,
  caller: Caller,
  sent: SentDefinition,
): Promise<Awaited<ReturnType<ControlApi["saveWorkflow"]>>> {
  const { tenant, actor } = caller;
  const credential = credentialIn(tenant, caller);
  const verdict = await engine.judge.judge(tenant, sent);
  if (verdict.kind !== "valid") return verdict;
  const { id, text, hash: contentHash } = verdict;
  const put = (collection: "workflow" | "definition", documentId: string, body: string, changeId: string) =>
    ask(engine, "putDocument", { tenant, collection, id: documentId, body, changeId, actor, ...credential });
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
