// One process of the product over its ports and bus: its engine, what may be asked of it, and what it does by itself.
import type { Config } from "../config.ts";
import type { Partition } from "../domain/partition.ts";
import type { Bus } from "../ports/bus.ts";
import type { DispatchCheck, Ports } from "../ports/ports.ts";
import type { ControlApi } from "./control-api.ts";
import { createApi } from "./create-api.ts";
import { createEngine } from "./create-engine.ts";
import type { Engine } from "./engine/engine.ts";
import { shareWorkers } from "./jobs/worker-views.ts";
import { createWorkers, type Workers } from "./jobs/workers.ts";
import { type Role, startRoles } from "./start-roles.ts";

export type ControlProcess = {
  readonly engine: Engine;
  readonly workers: Workers;
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
  const workers = createWorkers(ports.clock);
  const sharedWorkers = shareWorkers(engine, workers);
  const running = startRoles(engine, { ...parts, sharedWorkers }, roles);
  return {
    engine,
    workers,
    api: createApi(engine, workers, sharedWorkers.views),
    async stop() {
      engine.alarms.close();
      await engine.feeds.close();
      await Promise.all(running.map((part) => part.stop()));
      await engine.background.idle();
      engine.announcer.close();
      engine.pendingPublications.close();
    },
  };
}
