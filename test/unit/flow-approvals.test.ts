// Human decisions on steps: made once, bound to what was shown, in time, by the right person, and never without their effect.
import { describe, expect, test } from "vitest";
import type { DecideAnswer } from "../../src/control/approvals/decide-approval.ts";
import type { Caller } from "../../src/control/caller.ts";
import type { Approval } from "../../src/domain/approval.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import { approval, decide, requestOf, type Waiting, waiting } from "../support/flow-approval.ts";
import { acme, ann, ben, FlowWorld, only, single, work } from "../support/flow-world.ts";

const decisionsIn = async ({ flow, runId }: Waiting) =>
  (await flow.events(runId)).filter((event) => /approved|denied|rejected/.test(event));

describe("a decision", () => {
  test("lets the step go on, and is kept with who made it, when and why", async () => {
    const scene = await waiting();
    const answer = only(await decide(scene, "approved", { reason: "fine" }), "decided");
    expect(answer.approval).toMatchObject({
      state: "approved",
      decidedBy: "ben",
      reason: "fine",
      requester: "ann",
    });
    expect(answer.approval.decidedAtMs).toBe(scene.flow.world.server.timeMs());
    expect(single(await scene.plane.poll()).job.step).toBe("pay");
    expect(scene.plane.metrics.total("approvals_decided_total", { decision: "approved" })).toBe(1);
  });

  test("against it denies the run, whose jobs are never enqueued", async () => {
    const scene = await waiting();
    only(await decide(scene, "rejected", { reason: "too much" }), "decided");
    expect(await scene.flow.ended(scene.runId)).toBe("denied");
    expect(scene.plane.metrics.total("approvals_decided_total", { decision: "rejected" })).toBe(1);
    expect(scene.plane.metrics.total("runs_ended_total", { status: "denied" })).toBe(1);
    expect(await scene.plane.poll()).toEqual([]);
    expect((await scene.flow.step(scene.runId, "ok")).error?.message).toBe("rejected by ben: too much");
  });

  test("made again is answered with the same record, also by somebody else and later", async () => {
    const scene = await waiting();
    const first = only(await decide(scene, "approved"), "decided");
    const again = only(await decide(scene, "approved"), "repeated");
    expect(again.approval).toEqual(first.approval);
    const third = { tenant: acme, actor: "cem" };
    expect(only(await decide(scene, "approved", { caller: third }), "repeated").approval).toEqual(
      first.approval,
    );
    expect(await decisionsIn(scene)).toHaveLength(1);
    expect(scene.plane.metrics.total("approvals_decided_total")).toBe(1);
  });

  test("after the other one names the winner, and changes nothing", async () => {
    const scene = await waiting();
    only(await decide(scene, "approved"), "decided");
    const answer = only(await decide(scene, "rejected", { caller: ann }), "approval_already_decided");
    expect(answer.approval).toMatchObject({ state: "approved", decidedBy: "ben" });
    expect(single(await scene.plane.poll()).job.step).toBe("pay");
  });

  test.each([1, 2, 3, 4, 5])(
    "of twenty people at once is one decision, which all the others are told (seed %d)",
    async (seed) => {
      const flow = new FlowWorld({ seed, travelMsMax: 5 });
      const planes = [await flow.open("p"), await flow.open("q")] as const;
      await planes[0].save("ask", { ok: { type: "approval" }, pay: work({ depends_on: ["ok"] }) });
      const runId = await planes[0].start("ask");
      const answers = await flow.finish(
        Promise.all(
          Array.from({ length: 20 }, (_, index) =>
            planes[index % 2 === 0 ? 0 : 1].api.decideApproval({
              caller: { tenant: acme, actor: `person ${index}` },
              approvalId: `${runId}:ok@1`,
              decision: index % 3 === 0 ? "rejected" : "approved",
            }),
          ),
        ),
      );
      const decided = answers.filter(({ kind }) => kind === "decided");
      expect(decided).toHaveLength(1);
      const winner = only(decided[0] as DecideAnswer, "decided").approval;
      for (const answer of answers) {
        expect(["decided", "repeated", "approval_already_decided"]).toContain(answer.kind);
        expect((answer as { approval: Approval }).approval).toEqual(winner);
      }
      await flow.pass(100);
      const asked = (await flow.events(runId)).filter((event) => event === "step_dispatched pay");
      expect(asked).toHaveLength(winner.state === "approved" ? 1 : 0);
    },
  );

  test("on something unknown, or of another tenant, is not found", async () => {
    const scene = await waiting();
    expect(await decide(scene, "approved", { approvalId: "nothing" })).toMatchObject({
      kind: "approval_not_found",
    });
    expect(await decide(scene, "approved", { approvalId: `${scene.runId}:no@1` })).toMatchObject({
      kind: "approval_not_found",
    });
    const stranger: Caller = { tenant: "beta" as TenantId, actor: "eve" };
    expect(await decide(scene, "approved", { caller: stranger })).toMatchObject({
      kind: "approval_not_found",
    });
    expect((await approval(scene)).state).toBe("pending");
  });
});

