// Repairs of repairs above and below a step: child runs, items of lists, loops, handlers of failures, approvals and cancels.
import { describe, expect, test } from "vitest";
import type { ApprovalId } from "../../src/domain/approval.ts";
import type { LockToken } from "../../src/domain/lock.ts";
import type { RunId } from "../../src/domain/run.ts";
import { acme, ann, ben, only, type Steps, single, work, workerCaller } from "../support/flow-world.ts";
import {
  countOf,
  expectEnd,
  letterStates,
  poison,
  retry,
  type Scene,
  startScene,
  workOff,
} from "../support/repair-scene.ts";

const failing = () => "failed_retryable" as const;
const succeeding = () => "succeeded" as const;

describe("the letter of a child run", () => {
  /** A run whose step `call` starts a child of one step; the child waits for a worker. */
  async function withChild(call: Steps[string] = {}) {
    const scene = await startScene({ none: { type: "transform", input: {} } });
    const { flow, plane } = scene;
    await plane.save("leaf", { it: work() });
    const input = { workflow_id: "leaf" };
    await plane.save("top", {
      call: { type: "subworkflow", input, ...call },
      after: work({ depends_on: ["call"] }),
    });
    await expectEnd(scene, "succeeded");
    const runId = await plane.start("top");
    return { ...scene, runId, child: await childOf({ ...scene, runId }), flow, plane };
  }

  async function childOf({ flow, runId }: Scene, attempt = 1): Promise<RunId> {
    await flow.until(async () => {
      const step = await flow.step(runId, "call");
      return step.attempt === attempt && step.childRunId !== undefined;
    }, 120_000);
    return (await flow.step(runId, "call")).childRunId as RunId;
  }

  test("is retried, fails and is retried again: each time the run above waits, and goes on once", async () => {
    const scene = await withChild();
    const { flow, runId, child } = scene;
    await workOff(scene, failing);
    await expectEnd(scene, "failed");
    for (const attempt of [1, 2, 3]) {
      expect(await retry(scene, `${child}:it@${attempt}`)).toMatchObject({ already: false });
      await flow.pass(10_000);
      expect(await flow.step(runId, "call")).toMatchObject({ status: "waiting", attempt: 1 });
      const done = await workOff(scene, ({ job }) =>
        job.attempt === 4 || job.step === "after" ? "succeeded" : "failed_retryable",
      );
      expect(done).toEqual(attempt === 3 ? ["it@4", "after@1"] : [`it@${attempt + 1}`]);
      await expectEnd({ ...scene, runId: child }, attempt === 3 ? "succeeded" : "failed");
      await expectEnd(scene, attempt === 3 ? "succeeded" : "failed");
    }
    expect(await countOf(scene, "step_completed call")).toBe(1);
  });

  test("is not retried once the step above it has timed out and was retried itself: that has another child", async () => {
    const retryTerms = { max_retries: 1, initial_backoff_sec: 1 };
    const scene = await withChild({ timeout_sec: 60, retry: retryTerms });
    const { flow, plane, runId, child } = scene;
    single(await plane.poll({ waitMs: 1_000, leaseMs: 600_000 }));
    const second = await childOf(scene, 2);
    expect(second).not.toBe(child);
    await expectEnd({ ...scene, runId: child }, "cancelled");
    expect(await workOff(scene, failing)).toEqual(["it@1"]);
    await expectEnd(scene, "failed");
    // The second child's own letter, and the letter of the step: the step's makes a third child.
    expect(await retry(scene, `${runId}:call@2`)).toMatchObject({ kind: "retrying", already: false });
    const third = await childOf(scene, 3);
    expect(await retry(scene, `${second}:it@1`)).toMatchObject({ kind: "dead_letter_not_retryable" });
    expect((await flow.header(second)).status).toBe("failed");
    expect(await workOff(scene, succeeding)).toEqual(["it@1", "after@1"]);
    await expectEnd(scene, "succeeded");
    await expectEnd({ ...scene, runId: third }, "succeeded");
    expect(await retry(scene, `${second}:it@1`)).toMatchObject({ kind: "dead_letter_not_retryable" });
  });

  test("retried while the run above is being cancelled ends with it, whichever comes first", async () => {
    for (const first of ["cancel", "retry"] as const) {
      const scene = await withChild();
      const { flow, plane, runId, child } = scene;
      await workOff(scene, failing);
      await expectEnd(scene, "failed");
      const id = `${child}:it@1`;
      // Opened by its first retry, so that there is something to cancel.
      await retry(scene, id);
      await flow.pass(10_000);
      await workOff(scene, failing);
      await expectEnd(scene, "failed");
      await retry(scene, `${child}:it@2`);
      if (first === "cancel") await flow.pass(10_000);
      const cancel = await flow.finish(plane.api.cancelRun({ caller: ann, runId, reason: "no" }));
      expect(cancel.kind).toBe("cancelling");
      await expectEnd(scene, "cancelled");
      await expectEnd({ ...scene, runId: child }, "cancelled");
      expect(await retry(scene, `${child}:it@2`)).toMatchObject({ already: true });
      await expectEnd({ ...scene, runId: child }, "cancelled");
    }
  });
});

