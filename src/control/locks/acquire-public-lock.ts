// Acquires a public lock for a caller that may wait: one identity from the first try to the last, within its time.

import {
  askAgainInMs,
  type Fence,
  type Instant,
  type LockPace,
  type LockToken,
  type LockWait,
  leaseLeftMs,
  waitDelayMs,
} from "../../domain/lock.ts";
import type { QuotaReached } from "../../domain/tenant.ts";
import type { HeldLock } from "../../ports/lock-operations.ts";
import type { Answer } from "../../ports/store.ts";
import type { Caller, Trouble } from "../caller.ts";
import { instantOf, type LeaseTarget, logFields } from "./lease-terms.ts";
import type { Handover, Waiter } from "./lock-waiters.ts";
import { giveBack, type LockEngine, publicLock } from "./public-locks.ts";

export type AcquireLockRequest = {
  readonly caller: Caller;
  readonly resource: string;
  /** What the holder says of itself, for people; its key's id by default. */
  readonly owner?: string;
  readonly ttlMs: number;
  /** 0 tries once. */
  readonly waitMs: number;
  readonly wait: LockWait;
  /** The caller's own: a repeat with the same one is the same acquisition. */
  readonly token?: LockToken;
};

export type AcquireLockAnswer =
  | {
      readonly kind: "acquired";
      readonly token: LockToken;
      readonly fence: Fence;
      readonly owner: string;
      /** By the store's clock. */
      readonly expiresAtMs: number;
      /** At the least, from now on. */
      readonly expiresInMs: number;
      readonly waitedMs: number;
    }
  /** `holder` is absent when the lock was freed meanwhile, or the store did not say. */
  | {
      readonly kind: "lock_unavailable";
      readonly resource: string;
      readonly holder?: HeldLock;
      readonly waitedMs: number;
    }
  /** The caller's token had the lock before, or was released while it waited: it can own nothing again. */
  | { readonly kind: "lock_token_used" }
  | { readonly kind: "unauthenticated" }
  | { readonly kind: "tenant_stopped" }
  /** As many callers wait in this process as may. */
  | { readonly kind: "overloaded"; readonly detail: string }
  | QuotaReached
  /** The caller went away. */
  | { readonly kind: "request_cancelled" }
  | { readonly kind: "unavailable"; readonly cause: string }
  /** The lock may be this token's, now or soon: ask again with it, or release it. */
  | {
      readonly kind: "lock_outcome_unknown";
      readonly resource: string;
      readonly cause: string;
      readonly token: LockToken;
    };

export async function acquireLock(
  engine: LockEngine,
  request: AcquireLockRequest,
  signal?: AbortSignal,
): Promise<AcquireLockAnswer> {
  const { ports } = engine;
  const startedMs = ports.clock.monotonicMs();
  const answer = await new Acquisition(engine, request, signal).run();
  const seconds = (ports.clock.monotonicMs() - startedMs) / 1_000;
  const outcome = olderLabels[answer.kind] ?? answer.kind;
  ports.metrics.observe("lock_acquire_seconds", { lock: "public", outcome }, seconds);
  return answer;
}

/** The labels of the metric are older than the error codes. */
const olderLabels: { readonly [Kind in AcquireLockAnswer["kind"]]?: string } = {
  lock_unavailable: "busy",
  lock_token_used: "token_used",
  overloaded: "too_many_waiters",
  request_cancelled: "cancelled",
  lock_outcome_unknown: "unknown",
};

/** Between tries without an answer. */
const betweenTries = { kind: "exponential", baseMs: 10, maxMs: 160 } as const;

const tooManyWaiters = {
  kind: "overloaded",
  detail: "too many callers wait for locks here: repeat after Retry-After",
} as const;

const tooLate = { kind: "unavailable", cause: "granted too late to be used" } as const;

function quotaReached({ kind, quota }: QuotaRefusal): AcquireLockAnswer {
  return {
    kind: "quota_reached",
    quota: kind === "lock_quota_reached" ? "locks" : "lock_tickets",
    limit: quota,
  };
}

