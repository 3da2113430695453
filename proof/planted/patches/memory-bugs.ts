// The planted bugs in the records in memory.
import type { TextPatch } from "../planted-bug.ts";

const file = "src/adapters/ordered-members.ts";
const tests = ["test/unit/memory-records.test.ts"];

export const plantedMemoryBugs: readonly TextPatch[] = [
  {
    name: "members-in-one-block",
    what: "a scope's members are in one array, however many: each one that is added moves half of them",
    edits: [
      {
        file,
        find: "const blockLengthMax = 512;",
        replace: "const blockLengthMax = Number.POSITIVE_INFINITY;",
      },
    ],
    tests,
  },
  {
    name: "split-block-keeps-the-member",
    what: "a member that comes when its block is split is put into the first half, wherever it belongs",
    edits: [
      { file, find: "isLast || at > block.length ? second : block", replace: "isLast ? second : block" },
    ],
    tests,
  },
  {
    name: "joined-block-stays",
    what: "what is left of two blocks is joined, and the second stays as well: its members are there twice",
    edits: [{ file, find: "    this.#blocks.splice(index + 1, 1);\n  }", replace: "  }" }],
    tests,
  },
  {
    name: "put-again-ordered-twice",
    what: "a record that is changed is added to the order once more: a scan answers with it twice",
    edits: [
      {
        file: "src/adapters/memory-store.ts",
        find: "if (before === undefined) found.ordered?.add(member);",
        replace: "found.ordered?.add(member);",
      },
    ],
    tests,
  },
];
