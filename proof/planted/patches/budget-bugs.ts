// Planted bugs in what a commit and a dry run may cost.
import type { TextPatch } from "../planted-bug.ts";

const budget = "test/unit/engine-budget.test.ts";
const cost = "test/unit/workflow-expression-cost.test.ts";
/** Takes about a minute: it sends growing inputs to every operation. */
const scaled = "test/scaled/operations.test.ts";

export const plantedBudgetBugs: readonly TextPatch[] = [
  {
    name: "commit-without-a-budget",
    what: "a commit goes on however much its expressions have cost",
    edits: [
      {
        file: "src/domain/engine/draft.ts",
        find: "    draft.work.left <= 0 ||\n",
        replace: "",
      },
    ],
    tests: [budget],
  },
  {
    name: "budget-decides-the-outcome",
    what: "an expression fails when the commit has little left",
    edits: [
      {
        file: "src/domain/workflow/expression.ts",
        find: "  try {\n    return evaluate(frame);",
        replace:
          "  try {\n    if (work !== undefined && work.left < 0) frame.budget.work = 0;\n    return evaluate(frame);",
      },
    ],
    tests: [budget, cost],
  },
  {
    name: "costly-list-never-written",
    what: "a list whose evaluation spends the budget is evaluated again in every commit, and never written down",
    edits: [
      {
        file: "src/domain/engine/children.ts",
        find: "if (chunk > item.from && isFull(draft))",
        replace: "if (isFull(draft))",
      },
    ],
    tests: [budget],
  },
  {
    name: "dry-run-without-a-budget",
    what: "a dry run plays as long as its entries last",
    edits: [
      {
        file: "src/domain/engine/dry-run.ts",
        find: 'if (play.work >= dryRunWorkMax) return "work";',
        replace: "",
      },
    ],
    tests: [budget],
  },
  {
    name: "unequal-texts-for-nothing",
    what: "comparing long texts that differ costs one step",
    edits: [
      {
        file: "src/domain/workflow/cel-operations.ts",
        find: "left.length === right.length)\n    chargeText",
        replace: "left === right)\n    chargeText",
      },
    ],
    tests: [cost],
  },
  {
    name: "long-number-read-again-and-again",
    what: "a number may have 20,000 characters, and its zeros at the end are looked for from each zero before them",
    edits: [
      { file: "src/domain/strict-json.ts", find: "Max = 1_024;", replace: "Max = 20_000;" },
      {
        file: "src/domain/strict-json.ts",
        find: "while (end > first && digits.charCodeAt(end - 1) === zero) end -= 1;",
        replace: "end = digits.replace(/0+$/, '').length;",
      },
    ],
    tests: [scaled],
  },
  {
    name: "refusal-repeats-all-it-was-sent",
    what: "a refusal is as long as the text that it refuses",
    edits: [
      {
        file: "src/domain/excerpt.ts",
        find: "return text.length <= charactersMax ? text :",
        replace: "return charactersMax > 0 ? text :",
      },
    ],
    tests: [scaled],
  },
];
