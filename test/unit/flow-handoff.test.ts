// Results of one run that arrive together: handed over and applied once each by the run's owner, also when owners die.
import { describe, expect, test } from "vitest";
import type { ClaimedJob } from "../../src/control/jobs/offers.ts";
import type { RunId } from "../../src/domain/run.ts";
import {
  type acme,
  type FlowPlane,
  FlowWorld,
  type Overrides,
  type Steps,
  sideBySide,
  single,
  work,
  workerCaller,
} from "../support/flow-world.ts";

function reportOf({ job, token }: ClaimedJob, output: boolean | string = job.step) {
  return { jobId: job.jobId, token, outcome: "succeeded", output } as const;
}

/** Every step that was completed, as often as it was. */
async function completedSteps(flow: FlowWorld, runId: RunId): Promise<readonly string[]> {
  const events = await flow.events(runId);
  return events.filter((event) => event.startsWith("step_completed")).sort();
}

async function wideRun(flow: FlowWorld, plane: FlowPlane, amount: number) {
  await plane.save("wide", sideBySide(amount));
  const runId = await plane.start("wide");
  await flow.until(async () => (await flow.status(runId)) === "running");
  const jobs: ClaimedJob[] = [];
  while (jobs.length < amount) jobs.push(...(await plane.poll({ places: amount })));
  return { runId, jobs };
}

describe("two hundred results of one run at once", () => {
  test.each([1, 2, 3])(
    "are all applied without a single retry, from three processes (seed %d)",
    async (seed) => {
      const flow = new FlowWorld({ seed, travelMsMax: 3 });
      const planes = [await flow.open("p"), await flow.open("q"), await flow.open("r")];
      const { runId, jobs } = await wideRun(flow, planes[0] as FlowPlane, 200);
      const startedMs = flow.nowMs();
      const reports = jobs.map((job, index) =>
        (planes[index % 3] as FlowPlane).api.reportResult({ caller: workerCaller, ...reportOf(job) }),
      );
      const answers = await flow.finish(Promise.all(reports));
      expect(answers.map(({ kind }) => kind)).toEqual(jobs.map(() => "accepted"));
      expect(await flow.ended(runId)).toBe("succeeded");
      expect(flow.nowMs() - startedMs).toBeLessThan(200);
      expect(new Set(await completedSteps(flow, runId)).size).toBe(200);
      expect(await completedSteps(flow, runId)).toHaveLength(200);
      const count = (name: "lock_busy_retries_total" | "inbox_handoffs_total") =>
        planes.reduce((sum, { metrics }) => sum + metrics.total(name), 0);
      expect(count("lock_busy_retries_total")).toBe(0);
      expect(count("inbox_handoffs_total")).toBeGreaterThan(0);
      expect(planes.reduce((sum, { member }) => sum + member.callsOf("deliver").length, 0)).toBe(200);
    },
  );
});

