// Agents that take public locks all through a failover, and rivals that try to get the same locks after it.
import { type Client, createClient } from "../../sdk/client.ts";
import { InterlockApiError, InterlockConnectionError } from "../../sdk/client-errors.ts";
import { runtime } from "../../sdk/runtime.ts";
import { clientAt } from "../load/steady-load.ts";

export type LockGrant = {
  readonly resource: string;
  readonly token: string;
  readonly fence: number;
  /** Of the try that was answered; since the load began. */
  readonly sentAtMs: number;
  readonly answeredAtMs: number;
};

export type LockTakers = { readonly grants: readonly LockGrant[]; stop(): Promise<void> };

type Agents = { readonly urls: readonly string[]; readonly apiKey: string; nowMs(): number };

/** None runs out while the drill lasts. */
const ttlMs = 600_000;
const everyMs = 200;
const againAfterMs = 100;
/** Rivals that ask side by side. */
const atOnce = 8;

/** Each lock is asked for under one token until it is granted: a caller without an answer may hold it. */
export function startLockTakers({ urls, apiKey, nowMs }: Agents): LockTakers {
  const stopping = new AbortController();
  const grants: LockGrant[] = [];
  const take = async () => {
    for (let number = 1; !stopping.signal.aborted; number += 1) {
      const resource = `drill-lock-${number}`;
      const token = runtime.token();
      for (let isOpen = true; isOpen && !stopping.signal.aborted; ) {
        const sentAtMs = nowMs();
        const acquired = clientAt({ urls, apiKey }, number).locks.acquire({ resource, token, ttl_ms: ttlMs });
        const fence = await acquired.then((grant) => grant.fence, unlessBroken);
        if (fence !== undefined) grants.push({ resource, token, fence, sentAtMs, answeredAtMs: nowMs() });
        isOpen = fence === undefined;
        await runtime.sleep(isOpen ? againAfterMs : everyMs, stopping.signal);
      }
    }
  };
  const taking = take();
  taking.catch(() => undefined);
  return {
    grants,
    async stop() {
      stopping.abort();
      await taking;
    },
  };
}

/** No lock is asked for twice under two tokens here: whatever is refused is refused for trouble. */
function unlessBroken(error: unknown): undefined {
  const isPassing =
    error instanceof InterlockConnectionError || (error instanceof InterlockApiError && error.retryable);
  if (!isPassing) throw error;
}

export type Rivalry = {
  /** Locks that a rival got although their holder has not given them back. */
  readonly grantedTwice: readonly string[];
  /** Holders that could not renew what was granted to them. */
  readonly notRenewed: readonly string[];
  /** Locks whose next grant, after their release, had no larger fence. */
  readonly fenceNotGrown: readonly string[];
};

/** A holder keeps its lock against a rival, can renew it, and hands it on with a larger fence. */
export async function tryRivals(
  target: { readonly url: string; readonly apiKey: string },
  grants: readonly LockGrant[],
): Promise<Rivalry> {
  const client = createClient(target);
  const grantedTwice: string[] = [];
  const notRenewed: string[] = [];
  const fenceNotGrown: string[] = [];
  const challenge = async ({ resource, token, fence }: LockGrant) => {
    if ((await acquire(client, resource)) !== undefined) grantedTwice.push(resource);
    const renewed = client.locks.renew({ resource, token, ttl_ms: ttlMs });
    if (!(await renewed.then(() => true, unlessRefused))) notRenewed.push(resource);
    await client.locks.release({ resource, token }).catch(unlessRefused);
    const next = await acquire(client, resource);
    if (next === undefined || next.fence <= fence) fenceNotGrown.push(resource);
    if (next !== undefined) await client.locks.release({ resource, token: next.token });
  };
  const waiting = [...grants];
  const lane = async () => {
    for (let grant = waiting.shift(); grant !== undefined; grant = waiting.shift()) await challenge(grant);
  };
  await Promise.all(Array.from({ length: atOnce }, lane));
  return { grantedTwice, notRenewed, fenceNotGrown };
}

/** Undefined when somebody holds it. */
async function acquire(client: Client, resource: string) {
  const token = runtime.token();
  try {
    const { fence } = await client.locks.acquire({ resource, token, ttl_ms: ttlMs });
    return { token, fence };
  } catch (error) {
    if (error instanceof InterlockApiError && error.code === "lock_unavailable") return undefined;
    throw error;
  }
}

function unlessRefused(error: unknown): false {
  if (error instanceof InterlockApiError && error.code === "lock_not_owned") return false;
  throw error;
}
