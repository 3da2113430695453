// A process as the product composes it, with its roles: what it does by itself, and the table of what may be asked of it.

import { type Role, roles, startControlProcess } from "../../src/control/control-process.ts";
import type { ControlApi } from "../../src/control/create-api.ts";
import { type Engine, holdsHighRisk } from "../../src/control/engine/engine.ts";
import { partitionOf } from "../../src/domain/tenant.ts";
import type { DispatchCheck } from "../../src/ports/ports.ts";
import type { SimulatedProcess } from "../../src/testing/simulated-process.ts";
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

/** Longer than the job's lock now and then, so that it is renewed, lost and taken over while the check works. */
function drawCheck(world: World, process: SimulatedProcess): DispatchCheck {
  const random = process.random.stream("dispatch check");
  return async (_job, { signal }) => {
    if (world.peace.begun) return { verdict: "allow" };
    const takesMs = random.pick([1, 20, 400, 3_000]) * random.fraction();
    await process.clock.sleep(takesMs, signal);
    const roll = random.fraction();
    if (roll < 0.6) return { verdict: "allow" };
    if (roll < 0.8) return { verdict: "hold", reason: random.pick(["budget", "hours"]), retryAfterMs: 50 };
    if (roll < 0.95) throw new Error("the check is down");
    return new Promise(() => {});
  };
}
