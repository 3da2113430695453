// When a run that gives its places back while it waits says that it only waits.
import { describe, expect, test } from "vitest";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import { compileText } from "./engine-player.ts";
import { Cluster, World } from "./engine-world.ts";

const idleAfter = (steps: JsonValue, act: (world: World) => void = () => {}) => {
  const world = new World(compileText("wf", { id: "wf", steps }));
  world.drain();
  act(world);
  world.drain();
  return { status: world.status, isIdle: world.isIdle };
};

const work = { topic: "work" };
const ask = { type: "approval" };
const pause = { type: "delay", delay_sec: 5 };

describe("a run only waits", () => {
  test("for an approval or a delay, and for several of them", () => {
    for (const steps of [{ ask }, { pause }, { ask, pause }]) {
      expect(idleAfter(steps)).toEqual({ status: "waiting", isIdle: true });
    }
  });

  test("when the job beside its approval has ended", () => {
    expect(idleAfter({ ask, work })).toEqual({ status: "running", isIdle: false });
    expect(idleAfter({ ask, work }, (world) => world.result("work@1"))).toEqual({
      status: "waiting",
      isIdle: true,
    });
  });

  test("in the body of a loop", () => {
    const loop = { type: "loop", input: { body: "ask", max_iterations: 2 } };
    const steps = { loop, ask };
    expect(idleAfter(steps).isIdle).toBe(true);
  });
});

describe("a run goes on by itself", () => {
  test("while the retry of a step is due", () => {
    const steps = { ask, work: { ...work, retry: { max_retries: 1, initial_backoff_sec: 5 } } };
    const retrying = idleAfter(steps, (world) =>
      world.result("work@1", "failed_retryable", { error: { message: "busy" } }),
    );
    expect(retrying).toEqual({ status: "waiting", isIdle: false });
  });

  test("while another run works for it", () => {
    const compiled = new Map([["child", compileText("child", { id: "child", steps: { work } })]]);
    const call = { type: "subworkflow", input: { workflow_id: "child" } };
    const world = new World(compileText("wf", { id: "wf", steps: { ask, call } }), {
      cluster: new Cluster(compiled),
    });
    world.drain();
    expect([world.status, world.isIdle]).toEqual(["waiting", false]);
    const [child] = world.children;
    if (child === undefined) throw new Error("a child was started");
    child.drain();
    child.result("work@1");
    child.drain();
    world.drain();
    expect([world.status, world.isIdle]).toEqual(["waiting", true]);
  });

  test("once it has been decided", () => {
    const decided = idleAfter({ ask, next: { ...work, depends_on: ["ask"] } }, (world) =>
      world.decide("ask@1", "approved"),
    );
    expect(decided).toEqual({ status: "running", isIdle: false });
  });
});
