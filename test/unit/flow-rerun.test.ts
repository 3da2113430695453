// A rerun takes over what was done and does the rest again; a dry run does nothing at all.
import { describe, expect, test } from "vitest";
import type { Fingerprint } from "../../src/domain/fingerprint.ts";
import type { RunId } from "../../src/domain/run.ts";
import { acme, ann, FlowWorld } from "../support/flow-world.ts";

const chain = {
  gather: { topic: "work", output_path: "facts" },
  write: { topic: "work", depends_on: ["gather"], input: { facts: "${ctx.facts}" } },
  review: { topic: "work", depends_on: ["write"], input: { text: "${steps.write.output}" } },
  aside: { topic: "work" },
};

/** Runs until somebody fails: `review` in the first run. */
async function failedRun() {
  const flow = new FlowWorld();
  const plane = await flow.open("one");
  await plane.save("chain", chain);
  const runId = await plane.start("chain", { order: 7 });
  for (let done = 0; done < 4; ) {
    for (const job of await plane.poll({ topics: ["work"], places: 4 })) {
      done += 1;
      if (job.job.step === "review") await plane.fail(job, "failed");
      else await plane.report(job, { by: job.job.step, order: JSON.parse(job.input) });
    }
  }
  expect(await flow.ended(runId)).toBe("failed");
  return { flow, plane, runId };
}

