// What the admission tests have in common: gates of simulated processes, requests, and a look at what they left behind.

import { bareStart } from "../../proof/simulation/bare-run.ts";
import { endBareRun } from "../../proof/simulation/end-bare-run.ts";
import type { Config } from "../../src/config.ts";
import {
  type Gate,
  type StartAnswer,
  type StartRequest,
  startRun,
} from "../../src/control/admission/start-run.ts";
import { createTenantCache } from "../../src/control/admission/tenant-cache.ts";
import { engineTerms } from "../../src/control/engine/engine.ts";
import { digestOf, type Fingerprint } from "../../src/domain/fingerprint.ts";
import type { LockToken } from "../../src/domain/lock.ts";
import { isTerminal, type RunId } from "../../src/domain/run.ts";
import type { TenantId, TenantSettings } from "../../src/domain/tenant.ts";
import { errors } from "../../src/errors.ts";
import { loadConfig } from "../../src/load-config.ts";
import {
  createWorld,
  join,
  type Member,
  type MemberOptions,
  type World,
  type WorldOptions,
} from "./simulated-ports.ts";

export const acme = "acme" as TenantId;
export const admissionLock = { namespace: "admission", name: "" } as const;
const call = { deadlineMs: 1_000 };

/** The three ways to decide a start. */
export const strategies = [
  { title: "atomic", overrides: { "admission.strategy": "atomic" } },
  { title: "lock, fixed", overrides: { "admission.strategy": "lock", "admission.wait": "fixed" } },
  { title: "lock, jitter", overrides: { "admission.strategy": "lock", "admission.wait": "jitter" } },
] as const satisfies ReadonlyArray<{ title: string; overrides: Partial<Config> }>;

export const byLock: Partial<Config> = { "admission.strategy": "lock" };

/** One process with a gate: what starts runs. */
export type Gateway = Member & {
  readonly gate: Gate;
  start(asked?: Asked, signal?: AbortSignal): ReturnType<typeof startRun>;
  end(runId: RunId, tenant?: TenantId): Promise<string>;
};

export type Asked = { readonly key?: string; readonly request?: string; readonly tenant?: TenantId };

export function openGateway(
  world: World,
  name: string,
  options: MemberOptions & { readonly overrides?: Partial<Config> } = {},
): Gateway {
  const member = join(world, name, options);
  const { config } = loadConfig({ overrides: options.overrides ?? {} });
  const tenants = createTenantCache(member.ports.clock, config["admission.tenantCacheMs"]);
  const terms = engineTerms(config);
  const gate = { ports: member.ports, config, terms, tenants, platform: { current: () => ({}) } };
  return {
    ...member,
    gate,
    start: (asked, signal) => startRun(gate, requestOf(asked), signal),
    end: async (runId, tenant = acme) => {
      const commitId = member.ports.random.token();
      const request = { tenant, runId, status: "succeeded", commitId, risk: "standard" } as const;
      return (await endBareRun(member.ports, config, request)).kind;
    },
  };
}

/** A world with one gateway `p` in it. */
export function setUp(
  options: WorldOptions & MemberOptions & { readonly overrides?: Partial<Config> } = {},
): World & Gateway {
  const { seed = 1, travelMsMax = 0, table, onOperation, ...member } = options;
  const hooks = { ...(table && { table }), ...(onOperation && { onOperation }) };
  const world = createWorld({ seed, travelMsMax, ...hooks });
  return { ...world, ...openGateway(world, "p", member) };
}

function requestOf({ key, request = "first", tenant = acme }: Asked = {}): StartRequest {
  const base = { ...bareStart, tenant, actor: "tester" };
  if (key === undefined) return base;
  return { ...base, key: { text: key, fingerprint: `v1:${request}` as Fingerprint } };
}

export async function setTenant(world: World, settings: TenantSettings, tenant = acme): Promise<void> {
  const current = await world.store.getTenant({ tenant }, call);
  if (current.kind !== "tenant") throw new Error(current.kind);
  const expectedVersion = current.record.version;
  const changeId = `change ${expectedVersion}`;
  const request = { tenant, settings, expectedVersion, changeId, actor: "operator" };
  const answer = await world.store.setTenant(request, call);
  if (answer.kind !== "saved") throw new Error(answer.kind);
}

/** Somebody else holds the tenant's admission lock. */
export async function occupyAdmission(world: World, ttlMs = 600_000, tenant = acme): Promise<void> {
  const token = "occupant" as LockToken;
  const request = { tenant, lock: admissionLock, token, instance: "stuck", ttlMs };
  const answer = await world.store.acquireLock(request, call);
  if (answer.kind !== "acquired") throw new Error(answer.kind);
}

export async function leaveAdmission(world: World, tenant = acme): Promise<void> {
  const request = { tenant, lock: admissionLock, token: "occupant" as LockToken };
  await world.store.releaseLock(request, call);
}

export async function lockState(world: World, tenant = acme): Promise<string> {
  return (await world.store.inspectLock({ tenant, lock: admissionLock }, call)).kind;
}

export async function keyState(world: World, key: string, tenant = acme): Promise<string> {
  const digest = digestOf("start_run", key);
  return (await world.store.inspectReservation({ tenant, digest }, call)).kind;
}

/** How many reservations without a run are stored, alive or dead. */
export function pendingReservations(world: World): number {
  return [...world.records.all("reservation")].filter(({ value }) => value.state === "pending").length;
}

/** The runs that hold a slot, and the runs that should: equal as sets, whatever happened. */
export function slotsAndOpenRuns(world: World): { slots: string[]; openRuns: string[] } {
  const slots = [...world.records.all("active")].map(({ scope, member }) => `${scope} ${member.slice(17)}`);
  const openRuns = [...world.records.all("run")]
    .filter(({ value }) => !isTerminal(value.status))
    .map(({ scope, member }) => `${scope} ${member}`);
  return { slots: slots.sort(), openRuns: openRuns.sort() };
}

export function runsOf(world: World, tenant = acme): string[] {
  return [...world.records.all("run")].filter(({ scope }) => scope === tenant).map(({ member }) => member);
}

/** As over HTTP. */
export function statusOf({ kind }: StartAnswer): number {
  return kind === "admitted" || kind === "replayed" ? 200 : kind === "queued" ? 202 : errors[kind].status;
}

export function statuses(answers: readonly StartAnswer[]): Record<number, number> {
  const counted: Record<number, number> = {};
  for (const answer of answers) {
    const status = statusOf(answer);
    counted[status] = (counted[status] ?? 0) + 1;
  }
  return counted;
}

export function runIdOf(answer: StartAnswer): RunId {
  if (!("runId" in answer)) throw new Error(`a ${answer.kind} answer names no run`);
  return answer.runId;
}
