// Finds waiting jobs through the store when no hint tells of them: after a restart, or because the hint was lost.

import { fitsRequirements } from "../../domain/requirements.ts";
import { ask } from "../ask-until-known.ts";
import type { Trouble } from "../control-api.ts";
import type { Engine } from "../engine/engine.ts";
import type { Offer } from "./offer.ts";

/** Jobs looked at first, and at most when those are all for other workers. */
const firstLook = 32;
const secondLook = 1_000;

/** Asks only when no job is remembered that this worker could do. */
export async function discoverJobs(
  engine: Engine,
  offer: Offer,
): Promise<{ readonly kind: "found" } | Trouble> {
  const { offers } = engine;
  if (offers.hasWorkFor(offer)) return { kind: "found" };
  const { tenant } = offer;
  for (const topic of offer.topics) {
    for (const limit of [Math.max(firstLook, offer.free()), secondLook]) {
      const answer = await ask(engine, "listReadyJobs", { tenant, topic, limit });
      if (answer.kind !== "listed") return { kind: answer.kind, cause: answer.cause };
      const fit = answer.jobs.filter(({ requires }) => fitsRequirements(requires, offer));
      for (const hint of fit) offers.learn(tenant, hint);
      // Jobs for other workers must not hide those behind them.
      if (fit.length > 0 || answer.jobs.length < limit) break;
    }
  }
  return { kind: "found" };
}
