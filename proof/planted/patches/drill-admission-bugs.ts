// The planted bugs in the judgement of the drill admission-burst: a drill that cannot fail proves nothing.
import type { TextPatch } from "../planted-bug.ts";

const tests = ["test/unit/drill-admission-burst.test.ts"];
const judge = "src/drills/admission-burst/tables.ts";

export const plantedDrillAdmissionBugs: readonly TextPatch[] = [
  {
    name: "drill-blind-to-one-too-many",
    what: "a burst that admits more than the limit meets the expectation",
    edits: [{ file: judge, find: "started === limit ||", replace: "started >= limit ||" }],
    tests,
  },
  {
    name: "drill-blind-to-the-clients-word",
    what: "three runs that were surely active at once pass, because only the tenant's record is asked",
    edits: [
      {
        file: judge,
        find: "Math.max(atOnceMost, toldMost, gate.activeMost ?? 0)",
        replace: "Math.max(toldMost, gate.activeMost ?? 0)",
      },
    ],
    tests,
  },
  {
    name: "drill-shed-is-no-503",
    what: "atomic starts that an overloaded server sheds with 503 are not counted as 503",
    edits: [
      {
        file: judge,
        find: "const seen = gateUnavailable + other503;",
        replace: "const seen = gateUnavailable + 0 * other503;",
      },
    ],
    tests,
  },
  {
    name: "drill-sees-combs-everywhere",
    what: "arrivals at random times pass for a comb: of a handful most are always in some fifth of some beat",
    edits: [
      {
        file: "src/drills/admission-burst/measure.ts",
        find: "const arrivalsMin = 60;",
        replace: "const arrivalsMin = 4;",
      },
    ],
    tests,
  },
  {
    name: "drill-quick-503-is-a-decision",
    what: "a lock that turns everybody away at once passes for faster than one that decides",
    edits: [
      {
        file: judge,
        find: "return isDecided ? tried.tookMs : Number.POSITIVE_INFINITY;",
        replace: "return isDecided || tried.tookMs > 0 ? tried.tookMs : Number.POSITIVE_INFINITY;",
      },
    ],
    tests,
  },
];