describe("items of a list", () => {
  test.each([
    { parallel: 1, order: [0, 1, 2] },
    { parallel: 3, order: [2, 0, 1] },
    { parallel: 2, order: [1, 2, 0] },
  ])("are mended one by one, $parallel at once, in the order $order", async ({ parallel, order }) => {
    const list = work({
      ...{ for_each: "input.items", input: { item: "${item}" } },
      ...{ for_each_on_failure: "continue", max_parallel: parallel },
    });
    const scene = await startScene(
      { each: list, after: work({ depends_on: ["each"], input: { of: "${steps.each.output}" } }) },
      { input: { items: ["x", "y", "z"] } },
    );
    const { runId } = scene;
    await workOff(scene, failing);
    await expectEnd(scene, "failed");
    for (const [nth, item] of order.entries()) {
      // Its first retry fails as well: the letter of that attempt is the one that mends it.
      await retry(scene, `${runId}:each[${item}]@1`);
      expect(await workOff(scene, failing)).toEqual([`each[${item}]@2`]);
      await expectEnd(scene, "failed");
      expect(await retry(scene, `${runId}:each[${item}]@2`)).toMatchObject({ already: false });
      const done = await workOff(scene, succeeding);
      expect(done).toEqual(nth === 2 ? [`each[${item}]@3`, "after@1"] : [`each[${item}]@3`]);
      await expectEnd(scene, nth === 2 ? "succeeded" : "failed");
    }
  });

  test("all of which are retried at once are mended together, and the list ends once", async () => {
    const list = work({ for_each: "input.items", for_each_on_failure: "continue", max_parallel: 2 });
    const scene = await startScene({ each: list }, { input: { items: [1, 2, 3, 4] } });
    const { flow, plane, runId } = scene;
    await workOff(scene, failing);
    await expectEnd(scene, "failed");
    const all = [3, 1, 0, 2].map((item) =>
      plane.api.retryDeadLetter({ caller: ann, id: `${runId}:each[${item}]@1` }),
    );
    for (const answer of await flow.finish(Promise.all(all))) expect(answer.kind).toBe("retrying");
    const done = await workOff(scene, succeeding);
    expect(done.toSorted()).toEqual(["each[0]@2", "each[1]@2", "each[2]@2", "each[3]@2"]);
    await expectEnd(scene, "succeeded");
    expect(await countOf(scene, "step_completed each")).toBe(1);
  });
});

test("a list that gave up at its first failures goes on with all its items once both are mended", async () => {
  const list = work({ for_each: "input.items", max_parallel: 2 });
  const scene = await startScene({ each: list }, { input: { items: [1, 2, 3, 4, 5] } });
  const { flow, plane, runId } = scene;
  const jobs = await plane.poll({ waitMs: 1_000 });
  const reports = jobs.map(({ job: { jobId }, token }) =>
    plane.api.reportResult({ caller: workerCaller, jobId, token, outcome: "failed_retryable" }),
  );
  await flow.finish(Promise.all(reports));
  await expectEnd(scene, "failed");
  const letters = Object.keys(await letterStates(scene));
  expect(letters.length).toBeGreaterThan(0);
  const retries = letters.map((id) => plane.api.retryDeadLetter({ caller: ann, id }));
  for (const answer of await flow.finish(Promise.all(retries))) expect(answer.kind).toBe("retrying");
  await workOff(scene, succeeding);
  await expectEnd(scene, "succeeded");
  for (const item of [0, 1, 2, 3, 4])
    expect((await flow.step(runId, `each[${item}]`)).status).toBe("succeeded");
});

test("the body of a loop that fails in its second turn is mended there, twice, and the turns go on", async () => {
  const scene = await startScene({
    again: { type: "loop", input: { body: "body", max_iterations: 3 } },
    body: work(),
  });
  const { runId } = scene;
  const done = await workOff(scene, ({ job }) => (job.attempt === 2 ? "failed_retryable" : "succeeded"));
  expect(done).toEqual(["body@1", "body@2"]);
  await expectEnd(scene, "failed");
  await retry(scene, `${runId}:body@2`);
  expect(await workOff(scene, failing)).toEqual(["body@3"]);
  await expectEnd(scene, "failed");
  await retry(scene, `${runId}:body@3`);
  expect(await workOff(scene, succeeding)).toEqual(["body@4", "body@5"]);
  await expectEnd(scene, "succeeded");
});

