// Whether the store takes changes now. It may answer reads while its disk is full, or while its replicas are away.
import type { Config } from "../config.ts";
import type { LockToken } from "../domain/lock.ts";
import { platformTenant } from "../domain/tenant.ts";
import type { Ports } from "../ports/ports.ts";
import type { StoreOf } from "../ports/store.ts";

export type Ready =
  | { readonly kind: "ready" }
  | { readonly kind: "store_unavailable"; readonly detail: string; readonly cause: string };

export type Readiness = { check(): Promise<Ready> };

/** However many requests ask, the store is asked once in this time. */
const shareMs = 1_000;

type Probing = Pick<
  Ports<StoreOf<"locks" | "tenants">>,
  "clock" | "random" | "store" | "storeTrouble" | "instance"
>;

export function createReadiness({ ports, config }: { ports: Probing; config: Config }): Readiness {
  let latest: { readonly atMs: number; readonly answer: Promise<Ready> } | undefined;
  return {
    check() {
      const atMs = ports.clock.monotonicMs();
      if (latest === undefined || atMs - latest.atMs >= shareMs)
        latest = { atMs, answer: probe(ports, config["store.callTimeoutMs"]) };
      return latest.answer;
    },
  };
}

/** Takes a lock and gives it back, also when nobody knows whether it was taken: a lock that is left ends with its ttl. */
async function probe({ random, store, storeTrouble, instance }: Probing, deadlineMs: number): Promise<Ready> {
  const unsuitable = storeTrouble?.();
  if (unsuitable !== undefined) {
    const detail = `the store's server is not set up as it must be: ${unsuitable}`;
    return { kind: "store_unavailable", cause: unsuitable, detail };
  }
  const lock = { namespace: "public", name: `readiness/${instance}` } as const;
  const own = { tenant: platformTenant, lock, token: random.token() as LockToken };
  const taken = await store.acquireLock({ ...own, instance, ttlMs: deadlineMs }, { deadlineMs });
  if (taken.kind === "acquired" || taken.kind === "unknown") await store.releaseLock(own, { deadlineMs });
  if (taken.kind !== "unavailable" && taken.kind !== "unknown") return { kind: "ready" };
  const { cause } = taken;
  const read = await store.getTenant({ tenant: platformTenant }, { deadlineMs });
  return { kind: "store_unavailable", cause, detail: detailOf(cause, read.kind === "tenant") };
}

function detailOf(cause: string, isReadable: boolean): string {
  if (!isReadable) return "the store does not answer";
  return cause.startsWith("disk full")
    ? "the disk is full: nothing new can be stored"
    : "the store can be read, but takes no changes";
}
