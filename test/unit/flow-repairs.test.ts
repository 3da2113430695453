// Repairs of repairs: letters that are retried one after the other and again, whatever happens to the run in between.
import { describe, expect, test } from "vitest";
import type { JobId } from "../../src/domain/job.ts";
import type { LockToken } from "../../src/domain/lock.ts";
import type { RunId } from "../../src/domain/run.ts";
import { acme, ann, only, single, work } from "../support/flow-world.ts";
import {
  beside,
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

const orders = [
  ["a", "b", "c"],
  ["a", "c", "b"],
  ["b", "a", "c"],
  ["b", "c", "a"],
  ["c", "a", "b"],
  ["c", "b", "a"],
] as const;

describe("three steps that have failed", () => {
  const steps = {
    ...beside("a", "b", "c"),
    last: work({ depends_on: ["a", "b", "c"], input: { of: "${steps.a.output}" } }),
  };

  test.each(orders)("are mended one by one: %s, then %s, then %s", async (...order) => {
    const scene = await startScene(steps);
    const { flow, runId } = scene;
    await workOff(scene, failing);
    await expectEnd(scene, "failed");
    for (const [index, step] of order.entries()) {
      expect(await retry(scene, `${runId}:${step}@1`)).toMatchObject({ kind: "retrying", already: false });
      const done = await workOff(scene, succeeding);
      expect(done).toEqual(index === 2 ? [`${step}@2`, "last@1"] : [`${step}@2`]);
      await expectEnd(scene, index === 2 ? "succeeded" : "failed");
      const mended = order.slice(0, index + 1);
      expect(await letterStates(scene)).toEqual(
        Object.fromEntries(
          ["a", "b", "c"].map((name) => [
            `${runId}:${name}@1`,
            (mended as readonly string[]).includes(name) ? "retried" : "open",
          ]),
        ),
      );
    }
    for (const step of ["a", "b", "c", "last"])
      expect(await countOf(scene, `step_completed ${step}`)).toBe(1);
    expect(await flow.step(runId, "last")).toMatchObject({ status: "succeeded", attempt: 1 });
  });

  test("are retried all at once, fail once more, and are mended in turn by the letters of the second attempt", async () => {
    const scene = await startScene(steps);
    const { flow, plane, runId } = scene;
    await workOff(scene, failing);
    const all = ["a", "b", "c"].map((step) =>
      plane.api.retryDeadLetter({ caller: ann, id: `${runId}:${step}@1` }),
    );
    for (const answer of await flow.finish(Promise.all(all))) expect(answer.kind).toBe("retrying");
    expect((await workOff(scene, failing)).toSorted()).toEqual(["a@2", "b@2", "c@2"]);
    await expectEnd(scene, "failed");
    for (const step of ["c", "a", "b"]) {
      // A letter of an attempt that is over says so, and changes nothing.
      expect(await retry(scene, `${runId}:${step}@1`)).toMatchObject({ kind: "retrying", already: true });
      expect(await flow.status(runId)).toBe("failed");
      expect(await retry(scene, `${runId}:${step}@2`)).toMatchObject({ kind: "retrying", already: false });
      await workOff(scene, succeeding);
    }
    await expectEnd(scene, "succeeded");
    for (const step of ["a", "b", "c"]) expect((await flow.step(runId, step)).attempt).toBe(3);
  });
});

describe("a letter that was retried", () => {
  test("loses one more claim, then another: the attempts go on, and none of them counts as an earlier one's", async () => {
    const scene = await startScene({ a: work({ retry: { max_retries: 1, initial_backoff_sec: 1 } }) });
    const { flow, plane, runId } = scene;
    // Four claims are lost before, one less than ends a step; then both attempts that there are fail.
    for (let lost = 1; lost <= 4; lost += 1) {
      single(await plane.poll({ leaseMs: 1_000, waitMs: 5_000 }));
      await flow.until(async () => (await flow.step(runId, "a")).attempt === lost + 1);
    }
    expect(await workOff(scene, failing)).toEqual(["a@5", "a@6"]);
    await expectEnd(scene, "failed");
    await retry(scene, `${runId}:a@6`);
    for (let lost = 1; lost <= 4; lost += 1) {
      single(await plane.poll({ leaseMs: 1_000, waitMs: 5_000 }));
      await flow.until(async () => (await flow.step(runId, "a")).attempt === 7 + lost);
    }
    expect(await flow.step(runId, "a")).toMatchObject({ status: "running", lostClaims: 4 });
    // Its retries are all there again as well.
    expect(
      await workOff(scene, ({ job }) => (job.attempt === 11 ? "failed_retryable" : "succeeded")),
    ).toEqual(["a@11", "a@12"]);
    await expectEnd(scene, "succeeded");
    expect(await letterStates(scene)).toEqual({ [`${runId}:a@6`]: "retried" });
  });

  test("is retried again and again: once, whatever became of the run meanwhile", async () => {
    const scene = await startScene({ a: work(), b: work({ depends_on: ["a"] }) });
    const { flow, plane, runId } = scene;
    await workOff(scene, failing);
    const id = `${runId}:a@1`;
    await retry(scene, id);
    const job = single(await plane.poll({ waitMs: 1_000, leaseMs: 600_000 }));
    const before = await flow.header(runId);
    expect(await retry(scene, id)).toMatchObject({ kind: "retrying", already: true });
    expect(await flow.header(runId)).toEqual(before);
    await plane.report(job);
    expect(await retry(scene, id)).toMatchObject({ kind: "retrying", already: true });
    expect(await workOff(scene, succeeding)).toEqual(["b@1"]);
    await expectEnd(scene, "succeeded");
    expect(await countOf(scene, "step_retried a")).toBe(1);
  });

  test("and whose run is cancelled then ends with it: neither that letter nor another opens it again", async () => {
    const scene = await startScene(beside("a", "b"));
    const { flow, plane, runId } = scene;
    await workOff(scene, failing);
    await retry(scene, `${runId}:a@1`);
    single(await plane.poll({ waitMs: 1_000, leaseMs: 600_000 }));
    only(await flow.finish(plane.api.cancelRun({ caller: ann, runId, reason: "no" })), "cancelling");
    await expectEnd(scene, "cancelled");
    expect(await retry(scene, `${runId}:a@1`)).toMatchObject({ kind: "retrying", already: true });
    expect(await retry(scene, `${runId}:b@1`)).toMatchObject({ kind: "dead_letter_not_retryable" });
    expect(await letterStates(scene)).toEqual({ [`${runId}:a@1`]: "retried", [`${runId}:b@1`]: "open" });
    await expectEnd(scene, "cancelled");
  });

  test("comes after a cancel that still waits: the cancel ends the run, and the letter opens it no more", async () => {
    const scene = await startScene(beside("a", "b"));
    const { flow, plane, runId } = scene;
    await workOff(scene, ({ job }) => (job.step === "a" ? "failed_retryable" : "kept"));
    const owner = await flow.occupy(runId);
    only(await flow.finish(plane.api.cancelRun({ caller: ann, runId, reason: "no" })), "cancelling");
    // Somebody who read the run a moment before the cancel.
    const retried = { kind: "retry", entryId: "late", letterId: `${runId}:a@1`, actor: "ann" } as const;
    const jobId = (await flow.job(`${runId}:a@1` as JobId)).jobId;
    const take = { token: "none" as LockToken, instance: "q", ttlMs: 1_000 };
    const entry = { ...retried, jobId };
    const request = { tenant: acme, runId, entry, take, whenBusy: "append", records: [] } as const;
    only(await flow.world.store.deliver(request, { deadlineMs: 100 }), "delivered");
    expect(await letterStates(scene)).toEqual({ [`${runId}:a@1`]: "retried" });
    await owner.release();
    await expectEnd(scene, "cancelled");
    expect(await flow.step(runId, "a")).toMatchObject({ status: "failed", attempt: 1 });
    await retry(scene, `${runId}:a@1`);
    await expectEnd(scene, "cancelled");
  });

  test("comes while the drain of another retry is under way: both attempts begin, each once", async () => {
    const scene = await startScene({ ...beside("a", "b"), c: work({ depends_on: ["a", "b"] }) });
    const { flow, plane, runId } = scene;
    await workOff(scene, failing);
    plane.member.fail({ commit: [{ requestAfterMs: 200 }] });
    await retry(scene, `${runId}:a@1`);
    await flow.until(() => plane.member.callsOf("commit").some(({ answer }) => answer === undefined));
    await retry(scene, `${runId}:b@1`);
    expect((await workOff(scene, succeeding)).toSorted()).toEqual(["a@2", "b@2", "c@1"]);
    await expectEnd(scene, "succeeded");
  });

  test("whose run is cancelled while its drain is under way ends cancelled, and its attempt is called off", async () => {
    const scene = await startScene(beside("a"));
    const { flow, plane, runId } = scene;
    await workOff(scene, failing);
    plane.member.fail({ commit: [{ requestAfterMs: 200 }] });
    await retry(scene, `${runId}:a@1`);
    await flow.until(() => plane.member.callsOf("commit").some(({ answer }) => answer === undefined));
    only(await flow.finish(plane.api.cancelRun({ caller: ann, runId, reason: "no" })), "cancelling");
    await expectEnd(scene, "cancelled");
    expect((await flow.job(`${runId}:a@2` as JobId)).state).toBe("voided");
  });
});

test("a retry of an older attempt changes nothing: the run that it had opened ends again, and the newer letter mends it", async () => {
  const scene = await startScene(beside("a"));
  const { flow, runId } = scene;
  await workOff(scene, failing);
  await retry(scene, `${runId}:a@1`);
  await workOff(scene, failing);
  await expectEnd(scene, "failed");
  const { store } = flow.world;
  const letter = { tenant: acme, collection: "deadLetter", id: "old", body: "{}" } as const;
  await store.putDocument({ ...letter, changeId: "old", actor: "bus" }, { deadlineMs: 100 });
  const { jobId } = await flow.job(`${runId}:a@1` as JobId);
  const entry = { kind: "retry", entryId: "old", letterId: "old", jobId, actor: "ann" } as const;
  const take = { token: "gone" as LockToken, instance: "q", ttlMs: 10 };
  const request = { tenant: acme, runId, entry, take, whenBusy: "append", records: [] } as const;
  only(await store.deliver(request, { deadlineMs: 100 }), "delivered");
  expect(await flow.status(runId)).toBe("running");
  await expectEnd(scene, "failed");
  expect(await flow.step(runId, "a")).toMatchObject({ status: "failed", attempt: 2 });
  await retry(scene, `${runId}:a@2`);
  expect(await workOff(scene, succeeding)).toEqual(["a@3"]);
  await expectEnd(scene, "succeeded");
});

describe("a retry entry that no owner can apply", () => {
  /** Owners die with the commit of what waits, five in a row; the sixth finds the head set aside. */
  async function inVain(scene: Scene, name: string): Promise<void> {
    const { flow } = scene;
    for (let index = 1; index <= 5; index += 1) {
      const owner = await flow.open(`${name} ${index}`, { failing: { commit: "request_lost" } });
      await flow.until(() => owner.member.callsOf("commit").length > 0, 300_000);
      owner.member.process.crash();
      // Five of them take longer than an entry may be in vain.
      await flow.pass(30_000);
    }
  }

  test("is set aside: the run that it had opened ends again, and its own letter mends the step, twice over", async () => {
    let scene = await startScene({ ...beside("a"), b: work({ depends_on: ["a"] }) });
    const { flow, runId } = scene;
    await workOff(scene, failing);
    await expectEnd(scene, "failed");
    let id = `${runId}:a@1`;
    for (const turn of ["first", "second"]) {
      const { plane } = scene;
      plane.member.fail({ commit: "request_lost" });
      await retry(scene, id);
      plane.member.process.crash();
      await inVain(scene, turn);
      scene = { ...scene, plane: await flow.open(`sound ${turn}`) };
      await expectEnd(scene, "failed");
      const states = await letterStates(scene);
      expect([states[id], states[`${runId}:retry:${id}`]]).toEqual(["retried", "open"]);
      id = `${runId}:retry:${id}`;
    }
    await retry(scene, id);
    expect(await workOff(scene, succeeding)).toEqual(["a@2", "b@1"]);
    await expectEnd(scene, "succeeded");
  });
});

describe("a rerun", () => {
  async function rerun({ flow, plane }: Scene, runId: RunId, fromStep: string): Promise<RunId> {
    const answer = await flow.finish(plane.api.rerunRun({ caller: ann, runId, fromStep }));
    return only(answer, "admitted").runId;
  }
  const output = (step: string) => `\${steps.${step}.output}`;
  const chain = {
    a: work(),
    b: work({ depends_on: ["a"], input: { a: output("a") } }),
    c: work({ depends_on: ["b"], input: { b: output("b") } }),
    d: work({ depends_on: ["c"], input: { a: output("a"), b: output("b"), c: output("c") } }),
  };
  /** Each step says which run did it. */
  async function doAll(scene: Scene, failed?: string): Promise<ReadonlyMap<string, string>> {
    const inputs = new Map<string, string>();
    for (;;) {
      const jobs = await scene.plane.poll({ waitMs: 1_000, leaseMs: 600_000 });
      if (jobs.length === 0) return inputs;
      for (const job of jobs) {
        inputs.set(job.job.step, job.input);
        if (job.job.step === failed) await scene.plane.fail(job, "failed_retryable");
        else await scene.plane.report(job, `${job.job.step} of ${job.job.runId}`);
      }
    }
  }

  test.each([
    { from: "d", again: ["d"] },
    { from: "b", again: ["b", "c", "d"] },
  ])(
    "of a rerun from c, from step $from, reads each output of the run that made it",
    async ({ from, again }) => {
      const scene = await startScene(chain);
      const first = scene.runId;
      await doAll(scene, "c");
      const second = await rerun(scene, first, "c");
      expect([...(await doAll(scene)).keys()]).toEqual(["c", "d"]);
      await expectEnd({ ...scene, runId: second }, "succeeded");
      const third = await rerun(scene, second, from);
      const inputs = await doAll(scene);
      expect([...inputs.keys()]).toEqual(again);
      const made = (step: string, by: RunId) => `${step} of ${again.includes(step) ? third : by}`;
      expect(JSON.parse(inputs.get("d") ?? "null")).toEqual({
        a: made("a", first),
        b: made("b", first),
        c: made("c", second),
      });
      await expectEnd({ ...scene, runId: third }, "succeeded");
    },
  );

  test("of a run whose retry still waits needs a slot of its own, and neither run disturbs the other", async () => {
    const scene = await startScene(chain);
    const { flow, plane, runId } = scene;
    await doAll(scene, "b");
    await retry(scene, `${runId}:b@1`);
    const refused = await flow.finish(plane.api.rerunRun({ caller: ann, runId, fromStep: "b" }));
    expect(refused.kind).toBe("max_concurrent_runs_reached");
    await flow.tenant({ maxConcurrentRuns: 2 });
    await flow.pass(10_000);
    const other = await rerun(scene, runId, "b");
    const jobs = [
      ...(await plane.poll({ waitMs: 1_000, leaseMs: 600_000 })),
      ...(await plane.poll({ waitMs: 1_000, leaseMs: 600_000 })),
    ];
    expect(jobs.map(({ job }) => `${job.runId} ${job.step}@${job.attempt}`).toSorted()).toEqual(
      [`${runId} b@2`, `${other} b@1`].toSorted(),
    );
    for (const job of jobs) await plane.report(job, `b of ${job.job.runId}`);
    await doAll(scene);
    await expectEnd(scene, "succeeded");
    await expectEnd({ ...scene, runId: other }, "succeeded");
  });
});

test("a result of the first attempt that is poisoned while the second runs changes nothing of the second", async () => {
  const scene = await startScene({ a: work(), b: work({ depends_on: ["a"] }) });
  const { flow, plane, runId } = scene;
  const first = single(await plane.poll({ leaseMs: 1_000 }));
  await flow.until(async () => (await flow.step(runId, "a")).attempt === 2);
  const second = single(await plane.poll({ waitMs: 1_000, leaseMs: 600_000 }));
  const payloadKey = "result/a@1";
  const { jobId } = first.job;
  poison(scene, { kind: "result", entryId: "old", jobId, outcome: "succeeded", payloadKey });
  const answer = await plane.report(second);
  expect(answer.kind).toBe("accepted");
  expect(await workOff(scene, succeeding)).toEqual(["b@1"]);
  await expectEnd(scene, "succeeded");
  expect(await flow.step(runId, "a")).toMatchObject({ status: "succeeded", attempt: 2 });
});
