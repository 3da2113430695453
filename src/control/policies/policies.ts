// Policies as operators see and set them: on the tenant's record or on the platform's, for all runs or for a share.
import type { Config } from "../../config.ts";
import {
  combinationProblems,
  idlePolicies,
  type PolicyName,
  type PolicySource,
  type PolicyValue,
  policiesFor,
  policiesSet,
  policyNames,
  policyProblem,
  processPolicies,
  settingsFor,
} from "../../domain/policy.ts";
import {
  type Policies,
  platformTenant,
  type Rollout,
  type TenantId,
  type TenantRecord,
  type TenantSettings,
} from "../../domain/tenant.ts";
import type { Trouble } from "../caller.ts";
import { troubleOf } from "../caller.ts";
import { tellChanged } from "../canaries/samples.ts";
import { holdsHighRisk, type SettingsEngine } from "../engine/engine.ts";
import { changeSettings, findTenant, merged, readRecord, type SettingsChange } from "../tenants/tenants.ts";
import { gatedMax, gatedWorkflows } from "../workflows/workflows.ts";

export const policyFlows = { getPolicies, removeRollout, rollOut, setPolicies };

/** Absent for the platform's own, which hold for runs of all tenants that say nothing else. */
type PolicyScope = { readonly tenant: TenantId | undefined };

export type PolicyLayer = { readonly policies: Partial<Policies>; readonly rollout?: Rollout };

export type PolicyView = {
  readonly tenant?: TenantId;
  /** What runs follow that no rollout takes, and where it comes from. */
  readonly effective: {
    readonly [Name in PolicyName]: { readonly value: Policies[Name]; readonly source: PolicySource };
  };
  readonly process: Policies;
  readonly platform: PolicyLayer;
  /** Absent when no tenant was asked about. */
  readonly own?: PolicyLayer;
  /** What is set there and does nothing now, in sentences. */
  readonly warnings: readonly string[];
};

type PolicyAnswer =
  | { readonly kind: "policies"; readonly view: PolicyView }
  | { readonly kind: "tenant_not_found" }
  | Trouble;

type CanaryRunning = { readonly kind: "canary_running"; readonly canary: string; readonly detail: string };

/** Undefined lets a policy be decided elsewhere again. */
type PolicyChanges = { readonly [Name in PolicyName]?: PolicyValue | undefined };

/** The values are out of bounds, or do not fit what else a run would follow. */
export type WrongPolicies = { readonly kind: "invalid_request"; readonly detail: string };

async function setPolicies(
  engine: SettingsEngine,
  { actor, tenant, changes }: PolicyScope & { readonly actor: string; readonly changes: PolicyChanges },
) {
  const named = Object.keys(changes) as PolicyName[];
  return changePolicies<CanaryRunning | WrongPolicies>(engine, actor, tenant, async (settings) => {
    const { rollout } = settings;
    const isTried = named.some((name) => rollout?.policies[name] !== undefined);
    if (isTried && rollout?.canary !== undefined) return canaryRunning(rollout);
    return fitting(engine, { tenant, policies: changes, settings, changes: settingsFor(changes, settings) });
  });
}

type RollOutRequest = PolicyScope & { readonly actor: string } & Pick<Rollout, "policies" | "percent">;

/**
 * Gives policies to a share of the runs. At 100 percent they become settings. The same policies with another percentage are
 * the same rollout: it only adds or takes runs.
 */
function rollOut(engine: SettingsEngine, { actor, tenant, policies, percent }: RollOutRequest) {
  return changePolicies<CanaryRunning | WrongPolicies>(engine, actor, tenant, async (settings) => {
    const { rollout } = settings;
    if (rollout?.canary !== undefined) return canaryRunning(rollout);
    if (percent >= 100) {
      const changes = { ...settingsFor(policies, settings), rollout: undefined };
      return fitting(engine, { tenant, policies, settings, changes });
    }
    const id =
      rollout !== undefined && isSame(rollout.policies, policies)
        ? rollout.id
        : `rollout-${engine.ports.random.token().slice(0, 12)}`;
    const changes = { rollout: { id, percent, policies } };
    return fitting(engine, { tenant, policies, settings, changes });
  });
}

type Proposed = PolicyScope & {
  /** What was asked for. */
  readonly policies: PolicyChanges;
  readonly settings: TenantSettings;
  readonly changes: SettingsChange;
};