describe("what was shown", () => {
  test("is the canonical text whose hash the approval names, and the decision may name it", async () => {
    const scene = await waiting();
    const context = only(
      await scene.flow.finish(
        scene.plane.api.approvalContext({ tenant: acme, approvalId: scene.approvalId }),
      ),
      "context",
    );
    expect(JSON.parse(context.shown)).toEqual({
      run: scene.runId,
      step: "ok",
      attempt: 1,
      payload: { amount: 5 },
    });
    only(await decide(scene, "approved", { hash: context.approval.hash }), "decided");
  });

  test("binds the decision: another hash is refused, and the approval still waits", async () => {
    const scene = await waiting();
    expect(await decide(scene, "approved", { hash: "0".repeat(64) })).toMatchObject({
      kind: "approval_changed",
    });
    expect((await approval(scene)).state).toBe("pending");
    only(await decide(scene, "approved"), "decided");
    const other = only(await decide(scene, "approved", { hash: "0".repeat(64) }), "approval_already_decided");
    expect(other.approval.state).toBe("approved");
  });

  test("of another run has another hash, although the payload is the same", async () => {
    const scene = await waiting();
    const second = await scene.plane.start("pay", { amount: 5 });
    const { hash } = await approval(scene);
    const other = { ...scene, approvalId: `${second}:ok@1` };
    expect(await decide(other, "approved", { hash })).toMatchObject({ kind: "approval_changed" });
  });

  test("is what runs, although the workflow was changed between the request and the decision", async () => {
    const scene = await waiting();
    const { hash } = await approval(scene);
    const steps = { ok: { type: "approval", input: { amount: "9999" } }, pay: work({ topic: "elsewhere" }) };
    await scene.plane.save("pay", steps);
    const next = await scene.flow.open("q");
    expect((await approval(scene)).hash).toBe(hash);
    only(await scene.flow.finish(next.api.decideApproval(requestOf(scene, "approved", { hash }))), "decided");
    await scene.flow.until(async () => (await scene.flow.step(scene.runId, "pay")).status === "running");
    expect(single(await next.poll()).job).toMatchObject({ step: "pay", topic: "work" });
  });
});

describe("an approval with a time limit", () => {
  const ok = { timeout_sec: 20 };

  test("may be decided up to its last millisecond, and not after it", async () => {
    const early = await waiting({ ok });
    const limitMs = (await approval(early)).expiresAtMs as number;
    await early.flow.pass(limitMs - early.flow.world.server.timeMs() - 1);
    only(await decide(early, "approved"), "decided");
    await early.flow.pass(5_000);
    expect((await early.flow.step(early.runId, "pay")).status).toBe("running");

    // Nobody has moved the timer yet: the store's time alone decides.
    const late = await waiting({ ok, engine: "stopped" });
    late.plane.member.fail({ deliver: (nth) => (nth === 1 ? "request_lost" : "ok") });
    await late.flow.pass(20_000);
    expect(await decide(late, "approved")).toMatchObject({ kind: "approval_expired" });
  });

  test("that nobody decided expires, ends its run, and is then refused as expired", async () => {
    const scene = await waiting({ ok });
    expect(await scene.flow.ended(scene.runId, 21_000)).toBe("timed_out");
    expect((await approval(scene)).state).toBe("expired");
    expect(await decide(scene, "approved")).toMatchObject({ kind: "approval_expired" });
  });
});

