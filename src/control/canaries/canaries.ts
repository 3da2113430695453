// Canaries as operators start, see and end them.

import {
  type Canary,
  type CanaryBook,
  type CanaryState,
  type GuardStanding,
  missing,
  standings,
} from "../../domain/canary.ts";
import { type CanaryGuard, familiesOf, withDefaultGuards } from "../../domain/canary-guard.ts";
import { type PolicyName, policyTable } from "../../domain/policy.ts";
import { orderedUnique } from "../../domain/run.ts";
import type { Policies, TenantId } from "../../domain/tenant.ts";
import type { Trouble } from "../caller.ts";
import type { SettingsEngine } from "../engine/engine.ts";
import { isKnown, recordOf, type WrongPolicies, wrongPolicies } from "../policies/policies.ts";
import { readRecord } from "../tenants/tenants.ts";
import {
  advanceCanary,
  type CanaryDecision,
  decideCanary,
  forgetOldCanaries,
  readCanaries,
  readCanary,
  saveCanary,
} from "./advance-canary.ts";
import { amountOf } from "./collected-samples.ts";
import { tellChanged } from "./samples.ts";

export const canaryFlows = { getCanary, keepCanary, listCanaries, rollBackCanary, startCanary };

export type StartCanaryRequest = {
  readonly actor: string;
  readonly tenant?: TenantId;
  readonly policies: Partial<Policies>;
  readonly percent: number;
  readonly forMs: number;
  readonly windowMs: number;
  readonly guards: readonly CanaryGuard[];
  readonly samplesMin: number;
  readonly windowsInARow: number;
};

export type CanaryStatus = {
  readonly canary: Canary;
  readonly book: CanaryBook;
  readonly standings: readonly GuardStanding[];
  readonly missing: readonly string[];
  /** The store's time. */
  readonly nowMs: number;
};

type Shown = { readonly kind: "canary"; readonly status: CanaryStatus };
type NotFound = { readonly kind: "canary_not_found" };

type StartCanaryAnswer =
  | Shown
  | { readonly kind: "tenant_not_found" }
  | WrongPolicies
  /** Of the same tenant, or of the platform: one at a time. */
  | { readonly kind: "rollout_exists"; readonly rollout: string; readonly detail: string }
  | Trouble;

async function startCanary(engine: SettingsEngine, request: StartCanaryRequest): Promise<StartCanaryAnswer> {
  const answer = await start(engine, request);
  tellChanged(engine);
  return answer;
}

/** The latest first. */
async function listCanaries(
  engine: SettingsEngine,
): Promise<{ readonly kind: "listed"; readonly canaries: readonly Canary[] } | Trouble> {
  const answer = await readCanaries(engine);
  if (answer.kind !== "listed") return answer;
  return { kind: "listed", canaries: answer.canaries.map(({ canary }) => canary) };
}

async function getCanary(
  engine: SettingsEngine,
  { id }: { readonly id: string },
): Promise<Shown | NotFound | Trouble> {
  const answer = await readCanary(engine, id);
  return answer.kind === "canary" ? { kind: "canary", status: statusOf(engine, answer.canary) } : answer;
}

type EndCanaryRequest = {
  readonly actor: string;
  readonly id: string;
  readonly reason: string | undefined;
};

function rollBackCanary(
  engine: SettingsEngine,
  { actor, id, reason = "rolled back by hand" }: EndCanaryRequest,
): Promise<EndCanaryAnswer> {
  return endCanary(engine, id, { state: "rolling_back", reason, actor });
}

function keepCanary(
  engine: SettingsEngine,
  { actor, id, reason = "kept by hand" }: EndCanaryRequest,
): Promise<EndCanaryAnswer> {
  return endCanary(engine, id, { state: "keeping", reason, actor });
}

