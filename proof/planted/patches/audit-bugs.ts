// The planted bugs in the audit trail's chain.
import type { TextPatch } from "../planted-bug.ts";

const chain = "test/unit/audit-chain.test.ts";
const trail = "test/unit/audit-trail.test.ts";
const conformance = "test/conformance/store.test.ts";
const retention = "test/unit/audit-retention.test.ts";
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
    name: "audit-record-forgotten",
    what: "a lock that is broken by force is in the event feed only: no reviewer hears of it",
    edits: [
      {
        file: "src/adapters/operations/locks.ts",
        find: "  appendAudited(context, tenant, {",
        replace: "  appendEvent(context, tenant, {",
      },
      {
        file: "src/adapters/operations/locks.ts",
        find: "import { appendAudited,",
        replace: "import { appendEvent,",
      },
    ],
    tests: [conformance],
  },
  {
    name: "audit-dropped-without-kept-from",
    what: "records are dropped by age before a seal says so: the trail is broken by its own retention",
    edits: [
      {
        file: "src/control/audit/drop-expired.ts",
        find: `  if (expired.below === keptFrom) return { kind: "done" };`,
        replace: `  if (expired.below === keptFrom) return { kind: "done" };
  if (keptFrom > 0) {
    await ask(engine, "dropTrail", { tenant, below: expired.below, actor: engine.ports.instance });
    return { kind: "done" };
  }`,
      },
    ],
    tests: [retention],
  },
  {
    name: "audit-dropped-unseen",
    what: "records are dropped by the age that they show, whether or not they are the ones that were sealed",
    edits: [
      {
        file: "src/control/audit/drop-expired.ts",
        find: "if (broken === undefined) return {",
        replace: "if (broken !== null) return {",
      },
    ],
    tests: [retention],
  },
  {
    name: "audit-anchor-written-over",
    what: "a process writes its head over one that another has noted: a rewritten trail passes by the process that started before",
    edits: [
      {
        file: "src/adapters/system/anchors-file.ts",
        find: "if (found !== undefined && found.hash !== inFile.get(tenant)?.hash)",
        replace: "if (found !== undefined && found.hash === undefined)",
      },
    ],
    tests: [retention],
  },
  {
    name: "audit-anchors-not-compared",
    what: "verify does not look for the head that was noted outside the store",
    edits: [
      {
        file: "src/control/audit/verify-trail.ts",
        find: "const [expected, anchored] = [seek(expect), seek(anchor)];",
        replace: "const [expected, anchored] = [seek(expect), seek(anchor && undefined)];",
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
