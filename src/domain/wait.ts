// How long a contender waits before it tries a busy lock again; pure, so that bounds can be proved.
import type { WaitPolicy } from "./tenant.ts";

/** `exponential` grows from base to max with full jitter; `around` stays within a fraction of the base. */
export type WaitShape =
  | { readonly kind: "exponential"; readonly baseMs: number; readonly maxMs: number }
  | { readonly kind: "around"; readonly baseMs: number; readonly jitterFraction: number };

/** `fraction` is uniform in [0, 1). `fixed` always waits exactly the base: the baseline and the rollback knob. */
export function waitDelayMs(policy: WaitPolicy, shape: WaitShape, retry: number, fraction: number): number {
  if (policy === "fixed") return shape.baseMs;
  if (shape.kind === "around") {
    return shape.baseMs * (1 - shape.jitterFraction + 2 * shape.jitterFraction * fraction);
  }
  const ceilingMs = Math.min(shape.maxMs, shape.baseMs * 2 ** Math.min(retry, 30));
  return ceilingMs * fraction;
}

/** Whole seconds for a Retry-After header, drawn evenly from base to base x (1 + spread): refused callers spread out. */
export function retryAfterSeconds(baseSeconds: number, spread: number, fraction: number): number {
  return baseSeconds + Math.floor(fraction * (baseSeconds * spread + 1));
}
