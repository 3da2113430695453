// What steps of several types do together, on every store: many items, nested runs, limits, schemas, branches side by side.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { PermanentFailure } from "../../src/control/jobs/in-process-worker.ts";
import type { RunId } from "../../src/domain/run.ts";
import { type StoreHost, startStoreHost, storeNames } from "../support/stores.ts";
import { expectOnce, soon, work } from "./step-types-table.ts";
import { type Scene, type Steps, until, World, type WorldOptions } from "./step-types-world.ts";

const amount = 300;
const numbers = Array.from({ length: amount }, (_, index) => index);

describe.each(storeNames)("%s", (store) => {
  let host: StoreHost;
  let world: World;
  const worlds: World[] = [];
  let scenes = 0;

  async function openWorld(options: WorldOptions = {}): Promise<World> {
    const opened = await World.open(host, options);
    worlds.push(opened);
    return opened;
  }

  function scene(at: World = world): Scene {
    scenes += 1;
    return at.scene(`flow-${scenes}`);
  }

  beforeAll(async () => {
    host = await startStoreHost(store);
    world = await openWorld();
  });

  afterAll(async () => {
    await Promise.all(worlds.map((one) => one.close()));
    await host?.close();
  });

  test("a for_each of 300 items never has more open jobs than it may, and does every item once", async () => {
    const here = scene();
    await here.save("flow", {
      it: work({ for_each: "input.items", max_parallel: 7, input: { n: "${item}" } }),
    });
    const open = new Set<string>();
    let most = 0;
    const done: number[] = [];
    here.worker(async ({ jobId, input }) => {
      open.add(jobId);
      const ready = await here.api.listReadyJobs({ tenant: here.tenant, topic: "work", limit: 100 });
      if (ready.kind !== "listed") throw new PermanentFailure(ready.kind);
      for (const job of ready.jobs) open.add(job.jobId);
      most = Math.max(most, open.size);
      const { n } = input as { n: number };
      done.push(n);
      open.delete(jobId);
      return n;
    });
    const ended = await here.ended(await here.start("flow", { items: numbers }));
    expect(ended.status).toBe("succeeded");
    expect(ended.steps.it?.output).toEqual(numbers);
    expect(done.toSorted((left, right) => left - right)).toEqual(numbers);
    expect(most).toBe(7);
    expectOnce(ended);
    await here.expectNothingOpen();
  });

  test("told to continue, a for_each does all other items and fails at the end", async () => {
    const here = scene();
    await here.save("flow", {
      it: work({
        for_each: "input.items",
        max_parallel: 3,
        for_each_on_failure: "continue",
        input: { n: "${item}" },
      }),
    });
    const done: number[] = [];
    here.worker(({ input }) => {
      const { n } = input as { n: number };
      if (n % 10 === 0) throw new PermanentFailure("it broke");
      done.push(n);
      return n;
    });
    const ended = await here.ended(await here.start("flow", { items: numbers.slice(0, 40) }));
    expect(ended.status).toBe("failed");
    expect(ended.steps.it?.error).toMatchObject({ code: "child_failed" });
    expect(ended.steps.it?.error?.message).toContain("4 of 40");
    expect(done).toHaveLength(36);
    await here.expectNothingOpen();
  });

  test("the workers of siblings that are taken back hear stop at their next heartbeat", async () => {
    const here = scene();
    await here.save("flow", { it: work({ for_each: "input.items", input: { n: "${item}" } }) });
    const runId = await here.start("flow", { items: [0, 1, 2] });
    const caller = { tenant: here.tenant, actor: "worker:w" };
    const poll = { caller, worker: "w", topics: ["work"], pollId: "p", places: 3, waitMs: 5_000 };
    const claimed = await here.api.pollJobs(poll);
    if (claimed.kind !== "jobs") throw new Error(claimed.kind);
    const [first, ...siblings] = claimed.jobs;
    expect(siblings).toHaveLength(2);
    const beats = siblings.map(({ job, token }) => ({ jobId: job.jobId, token }));
    const answers = async () => {
      const judged = await here.api.heartbeat({ caller, worker: "w", beats });
      if (judged.kind !== "judged") throw new Error(judged.kind);
      return judged.answers.map((answer) => answer.kind === "extended" && answer.stop);
    };
    expect(await answers()).toEqual([false, false]);
    await here.api.reportResult({
      caller,
      jobId: first?.job.jobId as never,
      token: first?.token as never,
      outcome: "failed",
      error: { message: "it broke" },
    });
    await here.ended(runId);
    expect(await answers()).toEqual([true, true]);
  });

  test("a step with for_each inside a loop begins anew in every iteration", async () => {
    const here = scene();
    await here.save("flow", {
      it: { type: "loop", input: { body: "each", max_iterations: 3 } },
      each: work({
        for_each: "input.items",
        max_parallel: 2,
        input: { turn: "${loop.iteration}", n: "${item}", before: "${loop.last_output}" },
      }),
    });
    const seen: string[] = [];
    here.worker(({ input }) => {
      const { turn, n } = input as { turn: number; n: number };
      seen.push(`${turn}/${n}`);
      return turn * 10 + n;
    });
    const ended = await here.ended(await here.start("flow", { items: [1, 2, 3] }));
    expect(ended.status).toBe("succeeded");
    expect(ended.steps.it?.output).toEqual({ iterations: 3, last_output: [31, 32, 33] });
    expect(seen.toSorted()).toEqual([1, 2, 3].flatMap((turn) => [1, 2, 3].map((n) => `${turn}/${n}`)));
    expectOnce(ended);
  });

  test("of a parallel step that needs one of three, the first to succeed ends it and the others are taken back", async () => {
    const here = scene();
    await here.save("flow", {
      it: { type: "parallel", input: { steps: ["a", "b", "c"], strategy: "any" } },
      a: work(),
      b: work(),
      c: work(),
    });
    here.worker((job) => {
      if (job.step === "a") throw new PermanentFailure("it broke");
      return job.step === "b" ? { by: "b" } : here.hang(job);
    });
    const ended = await here.ended(await here.start("flow"));
    expect(ended.status).toBe("succeeded");
    expect(ended.steps.it?.output).toMatchObject({ b: { status: "succeeded", output: { by: "b" } } });
    expect(ended.steps.c?.status).toBe("cancelled");
    await here.expectNothingOpen();
  });

  test("a result that does not fit the output schema is tried again, and its last failure is a dead letter", async () => {
    const here = scene();
    const schema = { type: "object", required: ["ok"], properties: { ok: { const: true } } };
    await here.save("flow", {
      good: work({ output_schema: schema, retry: soon }),
      bad: work({ output_schema: schema, retry: { ...soon, max_retries: 1 } }),
    });
    here.worker(({ step, attempt }) => ({ ok: step === "good" && attempt === 3 }));
    const ended = await here.ended(await here.start("flow"));
    expect(ended.steps.good).toMatchObject({ status: "succeeded", attempts: 3, output: { ok: true } });
    expect(ended.steps.bad).toMatchObject({
      status: "failed",
      attempts: 2,
      error: { code: "output_invalid" },
    });
    const request = { tenant: here.tenant, collection: "deadLetter", after: "", limit: 10 } as const;
    const letters = await world.store.listDocuments(request, { deadlineMs: 5_000 });
    if (letters.kind !== "listed") throw new Error(letters.kind);
    expect(letters.documents.map(({ id }) => id)).toEqual([`${ended.run_id}:bad@2`]);
  });

  test("of a result only the part at result_data_path is the output, and a result without it has failed", async () => {
    const here = scene();
    await here.save("flow", {
      good: work({ result_data_path: "data.answer" }),
      bad: work({ result_data_path: "data.question" }),
      after: work({ depends_on: ["good"], input: { got: "${steps.good.output}" } }),
    });
    here.worker(({ step, input }) => (step === "after" ? input : { data: { answer: [4, 2] }, rest: "x" }));
    const ended = await here.ended(await here.start("flow"));
    expect(ended.steps.good?.output).toEqual([4, 2]);
    expect(ended.steps.after?.output).toEqual({ got: [4, 2] });
    expect(ended.steps.bad).toMatchObject({ status: "failed", error: { code: "output_invalid" } });
  });

  test("while one branch waits for an approval, the others go on", async () => {
    const here = scene();
    await here.save("flow", {
      ask: { type: "approval" },
      paid: work({ depends_on: ["ask"] }),
      first: work(),
      second: work({ depends_on: ["first"] }),
      join: work({ depends_on: ["paid", "second"] }),
    });
    here.worker(({ step }) => step);
    const runId = await here.start("flow");
    await here.reaches(runId, "second", "succeeded");
    expect((await here.step(runId, "ask")).status).toBe("waiting");
    expect((await here.header(runId)).status).toBe("waiting");
    await here.decide(runId, "ask", "approved");
    expect((await here.ended(runId)).steps.join?.status).toBe("succeeded");
  });

  describe("runs that steps start", () => {
    const calls = (workflow: string): Steps[string] => ({
      type: "subworkflow",
      input: { workflow_id: workflow },
    });

    async function saveChain(here: Scene, names: readonly string[], last: Steps): Promise<void> {
      for (const [index, name] of names.entries()) {
        const next = names[index + 1];
        await here.save(name, next === undefined ? last : { call: calls(next) });
      }
    }

    /** The runs of a chain, from the root on. */
    async function chainOf(here: Scene, root: RunId, length: number): Promise<readonly RunId[]> {
      const runs = [root];
      while (runs.length < length) runs.push(await here.childOf(runs.at(-1) as RunId, "call"));
      return runs;
    }

    test("one that waits for an approval holds its parents, and the decision sets all of them free", async () => {
      const here = scene();
      await saveChain(here, ["a", "b", "c"], { ask: { type: "approval" } });
      const runId = await here.start("a");
      const runs = await chainOf(here, runId, 3);
      await here.decide(runs[2] as RunId, "ask", "approved");
      const ended = await here.ended(runId);
      expect(ended.status).toBe("succeeded");
      expect(ended.steps.call?.output).toMatchObject({ decision: "approved", decided_by: "ben" });
    });

    test("the person who started the root cannot approve a step of a child that separates duties", async () => {
      const here = scene();
      await saveChain(here, ["a", "b", "c"], { ask: { type: "approval", separate_duties: true } });
      const [, , last] = await chainOf(here, await here.start("a"), 3);
      await here.reaches(last as RunId, "ask", "approval");
      const request = { caller: here.caller, approvalId: `${last}:ask@1`, decision: "approved" } as const;
      expect(await here.api.decideApproval(request)).toMatchObject({ kind: "self_approval" });
    });

    test("cancelling the root cancels all of them", async () => {
      const here = scene();
      await saveChain(here, ["a", "b", "c"], { it: work() });
      here.worker((job) => here.hang(job));
      const runs = await chainOf(here, await here.start("a"), 3);
      await here.reaches(runs[2] as RunId, "it", "running");
      await here.cancel(runs[0] as RunId);
      const statuses = await Promise.all(runs.map(async (runId) => (await here.ended(runId)).status));
      expect(statuses).toEqual(["cancelled", "cancelled", "cancelled"]);
      await here.expectNothingOpen();
    });

    test("they share the slot of the root: with a limit of one nothing waits for ever", async () => {
      const here = scene();
      const made = await here.api.createTenant({
        actor: "root",
        tenant: here.tenant,
        settings: { maxConcurrentRuns: 1 },
      });
      expect(made.kind).toBe("created");
      await saveChain(here, ["a", "b", "c"], { it: work() });
      here.worker(() => "done");
      const ended = await here.ended(await here.start("a"));
      expect(ended.status).toBe("succeeded");
      expect(ended.steps.call?.output).toBe("done");
      await here.expectNothingOpen();
      expect((await here.ended(await here.start("a"))).status).toBe("succeeded");
    });

    test("beyond the depth that is allowed a step fails, and says so", async () => {
      const here = scene(await openWorld({ overrides: { "runs.depthMax": 2 } }));
      await saveChain(here, ["a", "b", "c", "d"], { it: work() });
      const root = await here.start("a");
      const runs = await until("the third run", async () => {
        const listed = await here.api.listRuns({ tenant: here.tenant, limit: 10 });
        return listed.kind === "listed" && listed.runs.length === 3 ? listed.runs : undefined;
      });
      const deepest = runs.find(({ workflow }) => workflow === "c")?.runId as RunId;
      expect((await here.ended(deepest)).steps.call).toMatchObject({
        status: "failed",
        error: { code: "run_tree_too_deep" },
      });
      expect((await here.ended(root)).status).toBe("failed");
      await here.expectNothingOpen();
    });

    test("beyond the number that one start may lead to a step fails, and says so", async () => {
      const here = scene(await openWorld({ settings: { runsPerRootMax: 4 } }));
      await here.save("one", { it: { type: "transform", input: { done: true } } });
      await here.save("many", {
        it: { type: "loop", input: { body: "call", max_iterations: 9 } },
        call: calls("one"),
      });
      const ended = await here.ended(await here.start("many"));
      expect(ended.status).toBe("failed");
      expect(ended.steps.call).toMatchObject({
        status: "failed",
        attempts: 3,
        error: { code: "run_tree_full" },
      });
      await here.expectNothingOpen();
    });

    test("many of them at once, one for every branch, all come back to their parent", async () => {
      const here = scene();
      const names = Array.from({ length: 20 }, (_, index) => `call${index}`);
      await here.save("one", { it: work() });
      await here.save("many", {
        all: { type: "parallel", input: { steps: names } },
        ...Object.fromEntries(names.map((name) => [name, calls("one")])),
      });
      here.worker(({ jobId }) => jobId);
      const ended = await here.ended(await here.start("many"));
      expect(ended.status).toBe("succeeded");
      const outputs = names.map((name) => ended.steps[name]?.output);
      expect(new Set(outputs).size).toBe(20);
      await here.expectNothingOpen();
    });
  });

  test("none of it has made the control plane stumble", () => {
    expect(worlds.flatMap(({ errors }) => errors)).toEqual([]);
  });
});
