// One process of the product: its engine, what may be asked of it, and what it does by itself according to its roles, as the sweep.
import type { Config } from "../config.ts";
import type { Partition } from "../domain/tenant.ts";
import type { Bus, Consumer } from "../ports/bus.ts";
import type { DispatchCheck, Ports } from "../ports/ports.ts";
import { startSealer } from "./audit/sealer.ts";
import { watchCanaries } from "./canaries/watch-canaries.ts";
import { type ControlApi, createApi } from "./create-api.ts";
import { createEngine, type Engine } from "./engine/engine.ts";
import { announceWatched, hearChanges, hearWatched } from "./events/wakes.ts";
import { hearHints } from "./jobs/hear-hints.ts";
import { hearNotices, hearResults } from "./jobs/hear-results.ts";
import { startScheduler } from "./jobs/scheduler.ts";
import { hearHandovers } from "./locks/lock-waiters.ts";
import { hearPlaces } from "./pools/places.ts";
import { startSweeper } from "./sweeper.ts";

export type ControlProcess = {
  readonly engine: Engine;
  readonly api: ControlApi;
  /** In good order: what was begun is finished. The bus and the store are still open then. */
  stop(): Promise<void>;
};

type ControlProcessOptions = {
  readonly roles: ReadonlySet<Role>;
  readonly check: DispatchCheck | undefined;
  /** Those that an engine sweeps; all by default. */
  readonly partitions?: readonly Partition[];
};

export function startControlProcess(
  { ports, bus, config }: { readonly ports: Ports; readonly bus: Bus; readonly config: Config },
  { roles, ...parts }: ControlProcessOptions,
): ControlProcess {
  const engine = createEngine(ports, bus, config);
  const running = startRoles(engine, parts, roles);
  return {
    engine,
    api: createApi(engine),
    async stop() {
      engine.alarms.close();
      engine.rateAlarms.close();
      await engine.feeds.close();
      await Promise.all(running.map((part) => part.stop()));
      await engine.background.idle();
      engine.announcer.close();
      engine.queueGauges.close();
      engine.budgetGauges.close();
      engine.heldHints.close();
      engine.pendingPublications.close();
    },
  };
}

export const roles = ["gateway", "engine", "scheduler"] as const;
export type Role = (typeof roles)[number];

export function rolesOf(config: Config): ReadonlySet<Role> {
  return new Set(config["process.roles"].split(",") as Role[]);
}

type RoleParts = {
  readonly check: DispatchCheck | undefined;
  readonly partitions?: readonly Partition[];
};

function startRoles(
  engine: Engine,
  { check, partitions }: RoleParts,
  wanted: ReadonlySet<Role>,
): readonly Consumer[] {
  const { bus, wakes, announcer, lockWaiters, sharedWorkers } = engine;
  const parts: Readonly<Record<Role, () => readonly Consumer[]>> = {
    gateway: () => [
      hearHints(engine),
      hearChanges(bus, wakes),
      hearHandovers(bus, lockWaiters),
      hearPlaces(engine),
      announceWatched(engine.ports.clock, bus, wakes),
    ],
    engine: () => [startSweeper(engine, partitions), hearResults(engine), hearNotices(engine)],
    // Without a check no job is held.
    scheduler: () => (check === undefined ? [] : [startScheduler(engine, check)]),
  };
  // A process that handles starts or results measures them; one process may have both roles.
  const measures = wanted.has("gateway") || wanted.has("engine");
  const watching = measures ? [watchCanaries(engine, { judges: wanted.has("engine") })] : [];
  // Who adds audit records seals them.
  const sealer = measures ? startSealer(engine) : undefined;
  if (sealer !== undefined) watching.push(sealer);
  // Every role commits: what it publishes of its jobs and changes depends on who is there to hear it. Without a role nothing runs.
  const hearing = wanted.size === 0 ? [] : [sharedWorkers.start(), hearWatched(bus, announcer)];
  const working = roles.filter((role) => wanted.has(role)).flatMap((role) => parts[role]());
  return [...hearing, ...working, ...watching];
}
