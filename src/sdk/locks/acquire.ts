// Acquires a public lock: one token from the first try to the last, and what may be held in the end is given back.
import { pauseBefore } from "../call.ts";
import type { Caller } from "../caller.ts";
import { InterlockApiError, InterlockConnectionError } from "../client-errors.ts";
import { earlier, elapsedMs, type Instant, later, type Runtime } from "../runtime.ts";

type LockTerms = {
  readonly resource: string;
  readonly owner: string | undefined;
  readonly ttlMs: number;
  readonly waitMs: number;
  readonly signal: AbortSignal | undefined;
};

/** `since` is a moment at which the lock was surely held for `leftMs` more. */
export type Grant = {
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
      if (isSpent(error) && leftMs > waitMsMax) {
        // The server's longest wait is over, ours is not: a refused token has lost its place and is not used again.
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
