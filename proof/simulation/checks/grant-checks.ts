// The checks' own picture of who holds which lock, kept from outcomes and times alone: INV-11 to INV-15.
import { grantMemoryMs, type LockName, type RenewalPolicy } from "../../../src/domain/lock.ts";
import type { TenantId, TenantSettings } from "../../../src/domain/tenant.ts";
import type { Answer, OperationName } from "../../../src/ports/store.ts";
import type { StoreCall, StoreExecution } from "../../../src/testing/simulated-store.ts";
import type { Marks } from "../invariants/marks.ts";
import { mustHold } from "../invariants/violation.ts";
import { QueueChecks } from "./queue-checks.ts";

export type LockReference = { readonly tenant: TenantId; readonly lock: LockName };

type Picture = LockReference & {
  readonly token: string;
  readonly instance: string;
  readonly fence: number;
  expiresAtMs: number;
  released: boolean;
  /** How far the store's clock was ahead of true time when the grant was last extended. */
  clockOffsetMs: number;
  /** The run that it protected was removed, and the grant with it. */
  forgotten: boolean;
  /** Its own commit gave it back: the holder may still have to hear of it, and asks again. */
  committed: boolean;
  /** A renewal that its holder was told of may have been lost: it was not waited for. */
  shaken: boolean;
};

/** What only the simulator can see. */
type GrantContext = {
  storeTimeMs(): number;
  /** How far the store's clock is ahead of true time by jumps that it may make. */
  clockOffsetMs(storeTimeMs: number): number;
  isPaused(instance: string): boolean;
  settingsOf(tenant: TenantId): TenantSettings;
};

type Wanted = Omit<ExecutionOf<"acquireLock">["request"], "token"> & { readonly token: string };

type ExecutionOf<Name extends StoreExecution["name"]> = Extract<StoreExecution, { readonly name: Name }>;

export class GrantChecks {
  readonly #context: GrantContext;
  readonly #marks: Marks;
  readonly #queues: QueueChecks;
  /** The last grant of every lock. */
  readonly #last = new Map<string, Picture>();
  readonly #byFence = new Map<string, Picture>();
  readonly #highestFence = new Map<TenantId, number>();
  /** The highest fences that anybody saw before the checks started over, and the tenants whose highest was lost. */
  #seenFences: ReadonlyMap<TenantId, number> = new Map();
  readonly #lostFences = new Set<TenantId>();
  /** Tokens whose holder was told that the grant is over, with what it was told. */
  readonly #lost = new Map<string, "superseded" | "expired">();

  constructor(context: GrantContext, marks: Marks) {
    this.#context = context;
    this.#marks = marks;
    this.#queues = new QueueChecks(marks, (tenant) => context.settingsOf(tenant));
  }