describe("a rerun", () => {
  test("takes over the steps before, with their outputs, and passes the gate as a run of its own", async () => {
    const { flow, plane, runId } = await failedRun();
    const started = await flow.finish(plane.api.rerunRun({ caller: ann, runId, fromStep: "review" }));
    expect(started.kind).toBe("admitted");
    const again = (started as { readonly runId: RunId }).runId;
    const [job, ...others] = await plane.poll({ topics: ["work"], places: 4 });
    expect(others).toEqual([]);
    expect(job?.job.step).toBe("review");
    expect(JSON.parse(job?.input ?? "null")).toEqual({
      text: { by: "write", order: { facts: { by: "gather", order: { order: 7 } } } },
    });
    if (job !== undefined) await plane.report(job, { fine: true });
    expect(await flow.ended(again)).toBe("succeeded");
    expect((await flow.step(again, "gather")).status).toBe("succeeded");
    expect((await flow.header(again)).definition).toBe((await flow.header(runId)).definition);
    await plane.close();
  });

  test("is told from a start by the endpoint of its decision, also when only its key is looked up", async () => {
    const { flow, plane, runId } = await failedRun();
    const decided = (endpoint: string) =>
      plane.metrics.observed("admission_wait_seconds", { endpoint }).length;
    expect([decided("start_run"), decided("rerun_run")]).toEqual([1, 0]);
    const key = { text: "k", fingerprint: "f" as Fingerprint };
    for (const fromStep of ["review", "nowhere"]) {
      await flow.finish(plane.api.rerunRun({ caller: ann, runId, fromStep, key }));
    }
    expect([decided("start_run"), decided("rerun_run")]).toEqual([1, 2]);
    await plane.close();
  });

  test("from the first step does all again that depends on it, and keeps the branch beside it", async () => {
    const { flow, plane, runId } = await failedRun();
    const planned = await flow.finish(plane.api.planRerun({ caller: ann, runId, fromStep: "gather" }));
    expect(planned).toEqual({ kind: "planned", kept: ["aside"], again: ["gather", "write", "review"] });
    const started = await flow.finish(plane.api.rerunRun({ caller: ann, runId, fromStep: "gather" }));
    const again = (started as { readonly runId: RunId }).runId;
    const steps: string[] = [];
    for (let done = 0; done < 3; done += 1) {
      for (const job of await plane.poll({ topics: ["work"], places: 4 })) {
        steps.push(job.job.step);
        await plane.report(job, {});
      }
    }
    expect(steps).toEqual(["gather", "write", "review"]);
    expect(await flow.ended(again)).toBe("succeeded");
    await plane.close();
  });

  test("with the same key is one run, and another request with that key is refused", async () => {
    const { flow, plane, runId } = await failedRun();
    const key = { text: "again-1", fingerprint: "v1:a" as never };
    const request = { caller: ann, runId, fromStep: "review", key };
    const [first, second] = await flow.finish(
      Promise.all([plane.api.rerunRun(request), plane.api.rerunRun(request)]),
    );
    expect([first.kind, second.kind].sort()).toEqual(["admitted", "replayed"]);
    expect((first as { runId: RunId }).runId).toBe((second as { runId: RunId }).runId);
    const other = { ...request, key: { ...key, fingerprint: "v1:b" as never } };
    expect((await flow.finish(plane.api.rerunRun(other))).kind).toBe("idempotency_key_reused");
    await plane.close();
  });

  test("is found again by its key when the run that it went on from is gone", async () => {
    const { flow, plane, runId } = await failedRun();
    const key = { text: "again-2", fingerprint: "v1:a" as never };
    const request = { caller: ann, runId, fromStep: "review", key };
    const first = await flow.finish(plane.api.rerunRun(request));
    expect(first.kind).toBe("admitted");
    expect((await flow.finish(plane.api.deleteRun({ caller: ann, runId }))).kind).toBe("deleted");
    const again = await flow.finish(plane.api.rerunRun(request));
    expect(again).toMatchObject({ kind: "replayed", runId: (first as { runId: RunId }).runId });
    const other = { ...request, key: { ...key, text: "again-3" } };
    expect((await flow.finish(plane.api.rerunRun(other))).kind).toBe("run_not_found");
    await plane.close();
  });

  test("needs a free slot like any start", async () => {
    const { flow, plane, runId } = await failedRun();
    await flow.tenant({ maxConcurrentRuns: 0 });
    const answer = await flow.finish(plane.api.rerunRun({ caller: ann, runId, fromStep: "review" }));
    expect(answer.kind).toBe("max_concurrent_runs_reached");
    await plane.close();
  });

  test("is refused for an unknown run or step, and where what it depends on was not done", async () => {
    const { flow, plane, runId } = await failedRun();
    const ask = (fromStep: string, of = runId) =>
      flow.finish(plane.api.rerunRun({ caller: ann, runId: of, fromStep }));
    expect(await ask("revue")).toEqual({
      kind: "rerun_not_possible",
      detail: "from_step: the run's workflow has no such step",
    });
    expect(await ask("review", "run_07_missing0000" as RunId)).toMatchObject({ kind: "run_not_found" });
    await plane.save("late", { a: { topic: "work" }, b: { topic: "work", depends_on: ["a"] } });
    const open = await plane.start("late");
    expect(await ask("b", open)).toEqual({
      kind: "rerun_not_possible",
      detail: "from_step: it depends on a, which did not succeed",
    });
    await plane.close();
  });

  test("of a run that is deleted meanwhile fails in words instead of doing everything again", async () => {
    const { flow, plane, runId } = await failedRun();
    const starting = plane.api.rerunRun({ caller: ann, runId, fromStep: "review" });
    const deleting = plane.api.deleteRun({ caller: ann, runId });
    const [started, deleted] = await flow.finish(Promise.all([starting, deleting]));
    expect(deleted.kind).toBe("deleted");
    if (started.kind === "admitted") {
      const status = await flow.ended(started.runId).catch(() => "open");
      const run = await flow.finish(plane.api.getRun({ tenant: acme, runId: started.runId }));
      const records = run.kind === "run" ? run.run.records : [];
      const state = records.find(({ key }) => key === "run")?.body ?? "";
      // Either it had read all it needed, or it says what it lacks.
      if (status === "failed") expect(state).toContain("rerun_source_lost");
      else expect((await flow.step(started.runId, "gather")).status).toBe("succeeded");
    } else expect(started.kind).toBe("run_not_found");
    await plane.close();
  });
});