type Busy = Extract<Answer<"acquireLock">, { readonly kind: "busy" }>;
type QuotaRefusal = Extract<Answer<"acquireLock">, { readonly quota: number }>;

/** What a try reports of a grant, whichever request made it. */
type Grant = Pick<Handover, "fence" | "expiresInMs" | "since" | "storeTimeMs">;

/** One request for a lock, from its first try to its answer. */
class Acquisition {
  readonly #engine: LockEngine;
  readonly #request: AcquireLockRequest;
  readonly #signal: AbortSignal | undefined;
  readonly #target: LeaseTarget;
  readonly #owner: string;
  readonly #pace: LockPace;
  readonly #startedMs: number;
  #token: LockToken;
  #waiter: Waiter | undefined;
  /** Something of this token may be in the store: a place in the queue, or a grant. */
  #mayHold = false;
  /** Store time until which a try without an answer may still arrive. */
  #openUntilMs: number | undefined;
  /** Since when the store has not answered. */
  #troubleSinceMs: number | undefined;
  #retries = 0;

  constructor(engine: LockEngine, request: AcquireLockRequest, signal: AbortSignal | undefined) {
    const { ports, config } = engine;
    this.#engine = engine;
    this.#request = request;
    this.#signal = signal;
    this.#target = { tenant: request.caller.tenant, lock: publicLock(request.resource) };
    this.#owner = request.owner ?? request.caller.actor;
    this.#pace = {
      queueMs: config["locks.public.askEveryMs"],
      retry: {
        kind: "exponential",
        baseMs: config["locks.public.retryMs"],
        maxMs: config["locks.public.retryMaxMs"],
      },
    };
    this.#startedMs = ports.clock.monotonicMs();
    this.#token = request.token ?? (ports.random.token() as LockToken);
  }

  async run(): Promise<AcquireLockAnswer> {
    const wake = () => this.#waiter?.wake();
    if (!this.#joinWaiters()) return tooManyWaiters;
    this.#signal?.addEventListener("abort", wake);
    try {
      for (;;) {
        const decided = await this.#try();
        if (decided !== undefined) return decided;
      }
    } finally {
      this.#signal?.removeEventListener("abort", wake);
      this.#waiter?.leave();
    }
  }

  /** Before the first try: a release right after it must find this waiter. */
  #joinWaiters(): boolean {
    if (this.#request.waitMs === 0) return true;
    this.#waiter?.leave();
    const waiter = this.#engine.lockWaiters.join(this.#target, this.#token);
    if (waiter === "full") return false;
    this.#waiter = waiter;
    return true;
  }

  /** One try and the rest after it; undefined means: try again. */
  async #try(): Promise<AcquireLockAnswer | undefined> {
    const since = this.#now();
    if (this.#isOver()) return this.#cancel();
    const answer = await this.#ask();
    const handover = this.#waiter?.take();
    if (this.#isOver()) {
      this.#mayHold ||= answer.kind === "acquired";
      return this.#cancel();
    }
    if (answer.kind === "acquired") return this.#grantedBy("ask", { ...answer, since });
    if (handover !== undefined) return this.#grantedBy("handover", handover);
    switch (answer.kind) {
      case "busy":
        return this.#busy(answer);
      case "already_released":
        return this.#startAfresh();
      case "unauthenticated":
      case "tenant_stopped":
        await this.#giveBackOurs();
        return { kind: answer.kind };
      case "lock_quota_reached":
      case "ticket_quota_reached":
        await this.#giveBackOurs();
        return quotaReached(answer);
      case "unknown":
        this.#mayHold = true;
        this.#openUntilMs = Math.max(this.#openUntilMs ?? 0, answer.notAfterMs);
        return this.#trouble(answer, since);
      case "unavailable":
        return this.#trouble(answer, since);
    }
  }

  async #ask(): Promise<Answer<"acquireLock">> {
    const { ports, config } = this.#engine;
    const { caller, ttlMs } = this.#request;
    const { credential } = caller;
    const answer = await ports.store.acquireLock(
      {
        ...this.#target,
        token: this.#token,
        instance: ports.instance,
        ttlMs,
        owner: this.#owner,
        ...(this.#keepsPlace() ? { ticketMs: config["locks.public.ticketMs"] } : {}),
        ...(credential === undefined ? {} : { credential }),
      },
      { deadlineMs: this.#callTimeoutMs() },
    );
    if (answer.kind === "unknown")
      ports.metrics.count("unknown_outcomes_total", { operation: "acquireLock" });
    if ("storeTimeMs" in answer) {
      this.#troubleSinceMs = undefined;
      if (this.#openUntilMs !== undefined && answer.storeTimeMs > this.#openUntilMs) {
        this.#openUntilMs = undefined;
      }
    }
    return answer;
  }

  /** A grant whose time is over by now is no grant: the next try finds out what became of the lock. */
  async #grantedBy(way: "ask" | "handover", grant: Grant): Promise<AcquireLockAnswer | undefined> {
    const { metrics } = this.#engine.ports;
    const expiresInMs = leaseLeftMs(grant, this.#now());
    if (expiresInMs <= 0) {
      this.#mayHold = true;
      if (this.#leftMs() <= 0) return this.#grantedTooLate();
      await this.#rest(this.#pace.retry.baseMs);
      return undefined;
    }
    if (this.#request.wait === "queue" && this.#retries > 0) metrics.count("lock_handovers_total", { way });
    const expiresAtMs = grant.storeTimeMs + grant.expiresInMs;
    const times = { expiresAtMs, expiresInMs, waitedMs: this.#waitedMs() };
    return { kind: "acquired", token: this.#token, fence: grant.fence, owner: this.#owner, ...times };
  }

  /**
   * A caller's own token may have got the lock elsewhere, while this process slept: what looks like an old grant of ours is
   * then what the caller works under, and only its end or its ttl may free it.
   */
  async #grantedTooLate(): Promise<AcquireLockAnswer> {
    this.#waiter?.leave();
    const isGivenBack = this.#isOurs() && (await this.#giveBackOurs()) === "given_back";
    return isGivenBack ? tooLate : this.#unknown(tooLate.cause);
  }

  async #busy(found: Busy): Promise<AcquireLockAnswer | undefined> {
    const { ports } = this.#engine;
    const { wait } = this.#request;
    this.#mayHold = found.ahead !== undefined || this.#openUntilMs !== undefined;
    const leftMs = this.#leftMs();
    if (leftMs <= 0) return this.#waitIsOver(found);
    const terms = { wait, pace: this.#pace };
    const chance = { retry: this.#retries, fraction: ports.random.fraction() };
    // The last try is at the very end: somebody may have handed the lock on since the one before.
    const delayMs = Math.min(leftMs, askAgainInMs(terms, found, chance));
    ports.metrics.count("lock_busy_retries_total", { path: "public", policy: wait });
    ports.metrics.observe("lock_busy_retry_delay_seconds", { lock: "public", policy: wait }, delayMs / 1_000);
    this.#retries += 1;
    await this.#rest(delayMs);
    const handover = this.#waiter?.take();
    if (handover === undefined || this.#isOver()) return undefined;
    return this.#grantedBy("handover", handover);
  }

  /**
   * The last ask gives the place up, by not keeping it: a release could come late, and take the lock from a caller who never
   * heard of this end and asked again with the same token. What may still arrive is waited for, and then asked about.
   */
  async #waitIsOver({ ahead, instance, storeTimeMs }: Busy): Promise<AcquireLockAnswer | undefined> {
    if (this.#isShared() || !this.#mayHold) return this.#refusal(instance);
    if (ahead === undefined) await this.#rest(1 + (this.#openUntilMs ?? storeTimeMs) - storeTimeMs);
    return undefined;
  }

  /** Asks again for a while, since most trouble passes; then what is not known is said to be unknown. */
  async #trouble({ cause }: Trouble, since: Instant): Promise<AcquireLockAnswer | undefined> {
    const { random } = this.#engine.ports;
    if (!this.#mayHold) return { kind: "unavailable", cause };
    this.#troubleSinceMs ??= since.monotonicMs;
    const pauseMs = waitDelayMs("jitter", betweenTries, this.#retries, random.fraction());
    if (pauseMs >= this.#troubleLeftMs()) return this.#unknown(cause);
    this.#retries += 1;
    await this.#rest(pauseMs);
    return undefined;
  }

  /** A token that has had its turn owns nothing again. A caller's own is spent; ours is replaced. */
  #startAfresh(): AcquireLockAnswer | undefined {
    this.#mayHold = false;
    this.#openUntilMs = undefined;
    if (!this.#isOurs()) return { kind: "lock_token_used" };
    if (this.#leftMs() < 0) return tooLate;
    this.#token = this.#engine.ports.random.token() as LockToken;
    return this.#joinWaiters() ? undefined : tooManyWaiters;
  }

  /**
   * Nobody learns of a token that we made, so what it may hold is given back, without keeping anybody waiting. A caller's own
   * token may be under way again, here or elsewhere: to give it back could take a lock from a caller who was told it holds it.
   */
  #cancel(): AcquireLockAnswer {
    if (this.#mayHold) this.#engine.background.run("giving a lock back", () => this.#giveBackOurs());
    return { kind: "request_cancelled" };
  }

  #unknown(cause: string): AcquireLockAnswer {
    return { kind: "lock_outcome_unknown", resource: this.#request.resource, cause, token: this.#token };
  }

  /** A caller's own token is left alone: its place lapses unless it is asked for again. */
  async #giveBackOurs(): Promise<"given_back" | "unknown"> {
    if (!this.#mayHold || !this.#isOurs()) return "given_back";
    return giveBack(this.#engine, this.#target, this.#token, this.#openUntilMs);
  }

  #isOurs(): boolean {
    return this.#request.token === undefined;
  }

  /** Whether a copy of this request waits here, too. */
  #isShared(): boolean {
    const own = this.#waiter === undefined ? 0 : 1;
    return this.#engine.lockWaiters.count(this.#target, this.#token) > own;
  }

  /** Until its wait is over; and then for a copy that goes on waiting. */
  #keepsPlace(): boolean {
    return this.#request.wait === "queue" && (this.#leftMs() > 0 || this.#isShared());
  }

  /** Names the holder if the store says who it is: without it the refusal only says less. */
  async #refusal(instance: string): Promise<AcquireLockAnswer> {
    const { ports, config } = this.#engine;
    const waitedMs = this.#waitedMs();
    const deadlineMs = config["store.callTimeoutMs"];
    const found = await ports.store.inspectLock(this.#target, { deadlineMs });
    const holder = found.kind === "held" ? found : undefined;
    ports.log.info("public lock busy", { ...logFields(this.#target), holder: holder?.owner ?? instance });
    const { resource } = this.#request;
    return { kind: "lock_unavailable", resource, ...(holder === undefined ? {} : { holder }), waitedMs };
  }

  async #rest(ms: number): Promise<void> {
    if (this.#isOver()) return;
    if (this.#waiter === undefined) await this.#engine.ports.clock.sleep(ms, this.#signal);
    else await this.#waiter.rest(ms);
  }

  /** How much longer the store may not answer before the outcome is called unknown. */
  #troubleLeftMs(): number {
    const { ports, terms } = this.#engine;
    const nowMs = ports.clock.monotonicMs();
    return terms.store.budgetMs - (nowMs - (this.#troubleSinceMs ?? nowMs));
  }

  #callTimeoutMs(): number {
    return Math.max(1, Math.min(this.#engine.terms.store.callTimeoutMs, this.#troubleLeftMs()));
  }

  #isOver(): boolean {
    return this.#signal?.aborted === true;
  }

  #leftMs(): number {
    return this.#request.waitMs - this.#waitedMs();
  }

  #waitedMs(): number {
    return this.#engine.ports.clock.monotonicMs() - this.#startedMs;
  }

  #now(): Instant {
    return instantOf(this.#engine.ports.clock);
  }
}
