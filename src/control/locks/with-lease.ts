// Runs work under a lock: acquires it, renews it, fences the work before the lock can be somebody else's, and releases it.
import {
  type AbandonCause,
  elapsedMs,
  type Fence,
  type Guard,
  type Instant,
  judgeRenewal,
  type LockToken,
  leaseMarginMs,
  type RenewalOutcome,
} from "../../domain/lock.ts";
import { errors, InterlockError } from "../../errors.ts";
import type { CancelTimer, Ports } from "../../ports/ports.ts";
import type { Answer, OperationName, RequestOf, StoreMethods, StoreOf } from "../../ports/store.ts";
import { type Acquisition, acquireLease, type NotAcquired } from "./acquire-lease.ts";
import { instantOf, type LeaseTarget, type LeaseTerms, logFields } from "./lease-terms.ts";
import { countRenewal, releaseLease } from "./release-lease.ts";

/** Operations that write under a lock. */
type GuardedOperation = {
  [Name in OperationName]: RequestOf<Name> extends { readonly guard: Guard } ? Name : never;
}[OperationName];

/** What a lease uses: the locks, and what may be written under one. */
type LeasePorts = Ports<StoreOf<"locks" | "admission" | "inbox">>;

/** A lock as the work under it sees it. Only `withLease` makes one. */
export type Lease = {
  readonly token: LockToken;
  readonly fence: Fence;
  /** Aborted when ownership can no longer be trusted (reason: the `lock_abandoned` error) or the caller cancels. */
  readonly signal: AbortSignal;
  /** Throws when the lease is over. Synchronous and by elapsed time: after a pause, work runs before any timer fires. */
  check(): void;
  /** A guarded write: checked before it is sent (`unavailable` when the lease is over), and by the store when it arrives. */
  write<Name extends GuardedOperation>(
    name: Name,
    request: Omit<RequestOf<Name>, "guard">,
    deadlineMs?: number,
  ): Promise<Answer<Name>>;
};

export type LeaseOutcome<Value> =
  /** The work returned; `abandoned` says that its lease had ended by then, so the lock was not released. */
  | { readonly kind: "finished"; readonly value: Value; readonly abandoned?: AbandonCause }
  /** The work stopped because its lease had ended; the lock is left in place. */
  | { readonly kind: "abandoned"; readonly cause: AbandonCause }
  | NotAcquired;

export async function withLease<Value>(
  ports: LeasePorts,
  target: LeaseTarget,
  terms: LeaseTerms,
  work: (lease: Lease) => Promise<Value>,
  signal?: AbortSignal,
): Promise<LeaseOutcome<Value>> {
  const acquired = await acquireLease(ports, target, terms, signal);
  return acquired.kind === "acquired" ? holdLease(ports, target, terms, acquired, work, signal) : acquired;
}

/** The same for a lock that another operation has already taken. */
export async function holdLease<Value>(
  ports: LeasePorts,
  target: LeaseTarget,
  terms: LeaseTerms,
  acquired: Acquisition,
  work: (lease: Lease) => Promise<Value>,
  signal?: AbortSignal,
): Promise<Exclude<LeaseOutcome<Value>, NotAcquired>> {
  const held = new HeldLease(ports, target, terms, acquired, signal);
  const renewing = held.renewUntilStopped();
  try {
    const value = await work(held);
    const abandoned = held.judgeDeadline();
    return abandoned === undefined ? { kind: "finished", value } : { kind: "finished", value, abandoned };
  } catch (error) {
    const abandoned = held.judgeDeadline();
    if (abandoned !== undefined && isReason(error, held.lossReason))
      return { kind: "abandoned", cause: abandoned };
    throw error;
  } finally {
    held.stop();
    await renewing;
    if (held.abandoned === undefined && !held.givenBack) {
      await releaseLease(ports, target, acquired.token, { kind: "held" }, terms.releaseTimeoutMs);
    }
  }
}

/** True for the reason itself and for an error that carries it as its cause. */
function isReason(error: unknown, reason: unknown): boolean {
  return error === reason || (error instanceof Error && error.cause === reason);
}

/** A reason that nobody reads: without one every end of a lease would make an exception with its stack. */
const workIsOver = "the work is over";

