// A second result of a job that was reported before is refused, and nothing that follows reads it.
import { expect, test } from "vitest";
import { FlowWorld, type Steps, single, work } from "../support/flow-world.ts";

test("another result of a job that was reported before is not read by the steps that follow", async () => {
  const flow = new FlowWorld();
  const plane = await flow.open("p", { engine: "stopped" });
  const steps: Steps = {
    ...{ a: work(), b: work(), c: work(), d: work() },
    last: work({ depends_on: ["a", "b", "c", "d"], input: { of: "${steps.a.output}" }, topic: "last" }),
  };
  await plane.save("wide", steps);
  const runId = await plane.start("wide");
  const jobs = await plane.poll({ leaseMs: 600_000 });
  const jobOf = (step: string) => single(jobs.filter(({ job }) => job.step === step));
  const { release } = await flow.occupy(runId);
  await plane.report(jobOf("b"));
  await release();
  // Each commit of the owner is under way for a while: what is reported meanwhile waits in the inbox.
  plane.member.fail({ commit: () => ({ requestAfterMs: 100 }) });
  await plane.report(jobOf("a"), "first");
  await plane.report(jobOf("c"));
  await flow.until(() => plane.member.callsOf("commit").length === 2);
  expect(await plane.report(jobOf("a"), "second")).toEqual({ kind: "duplicate" });
  await plane.report(jobOf("d"));
  const last = single(await plane.poll({ topics: ["last"], waitMs: 5_000 }));
  expect(last.job.runId).toBe(runId);
  expect(JSON.parse(last.input)).toEqual({ of: "first" });
});

test("a result that was taken is known to the next one: what reads both is decided in one call", async () => {
  const flow = new FlowWorld();
  const plane = await flow.open("p", { engine: "stopped" });
  const input = { a: "${steps.a.output}", b: "${steps.b.output}" };
  await plane.save("join", {
    a: work(),
    b: work({ depends_on: ["a"] }),
    c: work({ depends_on: ["b"], input }),
  });
  await plane.start("join");
  for (const step of ["a", "b"]) {
    const job = single(await plane.poll());
    const before = plane.member.calls.length;
    await plane.report(job, step);
    expect(plane.member.calls.slice(before).map(({ name, answer }) => [name, answer])).toEqual([
      ["deliver", "applied"],
    ]);
  }
  expect(JSON.parse(single(await plane.poll()).input)).toEqual({ a: "a", b: "b" });
});
