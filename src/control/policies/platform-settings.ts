// The platform's own settings: what holds for runs of all tenants that say nothing else. Read at most once in a few seconds.
import { platformTenant, type TenantSettings } from "../../domain/tenant.ts";
import type { Ports } from "../../ports/ports.ts";
import type { TenantCache } from "../admission/tenant-cache.ts";
import { type AskLimits, askUntilKnown } from "../ask-until-known.ts";

export type PlatformSettings = {
  /** As of at most a few seconds ago, or as last known while the store does not tell: any policy is safe, and no run waits for them twice. */
  current(): TenantSettings | Promise<TenantSettings>;
};

/** While the platform's partition does not answer, it is asked again so often, and nobody waits for it. */
const askAgainAfterMs = 1_000;

export function createPlatformSettings(
  ports: Ports,
  tenants: TenantCache,
  limits: AskLimits,
): PlatformSettings {
  let known: TenantSettings = {};
  let failedAtMs: number | undefined;
  let asking: Promise<TenantSettings> | undefined;

  async function ask(): Promise<TenantSettings> {
    const answer = await askUntilKnown(ports, "getTenant", limits, (deadlineMs) =>
      ports.store.getTenant({ tenant: platformTenant }, { deadlineMs }),
    );
    asking = undefined;
    if (answer.kind === "tenant") {
      known = answer.record.settings;
      failedAtMs = undefined;
      tenants.learn(platformTenant, known);
    } else {
      failedAtMs = ports.clock.monotonicMs();
    }
    return known;
  }

  return {
    current() {
      const fresh = tenants.recall(platformTenant);
      if (fresh !== undefined) {
        known = fresh;
        return fresh;
      }
      if (failedAtMs === undefined) {
        asking ??= ask();
        return asking;
      }
      if (ports.clock.monotonicMs() - failedAtMs >= askAgainAfterMs) asking ??= ask();
      return known;
    },
  };
}
