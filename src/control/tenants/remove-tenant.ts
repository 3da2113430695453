// Removes a tenant: marked first, then its keys, its settings and its name in the list. Each step may be repeated.
import { platformTenant, type TenantId } from "../../domain/tenant.ts";
import { ask } from "../ask-until-known.ts";
import type { Trouble } from "../caller.ts";
import { troubleOf } from "../caller.ts";
import type { Engine } from "../engine/engine.ts";
import { revokeAllKeys } from "../keys/api-keys.ts";
import { endQueued } from "../queues/queues.ts";
import { changeSettings, getTenant, type SettingsChange } from "./tenants.ts";

type RemoveTenantAnswer =
  | { readonly kind: "removed" }
  | { readonly kind: "tenant_active"; readonly active: number }
  | { readonly kind: "tenant_not_found" }
  | Trouble;

/**
 * Its keys go first, so that nothing can begin in it; what has ended in it is kept as long as of any tenant. The name is the
 * last to go: a removal that dies half-way is found in the list and repeated.
 */
export async function removeTenant(
  engine: Engine,
  { actor, tenant }: { readonly actor: string; readonly tenant: TenantId },
): Promise<RemoveTenantAnswer> {
  const owner = { by: actor, tenant };
  const found = await getTenant(engine, { tenant });
  if (found.kind !== "tenant") return found;
  if (found.active > 0) return { kind: "tenant_active", active: found.active };
  // From here on nobody makes a key in it, and none is accepted that is not remembered somewhere.
  const marked = await changeSettings(engine, owner, () => ({ removed: true }));
  if (marked.kind !== "saved") return unsaved(marked);
  const revoked = await revokeAllKeys(engine, owner);
  if (revoked.kind !== "revoked") return troubleOf(revoked);
  const drained = await endQueued(engine, { tenant, actor });
  if (drained.kind !== "ended") return troubleOf(drained);
  // A start that was under way when the keys went may have been admitted.
  const counted = await getTenant(engine, { tenant });
  if (counted.kind === "tenant" && counted.active > 0) {
    const kept = await changeSettings(engine, owner, () => ({ removed: undefined }));
    return kept.kind === "saved" ? { kind: "tenant_active", active: counted.active } : unsaved(kept);
  }
  // What is revoked stays known: a tenant of the same name must not wake old keys up in caches.
  const forgotten = await changeSettings(engine, owner, (settings): SettingsChange => {
    const { revokedKeyIds: _ids, revokedSince: _since, ...others } = settings;
    const unset = Object.fromEntries(Object.keys(others).map((name) => [name, undefined]));
    return { ...unset, removed: true };
  });
  if (forgotten.kind !== "saved") return unsaved(forgotten);
  // Somebody may have made the tenant anew between two removals, and keys in it.
  const last = await revokeAllKeys(engine, owner);
  if (last.kind !== "revoked") return troubleOf(last);
  const name = { tenant: platformTenant, collection: "tenant", id: tenant, actor } as const;
  const answer = await ask(engine, "removeDocument", name);
  // Gone between the first look and now: somebody else removed it, or a repeat of this call did.
  if (answer.kind === "removed" || answer.kind === "not_found") return { kind: "removed" };
  return troubleOf(answer);
}

function unsaved(answer: { readonly kind: string; readonly cause?: string }): Trouble {
  if (answer.kind === "version_conflict") return { kind: "unavailable", cause: "the settings keep changing" };
  return troubleOf(answer);
}
