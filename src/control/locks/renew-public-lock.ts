// Renews a public lock with its token.
import { type LockToken, leaseLeftMs } from "../../domain/lock.ts";
import type { TenantId } from "../../domain/tenant.ts";
import { askUntilKnown } from "../ask-until-known.ts";
import { instantOf } from "./lease-target.ts";
import type { RenewLockAnswer } from "./lock-api.ts";
import { countRenewal } from "./lock-counts.ts";
import { type LockDesk, publicLock } from "./lock-desk.ts";
import { notOwned } from "./release-public-lock.ts";

export async function renewPublicLock(
  desk: LockDesk,
  tenant: TenantId,
  grant: { readonly resource: string; readonly token: LockToken; readonly ttlMs: number },
): Promise<RenewLockAnswer> {
  const { ports, terms } = desk.engine;
  const { token, ttlMs } = grant;
  const target = { tenant, lock: publicLock(grant.resource) };
  let since = instantOf(ports.clock);
  const answer = await askUntilKnown(ports, "renewLock", terms.store, (deadlineMs) => {
    since = instantOf(ports.clock);
    return ports.store.renewLock({ ...target, token, ttlMs }, { deadlineMs });
  });
  countRenewal(ports.metrics, target.lock.namespace, answer);
  switch (answer.kind) {
    case "renewed": {
      const expiresInMs = Math.max(0, leaseLeftMs({ expiresInMs: ttlMs, since }, instantOf(ports.clock)));
      return { kind: "renewed", fence: answer.fence, expiresAtMs: answer.storeTimeMs + ttlMs, expiresInMs };
    }
    case "not_owned":
      return notOwned(desk, target, "renew");
    case "unavailable":
    case "unknown":
      return { kind: answer.kind, cause: answer.cause };
  }
}
