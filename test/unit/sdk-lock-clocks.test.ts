// How long an agent believes to hold a lock when its own clock is slower than the server's.
import { expect, test } from "vitest";
import type { Caller } from "../../src/sdk/caller.ts";
import { acquireLock, type Lease, withLockIn } from "../../src/sdk/with-lock.ts";
import { testRuntime } from "../support/sdk-runtime.ts";

/** Answers after so much time by the agent's clock, and says how long it has waited by its own. */
async function acquireAfter(elapsedMs: number, waitedMs: number) {
  let nowMs = 1_000;
  const runtime = { ...testRuntime(), now: () => ({ monotonicMs: nowMs, wallMs: 50_000 + nowMs }) };
  const call = async () => {
    nowMs += elapsedMs;
    return { fence: 7, waited_ms: waitedMs, expires_in_ms: 1_000 };
  };
  const caller = { url: "test", call } as unknown as Caller;
  const terms = { resource: "r", owner: undefined, ttlMs: 1_000, waitMs: 2_000, signal: undefined };
  return acquireLock(runtime, caller, terms);
}

test.each([
  { elapsedMs: 1_300, waitedMs: 1_200, sinceMs: 2_200, title: "when the server says it had waited" },
  {
    elapsedMs: 1_300,
    waitedMs: 1_500,
    sinceMs: 2_300,
    title: "no later than its answer, whatever the server's clock says",
  },
])("a lock that was waited for is held since $title", async ({ elapsedMs, waitedMs, sinceMs }) => {
  const { since, leftMs } = await acquireAfter(elapsedMs, waitedMs);
  expect(since).toEqual({ monotonicMs: sinceMs, wallMs: 50_000 + sinceMs });
  expect(leftMs).toBe(1_000);
});

/** Both clocks move on by so much while the work runs: where they differ, the one that went further counts. */
test.each([
  { title: "both clocks", monotonicMs: 8_999, wallMs: 8_999, holds: true },
  { title: "both clocks to the end", monotonicMs: 9_000, wallMs: 9_000, holds: false },
  { title: "a machine that slept: only the wall clock went on", monotonicMs: 0, wallMs: 9_000, holds: false },
  { title: "a wall clock that was set back", monotonicMs: 9_000, wallMs: -3_600_000, holds: false },
  { title: "a wall clock that was set back, early", monotonicMs: 8_999, wallMs: -3_600_000, holds: true },
  { title: "a wall clock that was set forward", monotonicMs: 1, wallMs: 3_600_000, holds: false },
])("a lease is checked by $title", async ({ monotonicMs, wallMs, holds }) => {
  let at = { monotonicMs: 1_000, wallMs: 1_800_000_000_000 };
  /** Only the look itself tells: no timer fires. */
  const stopped = (_ms: number, signal?: AbortSignal) =>
    new Promise<void>((resolve) => signal?.addEventListener("abort", () => resolve(), { once: true }));
  const runtime = { ...testRuntime(), now: () => at, sleep: stopped, timer: () => () => {} };
  const call = async (operation: string) =>
    operation === "acquireLock" ? { fence: 7, waited_ms: 0, expires_in_ms: 10_000 } : {};
  const caller = { url: "test", call } as unknown as Caller;
  const work = async (lease: Lease) => {
    at = { monotonicMs: at.monotonicMs + monotonicMs, wallMs: at.wallMs + wallMs };
    const lost = [() => lease.check(), () => lease.headers()].map((look) => {
      try {
        look();
        return false;
      } catch {
        return true;
      }
    });
    expect([...lost, lease.signal.aborted]).toEqual(Array(3).fill(!holds));
    throw new Error("seen");
  };
  const asked = withLockIn(runtime, caller, {
    ...{ resource: "r", work, options: { ttlMs: 10_000 } },
  });
  await expect(asked).rejects.toThrow("seen");
});
