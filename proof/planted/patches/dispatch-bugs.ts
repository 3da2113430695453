// Planted bugs in the dispatch check: held jobs, the verdicts on them, and who may bring one.
import type { TextPatch } from "../planted-bug.ts";

const conformance = "test/conformance/store.test.ts";
const flows = "test/unit/flow-dispatch.test.ts";
const engine = "test/unit/engine-dispatch.test.ts";
const inbox = "src/adapters/operations/inbox.ts";
const deliver = "src/adapters/redis/lua/deliver.lua";

/** One edit, caught by one file. */
function bug(
  [name, what]: readonly [name: string, what: string],
  file: string,
  [find, replace]: readonly [find: string, replace: string],
  caughtBy: string,
): TextPatch {
  return { name, what, edits: [{ file, find, replace }], tests: [caughtBy] };
}

export const plantedDispatchBugs: readonly TextPatch[] = [
  bug(
    [
      "verdict-without-guard",
      "a verdict is accepted from any sender: a process that lost the job's lock lets go what the next one denied",
    ],
    inbox,
    [
      `  if (holder?.token !== guard.token || holder.fence !== guard.fence) return { kind: "stale_fence" };\n`,
      `  void holder;\n`,
    ],
    conformance,
  ),
  bug(
    ["verdict-without-guard-lua", "the same in the Redis script"],
    deliver,
    [`      if lockToken ~= ARGV[15] or lockFence ~= ARGV[16] then refusal = "stale_fence" end\n`, ""],
    conformance,
  ),
  bug(
    [
      "second-verdict-counts",
      "a job that was allowed takes another verdict while the first one waits in the inbox",
    ],
    inbox,
    [`  if (!isUndecided(job)) return { kind: "duplicate" };\n`, ""],
    conformance,
  ),
  bug(
    ["held-job-claimable", "a worker that knows its id claims a job that the check has not allowed"],
    "src/adapters/operations/jobs.ts",
    [
      `  if (job.state !== "ready") return job.state === "parked" ? "budget_held" : "not_ready";`,
      `  if (job.state !== "ready" && job.state !== "held") return "not_ready";`,
    ],
    conformance,
  ),
  bug(
    ["denied-job-runs", "a denied job is given to workers"],
    "src/domain/engine/apply-entry.ts",
    [
      `  switch (verdict) {\n    case "allow": {`,
      `  switch (verdict as string) {\n    case "deny":\n    case "allow": {`,
    ],
    engine,
  ),
  bug(
    [
      "released-though-cancelled",
      "a job is released in the very commit that cancels its run, and a worker does it",
    ],
    "src/domain/engine/draft.ts",
    [
      `    draft.releaseJobs = draft.releaseJobs.filter((released) => released.jobId !== jobId);`,
      `    draft.voidJobs = draft.voidJobs.filter((voided) => voided !== jobId);`,
    ],
    engine,
  ),
  {
    name: "fenced-verdict-sent",
    what: "a scheduler whose lease is over still brings what its check says, and leaves it to the store to refuse it",
    edits: [
      {
        file: "src/control/jobs/scheduler.ts",
        find: `  signal.throwIfAborted();\n  return answer;`,
        replace: "  return answer;",
      },
      { file: "src/control/jobs/scheduler.ts", find: "  lease.check();\n", replace: "" },
    ],
    tests: [flows],
  },
  bug(
    [
      "held-hint-to-workers",
      "held jobs are told to workers instead of the scheduler: nobody ever asks the check",
    ],
    "src/control/jobs/hints.ts",
    [`  if (held === true) return "checks";\n`, `  void held;\n`],
    flows,
  ),
  bug(
    ["trouble-lets-go", "a check that is down allows everything"],
    "src/control/jobs/scheduler.ts",
    [
      `    return { kind: "trouble", cause: shortened(error instanceof Error ? error.message : String(error)) };`,
      `    void error;\n    return { kind: "answered", answer: { verdict: "allow" } };`,
    ],
    flows,
  ),
];
