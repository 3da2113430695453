// The places that workers offer: whatever becomes of the call that was to fill one, it is free again or taken, never lost.
import { describe, expect, test } from "vitest";
import { engineTerms } from "../../src/control/engine/engine.ts";
import type { ClaimedJob } from "../../src/control/jobs/offers.ts";
import { loadConfig } from "../../src/load-config.ts";
import type { OperationName } from "../../src/ports/store.ts";
import { ann, FlowWorld, only, pollOf, single, work, workerCaller } from "../support/flow-world.ts";

/** A process whose next call of the operation named throws: its client is broken, and nothing was sent. */
async function setUp() {
  const flow = new FlowWorld();
  let broken: OperationName | undefined;
  const plane = await flow.open("p", {
    overrides: { "sweep.everyMs": 500 },
    onSend({ name }) {
      if (name !== broken) return;
      broken = undefined;
      throw new Error("the client is broken");
    },
  });
  const breakNext = (name: OperationName) => {
    broken = name;
  };
  // An input of its own is written with the job, so that any commit can hand the job to a worker.
  await plane.save("chain", { a: work(), b: work({ depends_on: ["a"], input: { of: "b" } }) });
  return { flow, plane, breakNext };
}

/** A worker with one place that waits for a job. */
const oneWaits = (worker: string) => pollOf({ worker, places: 1, waitMs: 20_000 });

describe("a place promised in a call that throws is free again", () => {
  test("in the admission of a run", async () => {
    const { flow, plane, breakNext } = await setUp();
    const poll = plane.api.pollJobs(oneWaits("v"));
    await flow.pass(10);
    breakNext("admit");
    await expect(plane.start("chain")).rejects.toThrow("the client is broken");
    const runId = await plane.start("chain");
    expect(single(only(await flow.finish(poll), "jobs").jobs).job.runId).toBe(runId);
    expect(plane.member.callsOf("claimJobs")).toEqual([]);
  });

  test("in a result that was decided in advance, whose run goes on as well", async () => {
    const { flow, plane, breakNext } = await setUp();
    await plane.start("chain");
    const first = single(await plane.poll({ places: 1 }));
    const claims = plane.member.callsOf("claimJobs").length;
    const poll = plane.api.pollJobs(oneWaits("v"));
    await flow.pass(10);
    breakNext("deliver");
    await expect(plane.report(first)).rejects.toThrow("the client is broken");
    expect(await plane.report(first)).toEqual({ kind: "accepted" });
    expect(single(only(await flow.finish(poll), "jobs").jobs).job.step).toBe("b");
    expect(plane.member.callsOf("claimJobs")).toHaveLength(claims);
  });

  test("in the commit of a run's owner", async () => {
    const { flow, plane, breakNext } = await setUp();
    const runId = await plane.start("chain");
    const first = single(await plane.poll({ places: 1 }));
    const claims = plane.member.callsOf("claimJobs").length;
    const owner = await flow.occupy(runId);
    const poll = plane.api.pollJobs(oneWaits("v"));
    await flow.pass(10);
    expect(await plane.report(first)).toEqual({ kind: "accepted" });
    breakNext("commit");
    await owner.release();
    await flow.until(() => plane.member.callsOf("commit").length > 0);
    expect(single(only(await flow.finish(poll), "jobs").jobs).job.step).toBe("b");
    expect(plane.member.callsOf("claimJobs")).toHaveLength(claims);
  });

  test("in a claim, and the job waits for the next one", async () => {
    const { flow, plane, breakNext } = await setUp();
    const poll = plane.api.pollJobs(oneWaits("v"));
    await flow.pass(10);
    const runId = await plane.start("chain");
    const first = single(only(await flow.finish(poll), "jobs").jobs);
    await plane.report(first);
    breakNext("claimJobs");
    await expect(flow.finish(plane.api.pollJobs(pollOf({ caller: workerCaller })))).rejects.toThrow("broken");
    const listed = plane.member.callsOf("listReadyJobs").length;
    expect(single(await plane.poll()).job).toMatchObject({ runId, step: "b" });
    // It was still remembered: nobody had to look for it.
    expect(plane.member.callsOf("listReadyJobs")).toHaveLength(listed);
  });

  test("in a claim that another worker's poll has sent", async () => {
    const { flow, plane, breakNext } = await setUp();
    // Busy with two others, so that the one that waits gets the next job.
    await plane.start("chain");
    await plane.start("chain");
    await plane.poll({ worker: "w", places: 2 });
    plane.member.fail({ listReadyJobs: [{ replyAfterMs: 200 }] });
    const idle = plane.api.pollJobs(oneWaits("v"));
    await flow.pass(10);
    const bus = flow.bus();
    const other = await flow.open("q", { bus, engine: "stopped" });
    await flow.finish(other.api.startWorkflow({ caller: ann, workflow: "chain", input: {} }));
    breakNext("claimJobs");
    const asked = flow.finish(plane.api.pollJobs(pollOf({ worker: "w", places: 1, waitMs: 100 })));
    await expect(asked).rejects.toThrow("broken");
    expect(only(await flow.finish(idle), "jobs").jobs).toHaveLength(1);
  });
});

