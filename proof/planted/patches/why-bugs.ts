// Planted bugs in explanations, dead letters and the way jobs reach their workers.
import type { TextPatch } from "../planted-bug.ts";

const bug = (
  name: string,
  what: string,
  tests: string,
  { file, find, replace }: TextPatch["edits"][number],
): TextPatch => ({ name, what, edits: [{ file, find, replace }], tests: [tests] });

export const plantedWhyBugs: readonly TextPatch[] = [
  bug(
    "unanswered-taken-for-absent",
    "what the store did not answer about a step is explained as if there were nothing",
    "test/unit/why-live-run.test.ts",
    {
      file: "src/domain/why/explain-step.ts",
      find: `part?.kind === "absent" ? {} : { unanswered: what }`,
      replace: `part?.kind !== "known" ? {} : { unanswered: what }`,
    },
  ),
  bug(
    "full-worker-taken-for-free",
    "a worker whose places are all promised counts as one that takes the job",
    "test/unit/why-unclaimed.test.ts",
    {
      file: "src/domain/why/why-unclaimed.ts",
      find: `fitting.some(({ free = 0 }) => free > 0)`,
      replace: `fitting.some(({ free }) => free !== undefined)`,
    },
  ),
  bug(
    "holders-read-by-every-refusal",
    "every refused start reads the runs that hold the slots: hammering reaches the store",
    "test/unit/flow-why.test.ts",
    {
      file: "src/control/admission/tenant-cache.ts",
      find: `nowMs - known.atMs < rememberedMs`,
      replace: `nowMs - known.atMs < 0`,
    },
  ),
  bug(
    "retry-refused-by-its-own-twin",
    "of two who retry a letter at once, one hears that the step has gone on",
    "test/unit/flow-retry-twice.test.ts",
    {
      file: "src/control/dead-letters/retry-dead-letter.ts",
      find: `  if (verdict.kind !== "not_retryable") return verdict;\n`,
      replace: `  if (verdict.kind !== "retryable") return verdict;\n`,
    },
  ),
  bug(
    "retry-of-a-handled-failure",
    "a letter whose failure was handled is used up by a retry that changes nothing",
    "test/unit/flow-dead-letters.test.ts",
    {
      file: "src/control/dead-letters/inspect-dead-letter.ts",
      find: `  return foreseen.kind === "late" ? {`,
      replace: `  return foreseen.kind === "open" ? {`,
    },
  ),
  bug(
    "kept-result-under-another-name",
    "a result that is delivered from its letter is another entry than the worker's own report: a repeat contradicts it",
    "test/unit/flow-kept-results.test.ts",
    {
      file: "src/control/dead-letters/retry-dead-letter.ts",
      find: "{ ...entryOf(kept, parts), letter:",
      replace: "{ ...entryOf(kept, parts), entryId: `retry:${letter.id}`, letter:",
    },
  ),
  bug(
    "letter-open-after-its-result",
    "a result is delivered from its letter, and the letter still looks as if nobody had retried it",
    "test/unit/flow-kept-results.test.ts",
    {
      file: "src/adapters/operations/inbox.ts",
      find: "      if (letter !== undefined) noteRetried(context, state, letter);\n",
      replace: "",
    },
  ),
  bug(
    "token-shown-in-a-letter",
    "a result that could not be delivered is shown with its claim token",
    "test/unit/dead-letter.test.ts",
    {
      file: "src/domain/dead-letter.ts",
      find: `const { token: _token, ...shown } = result;`,
      replace: `const { caller: _caller, ...shown } = result;`,
    },
  ),
  bug(
    "place-behind-a-job-called-off",
    "a worker with one place waits in vain behind a job that was called off",
    "test/unit/flow-polls.test.ts",
    {
      file: "src/control/jobs/claim-jobs.ts",
      find: `if (!isWorthAnother) return {`,
      replace: `if (granted >= 0) return {`,
    },
  ),
];
