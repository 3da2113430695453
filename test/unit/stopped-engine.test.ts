// A control plane whose engine is stopped answers questions and does nothing by itself: no timer of it keeps a program running.
import { expect, test } from "vitest";
import { FlowWorld, work } from "../support/flow-world.ts";

test("a plane that does nothing by itself leaves nothing under way, neither at once nor after a start", async () => {
  const flow = new FlowWorld();
  const plane = await flow.open("p", { engine: "stopped" });
  expect(await flow.kernel.run({ eventsMax: 1_000 })).toEqual({ kind: "idle" });
  await plane.save("one", { only: work() });
  await plane.start("one");
  expect(await flow.kernel.run({ eventsMax: 1_000 })).toEqual({ kind: "idle" });
});
