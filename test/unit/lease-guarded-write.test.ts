// Guarded writes: each carries the grant it was made under, and the store refuses it once there is a newer one.
import { describe, expect, test } from "vitest";
import { bareCommit, bareStart } from "../../proof/simulation/bare-run.ts";
import type { Lease } from "../../src/control/locks/with-lease.ts";
import { makeRunId } from "../../src/domain/run.ts";
import {
  expire,
  hold,
  inspect,
  type LeaseScenario,
  overtake,
  runTarget,
  runTerms,
  setUp,
  tenant,
} from "../support/lease-scenarios.ts";

const runId = makeRunId(tenant, "00000001");
const target = { target: runTarget };

async function withRun(options: Parameters<typeof setUp>[0] = {}): Promise<LeaseScenario> {
  const scenario = setUp(options);
  const run = { ...bareStart, runId, actor: "tester" };
  expect((await scenario.store.admit({ tenant, run }, { deadlineMs: 1_000 })).kind).toBe("admitted");
  return scenario;
}

function end(lease: Lease) {
  return lease.write("commit", bareCommit({ tenant, runId, status: "succeeded" }));
}

async function statusOf(scenario: LeaseScenario): Promise<string> {
  const answer = await scenario.store.loadRun({ tenant, runId }, { deadlineMs: 1_000 });
  return answer.kind === "run" ? answer.header.status : answer.kind;
}

describe("a guarded write", () => {
  test("carries the lock, the token, the fence, the policy and the ttl of its lease", async () => {
    const scenario = await withRun();
    const outcome = await hold(scenario, runTerms("standard"), end, target);
    expect(outcome).toMatchObject({ kind: "finished", value: { kind: "committed" } });
    const [sent] = scenario.callsOf("commit");
    const [acquired] = scenario.callsOf("acquireLock");
    const token = (acquired?.request as { token: string } | undefined)?.token;
    expect(token).toMatch(/^[0-9a-f]{32}$/);
    expect(sent?.request).toMatchObject({
      guard: {
        lock: runTarget.lock,
        token,
        fence: expect.any(Number) as number,
        policy: "fence",
        ttlMs: 30_000,
      },
    });
    expect(await statusOf(scenario)).toBe("succeeded");
  });

  test.each(["standard", "high"] as const)(
    "of %s risk is refused when the lock has expired, also when nobody took it",
    async (risk) => {
      const scenario = await withRun();
      const outcome = await hold(
        scenario,
        runTerms(risk),
        async (lease) => {
          expire(scenario, runTarget);
          const answer = await end(lease);
          expect(lease.signal.aborted).toBe(true);
          return answer.kind;
        },
        target,
      );
      expect(outcome).toEqual({ kind: "finished", value: "stale_fence", abandoned: "not_owned" });
      expect(await statusOf(scenario)).toBe("pending");
      expect((await inspect(scenario, runTarget)).kind).toBe("free");
    },
  );

  test("is refused after another grant, ends the lease at once, and is counted by operation", async () => {
    const scenario = await withRun();
    const outcome = await hold(
      scenario,
      runTerms("standard"),
      async (lease) => {
        await overtake(scenario, runTarget);
        const first = await end(lease);
        const second = await end(lease);
        return [first.kind, second.kind];
      },
      target,
    );
    expect(outcome).toEqual({
      kind: "finished",
      value: ["stale_fence", "unavailable"],
      abandoned: "not_owned",
    });
    expect(scenario.callsOf("commit")).toHaveLength(1);
    expect(scenario.callsOf("releaseLock")).toEqual([]);
    expect(scenario.metrics.total("stale_write_refused_total", { operation: "commit" })).toBe(1);
    const labels = { lock: "run", policy: "fence", cause: "not_owned" };
    expect(scenario.metrics.total("lock_abandoned_total", labels)).toBe(1);
    expect(await statusOf(scenario)).toBe("pending");
  });

  test("seed 003: that was sent in time and arrives after the lock went to another is refused there (INV-12)", async () => {
    const scenario = await withRun({ failing: { commit: [{ requestAfterMs: 1_500 }] } });
    scenario.kernel.after(1_000, () => void overtake(scenario, runTarget));
    const outcome = await hold(
      scenario,
      runTerms("standard"),
      async (lease) => (await end(lease)).kind,
      target,
    );
    expect(outcome).toEqual({ kind: "finished", value: "stale_fence", abandoned: "not_owned" });
    expect(await statusOf(scenario)).toBe("pending");
  });

  test("that was given up on has no effect when it arrives after its time", async () => {
    const scenario = await withRun({ failing: { commit: [{ requestAfterMs: 2_500 }] } });
    const outcome = await hold(
      scenario,
      runTerms("standard"),
      async (lease) => (await end(lease)).kind,
      target,
    );
    expect(outcome).toEqual({ kind: "finished", value: "unknown" });
    await scenario.kernel.run({});
    expect(await statusOf(scenario)).toBe("pending");
  });

  test("whose answer is unknown does not end the lease", async () => {
    const scenario = await withRun({ failing: { commit: ["reply_lost"] } });
    const outcome = await hold(
      scenario,
      runTerms("standard"),
      async (lease) => {
        const first = await end(lease);
        lease.check();
        const second = await end(lease);
        return [first.kind, second.kind];
      },
      target,
    );
    expect(outcome).toEqual({ kind: "finished", value: ["unknown", "committed"] });
    expect(await statusOf(scenario)).toBe("succeeded");
  });

  test("waits no longer than it is told, nor than one call may take", async () => {
    const scenario = await withRun({ failing: { commit: "request_lost" } });
    const times: number[] = [];
    await hold(
      scenario,
      runTerms("standard"),
      async (lease) => {
        for (const deadlineMs of [300, undefined]) {
          const startedMs = scenario.kernel.nowMs();
          await lease.write("commit", bareCommit({ tenant, runId, status: "failed" }), deadlineMs);
          times.push(scenario.kernel.nowMs() - startedMs);
        }
      },
      target,
    );
    expect(times).toEqual([300, 2_000]);
  });
});
