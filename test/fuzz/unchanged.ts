// Whether a refused request has changed anything: by the tenants' event rows every time, by all that can be listed now and then.
import { createHash } from "node:crypto";
import type { TenantId } from "../../src/domain/tenant.ts";
import { acme, type GatewayWorld, globex } from "../support/gateway-world.ts";

const tenants = [acme, globex];

/** Rows that this key has written since it was last asked. */
export type RowWatch = { rowsBy(keyId: string): Promise<readonly string[]>; forget(): Promise<void> };

export function watchRows({ plane }: GatewayWorld): RowWatch {
  const seen = new Map<TenantId, number>();
  const newRows = async () => {
    const rows = await Promise.all(
      tenants.map(async (tenant) => {
        const answer = await plane.api.readEvents({ tenant, after: seen.get(tenant) ?? 0, limit: 500 });
        if (answer.kind !== "events") return [];
        seen.set(tenant, Math.max(seen.get(tenant) ?? 0, answer.events.at(-1)?.sequence ?? 0));
        return answer.events;
      }),
    );
    return rows.flat();
  };
  return {
    async rowsBy(keyId) {
      const rows = await newRows();
      return rows.filter(({ actor }) => actor === keyId).map(({ type, subject }) => `${type} ${subject}`);
    },
    async forget() {
      while ((await newRows()).length > 0);
    },
  };
}

/** Pools and topics are settings, which have a version; their lists also show workers, who come and go. */
const lists = [
  "/api/v1/workflows",
  "/api/v1/workflow-runs",
  "/api/v1/approvals",
  "/api/v1/keys",
  "/api/v1/dlq",
  "/api/v1/locks",
  "/api/v1/admin/locks",
  "/api/v1/events?from=now",
];

/** What passes by itself: ages, what is left of leases, and places in lists. */
const passing = /"(held_for_ms|expires_in_ms|waiting|next_cursor)":[^,}\]]*/g;

/** A digest of everything that acme's admin can list, and of the settings of these tenants. */
export async function stateOf(
  { ask, acme: keys, platform }: GatewayWorld,
  settingsOf: readonly TenantId[] = tenants,
): Promise<string> {
  const digest = createHash("sha256");
  for (const path of lists) {
    const separator = path.includes("?") ? "&" : "?";
    const isPaged = !/keys$/.test(path);
    const { text } = await ask("GET", isPaged ? `${path}${separator}limit=500` : path, { key: keys.admin });
    digest.update(text.replaceAll(passing, ""));
  }
  for (const { key, path } of [
    ...settingsOf.map((tenant) => ({ key: platform, path: `/api/v1/tenants/${tenant}` })),
    { key: platform, path: "/api/v1/tenants?limit=500" },
    { key: platform, path: "/api/v1/keys" },
  ]) {
    digest.update((await ask("GET", path, { key })).text);
  }
  return digest.digest("hex");
}
