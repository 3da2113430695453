// Our public locks under contention, in a process of their own: one strategy of waiting, one connection to Redis.
//   node --import ./scripts/setup/typescript.mjs bench/lock-strategies.ts <strategy> <redis URL> '<contention as JSON>'
import { readOperationSource } from "../src/adapters/redis/scripts.ts";
import { createControlPlane } from "../src/control-plane.ts";
import type { LockWait } from "../src/domain/lock.ts";
import type { TenantId } from "../src/domain/tenant.ts";
import { operationNames } from "../src/ports/store.ts";
import { type Commands, type Contention, contend, type Grant } from "./lock-contention.ts";

const caller = { tenant: "bench" as TenantId, actor: "bench" };
const resource = "hot";

/** Clients of this product send scripts only. */
const commands: Commands = {
  sent: ["evalsha", "eval", "fcall", "script|load"],
  insideScripts: operationNames
    .flatMap((name) => [...readOperationSource(name).matchAll(/redis\.call\("(\w+)"/g)])
    .map(([, command = ""]) => command.toLowerCase()),
};

const [wait, url = "", json = "{}"] = process.argv.slice(2) as [LockWait, string, string];
const { api } = await createControlPlane({
  overrides: { "store.kind": "redis", "store.redisUrls": url },
  engine: "stopped",
});

async function acquire(contender: number): Promise<Grant> {
  const owner = `contender ${contender}`;
  const answer = await api.acquireLock({ caller, resource, owner, ttlMs: 30_000, waitMs: 60_000, wait });
  if (answer.kind === "lock_unavailable") return "gave_up";
  if (answer.kind !== "acquired") throw new Error(`no lock: ${JSON.stringify(answer)}`);
  const { token } = answer;
  return { release: () => api.releaseLock({ tenant: caller.tenant, resource, token }) };
}

console.log(JSON.stringify(await contend(url, JSON.parse(json) as Contention, commands, acquire)));
process.exit(0);