async function fitting(engine: SettingsEngine, proposed: Proposed): Promise<ScopeDecision<WrongPolicies>> {
  const refusal = await wrongPolicies(engine, proposed);
  return refusal === undefined ? { kind: "change", changes: proposed.changes } : { kind: "refuse", refusal };
}

/**
 * Numbers that do not fit each other are refused to the change that brings them together. Should another layer or a restart
 * do so later, runs follow them all the same: any number within its bounds is safe.
 */
export async function wrongPolicies(
  { config, platform }: SettingsEngine,
  { tenant, policies, settings, changes }: Proposed,
): Promise<WrongPolicies | undefined> {
  const outOfBounds = Object.entries(policies)
    .map(([name, value]) => policyProblem(name, value))
    .find((problem) => problem !== undefined);
  if (outOfBounds !== undefined) return { kind: "invalid_request", detail: outOfBounds };
  const shared = await platform.current();
  const problems = (own: TenantSettings) =>
    combinationProblems(
      config,
      tenant === undefined ? { platform: own, tenant: {} } : { platform: shared, tenant: own },
    );
  const known = problems(settings);
  const detail = problems(merged(settings, changes)).find((problem) => !known.includes(problem));
  return detail === undefined ? undefined : { kind: "invalid_request", detail };
}

/** The rollback knob: never refused while there is a rollout. A canary that used it is stopped. */
function removeRollout(engine: SettingsEngine, { actor, tenant }: PolicyScope & { readonly actor: string }) {
  return changePolicies<{ readonly kind: "rollout_not_found" }>(engine, actor, tenant, ({ rollout }) =>
    rollout === undefined
      ? { kind: "refuse", refusal: { kind: "rollout_not_found" } }
      : { kind: "change", changes: { rollout: undefined } },
  );
}

async function changePolicies<Refusal>(
  engine: SettingsEngine,
  actor: string,
  tenant: TenantId | undefined,
  decide: (settings: TenantSettings) => ScopeDecision<Refusal> | Promise<ScopeDecision<Refusal>>,
): Promise<PolicyAnswer | { readonly kind: "version_conflict" } | Refusal> {
  const known = await isKnown(engine, tenant);
  if (known.kind !== "tenant") return known;
  const answer = await changeScope(engine, actor, tenant, decide);
  if (answer.kind === "refused") return answer.refusal;
  if (answer.kind !== "saved") return answer;
  // A canary whose rollout is gone is noticed at once.
  tellChanged(engine);
  return getPolicies(engine, { tenant });
}

/** A canary tries these policies: it must be ended first. */
function canaryRunning({ id }: Rollout): ScopeDecision<CanaryRunning> {
  return { kind: "refuse", refusal: { kind: "canary_running", canary: id, detail: `canary ${id}` } };
}

function isSame(one: Partial<Policies>, other: Partial<Policies>): boolean {
  return policyNames.every((name) => one[name] === other[name]);
}

/** The platform is always there. */
export async function isKnown(engine: SettingsEngine, tenant: TenantId | undefined) {
  if (tenant === undefined) return { kind: "tenant" } as const;
  return findTenant(engine, tenant);
}

/** What holds on which layer. */
async function getPolicies(engine: SettingsEngine, { tenant }: PolicyScope): Promise<PolicyAnswer> {
  const known = await isKnown(engine, tenant);
  if (known.kind !== "tenant") return known;
  const platform = await readRecord(engine, recordOf(undefined));
  if (platform.kind !== "tenant") return platform;
  const own = tenant === undefined ? undefined : await readRecord(engine, tenant);
  if (own !== undefined && own.kind !== "tenant") return own;
  const process = processPolicies(engine.config);
  const { rollout: _shared, ...forAll } = platform.record.settings;
  const { rollout: _ownShare, ...ownForAll } = own?.record.settings ?? {};
  // A run that no rollout takes follows what is set for all.
  const { policies, sources } = policiesFor("", { process, platform: forAll, tenant: ownForAll });
  const effective = Object.fromEntries(
    policyNames.map((name) => [name, { value: policies[name], source: sources[name] }]),
  );
  const layers = [
    policies,
    platform.record.settings.rollout?.policies,
    own?.record.settings.rollout?.policies,
  ];
  const locks = layers.some((each) => each?.["admission.strategy"] === "lock");
  const besides =
    tenant === undefined || !locks
      ? ({ kind: "warnings", warnings: [] } as const)
      : await withoutLock(engine, tenant, own?.record.settings ?? {});
  if (besides.kind !== "warnings") return besides;
  return {
    kind: "policies",
    view: {
      ...(tenant === undefined ? {} : { tenant }),
      effective: effective as PolicyView["effective"],
      process,
      platform: layerOf(platform.record.settings),
      ...(own === undefined ? {} : { own: layerOf(own.record.settings) }),
      warnings: [
        ...warningsOf(engine.config, platform.record.settings, own?.record.settings),
        ...besides.warnings,
      ],
    },
  };
}

