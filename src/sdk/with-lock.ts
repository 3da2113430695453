// Runs work under a public lock: acquires it under one token, renews it, stops the work before another may hold it, releases it.
import { pauseBefore } from "./call.ts";
import type { Caller } from "./caller.ts";
import { InterlockApiError, InterlockConnectionError } from "./client-errors.ts";
import { fenceHeaders } from "./fence.ts";
import { earlier, elapsedMs, type Instant, later, type Runtime, runtime as system } from "./runtime.ts";

type LockTerms = {
  readonly resource: string;
  readonly owner: string | undefined;
  readonly ttlMs: number;
  readonly waitMs: number;
  readonly signal: AbortSignal | undefined;
};

/** `since` is a moment at which the lock was surely held for `leftMs` more. */
type Grant = {
  readonly token: string;
  readonly fence: number;
  readonly since: Instant;
  readonly leftMs: number;
};

/** How long the server lets one request wait. */
const waitMsMax = 60_000;

/** Beyond the wait itself: how long trouble may last before the acquire is given up. */
const troubleMsMax = 10_000;

export async function acquireLock(runtime: Runtime, caller: Caller, terms: LockTerms): Promise<Grant> {
  const { resource, owner, ttlMs, waitMs, signal } = terms;
  const startedAt = runtime.now();
  let token = runtime.token();
  let mayHold = false;
  for (let failures = 0; ; ) {
    const sentAt = runtime.now();
    const leftMs = Math.max(0, waitMs - elapsedMs(startedAt, sentAt));
    const body = {
      resource,
      token,
      ttl_ms: ttlMs,
      wait_ms: Math.min(waitMsMax, Math.floor(leftMs)),
      ...(owner === undefined ? {} : { owner }),
    };
    try {
      const granted = await caller.call("acquireLock", { body, signal, retry: { attemptsMax: 1 } });
      // The server has waited so long after this request was sent, and then the lock had so much time left. It counts by its
      // own clock: by ours that moment cannot be later than the answer.
      const since = earlier(later(sentAt, granted.waited_ms), runtime.now());
      return { token, fence: granted.fence, since, leftMs: granted.expires_in_ms };
    } catch (error) {
      mayHold ||= effectOf(error) === "unknown";
      if (isOver(error) || (isSpent(error) && leftMs > waitMsMax)) {
        // The server's longest wait is over, ours is not; or an answer was lost for longer than the grant lasted.
        token = runtime.token();
        mayHold = false;
        continue;
      }
      failures += 1;
      const pauseMs = pauseAfter(error, failures, runtime);
      const isLate = elapsedMs(startedAt, runtime.now()) > waitMs + troubleMsMax;
      if (pauseMs === undefined || isLate || signal?.aborted) {
        if (mayHold) giveBack(runtime, caller, { resource, token });
        throw error;
      }
      await runtime.sleep(pauseMs, signal);
    }
  }
}

/** An abort leaves it open, too, whether the request in flight gets the lock. */
function effectOf(error: unknown): "none" | "unknown" {
  return error instanceof InterlockApiError || error instanceof InterlockConnectionError
    ? error.effect
    : "unknown";
}

function isSpent(error: unknown): boolean {
  return error instanceof InterlockApiError && error.code === "lock_unavailable";
}

/** The token had the lock while nobody heard of it. */
function isOver(error: unknown): boolean {
  return error instanceof InterlockApiError && error.code === "lock_token_used";
}

/** Undefined when another try cannot help. */
function pauseAfter(error: unknown, failures: number, { fraction }: Runtime): number | undefined {
  if (error instanceof InterlockApiError) {
    return error.retryable && !isSpent(error) ? pauseBefore(failures, error, fraction()) : undefined;
  }
  return error instanceof InterlockConnectionError ? pauseBefore(failures, error, fraction()) : undefined;
}

const giveBackTries = 3;
const giveBackPauseMs = 500;

/**
 * Nobody waits for it. A request that is still under way may get the lock after the first release: hence several. What is
 * missed frees itself when its time is over.
 */
