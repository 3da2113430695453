// The dispatch check through the whole control plane: jobs of high risk wait for it, and what it says happens once.
import { describe, expect, test } from "vitest";
import { dispatchScene, jobOf, scriptedCheck, verdictsSent, why } from "../support/flow-dispatch.ts";
import { acme, ann, FlowWorld, only, pollOf, single, work } from "../support/flow-world.ts";

describe("a job of high risk", () => {
  test("waits for the check, which sees what the worker would get, and then goes to the worker that waits", async () => {
    const { flow, plane, check, published } = await dispatchScene(["silence"]);
    const poll = plane.api.pollJobs(pollOf({ waitMs: 30_000 }));
    const runId = await plane.start("w", { amount: 5 });
    await flow.until(() => check.questions.length === 1);
    expect(check.questions[0]?.job).toEqual({
      jobId: jobOf(runId),
      runId,
      tenant: acme,
      workflow: "w",
      step: "a",
      attempt: 1,
      topic: "work",
      risk: "high",
      input: { amount: 5 },
      requestedBy: "ann",
    });
    expect((await flow.job(jobOf(runId))).state).toBe("held");
    expect(await plane.poll()).toEqual([]);
    expect(published.map(({ stream }) => stream)).toEqual(["checks"]);
    const startedMs = flow.nowMs();
    check.questions[0]?.answer({ verdict: "allow" });
    const jobs = only(await flow.finish(poll), "jobs").jobs;
    expect(flow.nowMs() - startedMs).toBeLessThan(50);
    await plane.report(single(jobs));
    expect(await flow.ended(runId)).toBe("succeeded");
    expect(await flow.events(runId)).toEqual([
      "run_started",
      "step_dispatched a",
      "step_allowed a",
      "step_completed a",
      "run_completed",
    ]);
    expect(plane.metrics.total("dispatch_checks_total", { verdict: "allow" })).toBe(1);
    expect(plane.metrics.observed("dispatch_check_seconds")).toHaveLength(1);
  });

  test("is not held without a check, and others never are", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    await plane.save("risky", { a: work() }, { risk: "high" });
    await plane.start("risky");
    single(await plane.poll());
    const scene = await dispatchScene([{ verdict: "deny" }]);
    await scene.plane.save("usual", { a: work() });
    await scene.plane.start("usual");
    single(await scene.plane.poll());
    expect(scene.check.questions).toEqual([]);
    expect(scene.plane.member.callsOf("acquireLock")).toEqual([]);
  });

  test("is held by a process that only takes requests, and asked about by the one that has the check", async () => {
    const flow = new FlowWorld();
    const bus = flow.bus();
    const { check, plane } = await dispatchScene([{ verdict: "allow" }], {
      ...{ flow, bus },
      overrides: { "process.roles": "engine,scheduler" },
    });
    const overrides = { "process.roles": "gateway", "dispatch.hold": "high" } as const;
    const gateway = await flow.open("g", { bus, overrides });
    const runId = await gateway.start("w");
    expect((await flow.job(jobOf(runId))).state).toBe("held");
    expect(verdictsSent(gateway)).toEqual([]);
    await flow.until(() => check.questions.length === 1);
    single(await gateway.poll({ waitMs: 5_000 }));
    expect(verdictsSent(plane)).toEqual(["allow"]);
  });

  test("of a run that a step has started says who asked for the root", async () => {
    const { flow, plane, check } = await dispatchScene([{ verdict: "allow" }]);
    await plane.save("outer", { call: { type: "subworkflow", input: { workflow_id: "w" } } });
    await plane.start("outer", {}, { ...ann, actor: "carol" });
    await flow.until(() => check.questions.length === 1);
    expect(check.questions[0]?.job.requestedBy).toBe("carol");
  });
});

