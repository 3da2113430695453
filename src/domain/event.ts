// The audit trail of one tenant: one numbered row per change of a run or of the tenant's settings.
export type EventType = "run_admitted" | "run_ended" | "tenant_changed";

export type EventRow = {
  /** Gap-free per tenant, starting at 1; assigned inside the operation. */
  readonly sequence: number;
  readonly atMs: number;
  readonly type: EventType;
  /** The run or tenant that changed. */
  readonly subject: string;
  readonly actor: string;
  /** The new status, or the id of the change. */
  readonly detail: string;
};
