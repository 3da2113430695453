// The planted bugs in the audit trail's chain.
import type { TextPatch } from "../planted-bug.ts";

const chain = "test/unit/audit-chain.test.ts";
const trail = "test/unit/audit-trail.test.ts";
const conformance = "test/conformance/store.test.ts";
const refusals = "test/unit/gateway-refusals.test.ts";

export const plantedAuditBugs: readonly TextPatch[] = [
  {
    name: "audit-hash-without-actor",
    what: "a record's hash leaves out who did it: a change of that in the store is not found",
    edits: [
      {
        file: "src/domain/audit.ts",
        find: "sequence, atMs, type, subject, actor, detail]);",
        replace: "sequence, atMs, type, subject, actor.slice(0, 0), detail]);",
      },
    ],
    tests: [chain],
  },
  {
    name: "audit-seal-adopts-changed",
    what: "the sealer adds to a seal that somebody has changed, and makes it genuine by that",
    edits: [
      {
        file: "src/control/audit/seal-trail.ts",
        find: `const state = genuine && seal.secretId`,
        replace: `const state = seal.secretId`,
      },
    ],
    tests: [trail],
  },
  {
    name: "audit-retention-believed",
    what: "whatever is missing at the beginning is taken for dropped: who removes the oldest records is not found",
    edits: [
      {
        file: "src/control/audit/verify-trail.ts",
        find: "oldestKept(progress.keptFrom, reading.last",
        replace: "oldestKept(Math.max(progress.keptFrom, reading.first), reading.last",
      },
    ],
    tests: [trail],
  },
  {
    name: "audit-gap-hidden",
    what: "the chain goes on after rows that were dropped unsealed as if they had never been",
    edits: [
      {
        file: "src/domain/audit.ts",
        find: "  return gaps.filter((gap) => gap.from <= gap.to);",
        replace: `  return gaps.filter((gap) => gap.from <= gap.to && gap.why !== "dropped");`,
      },
    ],
    tests: [chain, trail],
  },
  {
    name: "seal-is-an-event",
    what: "saving a seal adds an event row, which calls for the next seal, for ever",
    edits: [
      {
        file: "src/adapters/redis/lua/put-document.lua",
        find: `ARGV[3] ~= "seal"`,
        replace: `ARGV[3] ~= ""`,
      },
    ],
    tests: [conformance],
  },
  {
    name: "seal-overwritten",
    what: "a seal is written whatever is there by now: of two sealers the slower takes back what the other has sealed",
    edits: [
      {
        file: "src/control/audit/seals.ts",
        find: `    expectedRevision,
    // Two processes`,
        replace: `    // Two processes`,
      },
    ],
    tests: [trail],
  },
  {
    name: "refusals-written-once-more",
    what: "counts that the store did not take are written with other words the next time, and stand there twice",
    edits: [
      {
        file: "src/gateway/refusals.ts",
        find: "await api.recordRefusals(next);",
        replace: "await api.recordRefusals({ ...next, text: `${next.text} ${clock.wallMs()}` });",
      },
    ],
    tests: [refusals],
  },
];