describe("separate duties", () => {
  test("by the step: who asked may reject, but not approve", async () => {
    const scene = await waiting({ ok: { separate_duties: true } });
    expect(await decide(scene, "approved", { caller: ann })).toMatchObject({ kind: "self_approval" });
    expect((await approval(scene)).state).toBe("pending");
    only(await decide(scene, "approved", { caller: ben }), "decided");
  });

  test("by the tenant, and not by a setting made after the run had started", async () => {
    const scene = await waiting();
    await scene.flow.tenant({ separateDuties: true });
    await scene.flow.pass(5_000);
    const later = await scene.plane.start("pay", { amount: 6 });
    const other = { ...scene, approvalId: `${later}:ok@1` };
    expect(await decide(other, "approved", { caller: ann })).toMatchObject({ kind: "self_approval" });
    only(await decide(other, "rejected", { caller: ann }), "decided");
    only(await decide(scene, "approved", { caller: ann }), "decided");
  });

  test("stay separate when the tenant's settings cannot be read: then no run starts", async () => {
    const scene = await waiting();
    await scene.flow.tenant({ separateDuties: true });
    await scene.flow.pass(5_000);
    scene.plane.member.fail({ getTenant: "unavailable" });
    const request = { caller: ann, workflow: "pay", input: { amount: 7 } };
    const answer = await scene.flow.finish(scene.plane.api.startWorkflow(request));
    expect(answer.kind).toBe("concurrency_gate_unavailable");
  });

  test("stay separate when admission learns meanwhile that the tenant has changed its strategy", async () => {
    const scene = await waiting();
    await scene.flow.tenant({ separateDuties: true });
    await scene.flow.pass(5_000);
    await scene.plane.start("pay", { amount: 6 });
    await scene.flow.tenant({ separateDuties: true, admissionStrategy: "lock" });
    await scene.plane.start("pay", { amount: 7 });
    const third = await scene.plane.start("pay", { amount: 8 });
    const other = { ...scene, approvalId: `${third}:ok@1` };
    expect(await decide(other, "approved", { caller: ann })).toMatchObject({ kind: "self_approval" });
  });
});

describe("a run that no longer waits", () => {
  test("because it was cancelled takes no decision", async () => {
    const scene = await waiting();
    await scene.flow.finish(scene.plane.api.cancelRun({ caller: ann, runId: scene.runId, reason: "enough" }));
    expect(await scene.flow.ended(scene.runId)).toBe("cancelled");
    const answer = await decide(scene, "approved");
    expect(["run_ended", "approval_already_decided"]).toContain(answer.kind);
    expect((await approval(scene)).state).toBe("cancelled");
    expect(await scene.plane.poll()).toEqual([]);
    expect(await scene.flow.status(scene.runId)).toBe("cancelled");
  });

  test("because it was deleted has no approval any more", async () => {
    const scene = await waiting();
    only(await scene.flow.finish(scene.plane.api.deleteRun({ caller: ann, runId: scene.runId })), "deleted");
    expect(await decide(scene, "approved")).toMatchObject({ kind: "approval_not_found" });
  });
});

