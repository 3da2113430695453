// The planted bugs in judging definitions: the thread, its queue, and what the main thread does itself.
import type { TextPatch } from "../planted-bug.ts";

const thread = "test/unit/threaded-judge.test.ts";
const ready = "test/unit/definitions-ready.test.ts";
const counted = "test/unit/workflow-work-count.test.ts";

export const plantedJudgeBugs: readonly TextPatch[] = [
  {
    name: "judge-first-come",
    what: "definitions are judged in the order they came: one tenant's flood holds up all others",
    edits: [
      {
        file: "src/domain/slices.ts",
        find: `      waiting.delete(owner);
      if (items.length > 0) waiting.set(owner, items);`,
        replace: "      if (items.length === 0) waiting.delete(owner);",
      },
    ],
    tests: [thread, ready],
  },
  {
    name: "judge-drops-the-queue",
    what: "a definition that ends the thread takes all that wait behind it with it",
    edits: [
      {
        file: "src/adapters/threaded-judge.ts",
        find: `    job?.answer({ kind: "overloaded", cause });`,
        replace: `    for (let one = job; one !== undefined; one = queue.take()) one.answer({ kind: "overloaded", cause });`,
      },
    ],
    tests: [thread],
  },
  {
    name: "references-not-counted",
    what: "writers of a place in ctx are not counted: references times writers has no limit",
    edits: [
      {
        file: "src/domain/workflow/step-expressions.ts",
        find: "return 1 + ids.length + (examined >> 4);",
        replace: "return 1 + (ids.length >> 20) + (examined >> 20);",
      },
    ],
    tests: [counted],
  },
  {
    name: "ready-in-one-go",
    what: "a large definition is made ready without a pause",
    edits: [
      {
        file: "src/domain/workflow/work-count.ts",
        find: "if (work.sincePause < sliceMax) return;",
        replace: "if (work.sincePause < sliceMax * 1_000) return;",
      },
    ],
    tests: [counted, ready],
  },
];
