// Long lists: ten thousand items begin a few at a time, and everything about them stays bounded.
import { expect, test } from "vitest";
import { acme, ann, FlowWorld } from "../support/flow-world.ts";

const items = Array.from({ length: 10_000 }, (_, number) => ({ number, text: "x".repeat(70) }));

test("a list of almost a megabyte is written down in parts, begins a hundred items, and a cancel takes all of them back", async () => {
  const flow = new FlowWorld();
  const plane = await flow.open("one");
  await plane.save("list", {
    each: { topic: "work", for_each: "input.items", input: { n: "${item.number}" } },
  });
  const runId = await plane.start("list", { items });
  await flow.until(async () => (await flow.step(runId, "each")).children?.open === 100);
  expect((await flow.step(runId, "each")).children).toMatchObject({ total: 10_000, next: 100, open: 100 });
  const keys = ["items/each/0", "items/each/156"];
  const stored = await flow.world.store.loadRun(
    { tenant: acme, runId, records: keys },
    { deadlineMs: 5_000 },
  );
  const [first, last] = stored.kind === "run" ? stored.records.map(({ body }) => JSON.parse(body)) : [];
  expect([first[0].number, first.length, last.at(-1).number]).toEqual([0, 64, 9_999]);
  // The timeline of all that was done so far fits into a few rows, none of them with more than a commit may touch.
  const [job] = await plane.poll({ places: 1 });
  expect(JSON.parse(job?.input ?? "null")).toEqual({ n: 0 });
  expect(await flow.finish(plane.api.cancelRun({ caller: ann, runId, reason: "enough" }))).toEqual({
    kind: "cancelling",
  });
  expect(await flow.ended(runId)).toBe("cancelled");
  const answer = await flow.finish(
    plane.api.listItems({ tenant: acme, runId, step: "each", after: 0, limit: 100 }),
  );
  const states =
    answer.kind === "items" ? answer.run.records.filter(({ key }) => key.startsWith("step/")) : [];
  expect(states.length).toBe(100);
  for (const { body } of states) expect(JSON.parse(body)).toMatchObject({ status: "cancelled" });
  await plane.close();
});

test("a list with more items than allowed fails its step and says how many there were", async () => {
  const flow = new FlowWorld();
  const plane = await flow.open("one", { overrides: { "runs.forEachItemsMax": 5 } });
  await plane.save("list", { each: { topic: "work", for_each: "input.items" } });
  const runId = await plane.start("list", { items: [1, 2, 3, 4, 5, 6] });
  expect(await flow.ended(runId)).toBe("failed");
  expect((await flow.step(runId, "each")).error).toEqual({
    code: "too_many_items",
    message: "for_each gave 6 items; at most 5 are allowed",
  });
  await plane.close();
});

test("the same few records are read and written for the first item of a long list and for its last", async () => {
  const flow = new FlowWorld();
  const plane = await flow.open("one", { overrides: { "engine.cachedRunsMax": 0 } });
  await plane.save("list", { each: { topic: "work", for_each: "input.items", max_parallel: 2 } });
  const runId = await plane.start("list", { items: items.slice(0, 600).map(({ number }) => number) });
  const costs: number[] = [];
  for (let done = 0; done < 600; done += 1) {
    const [job] = await plane.poll({ places: 1 });
    if (job === undefined) throw new Error(`no job after ${done}`);
    const before = (await flow.header(runId)).version;
    await plane.report(job, { done });
    await flow.until(async () => (await flow.header(runId)).version > before);
    costs.push((await flow.header(runId)).version - before);
  }
  expect(await flow.ended(runId)).toBe("succeeded");
  // One commit each; only the last one also puts the outputs together, two hundred in each further commit.
  expect(costs.slice(0, -1).every((commits) => commits === 1)).toBe(true);
  expect(costs.at(-1)).toBeLessThanOrEqual(4);
  await plane.close();
});
