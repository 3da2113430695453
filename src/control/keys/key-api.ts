// What may be asked about API keys.
import type { ApiKeyRecord, KeyRole } from "../../domain/api-key.ts";
import type { QuotaReached, TenantId } from "../../domain/tenant.ts";
import type { Acting } from "../acting.ts";
import type { Trouble, WriteTrouble } from "../control-api.ts";

export type NewKey = { readonly text: string; readonly key: ApiKeyRecord };

export type KeyApi = {
  /** The text is shown once; only its hash is kept. `tenant` is the platform's for platform keys. */
  createKey(
    by: Acting,
    tenant: TenantId,
    options: {
      readonly role: KeyRole;
      readonly name: string;
      /** The person or service it belongs to; the name by default. */
      readonly owner?: string;
      readonly expiresAtMs?: number;
    },
  ): Promise<
    | ({ readonly kind: "created" } & NewKey)
    | { readonly kind: "tenant_removed" }
    /** Made through so many others that nobody could tell any more who is behind it. */
    | { readonly kind: "lineage_too_long" }
    | QuotaReached
    | WriteTrouble
  >;
  /** By id; the first 1,000 without a page. */
  listKeys(
    tenant: TenantId,
    page?: { readonly after: string; readonly limit: number },
  ): Promise<{ readonly kind: "listed"; readonly keys: readonly ApiKeyRecord[] } | Trouble>;
  revokeKey(
    by: Acting,
    tenant: TenantId,
    keyId: string,
  ): Promise<{ readonly kind: "revoked" } | { readonly kind: "not_found" } | WriteTrouble>;
  /** Who these keys belong to, of those that still exist. */
  describeKeys(keyIds: readonly string[]): Promise<ReadonlyMap<string, ApiKeyRecord>>;
  /**
   * Good keys are remembered for 4 s; the store's own check refuses a revoked one at once. `stored` asks the store whatever is
   * remembered.
   */
  authenticate(
    keyText: string,
    from?: "memory" | "stored",
  ): Promise<
    { readonly kind: "authenticated"; readonly key: ApiKeyRecord } | { readonly kind: "refused" } | Trouble
  >;
};
