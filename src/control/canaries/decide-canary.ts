// Ends a canary by a verdict, of the judge or of a person: the decision is saved first, and then carried out.
import { type Canary, isOver } from "../../domain/canary.ts";
import type { Engine } from "../engine/engine.ts";
import { type AdvanceAnswer, advanceCanary } from "./advance-canary.ts";
import { saveCanary } from "./canary-documents.ts";

export type CanaryDecision = {
  readonly state: "rolling_back" | "keeping";
  readonly reason: string;
  readonly actor: string;
};

/** The first decision holds: one that comes later gives what became of the canary. */
export async function decideCanary(
  engine: Engine,
  id: string,
  { state, reason, actor }: CanaryDecision,
): Promise<AdvanceAnswer> {
  for (let tries = 1; ; tries += 1) {
    // One that is still starting is started first, so that there is a rollout to remove.
    const current = await advanceCanary(engine, id, actor);
    if (current.kind !== "canary" || isOver(current.canary)) return current;
    const { canary, revision } = current;
    const { totals: arms } = engine.collected.of(id);
    const totals = { atMs: engine.storeTime.nowMs(), arms };
    const decided: Canary = { ...canary, state, reason, decidedBy: actor, totals };
    const saved = await saveCanary(engine, { canary: decided, revision }, actor);
    if (saved.kind === "saved") return advanceCanary(engine, id, actor);
    if (saved.kind !== "conflict") return saved;
    if (tries === 5) return { kind: "unavailable", cause: "the canary keeps changing" };
  }
}
