// The places of the cluster, each with the process that fills it now: after a crash another comes, under a new name.
import type { SimulatedProcess } from "../../src/testing/simulated-process.ts";
import type { EngineNode } from "./engine-node.ts";
import type { NodeOptions, World } from "./world.ts";

export type Place = {
  readonly name: string;
  readonly index: number;
  readonly start: Starter;
  /** What the next process of it is started with. */
  settings: NodeOptions;
  generation: number;
  current: Started;
};

/** `stop` is how it ends in good order; what has nothing to finish has none. */
export type Started = { readonly process: SimulatedProcess; readonly stop?: EngineNode["stop"] };

export type Starter = (world: World, name: string, place: Pick<Place, "index" | "settings">) => Started;

export function startPlace(
  world: World,
  name: string,
  start: Starter,
  { index, settings }: Pick<Place, "index" | "settings">,
): Place {
  const current = start(world, `${name}.1`, { index, settings });
  return { name, index, start, settings, generation: 1, current };
}

/** Fills the place with a new process; what becomes of the one before is up to the caller. */
export function fillPlace(world: World, place: Place): void {
  place.generation += 1;
  place.current = place.start(world, `${place.name}.${place.generation}`, place);
}

/** Ends the process of a place as by SIGKILL; another comes after a while. */
export function crashPlace(world: World, place: Place, backAfterMs: number): void {
  const { process } = place.current;
  if (process.state() === "crashed") return;
  if (world.grants.heldBy(process.name).length > 0) world.marks.hit("crash_under_lock");
  world.faults.hit("crash");
  process.crash();
  world.kernel.after(backAfterMs, () => {
    // A rolling restart may have been faster.
    if (place.current.process === process) fillPlace(world, place);
  });
}
