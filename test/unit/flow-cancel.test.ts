// Calling runs off and removing them: what was running stops, what ended stays as it was, and slots are given back.
import { describe, expect, test } from "vitest";
import type { RunId } from "../../src/domain/run.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import { fingerprintOf } from "../../src/index.ts";
import {
  acme,
  ann,
  type FlowPlane,
  FlowWorld,
  only,
  sideBySide,
  single,
  work,
  workerCaller,
} from "../support/flow-world.ts";

async function running(more: { readonly limit?: number } = {}) {
  const flow = new FlowWorld();
  const plane = await flow.open("p");
  if (more.limit !== undefined) await flow.tenant({ maxConcurrentRuns: more.limit });
  await plane.save("two", { a: work(), b: work({ depends_on: ["a"] }) });
  const runId = await plane.start("two");
  return { flow, plane, runId };
}

const cancel = (flow: FlowWorld, plane: FlowPlane, runId: RunId) =>
  flow.finish(plane.api.cancelRun({ caller: ann, runId, reason: "enough" }));
const remove = (flow: FlowWorld, plane: FlowPlane, runId: RunId) =>
  flow.finish(plane.api.deleteRun({ caller: ann, runId }));

async function activeCount(flow: FlowWorld): Promise<number> {
  return only(await flow.world.store.countActive({ tenant: acme }, { deadlineMs: 100 }), "counted").active;
}

describe("a cancel", () => {
  test("while a job runs ends the run: the job is called off, its result refused, the slot free", async () => {
    const { flow, plane, runId } = await running({ limit: 1 });
    const job = single(await plane.poll());
    expect(await cancel(flow, plane, runId)).toEqual({ kind: "cancelling" });
    expect(await flow.ended(runId)).toBe("cancelled");
    expect((await flow.job(job.job.jobId)).state).toBe("voided");
    expect(await plane.report(job)).toEqual({ kind: "run_ended" });
    expect(await activeCount(flow)).toBe(0);
    expect((await flow.step(runId, "b")).status).toBe("pending");
    await plane.start("two");
  });

  test("before anybody claimed its job: nobody ever does", async () => {
    const { flow, plane, runId } = await running();
    await cancel(flow, plane, runId);
    expect(await plane.poll({ waitMs: 1_000 })).toEqual([]);
  });

  test("stops claims from the moment it is accepted, although the run's owner has not applied it yet", async () => {
    const { flow, plane, runId } = await running();
    const { release } = await flow.occupy(runId);
    await cancel(flow, plane, runId);
    expect(await flow.status(runId)).toBe("running");
    expect(await plane.poll({ waitMs: 1_000 })).toEqual([]);
    await release();
    expect(await flow.ended(runId)).toBe("cancelled");
  });

  test("of a run that has ended says how it ended, and leaves it as it was", async () => {
    const { flow, plane, runId } = await running();
    await plane.report(single(await plane.poll()));
    await plane.report(single(await plane.poll()));
    expect(await flow.ended(runId)).toBe("succeeded");
    const before = await flow.header(runId);
    expect(await cancel(flow, plane, runId)).toEqual({ kind: "run_ended", runStatus: "succeeded" });
    expect(await flow.header(runId)).toEqual(before);
  });

  test("of a run that is being cancelled says so, and is counted once", async () => {
    const { flow, plane, runId } = await running();
    const { release } = await flow.occupy(runId);
    expect(await cancel(flow, plane, runId)).toEqual({ kind: "cancelling" });
    expect(await cancel(flow, plane, runId)).toEqual({ kind: "cancelling" });
    await release();
    expect(await flow.ended(runId)).toBe("cancelled");
    expect((await flow.events(runId)).filter((event) => event === "run_cancelled")).toHaveLength(1);
  });

  test("whose answer is lost is asked again and found", async () => {
    const { flow, plane, runId } = await running();
    plane.member.fail({ deliver: ["reply_lost"] });
    expect(await cancel(flow, plane, runId)).toEqual({ kind: "cancelling" });
    expect(await flow.ended(runId)).toBe("cancelled");
    expect((await flow.events(runId)).filter((event) => event === "run_cancelled")).toHaveLength(1);
  });

  test("of a run that does not exist, or of another tenant, finds nothing", async () => {
    const { flow, plane, runId } = await running();
    expect(await cancel(flow, plane, "run_00_aaaaaaaa" as RunId)).toEqual({ kind: "run_not_found" });
    const stranger = { tenant: "beta" as TenantId, actor: "eve" };
    expect(await flow.finish(plane.api.cancelRun({ caller: stranger, runId, reason: "mine" }))).toEqual({
      kind: "run_not_found",
    });
    expect(await flow.status(runId)).toBe("running");
  });

  test("that the store does not answer is trouble, never a no", async () => {
    const { flow, plane, runId } = await running();
    plane.member.fail({ deliver: "request_lost" });
    expect((await cancel(flow, plane, runId)).kind).toBe("unknown");
    plane.member.fail({ deliver: "unavailable" });
    expect((await cancel(flow, plane, runId)).kind).toBe("unavailable");
    expect(await flow.status(runId)).toBe("running");
  });

  test("at the same moment as the last result gives one end, which stays", async () => {
    const ends = new Set<string>();
    for (let seed = 1; seed <= 30; seed += 1) {
      const flow = new FlowWorld({ seed, travelMsMax: 4 });
      const p = await flow.open("p", { engine: "stopped" });
      const q = await flow.open("q", { engine: "stopped" });
      await p.save("one", { a: work() });
      const runId = await p.start("one");
      const { job, token } = single(await p.poll());
      const report = { jobId: job.jobId, token, outcome: "succeeded" } as const;
      const both = Promise.all([
        p.api.reportResult({ caller: workerCaller, ...report }),
        q.api.cancelRun({ caller: ann, runId, reason: "enough" }),
      ]);
      const [reported, cancelled] = await flow.finish(both);
      const end = await flow.ended(runId);
      ends.add(end);
      if (end === "succeeded") {
        expect(reported.kind).toBe("accepted");
        // Accepted before the run had ended, and then nothing was left to cancel; or told that it had.
        expect(["run_ended", "cancelling"]).toContain(cancelled.kind);
      } else {
        expect(end).toBe("cancelled");
        expect(cancelled.kind).toBe("cancelling");
      }
      expect(await activeCount(flow)).toBe(0);
      expect(
        (await flow.events(runId)).filter((event) => event === "run_completed").length,
      ).toBeLessThanOrEqual(1);
    }
    expect([...ends].sort()).toEqual(["cancelled", "succeeded"]);
  });

  test("of a run with a thousand open steps ends it with all of them called off", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    await plane.save("wide", sideBySide(1_000));
    const runId = await plane.start("wide");
    await flow.until(async () => (await flow.step(runId, "s999")).status === "running");
    await cancel(flow, plane, runId);
    expect(await flow.ended(runId)).toBe("cancelled");
    expect(await plane.poll({ places: 100 })).toEqual([]);
    expect(await activeCount(flow)).toBe(0);
  });
});

