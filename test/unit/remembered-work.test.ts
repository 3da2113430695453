// What a process remembers of runs, jobs and workers, with every way in which a call can fail between its decision and the commit:
// the work comes to the end that it would have come to, once.
import { describe, test } from "vitest";
import { callFailures } from "../support/call-failures.ts";
import { FlowWorld } from "../support/flow-world.ts";
import {
  begin,
  expectEnds,
  expectPlaceFree,
  type WorkScene,
  workOn,
  workRows,
} from "../support/remembered-work.ts";

const withoutEffect: ReadonlySet<string> = new Set(["it is refused", "it is unknown, without effect"]);

describe.each(Object.entries(workRows))("%s", (_, row) => {
  test.each(Object.entries(callFailures))("comes to the same end when %s", async (what, fail) => {
    const flow = new FlowWorld();
    const bus = flow.bus();
    const [p, q] = [await flow.open("p", { bus }), await flow.open("q", { bus })];
    const scene: WorkScene = { flow, p, q, jobs: new Map(), polls: [] };
    await begin(scene);
    await row.arrange(scene);
    const [act, other] = [() => row.act(scene), () => row.other(scene)];
    await fail({ flow, p, call: row.call, act, other });
    if (row.givesJob && withoutEffect.has(what)) await expectPlaceFree(scene, row);
    await workOn(scene);
    await expectEnds(scene);
  });
});