test("a handler that fails itself is mended by its own letter, and never the step that it handles", async () => {
  const scene = await startScene({
    a: work({ on_error: "mend" }),
    mend: work({ input: { of: "${steps.a.error.message}" } }),
    after: work({ depends_on: ["a"] }),
  });
  const { runId } = scene;
  expect(await workOff(scene, failing)).toEqual(["a@1", "mend@1"]);
  await expectEnd(scene, "failed");
  expect(await retry(scene, `${runId}:a@1`)).toMatchObject({ kind: "dead_letter_not_retryable" });
  await retry(scene, `${runId}:mend@1`);
  expect(await workOff(scene, failing)).toEqual(["mend@2"]);
  await expectEnd(scene, "failed");
  await retry(scene, `${runId}:mend@2`);
  const done = await workOff(scene, succeeding);
  expect(done[0]).toBe("mend@3");
  expect(done).not.toContain("a@2");
  await expectEnd(scene, "succeeded");
  expect(await letterStates(scene)).toEqual({
    [`${runId}:a@1`]: "open",
    [`${runId}:mend@1`]: "retried",
    [`${runId}:mend@2`]: "retried",
  });
});

describe("an entry that was set aside", () => {
  test("was to decide an approval: the next attempt asks anew, and a decision on the first one counts for nothing", async () => {
    const scene = await startScene({ ok: { type: "approval" }, b: work({ depends_on: ["ok"] }) });
    const { flow, plane, runId } = scene;
    const asked = `${runId}:ok@1` as ApprovalId;
    const by = { decision: "approved", decidedBy: "ben", reason: "" } as const;
    const was = { kind: "decision", entryId: "d", approvalId: asked, ...by } as const;
    poison(scene, was);
    const body = JSON.stringify({ reason: "poisoned_entry", run_id: runId, entry: was });
    const letter = { tenant: acme, collection: "deadLetter", id: `${runId}:d`, body } as const;
    only(
      await flow.world.store.putDocument({ ...letter, changeId: "x", actor: "t" }, { deadlineMs: 100 }),
      "saved",
    );
    await leaveOpen(scene);
    await expectEnd(scene, "failed");
    const decide = (approvalId: string) =>
      flow.finish(plane.api.decideApproval({ caller: ben, approvalId, decision: "approved" }));
    expect((await decide(asked)).kind).not.toBe("decided");
    await retry(scene, `${runId}:d`);
    await flow.until(async () => (await flow.step(runId, "ok")).attempt === 2);
    await flow.pass(1_000);
    expect((await decide(asked)).kind).not.toBe("decided");
    expect(await flow.step(runId, "ok")).toMatchObject({ status: "waiting", attempt: 2 });
    only(await decide(`${runId}:ok@2`), "decided");
    expect(await workOff(scene, succeeding)).toEqual(["b@1"]);
    await expectEnd(scene, "succeeded");
  });

  test("was to cancel: the run ends all the same, as one that failed, and nothing opens it again", async () => {
    const scene = await startScene({ a: work(), b: work() });
    const { flow, plane, runId } = scene;
    await workOff(scene, ({ job }) => (job.step === "a" ? "failed_retryable" : "kept"));
    const { records } = flow.world;
    poison(scene, { kind: "cancel", entryId: "c", actor: "ann", reason: "no" });
    const state = records.get("run", acme, runId);
    if (state !== undefined) records.put("run", acme, runId, { ...state, cancelRequested: "c" });
    await leaveOpen(scene);
    await expectEnd(scene, "failed");
    expect(await retry(scene, `${runId}:a@1`)).toMatchObject({ kind: "dead_letter_not_retryable" });
    const again = await flow.finish(plane.api.cancelRun({ caller: ann, runId, reason: "no" }));
    expect(again).toMatchObject({ kind: "run_ended", runStatus: "failed" });
  });

  /** An owner that took the run and is gone: the sweep finds what waits. */
  async function leaveOpen({ flow, runId }: Scene): Promise<void> {
    const take = { token: "gone" as LockToken, instance: "q", ttlMs: 10 };
    const asked = { tenant: acme, runId, take, records: [] };
    only(await flow.world.store.takeRun(asked, { deadlineMs: 100 }), "owned");
  }
});