function giveBack(
  runtime: Runtime,
  caller: Caller,
  lock: { readonly resource: string; readonly token: string },
): void {
  void (async () => {
    for (let tries = 0; tries < giveBackTries; tries += 1) {
      try {
        await caller.call("releaseLock", { body: lock, retry: { attemptsMax: 1 }, timeoutMs: 2_000 });
        return;
      } catch {
        // Not held, not yet held, or no answer: the next try tells.
      }
      await runtime.sleep(giveBackPauseMs);
    }
  })();
}

export type LockOptions = {
  /** How long the lock outlives a holder that has died: 30 s by default, at least 1 s. It is renewed every quarter of that. */
  readonly ttlMs?: number | undefined;
  /** How long to queue while somebody else holds it: 30 s by default; 0 tries once. */
  readonly waitMs?: number | undefined;
  /** Who holds the lock, for people. */
  readonly owner?: string | undefined;
  /** Stops the waiting, and the work through `lease.signal`. */
  readonly signal?: AbortSignal | undefined;
  /** Called once, when the lock can no longer be trusted. `lease.signal` is aborted by then. */
  readonly onLost?: ((lost: LockLost) => void) | undefined;
  /** Called when the release failed: the lock frees itself when its time is over. A process warning by default. */
  readonly onReleaseFailed?: ((error: unknown) => void) | undefined;
};

export type Lease = {
  readonly resource: string;
  readonly token: string;
  /** Grows with every grant: hand it to what the work writes to, so that an older holder is refused there. */
  readonly fence: number;
  /** Aborted before the lock can be somebody else's (reason: a `LockLost`), and when the caller's own signal is. */
  readonly signal: AbortSignal;
  /** Throws when the lock is over. By elapsed time: a process that was paused learns it here before any timer fires. */
  check(): void;
  /** What `fenceGuard` reads: send it with the calls that the lock protects. Throws when the lock is over. */
  headers(): Readonly<Record<string, string>>;
};

/** Somebody else may hold the lock: stop, and do not write. */
export class LockLost extends Error {
  readonly resource: string;
  /** `not_owned`: the server said so. `deadline`: no renewal was answered in time. */
  readonly because: "not_owned" | "deadline";

  constructor(resource: string, because: "not_owned" | "deadline") {
    const why = because === "not_owned" ? "it ended or was taken away" : "it could not be renewed in time";
    super(`the lock of ${resource} is lost: ${why}`);
    this.name = "LockLost";
    this.resource = resource;
    this.because = because;
  }
}

/**
 * Resolves to what the work returned. Rejects with the work's error; with `LockLost` when the lock was lost before the work
 * ended, since somebody else may have worked at the same time; with `InterlockApiError` `lock_unavailable` when it was busy.
 */
export function withLock<Value>(
  client: Caller,
  resource: string,
  work: (lease: Lease) => Promise<Value> | Value,
  options: LockOptions = {},
): Promise<Value> {
  return withLockIn(system, client, { resource, work, options });
}

export async function withLockIn<Value>(
  runtime: Runtime,
  caller: Caller,
  asked: {
    readonly resource: string;
    readonly work: (lease: Lease) => Promise<Value> | Value;
    readonly options: LockOptions;
  },
): Promise<Value> {
  const { resource, work, options } = asked;
  const { ttlMs = 30_000, waitMs = 30_000, owner, signal } = options;
  if (!(ttlMs >= 1_000)) throw new RangeError(`ttlMs must be at least 1000, not ${ttlMs}`);
  const grant = await acquireLock(runtime, caller, { resource, owner, ttlMs, waitMs, signal });
  const held = new HeldLock(runtime, caller, { resource, ttlMs, grant, options });
  const renewing = held.renewUntilStopped();
  try {
    const value = await work(held);
    if (held.isOver()) throw held.loss;
    return value;
  } finally {
    const lost = held.isOver();
    held.stop();
    await renewing;
    if (!lost) await held.release();
  }
}

/** A tenth, kept between the moment a holder stops and the moment the lock may be granted again. */
const marginFraction = 0.1;

const releaseMsMax = 5_000;

class HeldLock implements Lease {
  readonly resource: string;
  readonly token: string;
  readonly fence: number;
  readonly signal: AbortSignal;