  /** To be learnt again from the start, but for the fences: what somebody has once seen must never come again. */
  startOver(): void {
    this.#seenFences = new Map(this.#highestFence);
    this.#queues.startOver();
    for (const map of [this.#last, this.#byFence, this.#highestFence]) map.clear();
  }

  /** To be called when everything that is left was learnt again. */
  recovered(isPromised: (lock: LockName) => boolean): void {
    for (const [tenant, fence] of this.#seenFences) {
      if (fence === this.#highestFence.get(tenant)) continue;
      this.#highestFence.set(tenant, fence);
      this.#lostFences.add(tenant);
    }
    for (const picture of this.#byFence.values()) picture.shaken ||= !isPromised(picture.lock);
  }

  observe(execution: StoreExecution): void {
    if (execution.name === "acquireLock") this.#observeAcquire(execution);
    if (execution.name === "renewLock") this.#observeRenew(execution);
    if (execution.name === "releaseLock") this.#observeRelease(execution);
    if (execution.name === "breakLock") this.#observeBreak(execution);
    if (execution.name === "deliver" || execution.name === "takeRun") this.#observeTake(execution);
    if (execution.name === "deliver") this.observeVerdict(execution, false);
  }

  /** INV-12: a guarded write that changed something came from the current grant, or was allowed to take it again. */
  observeGuardedWrite(execution: ExecutionOf<"reserve" | "createRun" | "commit">, changed: number): void {
    const { tenant, guard } = execution.request;
    const last = this.#lastOf({ tenant, lock: guard.lock });
    const isLast = last !== undefined && last.token === guard.token && last.fence === guard.fence;
    const isCurrent = isLast && isHeld(last, execution.storeTimeMs);
    if (execution.outcome.kind === "stale_fence") {
      this.#marks.hit("stale_fence");
      mustHold(!isCurrent, "INV-12", () => `${execution.name} of the current grant was refused as stale`);
    }
    if (changed === 0) return;
    mustHold(
      isCurrent || (isLast && !last.released && guard.policy === "continue"),
      "INV-12",
      () =>
        `${execution.name} by ${execution.caller} with fence ${guard.fence} had an effect, but ${describe(last, execution.storeTimeMs)}`,
    );
    if (last === undefined) return;
    if (!isCurrent) this.#marks.hit("lock_taken_again");
    // A commit arms its lock again, or gives it back when nothing waits; the others only take again what had expired.
    if (!isCurrent || execution.name === "commit") this.#extend(last, execution.storeTimeMs, guard.ttlMs);
    if (execution.outcome.kind !== "committed" || execution.outcome.entries.length > 0) return;
    last.released = true;
    last.committed = true;
  }

  /** INV-12 for verdicts of the dispatch check: the process that brings one holds the job's lock, and the holder is believed. */
  observeVerdict({ request, outcome, storeTimeMs, caller }: ExecutionOf<"deliver">, took: boolean): void {
    const { tenant, entry } = request;
    if (entry.kind !== "dispatch") return;
    const last = this.#lastOf({ tenant, lock: { namespace: "job", name: entry.jobId } });
    const { token, fence } = entry.guard;
    const isCurrent = last?.token === token && last.fence === fence && isHeld(last, storeTimeMs);
    const what = () => `a verdict by ${caller} with fence ${fence}, but ${describe(last, storeTimeMs)}`;
    if (took) mustHold(isCurrent, "INV-12", what);
    if (outcome.kind !== "stale_fence") return;
    mustHold(!isCurrent, "INV-12", () => `refused as stale: ${what()}`);
  }

  /** INV-11 for claims, whose fences come from the same counter. */
  observeFence(tenant: TenantId, fence: number, what: string): void {
    const highest = this.#highestFence.get(tenant) ?? 0;
    mustHold(
      fence > highest,
      "INV-11",
      () => `${what}: fence ${fence} after ${highest} in the same partition`,
    );
    this.#highestFence.set(tenant, fence);
    if (this.#lostFences.delete(tenant)) this.#marks.hit("fence_granted_after_failover");
  }

  /** The run that this lock protected was removed. */
  forget(tenant: TenantId, member: string): void {
    const last = this.#last.get(`${tenant} ${member}`);
    if (last === undefined) return;
    last.forgotten = true;
    this.#last.delete(`${tenant} ${member}`);
  }

  /** Definite loss acts at once: from here on the holder must not go on. */
  observeAnswer(call: StoreCall, answer: Answer<OperationName>): void {
    if (call.name === "renewLock" && answer.kind === "not_owned" && "superseded" in answer) {
      this.#lost.set(call.request.token, answer.superseded ? "superseded" : "expired");
    }
    if (answer.kind === "stale_fence" && "guard" in call.request) {
      this.#lost.set(call.request.guard.token, "superseded");
    }
  }

  /** INV-14: a process that is about to write under a fencing lease still holds the lock, unless the store's clock has jumped. */
  observeBelief(
    target: LockReference,
    grant: { readonly token: string; readonly fence: number },
    policy: RenewalPolicy,
    who: string,
  ): void {
    const told = this.#lost.get(grant.token);
    mustHold(
      told === undefined || (told === "expired" && policy === "continue"),
      "INV-13",
      () =>
        `${who} goes on under fence ${grant.fence} of ${lockKey(target)}, but it was told that it is ${told}`,
    );
    if (policy !== "continue") this.observeRemoteBelief(target, grant, who);
  }

  /** INV-14 of somebody who holds a lock from afar, and hears of its end later than the process that asked for it. */
  observeRemoteBelief(
    target: LockReference,
    grant: { readonly token: string; readonly fence: number },
    who: string,
  ): void {
    const mine = this.#byFence.get(`${target.tenant} ${grant.fence}`);
    if (mine === undefined || mine.forgotten || mine.committed) return;
    if (mine.shaken) return;
    const storeTimeMs = this.#context.storeTimeMs();
    if (this.#context.clockOffsetMs(storeTimeMs) - mine.clockOffsetMs > 2) return;
    const last = this.#lastOf(target);
    mustHold(
      last === mine && last.token === grant.token && isHeld(last, storeTimeMs),
      "INV-14",
      () =>
        `${who} goes on under fence ${grant.fence} of ${lockKey(target)}, but ${describe(last, storeTimeMs)}`,
    );
  }

  /** The same for every guarded write, at the moment it is sent. */
  observeSend(call: StoreCall): void {
    if (!("guard" in call.request)) return;
    const { tenant, guard } = call.request;
    this.observeBelief({ tenant, lock: guard.lock }, guard, guard.policy, `${call.name} of ${call.caller}`);
  }

  hasGranted(tenant: TenantId, fence: number): boolean {
    return this.#byFence.has(`${tenant} ${fence}`);
  }

  locks(): readonly LockReference[] {
    return [...this.#last.values()].map(({ tenant, lock }) => ({ tenant, lock }));
  }

  /** The locks that this instance holds now. */
  heldBy(instance: string): readonly LockReference[] {
    const storeTimeMs = this.#context.storeTimeMs();
    return [...this.#last.values()].filter((last) => last.instance === instance && isHeld(last, storeTimeMs));
  }

  /** The token that holds a lock now, if any. */
  holderToken(target: LockReference): string | undefined {
    const last = this.#lastOf(target);
    return last !== undefined && isHeld(last, this.#context.storeTimeMs()) ? last.token : undefined;
  }

  #observeAcquire(execution: ExecutionOf<"acquireLock">): void {
    const { request, outcome, storeTimeMs } = execution;
    const last = this.#lastOf(request);
    const held = last !== undefined && isHeld(last, storeTimeMs);
    const where = lockKey(request);
    if (outcome.kind === "busy") {
      mustHold(
        held ? last.token !== request.token : this.#queues.isNextSomebodyElse(execution),
        "INV-15",
        () => `${where} is busy, but nobody else holds it`,
      );
      this.#queues.busy(execution);
    }
    if (outcome.kind === "already_released") {
      const isLast = last?.token === request.token && !held;
      mustHold(isLast || this.#queues.hasEnded(request), "INV-15", () => `${where} was not released`);
    }
    if (outcome.kind !== "acquired") return;
    if (outcome.fence === last?.fence) {
      const same = held && last.token === request.token;
      mustHold(same, "INV-12", () => `${where}: fence ${outcome.fence} was granted twice`);
      const leftMs = last.expiresAtMs - storeTimeMs;
      mustHold(
        outcome.expiresInMs === leftMs,
        "INV-13",
        () => `${where}: a repeated acquire changed the lease`,
      );
      return;
    }
    mustHold(outcome.expiresInMs === request.ttlMs, "INV-15", () => `${where}: granted for another time`);
    this.#queues.acquired(execution);
    this.#grant(request, outcome.fence, storeTimeMs);
  }

  /** The run lock as deliver and takeRun give it: by the same rules, and a hand-over only to somebody who is there. */
  #observeTake({ name, request, outcome, storeTimeMs, records }: ExecutionOf<"deliver" | "takeRun">): void {
    const { tenant, runId, take } = request;
    const wanted = { tenant, lock: { namespace: "run", name: runId }, ...take } as const;
    const last = this.#lastOf(wanted);
    const held = last !== undefined && isHeld(last, storeTimeMs);
    const run = outcome.kind === "delivered" ? outcome.run : outcome;
    const where = lockKey(wanted);
    if (run.kind === "owned") {
      const same = held && last.token === take.token && last.fence === run.fence;
      if (!same) this.#grant(wanted, run.fence, storeTimeMs);
      return;
    }
    // Nobody may own a run that has given its places back.
    const isAway = records.get("run", tenant, runId)?.gates?.released === true;
    // A retry is also told so when as many wait as may, or when somebody has a run above it (ADR 45): then it hears no name.
    const isFull = run.kind === "run_busy" && isRetry(request) && run.instance === "";
    const isHandedOver = run.kind === "handed_over" && name === "takeRun" && !isAway;
    const what = () => `${where} is busy, but nobody else holds it`;
    if (isHandedOver || (run.kind === "run_busy" && !isFull))
      mustHold(held && last.token !== take.token, "INV-15", what);
    if (run.kind === "handed_over" && held) this.#marks.hit("handed_over");
  }

  #grant(request: Wanted, fence: number, storeTimeMs: number): void {
    const { tenant, lock, token, instance, ttlMs } = request;
    const last = this.#lastOf(request);
    const held = last !== undefined && isHeld(last, storeTimeMs);
    const where = lockKey(request);
    mustHold(!held, "INV-12", () => `${where} was granted although ${describe(last, storeTimeMs)}`);
    this.observeFence(tenant, fence, where);
    const expired = last !== undefined && !last.released;
    if (last !== undefined && lock.namespace === "public") {
      // A grant that ended too long ago is forgotten, and what became of it is noted nowhere.
      const isRemembered = storeTimeMs <= last.expiresAtMs + grantMemoryMs;
      const how = last.released && !last.forgotten ? "given" : "over";
      if (isRemembered) this.#queues.ended(last, how, storeTimeMs);
      this.#queues.mustBeNew(request, storeTimeMs);
    }
    if (expired && this.#context.isPaused(last.instance)) this.#marks.hit("lock_taken_from_paused_holder");
    const picture = {
      tenant,
      lock,
      token,
      instance,
      fence,
      expiresAtMs: 0,
      released: false,
      clockOffsetMs: 0,
      forgotten: false,
      committed: false,
      shaken: false,
    };
    this.#extend(picture, storeTimeMs, ttlMs);
    this.#last.set(lockKey(request), picture);
    this.#byFence.set(`${tenant} ${fence}`, picture);
  }

  #observeRenew({ request, outcome, storeTimeMs, caller }: ExecutionOf<"renewLock">): void {
    const last = this.#lastOf(request);
    const owned = last !== undefined && last.token === request.token && isHeld(last, storeTimeMs);
    const what = () =>
      `renew of ${lockKey(request)} by ${caller} answered ${outcome.kind}, but ${describe(last, storeTimeMs)}`;
    if (outcome.kind === "renewed") {
      mustHold(owned && last.fence === outcome.fence, "INV-13", what);
      if (last !== undefined) this.#extend(last, storeTimeMs, request.ttlMs);
    }
    if (outcome.kind === "not_owned") mustHold(!owned, "INV-13", what);
  }

  #observeRelease(execution: ExecutionOf<"releaseLock">): void {
    const { request, outcome, storeTimeMs, caller } = execution;
    const last = this.#lastOf(request);
    const isLast = last !== undefined && last.token === request.token;
    const what = () =>
      `release of ${lockKey(request)} by ${caller} answered ${outcome.kind}, but ${describe(last, storeTimeMs)}`;
    const isOwn = isLast && isHeld(last, storeTimeMs);
    const isWaiting = !isOwn && this.#queues.hasTicket(execution);
    if (outcome.kind === "not_owned") mustHold(!isOwn && !isWaiting, "INV-13", what);
    if (outcome.kind !== "released") return;
    const isRepeat = (isLast && last.released) || this.#queues.wasGivenBack(request);
    mustHold(isOwn || isWaiting || isRepeat, "INV-13", what);
    if (isOwn) this.#handOn(execution, last);
    else if (isWaiting && !(isLast && last.released)) this.#queues.left(request, storeTimeMs);
  }

  /** INV-13: an operator takes away the grant that was seen, and no other. */
  #observeBreak(execution: ExecutionOf<"breakLock">): void {
    const { request, outcome, storeTimeMs, caller } = execution;
    const last = this.#lastOf(request);
    const held = last !== undefined && isHeld(last, storeTimeMs);
    const isSeen = held && last.fence === request.fence;
    const what = () =>
      `${caller} broke ${lockKey(request)}, fence ${request.fence}: ${outcome.kind}, but ${describe(last, storeTimeMs)}`;
    if (outcome.kind === "free") mustHold(!held, "INV-13", what);
    if (outcome.kind === "superseded") mustHold(held && !isSeen, "INV-13", what);
    if (outcome.kind !== "broken") return;
    const broken = this.#byFence.get(`${request.tenant} ${request.fence}`);
    mustHold(isSeen || broken?.forgotten === true, "INV-13", what);
    if (!isSeen) return;
    // Its holder hears of it later.
    last.forgotten = true;
    this.#marks.hit("public_lock_broken");
    this.#handOn(execution, last);
  }

  #handOn(execution: ExecutionOf<"releaseLock" | "breakLock">, ended: Picture): void {
    const { tenant, lock } = execution.request;
    ended.released = true;
    ended.expiresAtMs = execution.storeTimeMs;
    const heir = this.#queues.handedOn(execution, ended.token);
    if (heir !== undefined)
      this.#grant({ tenant, lock, ...heir } as Wanted, heir.fence, execution.storeTimeMs);
  }

  #extend(picture: Picture, storeTimeMs: number, ttlMs: number): void {
    picture.shaken = false;
    picture.expiresAtMs = storeTimeMs + ttlMs;
    picture.clockOffsetMs = this.#context.clockOffsetMs(storeTimeMs);
  }

  #lastOf(target: LockReference): Picture | undefined {
    return this.#last.get(lockKey(target));
  }
}

function isRetry(request: ExecutionOf<"deliver" | "takeRun">["request"]): boolean {
  return "entry" in request && request.entry.kind === "retry";
}

/** Up to and including its last millisecond. */
function isHeld(picture: Picture, storeTimeMs: number): boolean {
  return !picture.released && storeTimeMs <= picture.expiresAtMs;
}

function describe(last: Picture | undefined, storeTimeMs: number): string {
  if (last === undefined) return "the lock was never granted";
  if (isHeld(last, storeTimeMs)) return `${last.instance} holds it with fence ${last.fence}`;
  const ended = last.released ? "was released" : `expired ${storeTimeMs - last.expiresAtMs} ms ago`;
  return `the last grant, fence ${last.fence} of ${last.instance}, ${ended}`;
}

function lockKey({ tenant, lock }: LockReference): string {
  return `${tenant} ${lock.namespace}/${lock.name}`;
}
