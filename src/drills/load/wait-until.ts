// Waits for a condition instead of a time, and gives up at a deadline with the reason that people need.
import { runtime } from "../../sdk/runtime.ts";

export type WaitLimits = { readonly withinMs: number; readonly signal: AbortSignal };

const lookEveryMs = 20;

/** Throws when the condition does not come true in time, and when the user wants to stop. */
export async function waitUntil(what: string, condition: () => boolean, limits: WaitLimits): Promise<void> {
  if (!(await cameTrue(condition, limits))) throw new Error(`not within ${limits.withinMs} ms: ${what}`);
}

/** False when the condition did not come true in time. */
export async function cameTrue(condition: () => boolean, { withinMs, signal }: WaitLimits): Promise<boolean> {
  const deadlineMs = runtime.now().monotonicMs + withinMs;
  while (!condition()) {
    signal.throwIfAborted();
    if (runtime.now().monotonicMs > deadlineMs) return false;
    await runtime.sleep(lookEveryMs, signal);
  }
  return true;
}
