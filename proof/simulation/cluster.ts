// The managed processes of the cluster: after a crash another one is started under a new name.
import type { SimulatedProcess } from "../../src/testing/simulated-process.ts";
import type { EngineNode } from "./engine-node.ts";
import type { NodeOptions, World } from "./world.ts";

export type ManagedProcess = {
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

export type Starter = (
  world: World,
  name: string,
  managed: Pick<ManagedProcess, "index" | "settings">,
) => Started;

export function startPlace(
  world: World,
  name: string,
  start: Starter,
  { index, settings }: Pick<ManagedProcess, "index" | "settings">,
): ManagedProcess {
  const current = start(world, `${name}.1`, { index, settings });
  return { name, index, start, settings, generation: 1, current };
}

/** Starts a new process in place of the previous one, which the caller has to end. */
export function startManaged(world: World, managed: ManagedProcess): void {
  managed.generation += 1;
  managed.current = managed.start(world, `${managed.name}.${managed.generation}`, managed);
}

/** Ends the process as by SIGKILL; another is started after a while. */
export function crashManaged(world: World, managed: ManagedProcess, backAfterMs: number): void {
  const { process } = managed.current;
  if (process.state() === "crashed") return;
  if (world.grants.heldBy(process.name).length > 0) world.marks.hit("crash_under_lock");
  world.faults.hit("crash");
  process.crash();
  world.kernel.after(backAfterMs, () => {
    // A rolling restart may have been faster.
    if (managed.current.process === process) startManaged(world, managed);
  });
}
