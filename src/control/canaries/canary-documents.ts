// Canaries as they are kept: one document each, owned by the platform, changed only as it was last read.
import { type Canary, isOver } from "../../domain/canary.ts";
import { platformTenant } from "../../domain/tenant.ts";
import { troubleOf } from "../acting.ts";
import { ask } from "../ask-until-known.ts";
import type { Trouble } from "../control-api.ts";
import type { Engine } from "../engine/engine.ts";

export type KeptCanary = { readonly canary: Canary; readonly revision: number };

const place = { tenant: platformTenant, collection: "canary" } as const;

/** Of those that are over; the audit trail knows of them all. */
const endedMax = 20;
const listedMax = 1_000;

export async function readCanary(
  engine: Engine,
  id: string,
): Promise<({ readonly kind: "canary" } & KeptCanary) | { readonly kind: "not_found" } | Trouble> {
  const answer = await ask(engine, "getDocument", { ...place, id });
  if (answer.kind === "not_found") return { kind: "not_found" };
  if (answer.kind !== "document") return { kind: answer.kind, cause: answer.cause };
  const { body, revision } = answer.document;
  return { kind: "canary", canary: JSON.parse(body) as Canary, revision };
}

/** The latest first. */
export async function listCanaries(
  engine: Engine,
): Promise<{ readonly kind: "listed"; readonly canaries: readonly KeptCanary[] } | Trouble> {
  const request = { ...place, after: "", limit: listedMax };
  const answer = await ask(engine, "listDocuments", request);
  if (answer.kind !== "listed") return { kind: answer.kind, cause: answer.cause };
  const canaries = answer.documents.map(({ body, revision }) => ({
    canary: JSON.parse(body) as Canary,
    revision,
  }));
  return { kind: "listed", canaries: canaries.toReversed() };
}

/** Revision 0 is a new one. Its row in the audit trail tells the state. */
export async function saveCanary(
  engine: Engine,
  { canary, revision }: KeptCanary,
  actor: string,
): Promise<{ readonly kind: "saved"; readonly revision: number } | { readonly kind: "conflict" } | Trouble> {
  const { ports } = engine;
  const request = {
    ...place,
    id: canary.id,
    body: JSON.stringify(canary),
    expectedRevision: revision,
    changeId: `${canary.state} ${ports.random.token()}`,
    actor,
  };
  const answer = await ask(engine, "putDocument", request);
  if (answer.kind === "saved") return { kind: "saved", revision: answer.revision };
  return answer.kind === "revision_conflict" ? { kind: "conflict" } : troubleOf(answer);
}

/** Best effort: what cannot be removed now is removed by the next start. */
export async function forgetOldCanaries(
  engine: Engine,
  canaries: readonly KeptCanary[],
  actor: string,
): Promise<void> {
  const old = canaries.filter(({ canary }) => isOver(canary)).slice(endedMax);
  for (const { canary } of old) {
    const request = { ...place, id: canary.id, actor };
    await ask(engine, "removeDocument", request);
  }
}
