// The planted bugs in repairs of repairs: what is wrong only when what was mended has to be mended again.
import type { TextPatch } from "../planted-bug.ts";

const tryAgain = "src/domain/engine/try-again.ts";
const steps = ["test/unit/flow-repairs.test.ts"];
const above = ["test/unit/flow-repairs-above.test.ts"];

export const plantedRepairBugs: readonly TextPatch[] = [
  {
    name: "retry-keeps-lost-claims",
    what: "claims that were lost before a letter was retried count on: the next one that is lost ends the step",
    edits: [
      {
        file: tryAgain,
        find: "const { failures: _, lostClaims: _lostClaims, handBacks",
        replace: "const { failures: _, handBacks",
      },
    ],
    tests: steps,
  },
  {
    name: "retry-keeps-failures",
    what: "failures before a letter was retried count on: the step that goes on has none of its retries",
    edits: [
      {
        file: tryAgain,
        find: "const { failures: _, lostClaims",
        replace: "const { lostClaims",
      },
    ],
    tests: steps,
  },
  {
    name: "mended-item-still-broken",
    what: "an item that was mended is still counted as broken: its list fails when its last item is done",
    edits: [
      {
        file: tryAgain,
        find: "broken: children.broken - 1",
        replace: "broken: Math.max(1, children.broken - 1)",
      },
    ],
    tests: above,
  },
  {
    name: "retry-of-any-attempt",
    what: "a retry that names an older attempt revives the step: its newer letter can mend nothing any more",
    edits: [
      {
        file: "src/domain/engine/apply-entry.ts",
        find: "    record.attempt === name?.attempt &&\n    (childRunId",
        replace: "    record.attempt >= (name?.attempt ?? 0) &&\n    (childRunId",
      },
    ],
    tests: steps,
  },
];
