// Canaries as they are kept: one document each, owned by the platform, changed only as it was last read.
import { type Canary, isOver } from "../../domain/canary.ts";
import { platformTenant } from "../../domain/tenant.ts";
import { troubleOf } from "../acting.ts";
import { askUntilKnown } from "../ask-until-known.ts";
import type { Trouble } from "../control-api.ts";
import { type Engine, storeLimits } from "../engine/engine.ts";

export type KeptCanary = { readonly canary: Canary; readonly revision: number };

const place = { tenant: platformTenant, collection: "canary" } as const;

/** Of those that are over; the audit trail knows of them all. */
const endedMax = 20;
const listedMax = 1_000;

export async function readCanary(
  { ports, config }: Engine,
  id: string,
): Promise<({ readonly kind: "canary" } & KeptCanary) | { readonly kind: "not_found" } | Trouble> {
  const answer = await askUntilKnown(ports, "getDocument", storeLimits(config), (deadlineMs) =>
    ports.store.getDocument({ ...place, id }, { deadlineMs }),
  );
  if (answer.kind === "not_found") return { kind: "not_found" };
  if (answer.kind !== "document") return { kind: answer.kind, cause: answer.cause };
  const { body, revision } = answer.document;
  return { kind: "canary", canary: JSON.parse(body) as Canary, revision };
}

/** The latest first. */
export async function listCanaries({
  ports,
  config,
}: Engine): Promise<{ readonly kind: "listed"; readonly canaries: readonly KeptCanary[] } | Trouble> {
  const request = { ...place, after: "", limit: listedMax };
  const answer = await askUntilKnown(ports, "listDocuments", storeLimits(config), (deadlineMs) =>
    ports.store.listDocuments(request, { deadlineMs }),
  );
  if (answer.kind !== "listed") return { kind: answer.kind, cause: answer.cause };
  const canaries = answer.documents.map(({ body, revision }) => ({
    canary: JSON.parse(body) as Canary,
    revision,
  }));
  return { kind: "listed", canaries: canaries.toReversed() };
}

/** Revision 0 is a new one. Its row in the audit trail tells the state. */
export async function saveCanary(
  { ports, config }: Engine,
  { canary, revision }: KeptCanary,
  actor: string,
): Promise<{ readonly kind: "saved"; readonly revision: number } | { readonly kind: "conflict" } | Trouble> {
  const request = {
    ...place,
    id: canary.id,
    body: JSON.stringify(canary),
    expectedRevision: revision,
    changeId: `${canary.state} ${ports.random.token()}`,
    actor,
  };
  const answer = await askUntilKnown(ports, "putDocument", storeLimits(config), (deadlineMs) =>
    ports.store.putDocument(request, { deadlineMs }),
  );
  if (answer.kind === "saved") return { kind: "saved", revision: answer.revision };
  return answer.kind === "revision_conflict" ? { kind: "conflict" } : troubleOf(answer);
}

/** Best effort: what cannot be removed now is removed by the next start. */
export async function forgetOldCanaries(
  engine: Engine,
  canaries: readonly KeptCanary[],
  actor: string,
): Promise<void> {
  const { ports, config } = engine;
  const old = canaries.filter(({ canary }) => isOver(canary)).slice(endedMax);
  for (const { canary } of old) {
    const request = { ...place, id: canary.id, actor };
    await askUntilKnown(ports, "removeDocument", storeLimits(config), (deadlineMs) =>
      ports.store.removeDocument(request, { deadlineMs }),
    );
  }
}
