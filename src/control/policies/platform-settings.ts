// The platform's own settings: what holds for runs of all tenants that say nothing else. Read at most once in a few seconds.
import { platformTenant, type TenantSettings } from "../../domain/tenant.ts";
import type { TenantCache } from "../admission/tenant-cache.ts";
import { type Asking, ask } from "../ask-until-known.ts";

export type PlatformSettings = {
  /** As of at most a few seconds ago, or as last known while the store does not tell: any policy is safe, and no run waits for them twice. */
  current(): TenantSettings | Promise<TenantSettings>;
};

/** While the platform's partition does not answer, it is asked again so often, and nobody waits for it. */
const askAgainAfterMs = 1_000;

export function createPlatformSettings(asking: Asking<"getTenant">, tenants: TenantCache): PlatformSettings {
  const { clock } = asking.ports;
  let known: TenantSettings = {};
  let failedAtMs: number | undefined;
  let underWay: Promise<TenantSettings> | undefined;

  async function read(): Promise<TenantSettings> {
    const answer = await ask(asking, "getTenant", { tenant: platformTenant });
    underWay = undefined;
    if (answer.kind === "tenant") {
      known = answer.record.settings;
      failedAtMs = undefined;
      tenants.learn(platformTenant, known);
    } else {
      failedAtMs = clock.monotonicMs();
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
        underWay ??= read();
        return underWay;
      }
      if (clock.monotonicMs() - failedAtMs >= askAgainAfterMs) underWay ??= read();
      return known;
    },
  };
}