  readonly #runtime: Runtime;
  readonly #caller: Caller;
  readonly #ttlMs: number;
  readonly #options: LockOptions;
  readonly #lost = new AbortController();
  readonly #stopped = new AbortController();
  /** Since when the lock is surely held, and for how long from then on. */
  #since: Instant;
  #leftMs: number;
  #cancelDeadline = () => {};

  constructor(
    runtime: Runtime,
    caller: Caller,
    held: {
      readonly resource: string;
      readonly ttlMs: number;
      readonly grant: Grant;
      readonly options: LockOptions;
    },
  ) {
    const { resource, ttlMs, grant, options } = held;
    this.#runtime = runtime;
    this.#caller = caller;
    this.#ttlMs = ttlMs;
    this.#options = options;
    this.resource = resource;
    this.token = grant.token;
    this.fence = grant.fence;
    this.#since = grant.since;
    this.#leftMs = grant.leftMs;
    const { signal } = options;
    this.signal = signal === undefined ? this.#lost.signal : AbortSignal.any([this.#lost.signal, signal]);
    this.#armDeadline();
  }

  check(): void {
    this.isOver();
    this.signal.throwIfAborted();
  }

  /** Once the lock is lost. */
  get loss(): unknown {
    return this.#lost.signal.reason;
  }

  headers(): Readonly<Record<string, string>> {
    this.check();
    return fenceHeaders({ resource: this.resource, fence: this.fence });
  }

  /** Loses the lock if its time is over, whatever timers have fired. */
  isOver(): boolean {
    if (this.#remainingMs() <= 0) this.#lose("deadline");
    return this.#lost.signal.aborted;
  }

  async renewUntilStopped(): Promise<void> {
    const stop = AbortSignal.any([this.#lost.signal, this.#stopped.signal]);
    const everyMs = this.#ttlMs / 4;
    // A grant that was found again may have little time left.
    let dueMs = Math.max(0, Math.min(everyMs, this.#remainingMs() - this.#ttlMs / 2));
    for (;;) {
      await this.#runtime.sleep(dueMs, stop);
      if (stop.aborted) return;
      // Sooner after a failure: the next answer may be the last that comes in time.
      dueMs = (await this.#renewOnce(stop)) ? everyMs : everyMs / 4;
    }
  }

  stop(): void {
    this.#stopped.abort();
    this.#cancelDeadline();
  }

  async release(): Promise<void> {
    const { resource, token } = this;
    const retry = { budgetMs: releaseMsMax };
    try {
      await this.#caller.call("releaseLock", { body: { resource, token }, retry, timeoutMs: releaseMsMax });
    } catch (error) {
      const report = this.#options.onReleaseFailed;
      if (report !== undefined) report(error);
      else this.#runtime.warn(`the lock of ${resource} could not be released: ${String(error)}`);
    }
  }

  async #renewOnce(signal: AbortSignal): Promise<boolean> {
    const { resource, token } = this;
    const sentAt = this.#runtime.now();
    const body = { resource, token, ttl_ms: this.#ttlMs };
    const timeoutMs = Math.max(250, Math.min(2_000, this.#ttlMs / 8));
    try {
      await this.#caller.call("renewLock", { body, signal, retry: { attemptsMax: 1 }, timeoutMs });
      this.#since = sentAt;
      this.#leftMs = this.#ttlMs;
      this.#armDeadline();
      return true;
    } catch (error) {
      // Definite; everything else is not an answer, and the deadline stands.
      if (error instanceof InterlockApiError && error.code === "lock_not_owned") this.#lose("not_owned");
      return false;
    }
  }

  #remainingMs(): number {
    return this.#leftMs - this.#ttlMs * marginFraction - elapsedMs(this.#since, this.#runtime.now());
  }

  #armDeadline(): void {
    this.#cancelDeadline();
    this.#cancelDeadline = this.#runtime.timer(Math.max(0, this.#remainingMs()), () => {
      if (!this.isOver()) this.#armDeadline();
    });
  }

  /** The lock is left alone: it may be somebody else's by now. */
  #lose(because: LockLost["because"]): void {
    if (this.#lost.signal.aborted || this.#stopped.signal.aborted) return;
    this.#cancelDeadline();
    const lost = new LockLost(this.resource, because);
    this.#lost.abort(lost);
    this.#options.onLost?.(lost);
  }
}
