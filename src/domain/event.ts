// The audit trail of one tenant: one numbered row per change of a run, an approval, a document or the tenant's settings.
export const eventTypes = [
  "run_admitted",
  "run_changed",
  "run_ended",
  "run_deleted",
  "run_reopened",
  "cancel_requested",
  "approval_decided",
  "tenant_changed",
  "document_saved",
  "document_removed",
  "lock_broken",
] as const;
export type EventType = (typeof eventTypes)[number];

export type EventRow = {
  /** Gap-free per tenant, starting at 1; assigned inside the operation. */
  readonly sequence: number;
  readonly atMs: number;
  readonly type: EventType;
  /** The run, approval, document (`<collection>/<id>`) or tenant that changed. */
  readonly subject: string;
  readonly actor: string;
  /** The run's new version and status, the decision and the hash of what was shown, or what was changed. */
  readonly detail: string;
};