describe("a dry run", () => {
  test("shows the steps in their order with their inputs, and stores nothing", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("one");
    await plane.save("refund", {
      check: { topic: "work", input: { order: "${input.order}" } },
      large: { type: "condition", condition: "input.amount > 100", depends_on: ["check"] },
      ask: {
        type: "approval",
        condition: "steps.large.output",
        depends_on: ["large"],
        input: { pay: "${input.amount}" },
      },
      wait: { type: "delay", delay_sec: 3_600, depends_on: ["ask"] },
      pay: { topic: "pay", depends_on: ["wait"], input: { account: "${steps.check.output.account}" } },
    });
    const request = {
      tenant: acme,
      workflow: "refund",
      input: { order: "A-1", amount: 250 },
      outputs: { check: { account: "DE12" }, pay: { receipt: 5 } },
    };
    const answer = await flow.finish(plane.api.dryRun(request));
    expect(answer).toMatchObject({ kind: "played", play: { status: "succeeded", truncated: false } });
    const steps = answer.kind === "played" ? answer.play.steps : [];
    expect(steps.map(({ step_id, status, input }) => [step_id, status, input])).toEqual([
      ["check", "succeeded", { order: "A-1" }],
      ["large", "succeeded", undefined],
      ["ask", "succeeded", { pay: 250 }],
      ["wait", "succeeded", undefined],
      ["pay", "succeeded", { account: "DE12" }],
    ]);
    const runs = await flow.finish(plane.api.listRuns({ tenant: acme, limit: 10 }));
    expect(runs).toMatchObject({ kind: "listed", runs: [] });
    await plane.close();
  });

  test("of an endless loop is cut short and says so", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("one");
    await plane.save("poll", {
      again: {
        type: "loop",
        input: { body: "look", max_iterations: 10_000, until: "steps.look.output.done == true" },
      },
      look: { topic: "work" },
    });
    const answer = await flow.finish(
      plane.api.dryRun({ tenant: acme, workflow: "poll", input: {}, outputs: { look: { done: false } } }),
    );
    expect(answer).toMatchObject({ kind: "played", play: { status: "running", truncated: true } });
    await plane.close();
  });

  test("plays lists, branches and child runs with the outputs it is given", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("one");
    await plane.save("mixed", {
      each: { topic: "work", for_each: "input.names", input: { name: "${item}", at: "${index}" } },
      which: {
        type: "switch",
        condition: "size(steps.each.output)",
        depends_on: ["each"],
        input: { cases: [{ value: 2, next: "two" }], default: "many" },
      },
      two: { type: "subworkflow", depends_on: ["which"], input: { workflow_id: "other" } },
      many: { type: "notify", depends_on: ["which"], input: { message: "many" } },
    });
    const answer = await flow.finish(
      plane.api.dryRun({
        tenant: acme,
        workflow: "mixed",
        input: { names: ["a", "b"] },
        outputs: { each: { ok: true }, two: { fine: 1 } },
      }),
    );
    const steps = answer.kind === "played" ? answer.play.steps : [];
    const shown = Object.fromEntries(steps.map((step) => [step.step_id, step]));
    expect(shown["each[1]"]).toMatchObject({ status: "succeeded", input: { name: "b", at: 1 } });
    expect(shown.each?.output).toEqual([{ ok: true }, { ok: true }]);
    expect(shown.two).toMatchObject({ status: "succeeded", output: { fine: 1 } });
    expect(shown.many).toMatchObject({ status: "skipped", skipped_because: "branch" });
    await plane.close();
  });

  test("of a workflow that is not there, or with an input that does not fit, is refused", async () => {
    const flow = new FlowWorld();
    const plane = await flow.open("one");
    const ask = { tenant: acme, workflow: "strict", input: {}, outputs: {} };
    expect(await flow.finish(plane.api.dryRun(ask))).toEqual({ kind: "workflow_not_found" });
    await plane.save(
      "strict",
      { a: { topic: "work" } },
      { input_schema: { type: "object", required: ["order"] } },
    );
    expect(await flow.finish(plane.api.dryRun(ask))).toMatchObject({ kind: "input_invalid" });
    await plane.close();
  });
});