describe("an owner that dies", () => {
  /** The result of `a` puts up `b`; the process that took it dies at its nth call after that. */
  async function diesAtCall(nth: number) {
    const flow = new FlowWorld();
    let armed = false;
    let sent = 0;
    const plane: FlowPlane = await flow.open("p", {
      engine: "stopped",
      overrides: { "engine.cachedRunsMax": 0 },
      onSend: () => {
        if (!armed) return;
        sent += 1;
        // The call itself still arrives: a process may die right after it sent, and before anything is answered.
        if (sent === nth) queueMicrotask(() => plane.member.process.crash());
      },
    });
    await plane.save("chain", { a: work(), b: work({ depends_on: ["a"], topic: "later" }) });
    const runId = await plane.start("chain");
    const job = single(await plane.poll());
    armed = true;
    const report = plane.api.reportResult({ caller: workerCaller, ...reportOf(job) });
    void report.catch(() => {});
    await flow.pass(100);
    return { flow, runId, job, calls: () => sent };
  }

  test("after taking the run leaves it to the sweep of another, within its ttl and a few seconds", async () => {
    const { flow, runId, job } = await diesAtCall(1);
    expect((await flow.job(job.job.jobId)).state).toBe("reported");
    expect(await flow.isLocked(runId)).toBe(true);
    await flow.open("q");
    const waitedMs = await flow.until(async () => (await flow.step(runId, "b")).status === "running");
    expect(waitedMs).toBeGreaterThanOrEqual(4_800);
    expect(waitedMs).toBeLessThan(11_000);
  });

  test("at any of its calls loses nothing and applies nothing twice", async () => {
    const { calls } = await diesAtCall(1_000);
    const all = calls();
    expect(all).toBeGreaterThanOrEqual(2);
    for (let nth = 1; nth <= all; nth += 1) {
      const { flow, runId, job } = await diesAtCall(nth);
      const next = await flow.open("q");
      // The worker did not hear of it and reports again, as it must.
      const answer = await next.report(job, "a");
      expect(["accepted", "duplicate"]).toContain(answer.kind);
      await flow.until(async () => (await flow.step(runId, "b")).status === "running", 20_000);
      const second = single(await next.poll({ topics: ["later"], waitMs: 1_000 }));
      await next.report(second);
      expect(await flow.ended(runId)).toBe("succeeded");
      expect(await completedSteps(flow, runId)).toEqual(["step_completed a", "step_completed b"]);
    }
  });

  test("five times over the same entry has it set aside, and the run ends instead of being tried for ever", async () => {
    const flow = new FlowWorld();
    const first = await flow.open("p0", { engine: "stopped", overrides: { "engine.cachedRunsMax": 0 } });
    await first.save("one", { a: work() });
    const runId = await first.start("one");
    const job = single(await first.poll({ leaseMs: 600_000 }));
    first.member.fail({ commit: "request_lost" });
    await first.report(job);
    first.member.process.crash();
    for (let index = 1; index <= 4; index += 1) {
      const owner = await flow.open(`p${index}`);
      owner.member.fail({ loadRun: "request_lost" });
      await flow.until(() => owner.member.callsOf("loadRun").length > 0);
      owner.member.process.crash();
    }
    const sound = await flow.open("sound");
    expect(await flow.ended(runId)).toBe("failed");
    const [letter] = await flow.letters();
    const entry = { kind: "result", jobId: job.job.jobId };
    expect(letter?.body).toMatchObject({ reason: "poisoned_entry", run_id: runId, entry });
    expect((await flow.step(runId, "a")).error?.code).toBe("poisoned_entry");
    await flow.pass(10);
    expect(sound.metrics.total("runs_ended_total", { status: "failed" })).toBe(1);
  });
});

describe("a result decided in advance", () => {
  const chain: Steps = { a: work(), b: work({ depends_on: ["a"] }), c: work({ depends_on: ["b"] }) };

  test("costs one store operation, and no lock", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p", { engine: "stopped" });
    await plane.save("chain", chain);
    const runId = await plane.start("chain");
    for (let index = 0; index < 3; index += 1) {
      const job = single(await plane.poll());
      const before = plane.member.calls.length;
      await plane.report(job);
      const names = plane.member.calls.slice(before).map(({ name }) => name);
      expect(names.filter((name) => name !== "getTenant")).toEqual(["deliver"]);
      expect(await flow.isLocked(runId)).toBe(false);
    }
    expect(await flow.status(runId)).toBe("succeeded");
    expect(plane.member.callsOf("deliver").map(({ answer }) => answer)).toEqual([
      "applied",
      "applied",
      "applied",
    ]);
  });

  test("is refused when the run has moved on, and then decided from the run as it is", async () => {
    const flow = new FlowWorld();
    const p = await flow.open("p", { engine: "stopped" });
    const q = await flow.open("q", { engine: "stopped" });
    const condition = "steps.a.output == true && steps.b.output == true";
    await p.save("join", { a: work(), b: work(), c: work({ depends_on: ["a", "b"], condition }) });
    const runId = await p.start("join");
    const jobs = await p.poll();
    const jobOf = (step: string) => single(jobs.filter(({ job }) => job.step === step));
    await q.report(jobOf("b"), true);
    await flow.pass(1);
    await p.report(jobOf("a"), true);
    await flow.pass(10);
    expect(p.member.callsOf("deliver").map(({ answer }) => answer)).toEqual(["delivered"]);
    expect(p.member.callsOf("commit").map(({ answer }) => answer)).toEqual(["committed"]);
    expect((await flow.step(runId, "c")).status).toBe("running");
  });

  test("while the one before it is still on its way goes to the inbox and is applied after it", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p", { engine: "stopped" });
    await plane.save("wide", sideBySide(2));
    const runId = await plane.start("wide");
    const jobs = await plane.poll();
    const reports = jobs.map((job) => plane.api.reportResult({ caller: workerCaller, ...reportOf(job) }));
    await flow.finish(Promise.all(reports));
    expect(await flow.ended(runId)).toBe("succeeded");
    const proposed = plane.member.callsOf("deliver").map(({ request }) => "proposal" in request);
    expect(proposed).toEqual([true, false]);
  });

  test("whose reply is lost is asked again, and found applied", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p", { engine: "stopped" });
    await plane.save("chain", chain);
    const runId = await plane.start("chain");
    const job = single(await plane.poll());
    plane.member.fail({ deliver: ["reply_lost"] });
    expect(await plane.report(job)).toEqual({ kind: "accepted" });
    expect((await flow.header(runId)).version).toBe(2);
    expect(single(await plane.poll()).job.step).toBe("b");
  });
});