/** One held lock from its grant to its end. */
class HeldLease implements Lease {
  readonly token: LockToken;
  readonly fence: Fence;
  /** Why the lease was abandoned, once it was. */
  abandoned: AbandonCause | undefined;
  /** What `check` throws and `signal` is aborted with from then on. */
  lossReason: InterlockError | undefined;
  /** The last write released the lock in the same operation. */
  givenBack = false;

  readonly #ports: LeasePorts;
  readonly #target: LeaseTarget;
  readonly #terms: LeaseTerms;
  readonly #caller: AbortSignal | undefined;
  /** Made for the first who asks: most work under a lock never does, and a controller is 3 us. */
  #working: AbortController | undefined;
  #leaveCaller = () => {};
  /** Ends the wait for the next renewal. */
  #endRenewing = () => {};
  #stopped = false;
  /** Of requests that may be repeated, since their answer was lost: most leases have none. */
  #firstSent: WeakMap<object, Instant> | undefined;
  /** When the last call that surely extended the lease was sent. */
  #since: Instant;
  #failures = 0;
  #cancelDeadline: CancelTimer = () => {};

  constructor(
    ports: LeasePorts,
    target: LeaseTarget,
    terms: LeaseTerms,
    grant: Acquisition,
    caller: AbortSignal | undefined,
  ) {
    this.#ports = ports;
    this.#target = target;
    this.#terms = terms;
    this.token = grant.token;
    this.fence = grant.fence;
    this.#since = grant.since;
    this.#caller = caller;
    this.#armDeadline();
  }

  get signal(): AbortSignal {
    if (this.#working === undefined) {
      this.#working = new AbortController();
      if (this.lossReason !== undefined) this.#working.abort(this.lossReason);
      this.#leaveCaller = followSignal(this.#working, this.#stopped ? undefined : this.#caller);
    }
    return this.#working.signal;
  }

  check(): void {
    if (this.judgeDeadline() !== undefined) throw this.lossReason;
  }

