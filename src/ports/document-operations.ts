// The store operations on documents: workflows, definitions, keys, dead letters, and what else is kept by name.
import type { WorkflowLimits } from "../domain/gates.ts";
import type { Collection, Document, TenantId } from "../domain/tenant.ts";
import type { Unauthenticated } from "./admission-operations.ts";

export type DocumentOperations = {
  /** Saves a document; `expectedRevision` 0 means that there must be none, absent that any may be replaced. */
  putDocument: {
    request: {
      readonly tenant: TenantId;
      readonly collection: Collection;
      readonly id: string;
      readonly body: string;
      readonly expectedRevision?: number;
      readonly changeId: string;
      readonly actor: string;
      /** The id of the key that asks; a revoked one is refused. */
      readonly credential?: string;
      /** Of a workflow: the limits of its gates, which hold at once. */
      readonly limits?: WorkflowLimits;
    };
    outcome:
      | { readonly kind: "saved"; readonly revision: number }
      | { readonly kind: "revision_conflict"; readonly revision: number }
      | Unauthenticated
      /** A new one, where the tenant has as many in this collection as it may. */
      | { readonly kind: "quota_reached"; readonly quota: number }
      /** Keys only: the tenant is being removed, or was. */
      | { readonly kind: "tenant_removed" };
  };
  getDocument: {
    request: { readonly tenant: TenantId; readonly collection: Collection; readonly id: string };
    outcome: { readonly kind: "document"; readonly document: Document } | { readonly kind: "not_found" };
  };
  listDocuments: {
    /** Ids greater than `after` in ascending order. */
    request: {
      readonly tenant: TenantId;
      readonly collection: Collection;
      readonly after: string;
      readonly limit: number;
    };
    outcome: { readonly kind: "listed"; readonly documents: readonly Document[] };
  };
  /** `not_found` is also what the repeat of a removal answers. */
  removeDocument: {
    request: {
      readonly tenant: TenantId;
      readonly collection: Collection;
      readonly id: string;
      readonly actor: string;
      readonly credential?: string;
    };
    outcome: { readonly kind: "removed" } | { readonly kind: "not_found" } | Unauthenticated;
  };
};