describe("a delete", () => {
  test("of a run that has ended removes it", async () => {
    const { flow, plane, runId } = await running();
    await cancel(flow, plane, runId);
    await flow.ended(runId);
    expect(await remove(flow, plane, runId)).toEqual({ kind: "deleted" });
    expect((await flow.finish(plane.api.getRun({ tenant: acme, runId }))).kind).toBe("run_not_found");
    expect(await remove(flow, plane, runId)).toEqual({ kind: "run_not_found" });
  });

  test("of a live run cancels it first: its job is told to stop, its slot is free", async () => {
    const { flow, plane, runId } = await running({ limit: 1 });
    const job = single(await plane.poll());
    expect(await remove(flow, plane, runId)).toEqual({ kind: "deleted" });
    expect(await plane.report(job)).toEqual({ kind: "run_not_found" });
    const beat = plane.api.heartbeat({
      caller: workerCaller,
      worker: "w",
      beats: [{ jobId: job.job.jobId, token: job.token }],
    });
    expect(only(await flow.finish(beat), "judged").answers).toMatchObject([{ kind: "lost" }]);
    expect(await activeCount(flow)).toBe(0);
  });

  test("of a run whose owner does not let go is refused after 3 s, cancels it all the same, and works later", async () => {
    const { flow, plane, runId } = await running();
    const { release } = await flow.occupy(runId);
    const startedMs = flow.nowMs();
    expect(await remove(flow, plane, runId)).toEqual({ kind: "run_not_ended" });
    expect(flow.nowMs() - startedMs).toBeGreaterThanOrEqual(3_000);
    expect(flow.nowMs() - startedMs).toBeLessThan(3_100);
    await release();
    expect(await flow.ended(runId)).toBe("cancelled");
    expect(await remove(flow, plane, runId)).toEqual({ kind: "deleted" });
  });

  test("of a large run goes on until the last part is gone", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("p");
    await plane.save("wide", sideBySide(600));
    const runId = await plane.start("wide");
    await flow.until(async () => (await flow.step(runId, "s599")).status === "running");
    expect(await remove(flow, plane, runId)).toEqual({ kind: "deleted" });
    expect(
      plane.member.callsOf("deleteRun").filter(({ answer }) => answer === "more").length,
    ).toBeGreaterThan(0);
    expect(flow.world.records.size("job", `${acme}/${runId}`)).toBe(0);
    expect(flow.world.records.size("runRecord", `${acme}/${runId}`)).toBe(0);
  });

  test("of another tenant's run finds nothing", async () => {
    const { flow, plane, runId } = await running();
    const stranger = { tenant: "beta" as TenantId, actor: "eve" };
    expect(await flow.finish(plane.api.deleteRun({ caller: stranger, runId }))).toEqual({
      kind: "run_not_found",
    });
    expect(await flow.status(runId)).toBe("running");
  });

  test("leaves the key of the run bound: a repeated start is still told of it, and makes no second run", async () => {
    const { flow, plane } = await running();
    const fingerprint = fingerprintOf({ method: "POST", path: "/w", query: {}, body: {} });
    const request = { caller: ann, workflow: "two", input: {}, key: { text: "once", fingerprint } };
    const first = only(await flow.finish(plane.api.startWorkflow(request)), "admitted");
    await remove(flow, plane, first.runId);
    const again = await flow.finish(plane.api.startWorkflow(request));
    expect(again).toMatchObject({ kind: "replayed", runId: first.runId, status: "cancelled" });
  });
});