describe("a decision is not consumed without its effect", () => {
  test("when the process dies right after it was made: the next one applies it, once", async () => {
    const scene = await waiting({ engine: "stopped", overrides: { "engine.cachedRunsMax": 0 } });
    scene.plane.member.fail({ commit: "request_lost" });
    only(await decide(scene, "approved"), "decided");
    scene.plane.member.process.crash();
    expect((await scene.flow.step(scene.runId, "pay")).status).toBe("pending");
    const next = await scene.flow.open("q");
    await scene.flow.until(
      async () => (await scene.flow.step(scene.runId, "pay")).status === "running",
      15_000,
    );
    const again = await scene.flow.finish(next.api.decideApproval(requestOf(scene, "approved")));
    expect(again.kind).toBe("repeated");
    expect(await decisionsIn(scene)).toHaveLength(1);
    expect(single(await next.poll()).job.step).toBe("pay");
  });

  test("when its answer is lost: it is asked again, found made, and answered as decided", async () => {
    const scene = await waiting();
    scene.plane.member.fail({ deliver: ["reply_lost"] });
    const answer = only(await decide(scene, "approved"), "decided");
    expect(answer.approval.decidedBy).toBe("ben");
    expect(await decisionsIn(scene)).toHaveLength(1);
  });

  test("when no answer comes at all: it is unknown, never that nothing happened", async () => {
    const scene = await waiting();
    scene.plane.member.fail({ deliver: "reply_lost" });
    expect((await decide(scene, "approved")).kind).toBe("unknown");
    expect((await approval(scene)).state).toBe("approved");
    scene.plane.member.fail({});
    expect(only(await decide(scene, "approved"), "repeated").approval.decidedBy).toBe("ben");
  });
});

describe("a decision costs", () => {
  const callsDuring = async (scene: Waiting, work: () => Promise<unknown>) => {
    const before = scene.plane.member.calls.length;
    await work();
    const own = ["getApproval", "deliver", "loadRun", "getTenant"];
    return scene.plane.member.calls
      .slice(before)
      .map(({ name }) => name)
      .filter((name) => own.includes(name));
  };

  test("one store operation with the hash that was shown, and a read before it without", async () => {
    const shown = await waiting();
    const { hash } = await approval(shown);
    expect(await callsDuring(shown, () => decide(shown, "approved", { hash }))).toEqual(["deliver"]);
    const unseen = await waiting();
    expect(await callsDuring(unseen, () => decide(unseen, "approved"))).toEqual(["getApproval", "deliver"]);
  });

  test("one for a person as well, and three where duties are separate, which are still compared", async () => {
    const person = { owner: "Ben", lineage: [] };
    const caller = { ...ben, person };
    const together = await waiting();
    const { hash } = await approval(together);
    const once = await callsDuring(together, () => decide(together, "approved", { hash, caller }));
    expect(once).toEqual(["deliver"]);
    const overrides = { "approvals.separateDuties": "yes" } as const;
    const separate = await waiting({ overrides, caller: { ...ann, person: { owner: "Ann", lineage: [] } } });
    const seen = await approval(separate);
    const own = { ...ben, person: { owner: "ann", lineage: [] } };
    expect(await decide(separate, "approved", { hash: seen.hash, caller: own })).toEqual({
      kind: "self_approval",
      rule: "same_owner",
    });
    const thrice = await callsDuring(separate, () =>
      decide(separate, "approved", { hash: seen.hash, caller }),
    );
    expect(thrice.slice(0, 3)).toEqual(["deliver", "loadRun", "deliver"]);
    expect((await approval(separate)).state).toBe("approved");
  });
});

test("a parked run keeps its slot, and a decision on it needs none", async () => {
  const scene = await waiting();
  await scene.flow.tenant({ maxConcurrentRuns: 1 });
  const request = { caller: ann, workflow: "pay", input: { amount: 9 } };
  expect((await scene.flow.finish(scene.plane.api.startWorkflow(request))).kind).toBe(
    "max_concurrent_runs_reached",
  );
  only(await decide(scene, "rejected"), "decided");
  expect(await scene.flow.ended(scene.runId)).toBe("denied");
  expect((await scene.flow.finish(scene.plane.api.startWorkflow(request))).kind).toBe("admitted");
});
