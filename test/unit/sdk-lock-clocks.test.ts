// How long an agent believes to hold a lock when its own clock is slower than the server's.
import { expect, test } from "vitest";
import type { Caller } from "../../src/sdk/caller.ts";
import { acquireLock } from "../../src/sdk/with-lock.ts";
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
