// The planted bugs in the judgement of the drills about lost workers, buses, stores and locks: a drill that cannot fail proves nothing.
import type { TextPatch } from "../planted-bug.ts";

const tests = ["test/unit/drill-load.test.ts"];
const ledger = "src/drills/load/ledger.ts";
const outage = "src/drills/load/load-outcome.ts";

export const plantedDrillLoadBugs: readonly TextPatch[] = [
  {
    name: "drill-blind-to-lost-runs",
    what: "an acknowledged run that does not exist any more is not counted as lost",
    edits: [
      {
        file: ledger,
        find: "endOf(start)?.run === undefined)",
        replace: "endOf(start) === undefined)",
      },
    ],
    tests,
  },
  {
    name: "drill-blind-to-second-results",
    what: "a step of which two attempts were told that their result counts passes for well done",
    edits: [{ file: ledger, find: "counted.size > 1", replace: "counted.size > 2" }],
    tests,
  },
  {
    name: "drill-takes-the-end-for-recovery",
    what: "a load that never gets another answer shows no gap: the longest time without a success ends with the last one",
    edits: [{ file: "src/drills/load/times.ts", find: "[0, ...timesMs, endMs]", replace: "[0, ...timesMs]" }],
    tests,
  },
  {
    name: "drill-takes-a-no-for-trouble",
    what: "an outage in which clients were told 404 or 401 passes: any refusal counts as trouble",
    edits: [
      {
        file: "src/drills/load/steady-load.ts",
        find: `(tried.kind === "refused" && tried.status === 503)`,
        replace: `tried.kind === "refused"`,
      },
    ],
    tests,
  },
  {
    name: "drill-forgets-runs-that-never-end",
    what: "recovery is told as over although a run that was asked for before has not ended",
    edits: [
      {
        file: outage,
        find: "ends.includes(undefined)",
        replace: "ends.length === 0",
      },
    ],
    tests,
  },
  {
    name: "drill-takes-its-own-retry-for-another",
    what: "a job counts as taken over although only the lost worker itself has it again",
    edits: [
      {
        file: "src/drills/worker-loss/drill.ts",
        find: "        note.worker !== claim.worker &&\n",
        replace: "",
      },
    ],
    tests,
  },
  {
    name: "drill-names-a-lock-it-does-not-take",
    what: "a drill says that it takes the run lock, and no page of that lock names it",
    edits: [
      {
        file: "src/drills/staged-failure/drill.ts",
        find: `locks: ["public"]`,
        replace: `locks: ["run", "public"]`,
      },
    ],
    tests: ["test/unit/lock-pages.test.ts"],
  },
  {
    name: "lock-page-names-another-drill",
    what: "the page of the job lock sends operators to a drill that never takes it",
    edits: [
      {
        file: "docs/runbooks/locks/job.md",
        find: "`interlock drill stale-owner` before changing the ttl",
        replace: "`interlock drill staged-failure` before changing the ttl",
      },
    ],
    tests: ["test/unit/lock-pages.test.ts"],
  },
  {
    name: "drill-blind-to-a-lock-not-taken",
    what: "a drill passes that never takes one of the locks that it is about",
    edits: [{ file: "src/drills/run-drill.ts", find: "taken.length === locks.length &&", replace: "" }],
    tests: ["test/unit/drill-lock-numbers.test.ts"],
  },
  {
    name: "drill-takes-early-workers-for-punctual",
    what: "a worker that does not wait for retry_after_ms is not seen: what it was told is left out",
    edits: [
      {
        file: "src/drills/lock-busy-waves/tries.ts",
        find: " - (told[index]?.pauseMs ?? 0)",
        replace: "",
      },
    ],
    tests: ["test/unit/drill-lock-numbers.test.ts"],
  },
];