describe("a verdict", () => {
  test("that denies ends the run, with its reason, and no worker ever saw the job", async () => {
    const { flow, plane, published } = await dispatchScene([{ verdict: "deny", reason: "not on a Friday" }], {
      steps: { a: work({ retry: { max_retries: 3 } }) },
    });
    const runId = await plane.start("w");
    expect(await flow.ended(runId)).toBe("denied");
    const error = { code: "dispatch_denied", message: "not on a Friday" };
    expect(await flow.step(runId, "a")).toMatchObject({ status: "denied", error });
    expect((await flow.job(jobOf(runId))).state).toBe("voided");
    expect(published.filter(({ stream }) => stream === "hints")).toEqual([]);
    expect((await why({ flow, plane }, runId)).summary).toContain("not on a Friday");
  });

  test("that holds is asked for again every ten seconds, and told once for each reason", async () => {
    const { flow, plane, check } = await dispatchScene([{ verdict: "hold", reason: "budget" }]);
    const runId = await plane.start("w");
    await flow.pass(25_000);
    expect(check.questions.map(({ atMs }) => Math.round(atMs / 1_000))).toEqual([0, 10, 20]);
    check.says({ verdict: "hold", reason: "after hours" }, { verdict: "allow" });
    await flow.pass(20_000);
    expect(check.questions).toHaveLength(5);
    const held = (await flow.events(runId)).filter((event) => event === "step_held a");
    expect(held).toHaveLength(2);
    single(await plane.poll());
  });

  test("that says when to be asked again is not asked before, whatever names the job", async () => {
    const { flow, plane, check } = await dispatchScene([{ verdict: "hold", retryAfterMs: 300_000 }]);
    const runId = await plane.start("w");
    await flow.pass(299_000);
    expect(check.questions).toHaveLength(1);
    expect((await flow.job(jobOf(runId))).republished).toBeGreaterThan(2);
    await flow.pass(2_000);
    expect(check.questions).toHaveLength(2);
  });

  test("whose delivery was not answered counts once", async () => {
    const { flow, plane } = await dispatchScene([{ verdict: "allow" }]);
    plane.member.fail({ deliver: ["reply_lost"] });
    const runId = await plane.start("w");
    single(await plane.poll({ waitMs: 20_000 }));
    await flow.pass(20_000);
    expect((await flow.events(runId)).filter((event) => event === "step_allowed a")).toHaveLength(1);
  });

  test("that the store could not take is asked for again", async () => {
    const { flow, plane, check } = await dispatchScene([{ verdict: "allow" }]);
    plane.member.fail({ deliver: (nth) => (nth < 40 ? "unavailable" : "ok") });
    await plane.start("w");
    await flow.pass(60_000);
    expect(check.questions.length).toBeGreaterThan(1);
    plane.member.fail({});
    single(await plane.poll({ waitMs: 20_000 }));
  });

  test("for a run that was cancelled meanwhile changes nothing", async () => {
    const { flow, plane, check } = await dispatchScene(["silence"]);
    const runId = await plane.start("w");
    await flow.until(() => check.questions.length === 1);
    await flow.finish(plane.api.cancelRun({ caller: ann, runId, reason: "no" }));
    expect(await flow.ended(runId)).toBe("cancelled");
    check.questions[0]?.answer({ verdict: "allow" });
    await flow.pass(60_000);
    expect((await flow.job(jobOf(runId))).state).toBe("voided");
    expect(check.questions).toHaveLength(1);
  });
});

describe("trouble with the check keeps the job held, never lets it go", () => {
  test.each([
    ["throws", new Error("down"), "down"],
    ["says something else", { garbage: { verdict: "yes" } }, "its answer is none of allow, deny and hold"],
    ["says nothing at all", { garbage: undefined }, "its answer is none of allow, deny and hold"],
    ["does not answer in time", "silence", "no answer within 5000 ms"],
  ] as const)("when it %s", async (_what, saying, cause) => {
    const { flow, plane, check } = await dispatchScene([saying]);
    const runId = await plane.start("w");
    await flow.pass(60_000);
    const job = await flow.job(jobOf(runId));
    expect([job.state, job.checked?.reason]).toEqual(["held", `the dispatch check failed: ${cause}`]);
    expect((await flow.events(runId)).filter((event) => event === "step_held a")).toHaveLength(1);
    const asked = check.questions.length;
    expect(asked).toBeGreaterThan(3);
    // From half a second to ten: a check that is down is not hammered.
    expect(asked).toBeLessThan(20);
    expect(plane.metrics.total("dispatch_checks_total", { verdict: "failed" })).toBeGreaterThanOrEqual(
      asked - 1,
    );
    expect((await why({ flow, plane }, runId)).waiting_for[0]).toMatchObject({ kind: "job_held" });
    check.says({ verdict: "allow" });
    single(await plane.poll({ waitMs: 20_000 }));
  });

  test("and its signal tells a check that nobody waits for it any more", async () => {
    const { flow, plane, check } = await dispatchScene(["silence"]);
    await plane.start("w");
    await flow.until(() => check.questions.length === 1);
    expect(check.questions[0]?.signal.aborted).toBe(false);
    await flow.pass(5_001);
    expect(check.questions[0]?.signal.aborted).toBe(true);
  });
});

