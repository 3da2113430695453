// Steps of many types under way at once, on every store: all of them end when the run does, whatever they wait for.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { PermanentFailure } from "../../src/control/jobs/in-process-worker.ts";
import type { RunId } from "../../src/domain/run.ts";
import { type StoreHost, startStoreHost, storeNames } from "../support/stores.ts";
import { expectOnce, soon, work } from "./step-types-table.ts";
import { type Scene, type Steps, World } from "./step-types-world.ts";

/** One of each kind of waiting, all of them open for long. */
const waiting: Steps = {
  ask: { type: "approval" },
  sleep: { type: "delay", delay_sec: 3_600 },
  call: { type: "subworkflow", input: { workflow_id: "slow" } },
  many: work({ for_each: "input.items", input: { n: "${item}" } }),
  turns: { type: "loop", input: { body: "turn", max_iterations: 3 } },
  turn: work(),
};
const waitingNames = ["ask", "sleep", "call", "many", "turns"];
const slow: Steps = { ask: { type: "approval" }, it: work() };

async function saveAll(here: Scene, steps: Steps, more: Parameters<Scene["save"]>[2] = {}): Promise<void> {
  await here.save("slow", slow);
  await here.save("flow", { ...waiting, ...steps }, more);
}

/** Waits until every one of them is open, also in the run below. */
async function allOpen(here: Scene, runId: RunId): Promise<RunId> {
  const child = await here.childOf(runId, "call");
  await Promise.all([
    here.reaches(runId, "ask", "approval"),
    here.reaches(runId, "sleep", "delay"),
    here.reaches(runId, "many[1]", "running"),
    here.reaches(runId, "turn", "running"),
    here.reaches(child, "ask", "approval"),
    here.reaches(child, "it", "running"),
  ]);
  return child;
}

