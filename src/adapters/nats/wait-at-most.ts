// Waits for something that a server does, but not for a server that hangs.
import type { Clock } from "../../ports/ports.ts";

/** Resolves when the promise settles, however it does, or after the time. */
export async function waitAtMost(clock: Clock, ms: number, promise: Promise<unknown>): Promise<void> {
  const settled = new AbortController();
  const ended = promise.then(
    () => settled.abort(),
    () => settled.abort(),
  );
  await Promise.race([ended, clock.sleep(ms, settled.signal)]);
}
