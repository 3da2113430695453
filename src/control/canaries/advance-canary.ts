// Canaries as they are kept, and how one is brought to its next state: each step can be repeated, by any process, after any crash.
import { type Canary, type CanaryState, isOver } from "../../domain/canary.ts";
import { type PolicyValue, policiesSet, settingsFor } from "../../domain/policy.ts";
import { type Policies, platformTenant, type TenantSettings } from "../../domain/tenant.ts";
import { ask } from "../ask-until-known.ts";
import type { Trouble } from "../caller.ts";
import { troubleOf } from "../caller.ts";
import type { SettingsEngine } from "../engine/engine.ts";
import { changeScope, type ScopeDecision } from "../policies/policies.ts";

/** One document each, owned by the platform, changed only as it was last read. */
export type KeptCanary = { readonly canary: Canary; readonly revision: number };

type AdvanceAnswer =
  | ({ readonly kind: "canary" } & KeptCanary)
  | { readonly kind: "canary_not_found" }
  | Trouble;

/** Until it runs or is over; what other processes do meanwhile is taken as it is. */
export async function advanceCanary(
  engine: SettingsEngine,
  id: string,
  actor: string,
): Promise<AdvanceAnswer> {
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
  engine: SettingsEngine,
  canary: Canary,
  actor: string,
): Promise<{ readonly kind: "next"; readonly next: Next } | Trouble> {
  const answer = await changeScope(engine, actor, canary.tenant, async (settings) => {
    // The state is read after the settings: a delayed process cannot bring back a rollout that was removed meanwhile.
    const now = await readCanary(engine, canary.id);
    if (now.kind === "canary") return decide(now.canary, settings);
    return now.kind === "canary_not_found" ? { kind: "refuse", refusal: "it was removed" } : now;
  });
  const endedAtMs = engine.storeTime.nowMs();
  const ending = canary.state === "starting" ? {} : { endedAtMs };
  switch (answer.kind) {
    case "saved":
      return { kind: "next", next: { state: following(canary), ...ending } };
    case "refused":
      return { kind: "next", next: { state: "stopped", reason: answer.refusal, endedAtMs } };
    case "version_conflict":
      return { kind: "unavailable", cause: "the settings keep changing" };
    case "unknown":
    case "unavailable":
      return answer;
  }
}

function following({ state, endsAs }: Canary): CanaryState {
  if (state === "starting") return "running";
  if (state === "keeping") return "kept";
  return state === "rolling_back" ? (endsAs ?? "rolled_back") : state;
}

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
      if (isOurs)
        return { kind: "change", changes: { ...settingsFor(canary.policies, settings), rollout: undefined } };
      return holds(settings, canary.policies)
        ? nothing
        : { kind: "refuse", refusal: "its rollout was removed before it could be kept" };
    case "running":
    case "rolled_back":
    case "kept":
    case "inconclusive":
    case "stopped":
      return nothing;
  }
}

const nothing = { kind: "change", changes: {} } as const;

function rolloutOf({ id, percent, policies, startedAtMs, windowMs }: Canary) {
  return { id, percent, policies, canary: { startedAtMs, windowMs } };
}

function holds(settings: TenantSettings, policies: Partial<Policies>): boolean {
  const set: Readonly<Record<string, PolicyValue | undefined>> = policiesSet(settings);
  return Object.entries(policies).every(([name, value]) => set[name] === value);
}

export function noteEnd({ ports }: Pick<SettingsEngine, "ports">, { id, state, reason = "" }: Canary): void {
  if (!isOver({ state })) return;
  ports.metrics.count("canary_verdicts_total", { verdict: state });
  ports.log.info(`canary ${state.replace("_", " ")}`, { canary: id, because: reason });
}

export type CanaryDecision = {
  readonly state: "rolling_back" | "keeping";
  readonly endsAs?: "inconclusive";
  readonly reason: string;
  readonly actor: string;
};

/** Ends a canary by a verdict, of the judge or of a person: the decision is saved first, and then carried out. The first holds: one that comes later gives what became of the canary. */
export async function decideCanary(
  engine: SettingsEngine,
  id: string,
  { actor, ...decision }: CanaryDecision,
): Promise<AdvanceAnswer> {
  for (let tries = 1; ; tries += 1) {
    // One that is still starting is started first, so that there is a rollout to remove.
    const current = await advanceCanary(engine, id, actor);
    if (current.kind !== "canary" || isOver(current.canary)) return current;
    const { canary, revision } = current;
    engine.collected.learn(canary);
    const { totals: arms } = engine.collected.of(id);
    const totals = { atMs: engine.storeTime.nowMs(), arms };
    const decided: Canary = { ...canary, ...decision, decidedBy: actor, totals };
    const saved = await saveCanary(engine, { canary: decided, revision }, actor);
    if (saved.kind === "saved") return advanceCanary(engine, id, actor);
    if (saved.kind !== "conflict") return saved;
    if (tries === 5) return { kind: "unavailable", cause: "the canary keeps changing" };
  }
}

const documents = { tenant: platformTenant, collection: "canary" } as const;

/** Of those that are over; the audit trail knows of them all. */
const endedMax = 20;
const listedMax = 1_000;

export async function readCanary(engine: SettingsEngine, id: string): Promise<AdvanceAnswer> {
  const answer = await ask(engine, "getDocument", { ...documents, id });
  if (answer.kind === "not_found") return { kind: "canary_not_found" };
  if (answer.kind !== "document") return { kind: answer.kind, cause: answer.cause };
  const { body, revision } = answer.document;
  return { kind: "canary", canary: JSON.parse(body) as Canary, revision };
}

/** The latest first. */
export async function readCanaries(
  engine: SettingsEngine,
): Promise<{ readonly kind: "listed"; readonly canaries: readonly KeptCanary[] } | Trouble> {
  const request = { ...documents, after: "", limit: listedMax };
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
  engine: SettingsEngine,
  { canary, revision }: KeptCanary,
  actor: string,
): Promise<{ readonly kind: "saved"; readonly revision: number } | { readonly kind: "conflict" } | Trouble> {
  const { ports } = engine;
  const request = {
    ...documents,
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
  engine: SettingsEngine,
  canaries: readonly KeptCanary[],
  actor: string,
): Promise<void> {
  const old = canaries.filter(({ canary }) => isOver(canary)).slice(endedMax);
  for (const { canary } of old) {
    const request = { ...documents, id: canary.id, actor };
    await ask(engine, "removeDocument", request);
  }
}
