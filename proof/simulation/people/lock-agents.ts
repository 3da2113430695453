// Agents that take public locks with the product's SDK and change something outside under them; and an operator who breaks locks.
import { InterlockApiError, InterlockConnectionError } from "../../../src/sdk/client-errors.ts";
import { type Lease, LockLost, withLockIn } from "../../../src/sdk/locks/with-lock.ts";
import type { SeededRandom } from "../../../src/testing/seeded-random.ts";
import type { SimulatedProcess } from "../../../src/testing/simulated-process.ts";
import type { LockReference } from "../checks/grant-checks.ts";
import type { EngineNode } from "../engine-node.ts";
import type { World } from "../world.ts";
import { agentCaller, agentRuntime } from "./agent-line.ts";
import type { FencedAccess } from "./fenced-sink.ts";
import { credentials } from "./operators.ts";
import { callRemotely } from "./remote-call.ts";

/** So that they are no others' locks. */
const resources = ["agents/one", "agents/two"] as const;

/** What an agent gives up for: it can do no more under this lock. */
class GivenUp extends Error {}

export async function runLockAgent(world: World, process: SimulatedProcess): Promise<void> {
  const { kernel, swarm } = world;
  const random = process.random.stream("agent");
  const tenant = random.pick(world.tenants);
  const key = { tenant, keyId: random.pick(credentials) };
  const caller = agentCaller(world, process, key);
  const runtime = agentRuntime(process);
  for (let request = 1; ; request += 1) {
    await process.clock.sleep(random.integer(1, 150));
    if (kernel.nowMs() >= swarm.chaosMs) return;
    const resource = random.pick([...resources, resources[0]]);
    const target = { tenant, lock: { namespace: "public", name: resource } } as const;
    const agent = { world, process, random, target, element: `${process.name}/${request}` };
    const options = { ttlMs: swarm.leaseMs, waitMs: random.pick([0, 300, 1_500]) };
    const work = (lease: Lease) => addElement(agent, lease);
    try {
      await withLockIn(runtime, caller, { resource, work, options });
      kernel.note(agent.element, "added to", resource);
    } catch (error) {
      if (!isExpected(error)) throw error;
      kernel.note(agent.element, "not added to", resource, error.message);
    }
  }
}

function isExpected(error: unknown): error is Error {
  return [InterlockApiError, InterlockConnectionError, LockLost, GivenUp].some(
    (kind) => error instanceof kind,
  );
}

type Agent = {
  readonly world: World;
  readonly process: SimulatedProcess;
  readonly random: SeededRandom;
  readonly target: LockReference;
  readonly element: string;
};

/** Reads the set, takes its time, writes it back with one element more: only the lock keeps others from doing the same. */
async function addElement(agent: Agent, lease: Lease): Promise<void> {
  const { world, process, random, target, element } = agent;
  const { sink } = world;
  const { token, fence } = lease;
  const access: FencedAccess = { resource: `${target.tenant} ${lease.resource}`, token, fence };
  const believe = () => {
    lease.check();
    world.grants.observeRemoteBelief(target, lease, element);
  };
  believe();
  const elements = await ask(agent, async () => ({ read: sink.read(access) }));
  if (elements.read === "superseded") throw new GivenUp("superseded when it read");
  await process.clock.sleep(
    random.fraction() * world.swarm.leaseMs * random.pick([0.1, 0.5, 1.5]),
    lease.signal,
  );
  believe();
  const changed = [...elements.read, element];
  const written = await ask(agent, async () => ({ write: sink.write(access, changed) }));
  if (written.write === "superseded") throw new GivenUp("superseded when it wrote");
}

/** What is asked twice by a network is done twice by the sink. */
async function ask<Answer extends object>(
  { world, process, random }: Agent,
  work: () => Promise<Answer>,
): Promise<Answer> {
  if (!world.peace.begun && random.chance(0.1)) {
    world.sink.process.deliver(random.integer(1, 3_000), () => {
      work().catch((error) => world.kernel.fail(error));
    });
  }
  const answer = await callRemotely(world, process, world.sink, 1_000, work);
  if ("kind" in answer) throw new GivenUp("no answer of the sink");
  return answer as Answer;
}

/** Takes locks from agents, by what a list has shown a moment ago. */
export async function breakSomeLock(
  world: World,
  node: EngineNode,
  random: SeededRandom,
  who: string,
): Promise<void> {
  const tenant = random.pick(world.tenants);
  const listed = await node.api.listLocks(tenant, { after: "", limit: 20 });
  if (listed.kind !== "listed" || !random.chance(0.3)) return;
  const held = listed.locks.filter(({ resource }) => resources.some((name) => name === resource));
  if (held.length === 0) return;
  const { resource, fence } = random.pick(held);
  const lock = { namespace: "public", name: resource } as const;
  const answer = await node.api.breakLock({ actor: who, tenant, lock, fence, reason: "in the way" });
  world.kernel.note(who, "broke", resource, answer.kind);
}