describe("a result that arrives while its run is being changed", () => {
  test("is seen by the conditions that read it, although its payload was missing an entry ago", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p", { engine: "stopped", overrides: { "engine.cachedRunsMax": 0 } });
    const condition = "steps.a.output == true && steps.b.output == true";
    await plane.save("join", { a: work(), b: work(), both: work({ depends_on: ["a", "b"], condition }) });
    const runId = await plane.start("join");
    const jobs = await plane.poll();
    const jobOf = (step: string) => single(jobs.filter(({ job }) => job.step === step));
    // The owner has loaded all that `a` may need, and its commit is on its way when `b` is handed over.
    plane.member.fail({ commit: [{ requestAfterMs: 100 }] });
    await plane.report(jobOf("a"), true);
    await flow.pass(50);
    await plane.report(jobOf("b"), true);
    expect(plane.metrics.total("inbox_handoffs_total")).toBe(1);
    await flow.pass(200);
    expect((await flow.step(runId, "both")).status).toBe("running");
  });
});

describe("what processes remember of a run", () => {
  type Given = { readonly a: boolean; readonly b: boolean; readonly c: boolean };

  /** A run that branches by what its steps gave, driven by two processes at once. Gives the run as it ended. */
  async function outcome(seed: number, overrides: Overrides) {
    const flow = new FlowWorld({ seed, travelMsMax: 4 });
    const planes = [await flow.open("p", { overrides }), await flow.open("q", { overrides })] as const;
    const yes = (step: string) => `steps.${step}.output == true`;
    const steps: Steps = {
      a: work(),
      b: work(),
      c: work(),
      ab: work({ depends_on: ["a", "b"], condition: `${yes("a")} && ${yes("b")}` }),
      bc: work({ depends_on: ["b", "c"], condition: `${yes("b")} || ${yes("c")}` }),
      end: {
        type: "transform",
        depends_on: ["ab", "bc"],
        input: { ab: "${steps.ab.status}", bc: "${steps.bc.status}" },
      },
    };
    await planes[0].save("branching", steps);
    const runId = await planes[0].start("branching");
    const random = flow.kernel.random.stream("results");
    const given: Given = {
      a: random.chance(0.5),
      b: random.chance(0.5),
      c: random.chance(0.5),
    };
    while ((await flow.header(runId)).endedAtMs === undefined) {
      const jobs = [...(await planes[0].poll()), ...(await planes[1].poll())];
      const reports = jobs.map(async (job) => {
        const plane = random.pick(planes);
        await plane.member.process.clock.sleep(random.integer(1, 6));
        return plane.api.reportResult({
          caller: workerCaller,
          ...reportOf(job, given[job.job.step as keyof Given] ?? true),
        });
      });
      await flow.finish(Promise.all(reports));
      await flow.pass(50);
    }
    const names = Object.keys(steps);
    const statuses = await Promise.all(
      names.map(async (name) => [name, (await flow.step(runId, name)).status]),
    );
    return { given, statuses: Object.fromEntries(statuses) as { ab: string; bc: string; end: string } };
  }

  test("never decides anything differently: the same results give the same run, remembered or not", async () => {
    for (let seed = 1; seed <= 25; seed += 1) {
      const { given, statuses } = await outcome(seed, {});
      const forgetful = await outcome(seed, { "engine.cachedRunsMax": 0 });
      expect(forgetful).toEqual({ given, statuses });
      const { a, b, c } = given;
      const { ab, bc, end } = statuses;
      expect(ab).toBe(a && b ? "succeeded" : "skipped");
      expect(bc).toBe(b || c ? "succeeded" : "skipped");
      expect(end).toBe("succeeded");
    }
  });

  test("is never another tenant's, whatever run a caller names", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p", { engine: "stopped" });
    await plane.save("one", { a: work() });
    await plane.start("one");
    const job = single(await plane.poll());
    const stranger = { tenant: "beta" as typeof acme, actor: "worker:x" };
    const answer = await flow.finish(plane.api.reportResult({ caller: stranger, ...reportOf(job) }));
    expect(answer).toEqual({ kind: "run_not_found" });
    expect((await flow.job(job.job.jobId)).state).toBe("claimed");
    expect(await plane.report(job)).toEqual({ kind: "accepted" });
  });
});