describe("the job's lock", () => {
  const slow = { "dispatch.checkTimeoutMs": 600_000 } as const;
  /** Leaves the sweep to the other process, which so hears of the job by itself. */
  const sweepless = { ...slow, "process.roles": "gateway,scheduler" } as const;

  test("is renewed while the check takes its time, and given back", async () => {
    const { flow, plane, check } = await dispatchScene(["silence"], { overrides: slow });
    const runId = await plane.start("w");
    await flow.pass(200_000);
    expect(check.questions).toHaveLength(1);
    expect(plane.member.callsOf("renewLock").length).toBeGreaterThan(10);
    check.questions[0]?.answer({ verdict: "allow" });
    single(await plane.poll({ waitMs: 5_000 }));
    const lock = { namespace: "job", name: jobOf(runId) } as const;
    const inspect = () => flow.world.store.inspectLock({ tenant: acme, lock }, { deadlineMs: 100 });
    await flow.until(async () => (await inspect()).kind === "free", 1_000);
  });

  test("lost while the check runs: its verdict is never delivered, and that of the next process counts", async () => {
    const { flow, plane, check } = await dispatchScene(["silence"], { overrides: sweepless });
    const other = scriptedCheck(flow, { verdict: "deny", reason: "the second look" });
    const next = await flow.open("q", { overrides: slow, dispatchCheck: other.check });
    const runId = await plane.start("w");
    await flow.until(() => check.questions.length === 1);
    plane.member.fail({ renewLock: "request_lost", acquireLock: "unavailable" });
    await flow.until(() => check.questions[0]?.signal.aborted === true);
    expect(flow.nowMs()).toBeLessThan(54_000);
    check.questions[0]?.answer({ verdict: "allow" });
    expect(await flow.ended(runId, 300_000)).toBe("denied");
    expect([verdictsSent(plane), verdictsSent(next)]).toEqual([[], ["deny"]]);
    expect(plane.member.lines.map(({ message }) => message)).toContain("job lock abandoned: renewal failed");
    expect(plane.metrics.total("dispatch_checks_total", { verdict: "abandoned" })).toBe(1);
    expect((await flow.job(jobOf(runId))).checked?.reason).toBe("the second look");
  });

  test("lost to a pause: what the check said before it is not sent after it", async () => {
    const { flow, plane, check } = await dispatchScene(["silence"], { overrides: sweepless });
    const runId = await plane.start("w");
    await flow.until(() => check.questions.length === 1);
    plane.member.process.pause(200_000);
    plane.member.process.deliver(0, () => check.questions[0]?.answer({ verdict: "allow" }));
    const other = scriptedCheck(flow, { verdict: "deny" });
    const next = await flow.open("q", { overrides: slow, dispatchCheck: other.check });
    expect(await flow.ended(runId, 190_000)).toBe("denied");
    await flow.pass(200_000);
    expect(plane.member.process.state()).toBe("running");
    expect([verdictsSent(plane), verdictsSent(next)]).toEqual([[], ["deny"]]);
    expect(check.questions).toHaveLength(1);
  });

  test("held by another process makes this one leave the job alone, without a second question", async () => {
    const { flow, plane, check } = await dispatchScene(["silence"], { overrides: sweepless });
    const other = scriptedCheck(flow, { verdict: "deny" });
    const next = await flow.open("q", { overrides: slow, dispatchCheck: other.check });
    const runId = await plane.start("w");
    await flow.until(() => check.questions.length === 1);
    await flow.pass(120_000);
    expect([check.questions.length, other.questions.length]).toEqual([1, 0]);
    expect(next.member.lines.map(({ message }) => message)).toContain("job lock busy");
    check.questions[0]?.answer({ verdict: "allow" });
    await flow.until(async () => (await flow.job(jobOf(runId))).state === "ready");
    await flow.pass(120_000);
    expect(other.questions).toEqual([]);
  });
});

