// Planted bugs in the engine's reading of the language: branches, children, loops, and what a retry brings back.
import type { TextPatch } from "../planted-bug.ts";

const examples = "test/unit/engine-language.test.ts";
const runs = "test/unit/engine-language-runs.test.ts";
const reference = "test/unit/engine-language-properties.test.ts";

type Mistake = Omit<TextPatch, "edits" | "tests"> & TextPatch["edits"][number];

function bug({ name, what, ...edit }: Mistake, ...tests: readonly string[]): TextPatch {
  return { name, what, edits: [edit], tests };
}

export const plantedLanguageBugs: readonly TextPatch[] = [
  bug(
    {
      name: "switch-passes-over-the-join",
      what: "a join runs only if the branch that ended last was taken",
      file: "src/domain/engine/advance.ts",
      find: "} else if (isReached && !isUntaken)",
      replace: '} else if (outcome === "met" && !isUntaken)',
    },
    examples,
    reference,
  ),
  bug(
    {
      name: "withdraw-forgets-the-first",
      what: "a step that fails leaves its first child running",
      file: "src/domain/engine/settle-step.ts",
      find: "index >= 0 && open > 0",
      replace: "index > 0 && open > 0",
    },
    examples,
    reference,
  ),
  bug(
    {
      name: "failed-parallel-keeps-its-time-limit",
      what: "the timer of a step that has failed for its child stays behind",
      file: "src/domain/engine/children.ts",
      find: `  callOffAttempt(draft, { step, record });
  withdrawChildren(draft, step, record);`,
      replace: "  withdrawChildren(draft, step, record);",
    },
    examples,
    reference,
  ),
  bug(
    {
      name: "loop-counts-attempts-anew",
      what: "every iteration begins with attempt 1: a late result of the one before counts for this one",
      file: "src/domain/engine/advance.ts",
      find: "attempt: before.attempt,",
      replace: "",
    },
    runs,
    reference,
  ),
  bug(
    {
      name: "last-child-decides-the-failure",
      what: "how a parallel fails depends on which of its children ends last",
      file: "src/domain/engine/children.ts",
      find: 'const status = failedStatuses.find((one) => (failures[one] ?? 0) > 0) ?? "failed";',
      replace: 'const status = heard === undefined || heard.outcome === "met" ? "failed" : heard.outcome;',
    },
    examples,
    reference,
  ),
  bug(
    {
      name: "failure-of-a-child-fails-the-run",
      what: "a run fails for a child that its parallel did without",
      file: "src/domain/engine/settle-step.ts",
      find: "  if (stepNamed(compiled, failure.step)?.controller !== undefined) return;",
      replace: "  stepNamed(compiled, failure.step);",
    },
    examples,
    reference,
  ),
  bug(
    {
      name: "retry-takes-the-other-branch",
      what: "after a retry a step begins that its switch has passed over",
      file: "src/domain/engine/try-again.ts",
      find: "    ...(isUntaken(draft.compiled, step, before) ? { untaken: true } : {}),",
      replace: "    ...(isUntaken(draft.compiled, step, before) ? {} : {}),",
    },
    runs,
  ),
  bug(
    {
      name: "retry-asks-workers-for-anything",
      what: "the retry of a dead letter enqueues a job also for a step that no worker does",
      file: "src/domain/engine/try-again.ts",
      find: '  return type === "delay" || type === "approval" ? "begin" : undefined;',
      replace: '  return "put up";',
    },
    runs,
  ),
  bug(
    {
      name: "loop-ends-without-its-until",
      what: "a loop that was told when to stop succeeds although it never was done",
      file: "src/domain/engine/children.ts",
      find: "if (step.loop.while === undefined && step.loop.until === undefined) {",
      replace: "if (step.loop.while === undefined) {",
    },
    runs,
    reference,
  ),
];
