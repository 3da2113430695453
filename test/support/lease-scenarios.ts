// What the lease tests have in common: one process that takes one lock, and what may happen to that lock meanwhile.
import type { Grant } from "../../src/adapters/operations/records.ts";
import type { LeaseTarget } from "../../src/control/locks/lease-terms.ts";
import { jobLockTerms, type LeaseTerms, runLockTerms } from "../../src/control/locks/lease-terms.ts";
import { type Lease, type LeaseOutcome, withLease } from "../../src/control/locks/with-lease.ts";
import type { LockToken, RiskClass } from "../../src/domain/lock.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import { loadConfig } from "../../src/load-config.ts";
import { createWorld, join, type Member, type MemberOptions, type World } from "./simulated-ports.ts";

export const tenant = "acme" as TenantId;
const { config } = loadConfig();

export const jobTarget: LeaseTarget = { tenant, lock: { namespace: "job", name: "run:step@1" } };
export const runTarget: LeaseTarget = { tenant, lock: { namespace: "run", name: "run_00_00000001" } };

/** 60 s, renewed every 15 s with calls of up to 2 s, fenced at the third failure. */
export const jobTerms = jobLockTerms(config);
/** 30 s, renewed every 7.5 s with calls of up to 2 s. */
export const runTerms = (risk: RiskClass) => runLockTerms(config, risk, "try_once");

export function withoutRenewal(terms: LeaseTerms): LeaseTerms {
  const { renewEveryMs: _never, ...rest } = terms;
  return rest;
}

export type LeaseScenario = World & Member;

export function setUp(options: MemberOptions & { readonly seed?: number } = {}): LeaseScenario {
  const { seed = 1, ...member } = options;
  const world = createWorld({ seed });
  return { ...world, ...join(world, "p", member) };
}

export function hold<Value>(
  scenario: LeaseScenario,
  terms: LeaseTerms,
  work: (lease: Lease) => Promise<Value>,
  options: { readonly target?: LeaseTarget; readonly signal?: AbortSignal } = {},
): Promise<LeaseOutcome<Value>> {
  const { target = jobTarget, signal } = options;
  return scenario.kernel.complete(withLease(scenario.ports, target, terms, work, signal));
}

/** Work that goes on until it is told to stop, and then says why it stopped. */
export function workUntilStopped(scenario: LeaseScenario, seen: { stoppedAtMs?: number } = {}) {
  return async (lease: Lease): Promise<never> => {
    await scenario.process.clock.sleep(3_600_000, lease.signal);
    seen.stoppedAtMs = scenario.kernel.nowMs();
    lease.signal.throwIfAborted();
    throw new Error("the work was never stopped");
  };
}

export function inspect(scenario: World, target: LeaseTarget = jobTarget) {
  return scenario.store.inspectLock(target, { deadlineMs: 1_000 });
}

/** Somebody else takes the lock, as after its expiry: at once, whatever its ttl says. */
export async function overtake(scenario: World, target: LeaseTarget = jobTarget, ttlMs = 600_000) {
  expire(scenario, target);
  const request = { ...target, token: "overtaker" as LockToken, instance: "q", ttlMs };
  const answer = await scenario.store.acquireLock(request, { deadlineMs: 1_000 });
  if (answer.kind !== "acquired") throw new Error(`the lock could not be overtaken: ${answer.kind}`);
}

/** The lock ends now, as if its ttl had passed. */
export function expire(scenario: World, target: LeaseTarget = jobTarget): void {
  const grant = grantOf(scenario, target);
  if (grant === undefined) throw new Error("there is no grant to expire");
  const expiresAtMs = scenario.server.timeMs() - 1;
  scenario.records.put("lock", target.tenant, memberOf(target), { ...grant, expiresAtMs });
}

export function grantOf(scenario: World, target: LeaseTarget = jobTarget): Grant | undefined {
  return scenario.records.get("lock", target.tenant, memberOf(target));
}

function memberOf(target: LeaseTarget): string {
  return `${target.lock.namespace}/${target.lock.name}`;
}
