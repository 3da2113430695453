// The newest heads of audit trails, kept outside the store: rewriting the store does not change them.
import type { Head } from "../domain/audit.ts";
import type { TenantId } from "../domain/tenant.ts";

export type AuditAnchors = {
  read(tenant: TenantId): Head | undefined;
  /** Replaces the tenant's former head, which the new one must contain. */
  note(tenant: TenantId, head: Head): void;
  /** Resolves when everything that was noted is kept. */
  close(): Promise<void>;
};
