// Processes that take public locks of one simulated store, for tests of the flows: virtual time and scripted faults.

import { createSimulatedBus, noBusFaults } from "../../proof/simulation/bus/simulated-bus.ts";
import { createInProcessBus } from "../../src/adapters/in-process-bus.ts";
import type { Config } from "../../src/config.ts";
import { type ControlApi, createApi } from "../../src/control/create-api.ts";
import { createEngine } from "../../src/control/engine/engine.ts";
import type { AcquireLockAnswer, AcquireLockRequest } from "../../src/control/locks/acquire-public-lock.ts";
import { hearHandovers } from "../../src/control/locks/lock-waiters.ts";
import type { LockToken } from "../../src/domain/lock.ts";
import type { TenantId } from "../../src/domain/tenant.ts";
import { loadConfig } from "../../src/load-config.ts";
import {
  createWorld,
  join,
  type Member,
  type MemberOptions,
  type World,
  type WorldOptions,
} from "./simulated-ports.ts";

export const acme = "acme" as TenantId;
export const caller = { tenant: acme, actor: "ann" };
export const report = "report";

export type LockProcess = Member & {
  readonly api: ControlApi;
  /** With a wait of 10 s in the queue, unless said otherwise. */
  acquire(request?: Partial<AcquireLockRequest>, signal?: AbortSignal): Promise<AcquireLockAnswer>;
  release(token: string, resource?: string): ReturnType<ControlApi["releaseLock"]>;
};

export type LockWorld = World & {
  process(name: string, options?: MemberOptions & { readonly overrides?: Partial<Config> }): LockProcess;
};

/** `linked` processes tell each other of handed-on locks; others find out when they ask again. */
export function lockWorld(options: WorldOptions & { readonly linked?: boolean } = {}): LockWorld {
  const { linked = false, ...worldOptions } = options;
  const world = createWorld(worldOptions);
  const shared = createSimulatedBus(world.kernel, noBusFaults);
  return {
    ...world,
    process(name, { overrides = {}, ...memberOptions } = {}) {
      const member = join(world, name, memberOptions);
      const { config } = loadConfig({ overrides });
      const { ports } = member;
      const bus = linked ? shared.connect(member.process) : createInProcessBus(ports);
      const engine = createEngine(ports, bus, config);
      hearHandovers(bus, engine.lockWaiters);
      const api = createApi(engine);
      return {
        ...member,
        api,
        acquire: (request = {}, signal) =>
          api.acquireLock(
            { caller, resource: report, ttlMs: 30_000, waitMs: 10_000, wait: "queue", ...request },
            signal,
          ),
        release: (token, resource = report) =>
          api.releaseLock({ tenant: acme, resource, token: token as LockToken }),
      };
    },
  };
}

export type Acquired = Extract<AcquireLockAnswer, { kind: "acquired" }>;

export function acquired(answer: AcquireLockAnswer): Acquired {
  if (answer.kind !== "acquired") throw new Error(`expected a lock, got ${JSON.stringify(answer)}`);
  return answer;
}

export async function until(world: LockWorld, atMs: number): Promise<void> {
  await world.kernel.run({ untilMs: atMs });
}

const lock = { namespace: "public", name: report } as const;

/** Somebody from outside all processes has the lock; gives what frees it. */
export async function occupied(world: LockWorld, ttlMs = 600_000) {
  const token = "occupant" as LockToken;
  const request = { tenant: acme, lock, token, instance: "x", ttlMs, owner: "bob" };
  const answer = await world.store.acquireLock(request, { deadlineMs: 1 });
  if (answer.kind !== "acquired") throw new Error(`the lock could not be occupied: ${answer.kind}`);
  return () => world.store.releaseLock({ tenant: acme, lock, token }, { deadlineMs: 1 });
}

/** What the store itself says of the lock. */
export function held(world: LockWorld) {
  return world.store.inspectLock({ tenant: acme, lock }, { deadlineMs: 1 });
}