describe.each(storeNames)("%s", (store) => {
  let host: StoreHost;
  let world: World;
  let scenes = 0;

  function scene(): Scene {
    scenes += 1;
    return world.scene(`together-${scenes}`);
  }

  beforeAll(async () => {
    host = await startStoreHost(store);
    world = await World.open(host);
  });

  afterAll(async () => {
    await world?.close();
    await host?.close();
  });

  test("a run that is cancelled takes everything back", async () => {
    const here = scene();
    await saveAll(here, {});
    here.worker((job) => here.hang(job));
    const runId = await here.start("flow", { items: [1, 2] });
    const child = await allOpen(here, runId);
    await here.cancel(runId);
    const ended = await here.ended(runId);
    expect(new Set(Object.values(ended.steps).map(({ status }) => status))).toEqual(new Set(["cancelled"]));
    expect((await here.ended(child)).status).toBe("cancelled");
    await here.expectNothingOpen();
  });

  test("a run whose time is over takes everything back", async () => {
    const here = scene();
    await saveAll(here, {}, { timeout_sec: 3 });
    here.worker((job) => here.hang(job));
    const runId = await here.start("flow", { items: [1, 2] });
    const child = await allOpen(here, runId);
    expect((await here.ended(runId)).status).toBe("timed_out");
    expect((await here.ended(child)).status).toBe("cancelled");
    await here.expectNothingOpen();
  });

  test("a parallel step that fails takes everything back that it has begun, and its handler goes on", async () => {
    const here = scene();
    await saveAll(here, {
      all: { type: "parallel", input: { steps: [...waitingNames, "trigger"] }, on_error: "rescue" },
      trigger: work(),
      rescue: work({ input: { why: "${steps.all.status}" } }),
    });
    let fail = () => {};
    const failed = new Promise<void>((resolve) => {
      fail = resolve;
    });
    here.worker(async (job) => {
      if (job.step === "rescue") return job.input;
      if (job.step !== "trigger") return here.hang(job);
      await failed;
      throw new PermanentFailure("it broke");
    });
    const runId = await here.start("flow", { items: [1, 2] });
    const child = await allOpen(here, runId);
    fail();
    const ended = await here.ended(runId);
    const statuses = waitingNames.map((name) => ended.steps[name]?.status);
    expect(new Set(statuses)).toEqual(new Set(["cancelled"]));
    expect(ended.steps.turn?.status).toBe("cancelled");
    expect(ended.status).toBe("succeeded");
    expect(ended.steps.rescue?.output).toMatchObject({ why: "failed", error: { step: "all" } });
    expect((await here.ended(child)).status).toBe("cancelled");
    await here.expectNothingOpen();
  });

  test("in a loop every iteration asks for an approval of its own, and an old one cannot be given again", async () => {
    const here = scene();
    await here.save("flow", {
      it: { type: "loop", input: { body: "ask", max_iterations: 3 } },
      ask: { type: "approval", input: { turn: "${loop.iteration}" } },
    });
    const runId = await here.start("flow");
    const ask = (attempt: number) => ({
      caller: { tenant: here.tenant, actor: "ben" },
      approvalId: `${runId}:ask@${attempt}`,
      decision: "approved" as const,
    });
    for (const attempt of [1, 2, 3]) {
      await expect.poll(async () => (await here.api.decideApproval(ask(attempt))).kind).toBe("decided");
      const again = await here.api.decideApproval({ ...ask(attempt), decision: "rejected" });
      expect(again.kind).toMatch(/already_decided|run_ended/);
    }
    const ended = await here.ended(runId);
    expect(ended.status).toBe("succeeded");
    expect(ended.steps.ask?.attempts).toBe(3);
  });

  test("a for_each over nothing succeeds at once, over too many or over no list it fails, in words", async () => {
    const here = scene();
    await here.save("flow", {
      none: work({ for_each: "input.none", input: { n: "${item}" } }),
      many: work({ for_each: "input.many", input: { n: "${item}" } }),
      text: work({ for_each: "input.text", input: { n: "${item}" } }),
    });
    const many = Array.from({ length: 10_001 }, () => 0);
    const ended = await here.ended(await here.start("flow", { none: [], many, text: "abc" }));
    expect(ended.steps.none).toMatchObject({ status: "succeeded", output: [] });
    expect(ended.steps.many).toMatchObject({ status: "failed", error: { code: "too_many_items" } });
    expect(ended.steps.text).toMatchObject({ status: "failed", error: { code: "expression_failed" } });
    await here.expectNothingOpen();
  });

  test("two processes share the items of one for_each, and each is done once", async () => {
    const here = scene();
    const other = await world.join();
    await here.save("flow", {
      it: work({ for_each: "input.items", max_parallel: 30, input: { n: "${item}" }, retry: soon }),
    });
    const items = Array.from({ length: 200 }, (_, index) => index);
    const done: string[] = [];
    const by = (name: string) => (job: { readonly input: unknown }) => {
      const { n } = job.input as { n: number };
      done.push(`${name} ${n}`);
      return n;
    };
    const options = { tenant: here.tenant, topics: ["work"], concurrency: 10 };
    other.startWorker({ ...options, name: "other", handler: by("other") });
    here.worker(by("first"), { concurrency: 10 });
    const ended = await here.ended(await here.start("flow", { items }));
    expect(ended.status).toBe("succeeded");
    expect(ended.steps.it?.output).toEqual(items);
    expect(done).toHaveLength(200);
    expectOnce(ended);
  });

  test("under the strategy retry items and children come to their end, too", async () => {
    const here = scene();
    const made = await here.api.createTenant({
      actor: "root",
      tenant: here.tenant,
      settings: { resultsStrategy: "retry" },
    });
    expect(made.kind).toBe("created");
    await here.save("child", { each: work({ for_each: "input.items", input: { n: "${item}" } }) });
    await here.save("flow", {
      call: { type: "subworkflow", input: { workflow_id: "child" } },
      after: work({ depends_on: ["call"], input: { got: "${steps.call.output}" } }),
    });
    here.worker(({ input, step }) => (step === "after" ? input : (input as { n: number }).n), {
      concurrency: 3,
    });
    const ended = await here.ended(await here.start("flow", { items: [1, 2, 3, 4, 5] }));
    expect(ended.steps.after?.output).toEqual({ got: [1, 2, 3, 4, 5] });
  });

  test("none of it has made the control plane stumble", () => {
    expect(world.errors).toEqual([]);
  });
});
