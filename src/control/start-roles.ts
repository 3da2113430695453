// What a process does by itself, by its roles: it hears hints and news as a gateway, sweeps and applies as an engine.
import type { Config } from "../config.ts";
import type { Consumer } from "../ports/bus.ts";
import type { Engine } from "./engine/engine.ts";
import { hearChanges } from "./events/tell-changes.ts";
import { hearHints } from "./jobs/hear-hints.ts";
import { hearNotices } from "./jobs/hear-notices.ts";
import { hearResults } from "./jobs/hear-results.ts";
import type { SharedWorkers } from "./jobs/worker-views.ts";
import { hearHandovers } from "./locks/tell-handover.ts";
import { startSweeper } from "./sweep/sweeper.ts";

export const roles = ["gateway", "engine", "scheduler"] as const;
export type Role = (typeof roles)[number];

export function rolesOf(config: Config): ReadonlySet<Role> {
  return new Set(config["process.roles"].split(",") as Role[]);
}

export function startRoles(
  engine: Engine,
  sharedWorkers: SharedWorkers,
  wanted: ReadonlySet<Role>,
): readonly Consumer[] {
  const { bus, wakes, lockWaiters } = engine;
  const parts: Readonly<Record<Role, () => readonly Consumer[]>> = {
    gateway: () => [
      hearHints(engine),
      hearChanges(bus, wakes),
      hearHandovers(bus, lockWaiters),
      sharedWorkers.start(),
    ],
    engine: () => [startSweeper(engine), hearResults(engine), hearNotices(engine)],
    scheduler: () => [],
  };
  return roles.filter((role) => wanted.has(role)).flatMap((role) => parts[role]());
}
