// A process as the product composes it, with its roles: what it does by itself, and the table of what may be asked of it.
import type { ControlApi } from "../../src/control/control-api.ts";
import { startControlProcess } from "../../src/control/control-process.ts";
import type { Engine } from "../../src/control/engine/engine.ts";
import { holdsHighRisk } from "../../src/control/scheduler/holding.ts";
import { type Role, roles } from "../../src/control/start-roles.ts";
import { partitionOf } from "../../src/domain/partition.ts";
import { drawCheck } from "./people/dispatch-checks.ts";
import type { Node, World } from "./world.ts";

export type EngineNode = Node & {
  readonly engine: Engine;
  readonly api: ControlApi;
  /** In good order, as by SIGTERM. */
  stop(): Promise<void>;
};

export const allRoles: ReadonlySet<Role> = new Set(roles);

export function startEngine(world: World, node: Node, wanted: ReadonlySet<Role>): EngineNode {
  const dependencies = { ports: node.ports(), bus: world.bus.connect(node.process), config: node.config };
  const { engine, api, stop } = startControlProcess(dependencies, {
    roles: wanted,
    check: holdsHighRisk(node.config) ? drawCheck(world, node.process) : undefined,
    // The product sweeps all 64; here only those that belong to somebody.
    partitions: [...new Set(world.tenants.map(partitionOf))],
  });
  return { ...node, engine, api, stop };
}