type Warnings = { readonly kind: "warnings"; readonly warnings: readonly string[] };

/** Whose runs are started in one operation although a policy says `lock`: nobody waits under a lock. */
async function withoutLock(
  engine: SettingsEngine,
  tenant: TenantId,
  { atLimit }: TenantSettings,
): Promise<Warnings | Trouble> {
  const told = (whose: string, why: string): Warnings => {
    const sentence = `admission.strategy=lock does nothing for ${whose}: ${why} are always started with atomic`;
    return { kind: "warnings", warnings: [sentence] };
  };
  if (atLimit === "queue") return told("runs of this tenant", "with at_limit=queue they");
  const found = await gatedWorkflows(engine, tenant);
  if (found.kind !== "gated") return found;
  if (found.workflows.length === 0) return { kind: "warnings", warnings: [] };
  const named = found.workflows.slice(0, gatedMax).join(", ");
  const others = found.workflows.length > gatedMax ? " and others" : "";
  return told(`runs of ${named}${others}`, "workflows with gates");
}

function warningsOf(config: Config, platform: TenantSettings, own: TenantSettings | undefined): string[] {
  const layers = { process: processPolicies(config), platform, tenant: own ?? {} };
  const idle = idlePolicies(own ?? platform, layers, {
    "approvals.strategy": own?.approvalsStrategy ?? config["approvals.strategy"],
    "dispatch.hold": holdsHighRisk(config) ? "high" : "off",
  });
  const whose =
    own === undefined
      ? "no run follows that unless its tenant says so"
      : "no run of this tenant follows that";
  const doNothing = idle.map(
    ({ name, needs }) => `${name} does nothing now: it needs ${needs.name}=${needs.value}, and ${whose}`,
  );
  return [...doNothing, ...combinationProblems(config, layers)];
}

function layerOf(settings: TenantSettings): PolicyLayer {
  const { rollout } = settings;
  return { policies: policiesSet(settings), ...(rollout === undefined ? {} : { rollout }) };
}

/** The tenant whose record holds the policies: without one it is the platform's, for all. */
export function recordOf(tenant: TenantId | undefined): TenantId {
  return tenant ?? platformTenant;
}

export type ScopeDecision<Refusal> =
  | { readonly kind: "change"; readonly changes: SettingsChange }
  | { readonly kind: "refuse"; readonly refusal: Refusal };

type ScopeAnswer<Refusal> =
  | { readonly kind: "saved"; readonly record: TenantRecord }
  | { readonly kind: "refused"; readonly refusal: Refusal }
  | { readonly kind: "version_conflict" }
  | Trouble;

/**
 * Changes the settings of a tenant or of the platform, if they are still such that the change makes sense. `decide` may ask the
 * store: what it finds was read after the settings, which are saved only if nobody changed them since.
 */
export async function changeScope<Refusal>(
  engine: SettingsEngine,
  actor: string,
  tenant: TenantId | undefined,
  decide: (settings: TenantSettings) => ScopeDecision<Refusal> | Promise<ScopeDecision<Refusal> | Trouble>,
): Promise<ScopeAnswer<Refusal>> {
  for (let tries = 1; ; tries += 1) {
    const current = await readRecord(engine, recordOf(tenant));
    if (current.kind !== "tenant") return current;
    const { record } = current;
    const decision = await decide(record.settings);
    if (decision.kind === "refuse") return { kind: "refused", refusal: decision.refusal };
    if (decision.kind !== "change") return decision;
    if (Object.keys(decision.changes).length === 0) return { kind: "saved", record };
    const { changes } = decision;
    const owner = { by: actor, tenant: recordOf(tenant), expectedVersion: record.version };
    const answer = await changeSettings(engine, owner, () => changes);
    if (answer.kind === "saved") return answer;
    if (answer.kind !== "version_conflict") return troubleOf(answer);
    if (tries === 5) return { kind: "version_conflict" };
  }
}
