// Removes a tenant: its keys, then its settings, then its name from the list. Each step may be repeated.
import { platformTenant, type TenantId } from "../../domain/tenant.ts";
import { troubleOf } from "../acting.ts";
import { askUntilKnown } from "../ask-until-known.ts";
import type { ControlApi } from "../control-api.ts";
import { type Engine, storeLimits } from "../engine/engine.ts";
import { type KeyCache, listKeys, revokeKey } from "../keys/api-keys.ts";
import { changeTenant, getTenant } from "./tenants.ts";

type RemoveAnswer = Awaited<ReturnType<ControlApi["removeTenant"]>>;

/** The name is the last to go: a removal that dies half-way is found in the list and repeated. */
export async function removeTenant(
  { engine, keys }: { readonly engine: Engine; readonly keys: KeyCache },
  actor: string,
  tenant: TenantId,
): Promise<RemoveAnswer> {
  const { ports, config } = engine;
  const found = await getTenant(engine, tenant);
  if (found.kind !== "tenant") return found;
  if (found.active > 0) return { kind: "active", active: found.active };
  const listed = await listKeys(engine, tenant);
  if (listed.kind !== "listed") return listed;
  for (const { keyId } of listed.keys) {
    const revoked = await revokeKey(engine, keys, { by: actor, tenant, keyId });
    if (revoked.kind !== "revoked" && revoked.kind !== "not_found") return troubleOf(revoked);
  }
  // A start that was under way when the keys went may have been admitted.
  const counted = await getTenant(engine, tenant);
  if (counted.kind === "tenant" && counted.active > 0) return { kind: "active", active: counted.active };
  // What is revoked stays known: a tenant of the same name must not wake old keys up in caches.
  const forgotten = await changeTenant(engine, actor, tenant, ({ revokedKeyIds: _kept, ...settings }) =>
    Object.fromEntries(Object.keys(settings).map((name) => [name, undefined])),
  );
  if (forgotten.kind === "version_conflict")
    return { kind: "unavailable", cause: "the settings keep changing" };
  if (forgotten.kind !== "saved") return troubleOf(forgotten);
  const place = { tenant: platformTenant, collection: "tenant", id: tenant, actor } as const;
  const answer = await askUntilKnown(ports, "removeDocument", storeLimits(config), (deadlineMs) =>
    ports.store.removeDocument(place, { deadlineMs }),
  );
  // Gone between the first look and now: somebody else removed it, or a repeat of this call did.
  if (answer.kind === "removed" || answer.kind === "not_found") return { kind: "removed" };
  return troubleOf(answer);
}
