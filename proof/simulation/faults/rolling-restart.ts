// A rolling restart: one gateway after the other is replaced by one with another strategy, which runs beside it until it is done.
import { type ManagedProcess, type Started, startManaged } from "../cluster.ts";
import type { World } from "../world.ts";

export function startRollingRestart(world: World, gateways: readonly ManagedProcess[]): void {
  const { kernel, swarm } = world;
  const { rolling } = swarm;
  if (rolling === undefined) return;
  for (const [turn, managed] of gateways.entries()) {
    const isLast = turn === gateways.length - 1;
    kernel.after(rolling.startMs + turn * rolling.everyMs, () => {
      if (kernel.nowMs() >= swarm.chaosMs) return;
      const old = managed.current;
      const { strategy } = managed.settings;
      managed.settings = { ...managed.settings, strategy: strategy === "lock" ? "atomic" : "lock" };
      startManaged(world, managed);
      const ended = stopInGoodOrder(world, old, rolling.graceMs);
      if (isLast) void ended.then(() => world.marks.hit("rolled"));
    });
  }
}

/** Its callers get their answers, then it stops as the product does; what takes too long is cut short. */
async function stopInGoodOrder(world: World, { process, stop }: Started, graceMs: number): Promise<void> {
  const { kernel, tasks, leaving, faults } = world;
  if (process.state() === "crashed") return;
  kernel.note(process.name, "leaves");
  faults.hit("rolling restart");
  leaving.add(process.name);
  return new Promise((resolve) => {
    const end = () => {
      process.crash();
      resolve();
    };
    const cancel = kernel.after(graceMs, end);
    tasks.start(process, "stop", async () => {
      await tasks.ended(process);
      await stop?.();
      kernel.note(process.name, "stopped");
      cancel();
      process.deliver(0, end);
    });
  });
}
