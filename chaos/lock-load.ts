// Agents that take public locks and change sets in the world outside: read, add an element, write back; some dawdle past their lease.
import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { createGatewayClient, type GatewayClient } from "./gateways.ts";
import { type Lane, pause } from "./ledger-load.ts";
import type { SetWrite } from "./outside-program.ts";
import type { Tenant } from "./tenants.ts";

export type LockUsers = {
  readonly lane: Lane;
  readonly tenant: Tenant;
  readonly outsideUrl: string;
  /** Those of a group want the same lock. */
  readonly groups: number;
};

const agentsPerGroup = 3;
const ttlMs = 1_500;
/** What is read stands in the history as a whole: a set that grew for ever would fill it. */
const writesPerSet = 60;

export async function useLocks(users: LockUsers): Promise<void> {
  const agents = Array.from({ length: users.groups }, (_, group) => {
    const shared = { writes: 0 };
    return Array.from({ length: agentsPerGroup }, (_agent, number) =>
      useLock(users, { group, number, shared }),
    );
  });
  await Promise.all(agents.flat());
}

type Agent = { readonly group: number; readonly number: number; readonly shared: { writes: number } };

async function useLock(
  { lane, tenant, outsideUrl }: LockUsers,
  { group, number, shared }: Agent,
): Promise<void> {
  const name = `agent-${group + 1}.${number + 1}`;
  const random = lane.random.stream(name);
  const gateway = createGatewayClient(lane.urls, tenant.worker, number);
  for (let turn = 1; !lane.signal.aborted; turn += 1) {
    const set = `set-${group + 1}-${Math.floor(shared.writes / writesPerSet) + 1}`;
    const grant = await acquire(lane, gateway, { tenant, name, lock: set });
    if (grant === undefined) {
      await pause(lane, 100);
      continue;
    }
    const elements = await readSet(lane, outsideUrl, { name, set, fence: grant.fence });
    // Longer than the lease lasts, with what was read in its hands.
    await sleep(random.chance(0.06) ? ttlMs + random.integer(100, 800) : random.integer(0, 15));
    if (elements !== undefined) {
      const element = `${group + 1}.${number + 1}.${turn}`;
      const isAccepted = await writeSet(outsideUrl, set, {
        fence: grant.fence,
        writer: name,
        element,
        elements: [...elements, element],
      });
      if (isAccepted) shared.writes += 1;
    }
    await release(lane, gateway, { tenant, name, lock: set, ...grant });
    await pause(lane, random.integer(50, 300));
  }
}

type Wish = { readonly tenant: Tenant; readonly name: string; readonly lock: string };
type Grant = { readonly token: string; readonly fence: number };

/** One token for all its tries: a caller without an answer may hold the lock, and asks again with it. */
async function acquire(
  { asker }: Lane,
  gateway: GatewayClient,
  { tenant, name, lock }: Wish,
): Promise<Grant | undefined> {
  const token = randomBytes(16).toString("hex");
  for (let tries = 0; tries < 3; tries += 1) {
    const outcome = await asker.ask({
      client: name,
      operation: { operation: "acquire", tenant: tenant.id, lock, ttlMs },
      send: () =>
        gateway
          .client()
          .call("acquireLock", { body: { resource: lock, token, ttl_ms: ttlMs, wait_ms: 2_000 } }),
      answerOf: ({ fence }) => ({ kind: "lock", fence }),
    });
    gateway.learn(outcome);
    if (outcome.kind === "ok") return { token, fence: outcome.value.fence };
    if (outcome.kind === "fail") return undefined;
  }
  return undefined;
}

async function release(
  { asker }: Lane,
  gateway: GatewayClient,
  { tenant, name, lock, token, fence }: Wish & Grant,
): Promise<void> {
  const outcome = await asker.ask({
    client: name,
    operation: { operation: "release", tenant: tenant.id, lock, fence },
    send: () => gateway.client().call("releaseLock", { body: { resource: lock, token } }),
    answerOf: () => ({ kind: "done" }),
  });
  gateway.learn(outcome);
}

type Reading = { readonly name: string; readonly set: string; readonly fence: number };

async function readSet(
  { asker }: Lane,
  outsideUrl: string,
  { name, set, fence }: Reading,
): Promise<readonly string[] | undefined> {
  const completion = asker.begin(name, { operation: "read_set", set });
  const response = await fetch(`${outsideUrl}/sets/${set}?fence=${fence}`);
  const { elements = [] } = (await response.json()) as { readonly elements?: readonly string[] };
  if (response.status === 200) {
    completion.ok({ kind: "set", elements });
    return elements;
  }
  completion.fail("stale_fence");
  return undefined;
}

/** The world outside records it. */
async function writeSet(outsideUrl: string, set: string, write: SetWrite): Promise<boolean> {
  const response = await fetch(`${outsideUrl}/sets/${set}`, { method: "POST", body: JSON.stringify(write) });
  await response.arrayBuffer();
  return response.status === 200;
}
