// Runs that give their places back while they wait for a person, as whole flows on the memory store.
import { expect, test } from "vitest";
import type { ApprovalId } from "../../src/domain/approval.ts";
import type { RunId } from "../../src/domain/run.ts";
import { runOf, start } from "../support/flow-queues.ts";
import { acme, ben, type FlowPlane, FlowWorld, only, single, work } from "../support/flow-world.ts";

const steps = {
  ask: { type: "approval" },
  pay: work({ depends_on: ["ask"] }),
};
const releases = { slots: "release_while_waiting" };

async function setUp(header: { readonly [name: string]: string } = releases) {
  const flow = new FlowWorld();
  await flow.tenant({ maxConcurrentRuns: 2, atLimit: "queue" });
  const plane = await flow.open("p");
  await plane.save("tickets", steps, header);
  await plane.save("quick", { one: work() });
  return { flow, plane };
}

/** A run that waits for its approval. */
async function asking(scene: { flow: FlowWorld; plane: FlowPlane }): Promise<RunId> {
  const runId = runOf(await start(scene));
  await scene.flow.until(async () => (await scene.flow.status(runId)) === "waiting");
  return runId;
}

function approve({ flow, plane }: { flow: FlowWorld; plane: FlowPlane }, runId: RunId) {
  const approvalId = `${runId}:ask@1` as ApprovalId;
  return flow.finish(plane.api.decideApproval({ caller: ben, approvalId, decision: "approved" }));
}

test("two runs that wait for a person do not block a tenant with limit 2, and go on when they are decided", async () => {
  const scene = await setUp();
  const { flow, plane } = scene;
  const waiting = [await asking(scene), await asking(scene)];
  const quick = only(await start(scene, { workflow: "quick" }), "admitted").runId;
  const job = single(await flow.finish(plane.poll({ waitMs: 5_000 })));
  expect(job.job.runId).toBe(quick);
  await plane.report(job);
  for (const runId of waiting) {
    expect((await approve(scene, runId)).kind).toBe("decided");
    const pay = single(await flow.finish(plane.poll({ waitMs: 5_000 })));
    expect(pay.job.runId).toBe(runId);
    await plane.report(pay);
    expect(await flow.status(runId)).toBe("succeeded");
  }
  await plane.close();
});

test("by default they keep their places", async () => {
  const scene = await setUp({});
  await asking(scene);
  await asking(scene);
  expect((await start(scene, { workflow: "quick" })).kind).toBe("queued");
  await scene.plane.close();
});

test("a decision without a free place is told at once, and the run goes on as soon as one is free, before those in the queue", async () => {
  const scene = await setUp();
  const { flow, plane } = scene;
  const decided = await asking(scene);
  const busy = [
    runOf(await start(scene, { workflow: "quick" })),
    runOf(await start(scene, { workflow: "quick" })),
  ];
  const next = only(await start(scene, { workflow: "quick" }), "queued").runId;
  expect((await approve(scene, decided)).kind).toBe("decided");
  await flow.pass(1_000);
  expect(await flow.status(decided)).toBe("waiting");
  const why = only(await flow.finish(plane.api.explainRun({ tenant: acme, runId: decided })), "explained");
  expect(why.explanation).toMatchObject({
    status: "waiting",
    open_steps: 1,
    summary: expect.stringContaining("at position 1"),
  });
  expect(why.explanation.waiting_for).toEqual([
    expect.objectContaining({
      kind: "queued",
      gate: "tenant",
      position: 1,
      what_to_do: expect.stringContaining("has begun before"),
    }),
  ]);
  expect(why.explanation.waiting_for[0]).not.toHaveProperty("deadline_at");
  const jobs = await flow.finish(plane.poll({ places: 2, waitMs: 5_000 }));
  expect(jobs.map(({ job }) => job.runId).toSorted()).toEqual(busy.toSorted());
  const [first] = jobs;
  if (first === undefined) throw new Error("a job is there");
  await plane.report(first);
  const pay = single(await flow.finish(plane.poll({ waitMs: 5_000 })));
  expect(pay.job.runId).toBe(decided);
  expect(await flow.status(next)).toBe("queued");
  await plane.close();
});

test("a cancel does not wait for a place", async () => {
  const scene = await setUp();
  const { flow, plane } = scene;
  const runId = await asking(scene);
  for (let index = 0; index < 2; index += 1) await start(scene, { workflow: "quick" });
  await flow.finish(plane.api.cancelRun({ caller: ben, runId, reason: "not needed" }));
  await flow.until(async () => (await flow.status(runId)) === "cancelled");
  await plane.close();
});
