// Crashes and pauses in the middle of a call: right before it is sent, right after, and right when its answer comes.
import { crashManaged, type ManagedProcess } from "../cluster.ts";
import type { World } from "../world.ts";

export function startCallFaults(world: World, processes: readonly ManagedProcess[]): void {
  const { kernel, swarm, moments, marks, faults } = world;
  const { callFaults } = swarm;
  if (callFaults === undefined) return;
  const random = kernel.random.stream("call faults");
  moments.strike = (process, moment) => {
    if (kernel.nowMs() >= swarm.chaosMs) return;
    if (random.chance(callFaults.pauseRate)) {
      kernel.note(process.name, "struck when it had", moment);
      marks.hit("paused_between_calls");
      faults.hit("pause between calls");
      process.pause(random.integer(20, callFaults.pauseMsMax));
    }
    if (!random.chance(callFaults.crashRate)) return;
    const managed = processes.find(({ current }) => current.process === process);
    if (managed === undefined) return;
    kernel.note(process.name, "struck when it had", moment);
    marks.hit("crashed_between_calls");
    crashManaged(world, managed, random.integer(0, 2_000));
  };
}
