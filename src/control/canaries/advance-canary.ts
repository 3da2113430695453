// Brings a canary from one state to the next: each step can be repeated, by any process, after any crash.
import type { Canary, CanaryState } from "../../domain/canary.ts";
import { policiesSet, settingsFor } from "../../domain/policy.ts";
import type { Policies, TenantSettings } from "../../domain/tenant.ts";
import type { Trouble } from "../control-api.ts";
import type { Engine } from "../engine/engine.ts";
import { changeScope, type ScopeDecision } from "../policies/change-scope.ts";
import { type KeptCanary, readCanary, saveCanary } from "./canary-documents.ts";

export type AdvanceAnswer =
  | ({ readonly kind: "canary" } & KeptCanary)
  | { readonly kind: "not_found" }
  | Trouble;

/** Until it runs or is over; what other processes do meanwhile is taken as it is. */
export async function advanceCanary(engine: Engine, id: string, actor: string): Promise<AdvanceAnswer> {
  for (let steps = 1; ; steps += 1) {
    const kept = await readCanary(engine, id);
    if (kept.kind !== "canary") return kept;
    const { canary, revision } = kept;
    if (!isHalfDone(canary.state)) return kept;
    const changed = await changeRollout(engine, canary, actor);
    if (changed.kind !== "next") return changed;
    const next = { ...canary, ...changed.next };
    const saved = await saveCanary(engine, { canary: next, revision }, actor);
    if (saved.kind === "saved") {
      noteEnd(engine, next);
      return { kind: "canary", canary: next, revision: saved.revision };
    }
    if (saved.kind !== "conflict") return saved;
    if (steps === 5) return { kind: "unavailable", cause: "the canary keeps changing" };
  }
}

function isHalfDone(state: CanaryState): boolean {
  return state === "starting" || state === "rolling_back" || state === "keeping";
}

type Next = Pick<Canary, "state"> & Partial<Pick<Canary, "reason" | "endedAtMs">>;

/** The rollout is changed first, and its state saved after: a crash in between repeats what changes nothing. */
async function changeRollout(
  engine: Engine,
  canary: Canary,
  actor: string,
): Promise<{ readonly kind: "next"; readonly next: Next } | Trouble> {
  const answer = await changeScope(engine, actor, canary.tenant, async (settings) => {
    // The state is read after the settings: a delayed process cannot bring back a rollout that was removed meanwhile.
    const now = await readCanary(engine, canary.id);
    if (now.kind === "canary") return decide(now.canary, settings);
    return now.kind === "not_found" ? { kind: "refuse", refusal: "it was removed" } : now;
  });
  const endedAtMs = engine.storeTime.nowMs();
  const ending = canary.state === "starting" ? {} : { endedAtMs };
  switch (answer.kind) {
    case "saved":
      return { kind: "next", next: { ...(following[canary.state] ?? { state: canary.state }), ...ending } };
    case "refused":
      return { kind: "next", next: { state: "stopped", reason: answer.refusal, endedAtMs } };
    case "version_conflict":
      return { kind: "unavailable", cause: "the settings keep changing" };
    case "unknown":
    case "unavailable":
      return answer;
  }
}

const following: { readonly [State in CanaryState]?: Next } = {
  starting: { state: "running" },
  rolling_back: { state: "rolled_back" },
  keeping: { state: "kept" },
};

/** What to do with the settings in this state; they are changed only if nobody else has since they were read. */
function decide(canary: Canary, settings: TenantSettings): ScopeDecision<string> {
  const { rollout } = settings;
  const isOurs = rollout?.id === canary.id;
  switch (canary.state) {
    case "starting": {
      if (isOurs) return nothing;
      if (rollout !== undefined)
        return { kind: "refuse", refusal: `there is another rollout: ${rollout.id}` };
      return { kind: "change", changes: { rollout: rolloutOf(canary) } };
    }
    case "rolling_back":
      return isOurs ? { kind: "change", changes: { rollout: undefined } } : nothing;
    case "keeping":
      if (isOurs) return { kind: "change", changes: { ...settingsFor(canary.policies), rollout: undefined } };
      return holds(settings, canary.policies)
        ? nothing
        : { kind: "refuse", refusal: "its rollout was removed before it could be kept" };
    case "running":
    case "rolled_back":
    case "kept":
    case "stopped":
      return nothing;
  }
}

const nothing = { kind: "change", changes: {} } as const;

function rolloutOf({ id, percent, policies, startedAtMs, windowMs }: Canary) {
  return { id, percent, policies, canary: { startedAtMs, windowMs } };
}

function holds(settings: TenantSettings, policies: Partial<Policies>): boolean {
  const set: Readonly<Record<string, string | undefined>> = policiesSet(settings);
  return Object.entries(policies).every(([name, value]) => set[name] === value);
}

export function noteEnd({ ports }: Pick<Engine, "ports">, { id, state, reason = "" }: Canary): void {
  if (state !== "kept" && state !== "rolled_back" && state !== "stopped") return;
  ports.metrics.count("canary_verdicts_total", { verdict: state });
  ports.log.info(`canary ${state.replace("_", " ")}`, { canary: id, because: reason });
}
