// A client that disconnects, at every single store call of a start: nothing may be left behind.
import { describe, expect, test } from "vitest";
import type { Config } from "../../src/config.ts";
import {
  byLock,
  keyState,
  lockState,
  occupyAdmission,
  pendingReservations,
  runIdOf,
  runsOf,
  setTenant,
  setUp,
  slotsAndOpenRuns,
} from "../support/admission-scenarios.ts";
import { isIdle } from "../support/simulated-ports.ts";

const key = "k";

type Situation = {
  readonly title: string;
  readonly overrides: Partial<Config>;
  readonly limit: number;
  /** Calls of an undisturbed start. */
  readonly calls: number;
};

const situations: readonly Situation[] = [
  { title: "an admitted start, atomic", overrides: {}, limit: 1, calls: 2 },
  { title: "a refused start, atomic", overrides: {}, limit: 0, calls: 2 },
  { title: "an admitted start under the lock", overrides: byLock, limit: 1, calls: 6 },
  { title: "a refused start under the lock", overrides: byLock, limit: 0, calls: 6 },
];

/** The client goes away when the n-th call is sent, or 1 ms later while that call is on its way. */
async function disconnectAt(situation: Situation, nth: number, moment: "at_send" | "on_its_way") {
  const client = new AbortController();
  const scenario = setUp({
    seed: nth,
    overrides: situation.overrides,
    failing: slow,
    onSend: (_call, sent) => {
      if (sent !== nth) return;
      if (moment === "at_send") client.abort();
      else scenario.kernel.after(1, () => client.abort());
    },
  });
  await setTenant(scenario, { maxConcurrentRuns: situation.limit });
  const answer = await scenario.kernel.complete(scenario.start({ key }, client.signal));
  return { scenario, answer, client };
}

/** Every call takes 2 ms each way, so that there is a middle of it. */
const onTheWay = { requestAfterMs: 2, replyAfterMs: 2 };
const slow = {
  getTenant: onTheWay,
  acquireLock: onTheWay,
  reserve: onTheWay,
  countActive: onTheWay,
  createRun: onTheWay,
  cancelReservation: onTheWay,
  releaseLock: onTheWay,
  admit: onTheWay,
} as const;

describe.each(situations)("$title", (situation) => {
  test("makes as many calls as this test goes through", async () => {
    const { scenario } = await disconnectAt(situation, 0, "at_send");
    expect(scenario.calls).toHaveLength(situation.calls);
  });

  for (const moment of ["at_send", "on_its_way"] as const) {
    const nths = Array.from({ length: situation.calls }, (_, index) => index + 1);
    test.each(nths)(`leaves nothing behind when its client goes away at call %i (${moment})`, async (nth) => {
      const { scenario, answer, client } = await disconnectAt(situation, nth, moment);
      expect(client.signal.aborted).toBe(true);
      expect(await lockState(scenario)).toBe("free");
      expect(pendingReservations(scenario)).toBe(0);
      const { slots, openRuns } = slotsAndOpenRuns(scenario);
      expect(slots).toEqual(openRuns);
      expect(["admitted", "request_cancelled", "max_concurrent_runs_reached"]).toContain(answer.kind);
      expect(runsOf(scenario)).toHaveLength(answer.kind === "admitted" ? 1 : 0);
      expect(await keyState(scenario, key)).toBe(
        answer.kind === "admitted" ? "bound" : "idempotency_key_unbound",
      );
      expect(await isIdle(scenario.kernel)).toBe(true);

      await setTenant(scenario, { maxConcurrentRuns: 1 });
      const retried = await scenario.kernel.complete(scenario.start({ key }));
      expect(retried.kind).toBe(answer.kind === "admitted" ? "replayed" : "admitted");
      expect(runsOf(scenario)).toEqual([runIdOf(retried)]);
    });
  }
});

describe("a client that has gone", () => {
  test("before the start is answered without a single call", async () => {
    for (const overrides of [{}, byLock]) {
      const scenario = setUp({ overrides });
      const answer = await scenario.kernel.complete(scenario.start({ key }, AbortSignal.abort()));
      expect(answer).toEqual({ kind: "request_cancelled" });
      expect(scenario.calls).toEqual([]);
    }
  });

  test("during the wait for the lock stops waiting at once", async () => {
    const client = new AbortController();
    const scenario = setUp({ overrides: byLock });
    await occupyAdmission(scenario);
    scenario.kernel.after(700, () => client.abort());
    const answer = await scenario.kernel.complete(scenario.start({ key }, client.signal));
    expect(answer).toEqual({ kind: "request_cancelled" });
    expect(scenario.kernel.nowMs()).toBe(700);
    expect(scenario.callsOf("reserve")).toEqual([]);
  });

  test("after the reservation has its key given back, and a failed cleanup is counted as such", async () => {
    const client = new AbortController();
    const scenario = setUp({
      overrides: byLock,
      failing: { cancelReservation: "unavailable" },
      onSend: (call) => {
        if (call.name === "countActive") client.abort();
      },
    });
    const answer = await scenario.kernel.complete(scenario.start({ key }, client.signal));
    expect(answer.kind).toBe("request_cancelled");
    const labels = { context: "cancelled" };
    expect(scenario.metrics.total("idempotency_cleanup_failures_total", labels)).toBe(1);
    expect(scenario.lines.map((line) => line.message)).toEqual([
      "failed to cleanup idempotency key after cancelled",
    ]);
  });
});
