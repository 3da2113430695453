// What a process does by itself, by its roles: it hears hints and news as a gateway, sweeps as an engine, asks as a scheduler.
import type { Config } from "../config.ts";
import type { Partition } from "../domain/partition.ts";
import type { Consumer } from "../ports/bus.ts";
import type { DispatchCheck } from "../ports/ports.ts";
import { startSealer } from "./audit/sealer.ts";
import { watchCanaries } from "./canaries/watch-canaries.ts";
import type { Engine } from "./engine/engine.ts";
import { hearChanges } from "./events/announce-changes.ts";
import { hearHints } from "./jobs/hear-hints.ts";
import { hearNotices } from "./jobs/hear-notices.ts";
import { hearResults } from "./jobs/hear-results.ts";
import type { SharedWorkers } from "./jobs/worker-views.ts";
import { hearHandovers } from "./locks/announce-handover.ts";
import { hearPlaces } from "./pools/places.ts";
import { startScheduler } from "./scheduler/start-scheduler.ts";
import { startSweeper } from "./sweep/sweeper.ts";

export const roles = ["gateway", "engine", "scheduler"] as const;
export type Role = (typeof roles)[number];

export function rolesOf(config: Config): ReadonlySet<Role> {
  return new Set(config["process.roles"].split(",") as Role[]);
}

type RoleParts = {
  readonly sharedWorkers: SharedWorkers;
  readonly check: DispatchCheck | undefined;
  readonly partitions?: readonly Partition[];
};

export function startRoles(
  engine: Engine,
  { sharedWorkers, check, partitions }: RoleParts,
  wanted: ReadonlySet<Role>,
): readonly Consumer[] {
  const { bus, wakes, lockWaiters } = engine;
  const parts: Readonly<Record<Role, () => readonly Consumer[]>> = {
    gateway: () => [
      hearHints(engine),
      hearChanges(bus, wakes),
      hearHandovers(bus, lockWaiters),
      hearPlaces(engine),
      sharedWorkers.start(),
    ],
    engine: () => [
      startSweeper(engine, partitions),
      hearResults(engine),
      hearNotices(engine),
      ...sealing(engine, wanted),
    ],
    // Without a check no job is held.
    scheduler: () => (check === undefined ? [] : [startScheduler(engine, check)]),
  };
  // A process that handles starts or results measures them; one process may have both roles.
  const measures = wanted.has("gateway") || wanted.has("engine");
  const watching = measures ? [watchCanaries(engine, { judges: wanted.has("engine") })] : [];
  return [...roles.filter((role) => wanted.has(role)).flatMap((role) => parts[role]()), ...watching];
}

/** A sealing process listens to the changes of others, as a gateway does anyway. */
function sealing(engine: Engine, wanted: ReadonlySet<Role>): readonly Consumer[] {
  const sealer = startSealer(engine);
  if (sealer === undefined) return [];
  return wanted.has("gateway") ? [sealer] : [sealer, hearChanges(engine.bus, engine.wakes)];
}