  /** Abandons the lease if its time is over, whatever timers have fired; says why it was abandoned, if it was. */
  judgeDeadline(): AbandonCause | undefined {
    if (this.#remainingMs() <= 0) this.#abandon("deadline");
    return this.abandoned;
  }

  async write<Name extends GuardedOperation>(
    name: Name,
    request: Omit<RequestOf<Name>, "guard">,
    deadlineMs: number = this.#terms.callTimeoutMs,
  ): Promise<Answer<Name>> {
    if (this.judgeDeadline() !== undefined) return { kind: "unavailable", cause: "lock_abandoned" };
    const { token, fence } = this;
    const { ttlMs, rule } = this.#terms;
    const guard: Guard = { lock: this.#target.lock, token, fence, policy: rule.policy, ttlMs };
    const guarded = { ...request, guard } as unknown as RequestOf<Name>;
    const boundedMs = Math.max(1, Math.min(deadlineMs, this.#remainingMs()));
    // A repeat may only confirm what the first try did: the lock counts from then.
    const sent = this.#firstSent?.get(request) ?? instantOf(this.#ports.clock);
    const operation = this.#ports.store[name] as StoreMethods[Name];
    const answer = await operation(guarded, { deadlineMs: boundedMs });
    if (answer.kind === "unknown" || answer.kind === "unavailable") {
      this.#firstSent ??= new WeakMap();
      this.#firstSent.set(request, sent);
    }
    // A commit that comes after the successor's is refused by its version before anybody looks at its fence.
    if (answer.kind === "stale_fence" || answer.kind === "stale_version")
      this.#ports.metrics.count("stale_write_refused_total", { operation: name });
    if (answer.kind === "stale_fence") this.#abandon("not_owned");
    // A commit arms its lock again, or gives it back when nothing waits.
    if (answer.kind === "committed") {
      if (answer.entries.length === 0) this.#wasGivenBack();
      else this.#extended(sent);
    }
    return answer;
  }

  /** Ends the lease's own life, without a word about the lock. */
  stop(): void {
    this.#stopped = true;
    this.#endRenewing();
    this.#leaveCaller();
    this.#cancelDeadline();
  }

  /** Renews at multiples of the interval, whatever each call takes, so that the third failure is known in time. */
  async renewUntilStopped(): Promise<void> {
    const { renewEveryMs } = this.#terms;
    if (renewEveryMs === undefined) return;
    const { clock } = this.#ports;
    const renewing = new AbortController();
    const { signal } = renewing;
    const leaveCaller = followSignal(renewing, this.#caller);
    this.#endRenewing = () => {
      leaveCaller();
      renewing.abort(workIsOver);
    };
    let dueMs = clock.monotonicMs() + renewEveryMs;
    for (;;) {
      await clock.sleep(Math.max(0, dueMs - clock.monotonicMs()), signal);
      if (signal.aborted) return;
      dueMs = clock.monotonicMs() + renewEveryMs;
      await this.#renewOnce();
      if (signal.aborted) return;
    }
  }

  async #renewOnce(): Promise<void> {
    const { log, metrics, store } = this.#ports;
    const { ttlMs, callTimeoutMs, rule } = this.#terms;
    const sent = instantOf(this.#ports.clock);
    const request = { ...this.#target, token: this.token, ttlMs };
    const answer = await store.renewLock(request, { deadlineMs: callTimeoutMs });
    // The work may have ended meanwhile: then nobody is left to fence, and a release may already have been seen.
    if (this.#stopped) return;
    const lock = this.#target.lock.namespace;
    countRenewal(metrics, lock, answer);
    if (answer.kind === "renewed") return this.#extended(sent);
    metrics.count("lock_renewal_failed_total", { lock, policy: rule.policy });
    if (answer.kind === "not_owned") {
      metrics.count("lock_not_owned_total", { lock, operation: "renew" });
      log.warn(errors.lock_not_owned.message, { ...logFields(this.#target), operation: "renew" });
    }
    if (answer.kind === "unknown") metrics.count("unknown_outcomes_total", { operation: "renewLock" });
    const verdict = judgeRenewal(rule, renewalOutcome(answer), this.#failures);
    this.#failures += 1;
    log.warn(`${lock} lock renewal failed`, { ...logFields(this.#target), failures: this.#failures });
    if (verdict.kind === "fence") this.#abandon(verdict.cause);
  }

  #wasGivenBack(): void {
    this.givenBack = true;
    const lock = this.#target.lock.namespace;
    this.#ports.metrics.count("lock_releases_total", { lock, outcome: "released" });
  }

  #extended(sent: Instant): void {
    this.#since = sent;
    this.#failures = 0;
    this.#armDeadline();
  }

  /** Infinite under `continue`: there only a newer grant ends the lease. */
  #remainingMs(): number {
    if (this.#terms.rule.policy === "continue") return Number.POSITIVE_INFINITY;
    const { ttlMs } = this.#terms;
    return ttlMs - leaseMarginMs(ttlMs) - elapsedMs(this.#since, instantOf(this.#ports.clock));
  }

  #armDeadline(): void {
    this.#cancelDeadline();
    const remainingMs = this.#remainingMs();
    if (remainingMs === Number.POSITIVE_INFINITY) return;
    this.#cancelDeadline = this.#ports.clock.timer(Math.max(0, remainingMs), () => {
      if (this.#remainingMs() > 0) this.#armDeadline();
      else this.#abandon("deadline");
    });
  }

  /** Aborts the work and leaves the lock alone: it may be somebody else's by now. */
  #abandon(cause: AbandonCause): void {
    if (this.abandoned !== undefined || this.#stopped) return;
    this.abandoned = cause;
    this.#cancelDeadline();
    const lock = this.#target.lock.namespace;
    const { policy } = this.#terms.rule;
    this.#ports.metrics.count("lock_abandoned_total", { lock, policy, cause });
    const message = `${lock} lock abandoned: ${cause.replaceAll("_", " ")}`;
    this.#ports.log.warn(message, logFields(this.#target));
    this.lossReason = new InterlockError("lock_abandoned", message);
    this.#endRenewing();
    this.#working?.abort(this.lossReason);
  }
}

function renewalOutcome(answer: Answer<"renewLock">): RenewalOutcome {
  switch (answer.kind) {
    case "renewed":
      return "renewed";
    case "not_owned":
      return answer.superseded ? "not_owned_superseded" : "not_owned_expired";
    case "unknown":
    case "unavailable":
      return "unknown";
  }
}

/** The controller is aborted when the signal is, with its reason. Gives how to end that. */
export function followSignal(controller: AbortController, signal: AbortSignal | undefined): () => void {
  if (signal === undefined) return () => {};
  const follow = () => controller.abort(signal.reason);
  if (signal.aborted) follow();
  else signal.addEventListener("abort", follow);
  return () => signal.removeEventListener("abort", follow);
}
