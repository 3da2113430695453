// A public lock as an operator finds it with redis-cli: GET and PTTL of its key.
import { partitionLabel, partitionOf } from "../../domain/partition.ts";
import type { TenantId } from "../../domain/tenant.ts";
import { type Check, check } from "../drill.ts";
import type { Target } from "../target/target.ts";

export type ExpectedGrant = { readonly token: string; readonly fence: number; readonly ttlMs: number };

/** Nothing where the lock is not in a Redis server of the drill's own. */
export async function lookAtKey(
  { processes }: Target,
  tenant: string,
  resource: string,
  { token, fence, ttlMs }: ExpectedGrant,
): Promise<readonly Check[]> {
  const redis = processes?.servers?.redis;
  if (redis === undefined) return [];
  const partition = partitionLabel(partitionOf(tenant as TenantId));
  const key = `interlock:{${partition}}:lock:${tenant}:${encodeURIComponent(resource)}`;
  const value = (await redis.command<string | null>("GET", key)) ?? "";
  const leftMs = await redis.command<number>("PTTL", key);
  const [shownToken, instance = "", shownFence] = value.split(" ");
  const isOurs = shownToken === token && shownFence === String(fence) && instance !== "";
  // The token proves ownership: readers of a report must not be able to use it.
  const shown = value.replace(token, "<token>");
  return [
    check(`GET ${key}`, "<token> <instance> <fence> of A's grant, and what A calls itself", shown, isOurs),
    check("PTTL of the same key", `1 to ${ttlMs}`, leftMs, leftMs >= 1 && leftMs <= ttlMs),
  ];
}
