// The settings of the audit trail's hash chain.
import { choice, milliseconds, optionalText, secretText } from "./kinds.ts";

export const auditSettings = {
  "audit.sealEveryMs": milliseconds(
    "AUDIT_SEAL_EVERY_MS",
    2_000,
    0,
    3_600_000,
    "How long a new audit record may wait for its hash, unless many wait; 0: this process seals nothing by itself.",
  ),
  "audit.refusals": choice(
    "AUDIT_REFUSALS",
    ["yes", "no"],
    "Whether refused changes are counted into the audit trails: one record per tenant for each minute with refusals.",
  ),
  "audit.anchorsFile": optionalText(
    "AUDIT_ANCHORS_FILE",
    /./,
    "Where this process notes the newest head of every trail, outside the store, so that verify notices a rewritten store. Embedded: audit-heads.json beside the data. One file per process; best on a disk that the store's people cannot write to.",
  ),
  "audit.secret": secretText(
    "AUDIT_SECRET",
    /^[^,\s]{16,}(,([^,\s]{16,}|none))*$/,
    "Makes hashes that nobody can make without it: 16 characters or more, the same in every process. Former ones may follow after commas, for what they sealed; none stands for what was sealed without. Never shown.",
  ),
} as const;