describe("schedulers", () => {
  test("two of them on one bus ask about each job once", async () => {
    const flow = new FlowWorld();
    const bus = flow.bus();
    const { plane, check } = await dispatchScene([{ verdict: "allow" }], { flow, bus });
    const other = scriptedCheck(flow, { verdict: "allow" });
    await flow.open("q", { bus, dispatchCheck: other.check });
    const runs = await flow.finish(
      Promise.all(
        Array.from({ length: 20 }, () => plane.api.startWorkflow({ caller: ann, workflow: "w", input: {} })),
      ),
    );
    expect(runs.every(({ kind }) => kind === "admitted")).toBe(true);
    await flow.pass(120_000);
    const asked = [...check.questions, ...other.questions].map(({ job }) => job.jobId);
    expect([asked.length, new Set(asked).size]).toEqual([20, 20]);
    expect(await plane.poll({ places: 50 })).toHaveLength(20);
  });

  test("one that starts later finds the jobs that nobody asked about", async () => {
    const flow = new FlowWorld();
    const gateway = { "dispatch.hold": "high", "process.roles": "gateway" } as const;
    const plane = await flow.open("p", { overrides: gateway });
    await plane.save("w", { a: work() }, { risk: "high" });
    const runId = await plane.start("w");
    await flow.pass(40_000);
    expect((await flow.job(jobOf(runId))).state).toBe("held");
    const check = scriptedCheck(flow, { verdict: "allow" });
    await flow.open("q", { dispatchCheck: check.check });
    await flow.until(async () => (await flow.job(jobOf(runId))).state === "ready", 90_000);
    expect(check.questions).toHaveLength(1);
    single(await plane.poll());
  });

  test("one that stops aborts its questions and gives the lock back, so that another asks at once", async () => {
    const flow = new FlowWorld();
    const bus = flow.bus();
    const overrides = { "dispatch.checkTimeoutMs": 600_000 };
    const { plane, check } = await dispatchScene(["silence"], { flow, bus: unclosed(bus), overrides });
    const runId = await plane.start("w");
    await flow.until(() => check.questions.length === 1);
    await plane.close();
    expect(check.questions[0]?.signal.aborted).toBe(true);
    const other = scriptedCheck(flow, { verdict: "deny" });
    await flow.open("q", { bus, dispatchCheck: other.check });
    expect(await flow.ended(runId, 5_000)).toBe("denied");
  });
});

function unclosed(bus: ReturnType<FlowWorld["bus"]>) {
  return { ...bus, close: async () => {} };
}

describe("asked why a run of high risk does not move", () => {
  test("the answer says that it is being asked about, by whom", async () => {
    const scene = await dispatchScene(["silence"]);
    const runId = await scene.plane.start("w");
    await scene.flow.until(() => scene.check.questions.length === 1);
    expect((await why(scene, runId)).waiting_for).toMatchObject([
      { kind: "job_held", because: "being_asked", detail: "p is asking the dispatch check about it." },
    ]);
  });

  test("the answer says what the check said last", async () => {
    const scene = await dispatchScene([{ verdict: "hold", reason: "waiting for the budget owner" }]);
    const runId = await scene.plane.start("w");
    await scene.flow.pass(1_000);
    const explained = await why(scene, runId);
    expect(explained.waiting_for).toMatchObject([
      {
        kind: "job_held",
        because: "held_by_check",
        last_reason: "waiting for the budget owner",
        job_id: jobOf(runId),
      },
    ]);
    expect(explained.summary).toContain("waiting for the budget owner");
  });

  test("the answer says that the check fails, and that nobody asks when nobody does", async () => {
    const scene = await dispatchScene([new Error("HTTP 503")]);
    const runId = await scene.plane.start("w");
    await scene.flow.pass(1_000);
    expect((await why(scene, runId)).waiting_for).toMatchObject([
      { because: "check_failed", last_reason: "the dispatch check failed: HTTP 503" },
    ]);
    const flow = new FlowWorld();
    const plane = await flow.open("p", { overrides: { "dispatch.hold": "high" } });
    await plane.save("w", { a: work() }, { risk: "high" });
    const alone = await plane.start("w");
    expect((await why({ flow, plane }, alone)).waiting_for).toMatchObject([{ because: "not_asked_yet" }]);
    await flow.pass(40_000);
    expect((await why({ flow, plane }, alone)).waiting_for).toMatchObject([{ because: "nobody_asks" }]);
  });
});
