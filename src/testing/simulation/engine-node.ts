// A gateway as the product composes it: engine, sweeps and hints in one simulated process, with the table of what may be asked.

import type { ControlApi } from "../../control/control-api.ts";
import { createApi } from "../../control/create-api.ts";
import { createEngine } from "../../control/create-engine.ts";
import type { Engine } from "../../control/engine/engine.ts";
import { hearChanges } from "../../control/events/tell-changes.ts";
import { hearHints } from "../../control/jobs/hear-hints.ts";
import { hearNotices } from "../../control/jobs/hear-notices.ts";
import { hearResults } from "../../control/jobs/hear-results.ts";
import { createWorkers } from "../../control/jobs/workers.ts";
import { hearHandovers } from "../../control/locks/tell-handover.ts";
import { hearFreedPlaces, retryFullLimits } from "../../control/pools/places.ts";
import { holdsHighRisk } from "../../control/scheduler/holding.ts";
import { startScheduler } from "../../control/scheduler/start-scheduler.ts";
import { sweepPartition } from "../../control/sweep/sweep-partition.ts";
import { partitionOf } from "../../domain/partition.ts";
import { drawCheck } from "./dispatch-checks.ts";
import type { Node, World } from "./world.ts";

export type EngineNode = Node & { readonly engine: Engine; readonly api: ControlApi };

export function startEngine(world: World, node: Node): EngineNode {
  const ports = node.ports();
  const engine = createEngine(ports, world.bus.connect(node.process), node.config);
  const workers = createWorkers(ports.clock);
  const api = createApi(engine, workers, workers);
  hearHints(engine);
  hearNotices(engine);
  hearChanges(engine.bus, engine.wakes);
  hearHandovers(engine.bus, engine.lockWaiters);
  hearResults(engine);
  hearFreedPlaces(engine);
  if (holdsHighRisk(node.config)) startScheduler(engine, drawCheck(world, node.process));
  world.keepGoing(node.process, () => sweepOn(world, engine));
  if (world.swarm.pools.length > 1) world.keepGoing(node.process, () => retryOn(world, engine));
  return { ...node, engine, api };
}

async function retryOn(world: World, engine: Engine): Promise<void> {
  while (!world.peace.over) {
    await engine.ports.clock.sleep(500);
    retryFullLimits(engine);
  }
}

/** The product sweeps all 64 partitions; here only those that belong to somebody. */
async function sweepOn(world: World, engine: Engine): Promise<void> {
  const { clock, random } = engine.ports;
  const everyMs = engine.config["sweep.everyMs"];
  const partitions = [...new Set(world.tenants.map(partitionOf))];
  await clock.sleep(everyMs * random.fraction());
  while (!world.peace.over) {
    for (const partition of partitions) await sweepPartition(engine, partition);
    await clock.sleep(everyMs);
  }
}
