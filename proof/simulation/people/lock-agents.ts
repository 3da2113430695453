// Agents that take public locks with the product's SDK and change something outside under them; and an operator who breaks locks.

import type { Trouble } from "../../../src/control/caller.ts";
import type { ApiKeyRecord } from "../../../src/domain/api-key.ts";
import type { TenantId } from "../../../src/domain/tenant.ts";
import { errors } from "../../../src/errors.ts";
import { type Failure, failureIn, type Service } from "../../../src/gateway/handler.ts";
import { lockHandlers } from "../../../src/gateway/handlers/lock-handlers.ts";
import type { Caller } from "../../../src/sdk/caller.ts";
import { InterlockApiError, InterlockConnectionError } from "../../../src/sdk/client-errors.ts";
import type { Runtime } from "../../../src/sdk/runtime.ts";
import { type Lease, LockLost, withLockIn } from "../../../src/sdk/with-lock.ts";
import type { SeededRandom } from "../../../src/testing/seeded-random.ts";
import type { SimulatedProcess } from "../../../src/testing/simulated-process.ts";
import type { LockReference } from "../checks/grant-checks.ts";
import type { EngineNode } from "../engine-node.ts";
import type { World } from "../world.ts";
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
  const listed = await node.api.listLocks({ tenant, after: "", limit: 20 });
  if (listed.kind !== "listed" || !random.chance(0.3)) return;
  const held = listed.locks.filter(({ resource }) => resources.some((name) => name === resource));
  if (held.length === 0) return;
  const { resource, fence } = random.pick(held);
  const lock = { namespace: "public", name: resource } as const;
  const answer = await node.api.breakLock({ actor: who, tenant, lock, fence, reason: "in the way" });
  world.kernel.note(who, "broke", resource, answer.kind);
}

type LockOperation = "acquireLock" | "renewLock" | "releaseLock";
type Body = Readonly<Record<string, string | number>>;
type Options = { readonly body: Body; readonly timeoutMs?: number };

/** Besides what a request itself waits for. */
const answerWithinMs = 2_000;
/** A release that gets no answer is repeated, as the SDK's own line does. */
const releaseTries = 3;

function agentCaller(
  world: World,
  process: SimulatedProcess,
  key: { readonly tenant: TenantId; readonly keyId: string },
): Caller {
  const random = process.random.stream("line");
  const once = async (operation: LockOperation, { body, timeoutMs = answerWithinMs }: Options) => {
    const gateway = random.pick(world.gateways);
    const aborted = new AbortController();
    const withinMs = timeoutMs + Number(body.wait_ms ?? 0);
    const reply = await callRemotely(world, process, gateway, withinMs, () =>
      handle(gateway, operation, { body, key, signal: aborted.signal }),
    );
    if (!("kind" in reply) || reply.kind !== "no_answer") return readReply(operation, reply);
    // The connection is gone: the gateway may notice.
    if (random.chance(0.5)) gateway.process.deliver(random.integer(1, 200), () => aborted.abort());
    throw new InterlockConnectionError({
      asked: operation,
      url: "simulated",
      reason: "timeout",
      what: "no answer",
    });
  };
  const call = async (operation: LockOperation, options: Options) => {
    for (let tries = 1; ; tries += 1) {
      try {
        return await once(operation, options);
      } catch (error) {
        const mayRepeat = operation === "releaseLock" && error instanceof InterlockConnectionError;
        if (!mayRepeat || tries >= releaseTries) throw error;
      }
    }
  };
  return { url: "simulated", call } as unknown as Caller;
}

function agentRuntime(process: SimulatedProcess): Runtime {
  const { clock, random } = process;
  return {
    now: () => ({ monotonicMs: clock.monotonicMs(), wallMs: clock.wallMs() }),
    sleep: (ms, signal) => clock.sleep(ms, signal),
    timer: (ms, callback) => clock.timer(ms, callback),
    soon: (callback) => void clock.timer(0, callback),
    fraction: () => random.stream("sdk").fraction(),
    token: () => random.stream("sdk").token(),
    environment: () => undefined,
    processName: () => process.name,
    warn: () => {},
    onStopSignal: () => () => {},
  };
}

type Request = {
  readonly body: Body;
  readonly key: { readonly tenant: TenantId; readonly keyId: string };
  readonly signal: AbortSignal;
};

type Reply = { readonly body: unknown } | Failure | Trouble;

/** What the gateway has read and authenticated by then. */
function handle(
  gateway: EngineNode,
  operation: LockOperation,
  { body, key, signal }: Request,
): Promise<Reply> {
  const { api, config } = gateway;
  const service = { api, config, ports: gateway.ports(), isDraining: () => false } as unknown as Service;
  const record = { ...key, role: "operator" } as unknown as ApiKeyRecord;
  const asked = { body: { wait: "queue", ...body }, key: record, signal: () => signal };
  return lockHandlers[operation](service, asked as never) as Promise<Reply>;
}

function readReply(operation: LockOperation, reply: Reply): unknown {
  if (!("kind" in reply)) return reply.body;
  const { kind: code } = failureIn(reply, "write");
  const { status, retryable, message, remedy } = errors[code];
  const problem = { status, code, title: message, detail: remedy, retryable };
  const isUnknown = code.endsWith("_unknown") || code === "request_cancelled";
  const seen = { asked: operation, retryAfterMs: undefined, requestId: undefined };
  throw new InterlockApiError(problem, { ...seen, effect: isUnknown ? "unknown" : "none" });
}
