// Planted bugs in reading schemas and patterns, and in checking values: work that is not counted, and wrong verdicts.
import type { TextPatch } from "../planted-bug.ts";

const growth = "test/unit/workflow-schema-growth.test.ts";
const keywords = "test/unit/workflow-schema-keywords.test.ts";
const inputs = "test/unit/workflow-input-schema.test.ts";
const patterns = "test/unit/workflow-linear-pattern.test.ts";

export const plantedSchemaBugs: readonly TextPatch[] = [
  {
    name: "dependencies-are-not-measured",
    what: "a schema that doubles at every level is accepted",
    edits: [
      {
        file: "src/domain/workflow/json-schema.ts",
        find: "    node.size += inner.size;",
        replace: "    node.size += 1;",
      },
    ],
    tests: [keywords, inputs],
  },
  {
    name: "unknown-keywords-pass",
    what: "a new definition may use a keyword that nobody counts",
    edits: [
      {
        file: "src/domain/workflow/json-schema.ts",
        find: 'else if (walk.mode === "new" && !keyword.startsWith("x-"))',
        replace: 'else if (keyword === "unknown" && !keyword.startsWith("x-"))',
      },
    ],
    tests: [keywords],
  },
  {
    name: "stored-schemas-are-judged-anew",
    what: "a workflow that was saved before the rules does not load any more",
    edits: [
      {
        file: "src/domain/workflow/json-schema.ts",
        find: 'else if (walk.mode === "new" && !keyword.startsWith("x-"))',
        replace: 'else if (!keyword.startsWith("x-"))',
      },
    ],
    tests: [keywords],
  },
  {
    name: "checks-are-free",
    what: "a check goes on for as long as it takes",
    edits: [
      {
        file: "src/domain/workflow/schema-node.ts",
        find: "  steps.left -= count;",
        replace: "  steps.left -= count * 0;",
      },
    ],
    tests: [growth, inputs],
  },
  {
    name: "anchored-patterns-match-anywhere",
    what: "a text that only contains what its pattern asks for is accepted",
    edits: [
      {
        file: "src/domain/workflow/linear-pattern.ts",
        find: 'if (assertion === "start") return before < 0;',
        replace: 'if (assertion === "start") return true;',
      },
    ],
    tests: [patterns],
  },
];
