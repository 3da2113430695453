// What operators do about queues and see of them: limits, stops, removals, moves and explanations.
import { describe, expect, test } from "vitest";
import type { RunId } from "../../src/domain/run.ts";
import { byCustomer, nextJob, runOf, setUp, start } from "../support/flow-queues.ts";
import { acme, ann, FlowWorld, only, work } from "../support/flow-world.ts";

describe("an operator", () => {
  test("who raises the tenant's limit lets those through that wait, within a sweep", async () => {
    const scene = await setUp({}, { maxConcurrentRuns: 1, atLimit: "queue" });
    const { flow, plane } = scene;
    const runs: RunId[] = [];
    for (let index = 0; index < 60; index += 1) runs.push(runOf(await start(scene)));
    await flow.tenant({ maxConcurrentRuns: 60, atLimit: "queue" });
    const running = async () =>
      (await Promise.all(runs.map((runId) => flow.status(runId)))).every((status) => status === "running");
    expect(await flow.until(running)).toBeLessThan(1_500);
    await plane.close();
  });

  test("who saves a workflow with a larger max lets those through that wait", async () => {
    const scene = await setUp({ concurrency: [{ max: 1, at_limit: "queue" }] });
    const { flow, plane } = scene;
    await start(scene);
    const second = runOf(await start(scene));
    await plane.save("tickets", { one: work() }, { concurrency: [{ max: 2, at_limit: "queue" }] });
    expect(await flow.until(async () => (await flow.status(second)) === "running")).toBeLessThan(1_500);
    await plane.close();
  });

  test("who stops the tenant freezes its queues, and lets them go on", async () => {
    const scene = await setUp({ concurrency: [byCustomer] });
    const { flow, plane } = scene;
    const first = runOf(await start(scene));
    const second = runOf(await start(scene));
    await flow.tenant({ stopped: true });
    await flow.finish(plane.api.cancelRun({ caller: ann, runId: first, reason: "stopped" }));
    await flow.ended(first);
    await flow.pass(3_000);
    expect(await flow.status(second)).toBe("queued");
    const why = only(await flow.finish(plane.api.explainRun({ tenant: acme, runId: second })), "explained");
    expect(why.explanation.summary).toContain("The tenant is stopped");
    await flow.tenant({});
    await flow.until(async () => (await flow.status(second)) === "running", 2_000);
    await plane.close();
  });

  test("who asks why sees the gate, the place, who is ahead, who holds the places and what to type", async () => {
    const scene = await setUp({ concurrency: [byCustomer] });
    const { flow, plane } = scene;
    const first = runOf(await start(scene));
    const second = runOf(await start(scene));
    const third = runOf(await start(scene));
    const { explanation } = only(
      await flow.finish(plane.api.explainRun({ tenant: acme, runId: third })),
      "explained",
    );
    expect(explanation.waiting_for).toMatchObject([
      {
        ...{ kind: "queued", limit: 1, active: 1, waiting: 2, position: 2 },
        ahead: [{ run_id: second }],
        holders: [{ run_id: first }],
        what_to_do: expect.stringContaining(`interlock queue move ${third} --head`),
      },
    ]);
    expect(explanation.summary).toMatch(
      /^The run waits at position 2 at the gate by-key\..*has 1 of 1 places taken: when is not known\.$/,
    );
    const shown = only(await flow.finish(plane.api.getRun({ tenant: acme, runId: third })), "run");
    expect(shown.run.position).toBe(2);
    await plane.close();
  });

  test("is told when, once runs have ended lately", async () => {
    const scene = await setUp({ concurrency: [byCustomer] });
    const { flow, plane } = scene;
    for (let index = 0; index < 5; index += 1) await start(scene);
    for (let index = 0; index < 3; index += 1) {
      await flow.pass(2_000);
      await plane.report(await nextJob(scene));
    }
    const last = runOf(await start(scene));
    const { explanation } = only(
      await flow.finish(plane.api.explainRun({ tenant: acme, runId: last })),
      "explained",
    );
    expect(explanation.waiting_for[0]).toHaveProperty("expected_at");
    await plane.close();
  });
});

test("removing a tenant ends what waits in it", async () => {
  const flow = new FlowWorld();
  const plane = await flow.open("p");
  await flow.finish(plane.api.createTenant({ actor: "root", tenant: acme, settings: {} }));
  await plane.save("tickets", { one: work() }, { concurrency: [byCustomer] });
  const first = runOf(await start({ flow, plane }));
  const runs: RunId[] = [];
  for (let index = 0; index < 12; index += 1) runs.push(runOf(await start({ flow, plane })));
  const remove = () => flow.finish(plane.api.removeTenant({ actor: "root", tenant: acme }));
  expect(await remove()).toEqual({ kind: "tenant_active", active: 1 });
  // Nobody is let through in a tenant that is stopped, so that its last active run can end.
  await flow.finish(plane.api.changeTenant({ actor: "root", tenant: acme, changes: { stopped: true } }));
  await flow.finish(plane.api.cancelRun({ caller: ann, runId: first, reason: "over" }));
  await flow.ended(first);
  expect(await remove()).toEqual({ kind: "removed" });
  for (const runId of runs)
    expect(await flow.header(runId)).toMatchObject({
      status: "cancelled",
      endReason: "the tenant is removed",
    });
  await plane.close();
});