test("a place promised by a proposal is free again when the run's owner in this process commits before the answer", async () => {
  const { flow, plane } = await setUp();
  const c = work({ depends_on: ["a"], topic: "next", input: { of: "c" } });
  const d = work({ depends_on: ["c"], input: { of: "d" } });
  await plane.save("fork", { a: work(), b: work(), c, d });
  const runId = await plane.start("fork");
  const [first, second] = (await plane.poll({ places: 2 })) as [ClaimedJob, ClaimedJob];
  // Two commits of the owner, each on its way for a while: what is reported meanwhile waits in the inbox.
  const late = { requestAfterMs: 100 };
  plane.member.fail({ commit: [late, late], deliver: ["ok", "ok", { replyAfterMs: 150 }] });
  const commits = (amount: number) => flow.until(() => plane.member.callsOf("commit").length === amount);
  const other = await flow.occupy(runId);
  expect(await plane.report(first.job.step === "a" ? first : second)).toEqual({ kind: "accepted" });
  await other.release();
  await commits(1);
  expect(await plane.report(first.job.step === "a" ? second : first)).toEqual({ kind: "accepted" });
  await commits(2);
  // The run is remembered as the first commit left it: the result of `c` is decided in advance, and `d` promised to `v`.
  const third = single(await plane.poll({ topics: ["next"], places: 1 }));
  const poll = plane.api.pollJobs(oneWaits("v"));
  await flow.pass(1);
  expect(await plane.report(third)).toEqual({ kind: "accepted" });
  const { request } = plane.member.callsOf("deliver").at(-1) ?? {};
  expect(request).toMatchObject({ proposal: { change: { jobs: [{ claim: { worker: "v" } }] } } });
  expect(plane.member.callsOf("commit").length).toBeGreaterThan(2);
  await plane.start("chain");
  expect(only(await flow.finish(poll), "jobs").jobs).toHaveLength(1);
});

describe("a poll whose time is over", () => {
  test("waits for the job that it was promised, and no longer", async () => {
    const { flow, plane } = await setUp();
    const startedMs = flow.nowMs();
    const poll = plane.api.pollJobs(pollOf({ worker: "v", places: 1, waitMs: 1_000 }));
    plane.member.fail({ admit: [{ replyAfterMs: 200 }] });
    flow.kernel.after(900, () => void plane.api.startWorkflow({ caller: ann, workflow: "chain", input: {} }));
    expect(only(await flow.finish(poll), "jobs").jobs).toHaveLength(1);
    expect(flow.nowMs() - startedMs).toBeGreaterThanOrEqual(1_100);
    expect(flow.nowMs() - startedMs).toBeLessThan(1_110);
  });

  test("does not wait for longer than one call may take", async () => {
    const { flow, plane } = await setUp();
    const { callTimeoutMs } = engineTerms(loadConfig().config).store;
    const startedMs = flow.nowMs();
    const poll = plane.api.pollJobs(pollOf({ worker: "v", places: 1, waitMs: 1_000 }));
    plane.member.fail({ admit: { replyAfterMs: 600_000 } });
    flow.kernel.after(999, () => void plane.api.startWorkflow({ caller: ann, workflow: "chain", input: {} }));
    expect(only(await flow.finish(poll), "jobs").jobs).toEqual([]);
    expect(flow.nowMs() - startedMs).toBeLessThan(1_010 + callTimeoutMs);
  });
});
