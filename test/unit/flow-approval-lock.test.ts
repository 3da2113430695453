// Decisions under the approval lock, the baseline: the lock is taken and given back, waited for, and never what protects.
import { describe, expect, test } from "vitest";
import type { LockToken } from "../../src/domain/lock.ts";
import { approval, decide, requestOf, type Waiting, waiting } from "../support/flow-approval.ts";
import { acme, ann, only } from "../support/flow-world.ts";

describe("under the approval lock", () => {
  const overrides = { "approvals.strategy": "lock" } as const;
  const lockOf = ({ approvalId }: Waiting) => ({ namespace: "approval", name: approvalId }) as const;

  async function hold(scene: Waiting, ttlMs: number) {
    const request = {
      tenant: acme,
      lock: lockOf(scene),
      token: "other" as LockToken,
      instance: "other",
      ttlMs,
    };
    only(await scene.flow.world.store.acquireLock(request, { deadlineMs: 100 }), "acquired");
  }

  async function lockState(scene: Waiting) {
    return (
      await scene.flow.world.store.inspectLock({ tenant: acme, lock: lockOf(scene) }, { deadlineMs: 100 })
    ).kind;
  }

  test("a decision is made, and the lock is given back", async () => {
    const scene = await waiting({ overrides });
    only(await decide(scene, "approved"), "decided");
    expect(scene.plane.member.callsOf("acquireLock").map(({ answer }) => answer)).toEqual(["acquired"]);
    expect(scene.plane.member.callsOf("releaseLock").map(({ answer }) => answer)).toEqual(["released"]);
    expect(await lockState(scene)).toBe("free");
    only(await decide(scene, "approved"), "repeated");
  });

  test("a release that fails is logged, and the decision stands", async () => {
    const scene = await waiting({ overrides });
    scene.plane.member.fail({ releaseLock: "unavailable" });
    only(await decide(scene, "approved"), "decided");
    expect((await approval(scene)).state).toBe("approved");
    expect(scene.plane.member.lines.map(({ message }) => message)).toContain(
      "lock release failed: left to its ttl",
    );
  });

  test("a refused decision gives the lock back, too", async () => {
    const scene = await waiting({ overrides });
    expect(await decide(scene, "approved", { hash: "other" })).toMatchObject({ kind: "approval_changed" });
    expect(await lockState(scene)).toBe("free");
  });

  test("a busy lock is asked for every 25 ms for 2 s, and then answered as busy with a time to come back", async () => {
    const scene = await waiting({ overrides });
    await hold(scene, 60_000);
    const startedMs = scene.flow.nowMs();
    const answer = only(await decide(scene, "approved"), "approval_lock_busy");
    expect(answer.retryAfterSeconds).toBeGreaterThanOrEqual(1);
    expect(scene.flow.nowMs() - startedMs).toBeLessThanOrEqual(2_000);
    expect(scene.flow.nowMs() - startedMs).toBeGreaterThan(1_900);
    const times = scene.plane.member.callsOf("acquireLock").map(({ atMs }) => atMs);
    const gaps = times.slice(1).map((atMs, index) => atMs - (times[index] ?? 0));
    expect(gaps.length).toBeGreaterThan(60);
    // 25 ms with 30 % around it, and the way there and back.
    expect(gaps.filter((gapMs) => gapMs < 17 || gapMs > 34)).toEqual([]);
    expect((await approval(scene)).state).toBe("pending");
    expect(scene.plane.member.callsOf("deliver")).toEqual([]);
    expect(scene.plane.member.lines.map(({ message }) => message)).toContain("approval lock busy");
  });

  test("a holder that died frees it with its ttl", async () => {
    const scene = await waiting({ overrides });
    await hold(scene, 10_000);
    expect((await decide(scene, "approved")).kind).toBe("approval_lock_busy");
    await scene.flow.pass(8_000);
    only(await decide(scene, "approved"), "decided");
  });

  test("it is the tenant's choice, which wins over that of the process", async () => {
    const scene = await waiting();
    await scene.flow.tenant({ approvalsStrategy: "lock" });
    await scene.flow.pass(5_000);
    only(await decide(scene, "approved"), "decided");
    expect(scene.plane.member.callsOf("acquireLock")).toHaveLength(1);
  });

  test("the lock is not what protects: a process without it decides at the same moment, and one of them wins", async () => {
    const scene = await waiting({ overrides });
    const atomic = await scene.flow.open("q");
    const answers = await scene.flow.finish(
      Promise.all([
        scene.plane.api.decideApproval(requestOf(scene, "approved")),
        atomic.api.decideApproval(requestOf(scene, "rejected", { caller: ann })),
      ]),
    );
    expect(answers.map(({ kind }) => kind).sort()).toEqual(["approval_already_decided", "decided"]);
  });
});
