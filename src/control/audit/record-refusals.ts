// Writes what was refused in a minute into a tenant's audit trail, as one record.
import type { TenantId } from "../../domain/tenant.ts";
import { troubleOf } from "../acting.ts";
import { ask } from "../ask-until-known.ts";
import type { Trouble } from "../control-api.ts";
import type { Engine } from "../engine/engine.ts";

/**
 * The document is only the bearer of its record: one for all processes, so that those that are long gone leave none behind. The
 * text names the minute and the process, and is the same when it is written again.
 */
export async function recordRefusals(
  engine: Engine,
  tenant: TenantId,
  text: string,
): Promise<{ readonly kind: "recorded" } | Trouble> {
  const { ports } = engine;
  const request = {
    tenant,
    collection: "refusal",
    id: "latest",
    body: JSON.stringify({ text }),
    changeId: text,
    actor: ports.instance,
  } as const;
  const answer = await ask(engine, "putDocument", request);
  if (answer.kind === "saved") return { kind: "recorded" };
  if (answer.kind === "revision_conflict") throw new Error("no revision was expected");
  return troubleOf(answer);
}
