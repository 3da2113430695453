// A client that holds a public lock with the SDK, while no request to renew it ever leaves.
import { createClient } from "../../sdk/client.ts";
import { type Lease, withLock } from "../../sdk/locks/with-lock.ts";
import { runtime } from "../../sdk/runtime.ts";
import type { DrillTenant } from "../target/target.ts";

type DroppedRenewals = {
  readonly token: string;
  readonly fence: number;
  /** When the lock was granted, and when the SDK stopped the work, by the monotonic clock. */
  readonly grantedMs: number;
  readonly lostMs: Promise<number>;
  renewalsFailed(): number;
};

type HeldLock = {
  readonly resource: string;
  readonly owner: string;
  readonly ttlMs: number;
  readonly signal: AbortSignal;
};

export function holdWithoutRenewals(
  tenant: DrillTenant,
  { resource, owner, ttlMs, signal }: HeldLock,
): Promise<DroppedRenewals> {
  const nowMs = () => runtime.now().monotonicMs;
  let failed = 0;
  const dropping: typeof fetch = (input, init) => {
    if (!String(input).endsWith("/locks/renew")) return fetch(input, init);
    failed += 1;
    return Promise.reject(new TypeError("the drill lets no renewal through"));
  };
  const client = createClient({ url: tenant.client.url, apiKey: tenant.adminKey, fetch: dropping });
  return new Promise((resolve, reject) => {
    const lostMs = new Promise<number>((tell) => {
      const work = async ({ token, fence, signal: stop }: Lease) => {
        resolve({ token, fence, grantedMs: nowMs(), lostMs, renewalsFailed: () => failed });
        await runtime.sleep(10 * ttlMs, stop);
      };
      const options = { ttlMs, owner, signal, onLost: () => tell(nowMs()) };
      // It rejects with the loss, which was reported already, or because there never was a lock.
      withLock(client, resource, work, options).catch(reject);
    });
  });
}
