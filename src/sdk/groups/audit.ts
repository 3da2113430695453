// The audit trail: every change with its hash, and whether all of them are as they were recorded.
import type { Caller } from "../caller.ts";
import type { Common, Query, Success } from "../contract.ts";
import { type Listing, listing } from "../pages.ts";
import { apart } from "./care.ts";

export type AuditRecord = Success<"readAudit">["items"][number];
export type AuditVerdict = Success<"verifyAudit">;

export type Audit = {
  /** Oldest first. */
  list(options?: Common & Omit<Query<"readAudit">, "cursor">): Listing<AuditRecord>;
  /** `expect` is the `head` of an earlier verification that was noted elsewhere. */
  verify(options?: Common & Query<"verifyAudit">): Promise<AuditVerdict>;
};

export function auditOf(caller: Caller): Audit {
  return {
    list(options) {
      const { query, ...rest } = apart(options);
      const { after, ...filter } = query;
      // A cursor is a place already.
      return listing((cursor) =>
        caller.call("readAudit", {
          query: {
            ...filter,
            ...(cursor === undefined ? { ...(after === undefined ? {} : { after }) } : { cursor }),
          },
          ...rest,
        }),
      );
    },
    verify(options) {
      const { query, ...rest } = apart(options);
      return caller.call("verifyAudit", { query, ...rest });
    },
  };
}