async function start(engine: SettingsEngine, request: StartCanaryRequest): Promise<StartCanaryAnswer> {
  const { actor, tenant, policies, forMs, guards } = request;
  const known = await isKnown(engine, tenant);
  if (known.kind !== "tenant") return known;
  const scope = await readRecord(engine, recordOf(tenant));
  if (scope.kind !== "tenant") return scope;
  const { settings } = scope.record;
  if (settings.rollout !== undefined) return rolloutExists(settings.rollout.id);
  const others = await readCanaries(engine);
  if (others.kind !== "listed") return others;
  await forgetOldCanaries(engine, others.canaries, actor);
  const { clock, random } = engine.ports;
  const id = `canary-${orderedUnique(clock.wallMs(), random.token())}`;
  const startedAtMs = engine.storeTime.nowMs();
  const changes = { rollout: { id, percent: request.percent, policies } };
  const wrong = await wrongPolicies(engine, { tenant, policies, settings, changes });
  if (wrong !== undefined) return wrong;
  const unmeasured = unmeasuredPolicy(request);
  if (unmeasured !== undefined) return unmeasured;
  const families = familiesOf(Object.keys(policies) as PolicyName[]);
  const canary: Canary = {
    ...(tenant === undefined ? {} : { tenant }),
    ...{
      id,
      policies,
      percent: request.percent,
      startedBy: actor,
      startedAtMs,
      endsAtMs: startedAtMs + forMs,
    },
    ...{ windowMs: request.windowMs, samplesMin: request.samplesMin, windowsInARow: request.windowsInARow },
    guards: withDefaultGuards(guards, families),
    state: "starting",
  };
  const saved = await saveCanary(engine, { canary, revision: 0 }, actor);
  if (saved.kind === "conflict") return { kind: "unavailable", cause: "an id was drawn twice" };
  if (saved.kind !== "saved") return saved;
  const started = await advanceCanary(engine, id, actor);
  if (started.kind === "canary_not_found")
    return { kind: "unknown", cause: "it was removed while it started" };
  if (started.kind !== "canary") return started;
  if (started.canary.state === "stopped") return rolloutExists("another rollout");
  return { kind: "canary", status: statusOf(engine, started.canary) };
}

/** Without a measure there is no verdict. */
function unmeasuredPolicy({ policies, percent }: StartCanaryRequest): WrongPolicies | undefined {
  const named = Object.entries(policies) as [PolicyName, unknown][];
  const found = named.find(([name]) => policyTable[name].measuredBy === "nothing");
  if (found === undefined) return undefined;
  const [name, value] = found;
  const instead = `interlock policy set ${name}=${String(value)} --percent ${percent}`;
  const detail = `neither results nor starts measure ${name}, so that no canary can judge it: give it to a share of the runs, ${instead}`;
  return { kind: "invalid_request", detail };
}

function rolloutExists(rollout: string): StartCanaryAnswer {
  return { kind: "rollout_exists", rollout, detail: rollout };
}

type EndCanaryAnswer =
  | Shown
  | NotFound
  /** It had been ended otherwise: the first decision stands. */
  | { readonly kind: "canary_ended"; readonly state: CanaryState; readonly detail: string }
  | Trouble;

async function endCanary(
  engine: SettingsEngine,
  id: string,
  decision: CanaryDecision,
): Promise<EndCanaryAnswer> {
  const answer = await decideCanary(engine, id, decision);
  tellChanged(engine);
  if (answer.kind !== "canary") return answer;
  const { state, reason = "" } = answer.canary;
  const wanted = decision.state === "keeping" ? "kept" : "rolled_back";
  if (state !== wanted) return { kind: "canary_ended", state, detail: `${state}: ${reason}` };
  return { kind: "canary", status: statusOf(engine, answer.canary) };
}

function statusOf(engine: SettingsEngine, canary: Canary): CanaryStatus {
  const book = bookOf(engine, canary);
  const nowMs = engine.storeTime.nowMs();
  return { canary, book, standings: standings(canary, book), missing: missing(canary, book), nowMs };
}

/** What this process knows, or what was kept when it knows less. */
function bookOf({ collected }: SettingsEngine, canary: Canary): CanaryBook {
  const { id, totals, state } = canary;
  if (state === "running") collected.learn(canary);
  const book = collected.of(id);
  if (totals === undefined || amountOf(totals.arms) <= amountOf(book.totals)) return book;
  return { totals: totals.arms, windows: book.windows };
}
