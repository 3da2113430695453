// Examples of the language in few words: a run of some steps, and what happens to it, each by its name.
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import { compileText } from "./engine-player.ts";
import { World, type WorldOptions } from "./engine-world.ts";

export type Fields = Record<string, JsonValue>;
export type Steps = Record<string, Fields>;

/** A run of these steps, written as in a definition; steps are workers unless they say otherwise. */
export function start(steps: Steps, options: WorldOptions = {}): World {
  const world = new World(compileText("wf", { id: "wf", steps }), options);
  world.drain();
  return world;
}

/** Gives results, decisions and due timers, each by its name, and applies each before the next. */
export function go(world: World, ...names: string[]): World {
  for (const name of names) {
    const [what = "", how = "done"] = name.split(" ");
    if (what.includes("/")) world.fire(what);
    else if (how === "approved" || how === "rejected") world.decide(what, how);
    else if (how === "done") world.result(what, "succeeded", { output: { of: what } });
    else if (how === "retryable") world.result(what, "failed_retryable", { error: null });
    else if (how === "lost") world.loseClaim(what);
    else if (how === "retried") world.retry(what);
    else world.result(what, "failed", { error: { message: "no" } });
    world.cluster.drain();
  }
  return world;
}

export const out = (world: World) => world.ready().map(({ jobId }) => jobId.slice(world.runId.length + 1));
