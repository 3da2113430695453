// How long a failed step waits before its next attempt: exponential, spread by a hash so that replays decide alike.
import type { RetryPolicy } from "../workflow/compiled.ts";

/** Half to all of `initial x multiplier^(failures-1)`, at most `maxMs`; the share is drawn from the next job's id. */
export function backoffMs(policy: RetryPolicy, failures: number, jobId: string): number {
  if (policy.initialMs <= 0) return 0;
  const grownMs = policy.initialMs * policy.multiplier ** Math.max(0, failures - 1);
  const delayMs = Math.min(grownMs, policy.maxMs);
  return Math.round(delayMs * (0.5 + fractionOf(jobId) / 2));
}

/** FNV-1a with a final mix (ids differ in their last characters only), as a number in [0, 1). */
export function fractionOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32;
}
