// The settings of runs, of how definitions are read, and of the dispatch check before jobs of high risk.
import { amount, choice, milliseconds, optionalText, secretText } from "./kinds.ts";

export const runsSettings = {
  "results.strategy": choice(
    "RESULTS_STRATEGY",
    ["handoff", "retry"],
    "How an entry meets a busy run: handed to the owner, or tried again later (the baseline and the rollback knob).",
  ),
  "results.retry.wait": choice(
    "RESULTS_RETRY_WAIT",
    ["jitter", "fixed"],
    "How a busy result is spread under `retry`: jitter breaks waves, fixed is the baseline.",
  ),
  "results.retry.baseMs": milliseconds(
    "RESULTS_RETRY_BASE_MS",
    500,
    1,
    60_000,
    "Delay before a result that met a busy run is delivered again.",
  ),
  "results.retry.jitterFraction": amount(
    "RESULTS_RETRY_JITTER_FRACTION",
    "fraction",
    0.3,
    0,
    0.5,
    "How far the delay may lie from its base, as a fraction; 0 is the same as fixed.",
  ),
  "results.deliveriesMax": amount(
    "RESULTS_DELIVERIES_MAX",
    "deliveries",
    100,
    1,
    10_000,
    "After so many deliveries a result goes to the dead letters before it is dropped.",
  ),
  "jobs.leaseMs": milliseconds(
    "JOBS_LEASE_MS",
    30_000,
    100,
    3_600_000,
    "How long a worker may be silent before its job is given to another; heartbeats extend it.",
  ),
  "jobs.pollWaitMaxMs": milliseconds(
    "JOBS_POLL_WAIT_MAX_MS",
    30_000,
    0,
    120_000,
    "Longest time that a poll for jobs is held open.",
  ),
  "jobs.gatherMs": milliseconds(
    "JOBS_GATHER_MS",
    2,
    0,
    1_000,
    "A poll that has a job waits this long for others that are on their way to the same worker, so that under load one answer carries a batch. A job that comes alone leaves at once.",
  ),
  "jobs.hintsMax": amount(
    "JOBS_HINTS_MAX",
    "hints",
    10_000,
    10,
    1_000_000,
    "Unclaimed jobs that a process remembers; others are found through the store.",
  ),
  "engine.setAsideAfterMs": milliseconds(
    "ENGINE_SET_ASIDE_AFTER_MS",
    120_000,
    0,
    86_400_000,
    "An entry that five owners in a row took without a commit is set aside only if they have tried for so long: on a busy machine owners are slow. Shorter ends a crash loop sooner.",
  ),
  "engine.cachedRunsMax": amount(
    "ENGINE_CACHED_RUNS_MAX",
    "runs",
    20_000,
    0,
    1_000_000,
    "Runs remembered between results, so that a result is applied by one store operation: surely those of the latest half. 0 turns it off.",
  ),
  "engine.cachedRunBytesMax": amount(
    "ENGINE_CACHED_RUN_BYTES_MAX",
    "bytes",
    1_048_576,
    0,
    16_777_216,
    "Larger runs are not remembered; a for_each of 5,000 small items takes about 200,000.",
  ),
  "engine.cachedBytesMax": amount(
    "ENGINE_CACHED_BYTES_MAX",
    "bytes",
    67_108_864,
    0,
    4_294_967_296,
    "Of all runs that are remembered; beyond it those used longest ago are forgotten, and one of more than half of it is never remembered.",
  ),
  "engine.drainRoundsMax": amount(
    "ENGINE_DRAIN_ROUNDS_MAX",
    "commits",
    32,
    1,
    10_000,
    "Commits after which the owner of a busy run lets others have the process.",
  ),
  "runs.forEachItemsMax": amount(
    "RUNS_FOR_EACH_ITEMS_MAX",
    "items",
    10_000,
    1,
    100_000,
    "Items of one for_each; a list with more fails its step.",
  ),
  "runs.depthMax": amount(
    "RUNS_DEPTH_MAX",
    "runs",
    8,
    1,
    64,
    "How deep runs may be nested: a run that a step starts may start another, and so on.",
  ),
  "runs.perRootMax": amount(
    "RUNS_PER_ROOT_MAX",
    "runs",
    1_000,
    65,
    100_000,
    "Runs that one start may lead to: itself, the runs its steps start, and theirs; ended ones count. 65 is a step with 64 of them.",
  ),
  "approvals.strategy": choice(
    "APPROVALS_STRATEGY",
    ["atomic", "lock"],
    "atomic decides in one operation; lock wraps it in the approval lock (the baseline).",
  ),
  "approvals.separateDuties": choice(
    "APPROVALS_SEPARATE_DUTIES",
    ["no", "yes"],
    "yes: the person who started a run may not approve its steps. Off by default, so that one person can finish a run.",
  ),
  "sweep.everyMs": milliseconds(
    "SWEEP_EVERY_MS",
    500,
    50,
    60_000,
    "How often an engine looks for due timers, lost claims and runs without an owner: what a dead process leaves is found within about this time. Each look is one call per server of the store.",
  ),
  "jobs.resultBytesMax": amount(
    "JOBS_RESULT_BYTES_MAX",
    "bytes",
    262_144,
    1_024,
    2_097_152,
    "Larger outputs of a job are refused; bounds the time that a result holds the store.",
  ),
} as const;

export const workflowsSettings = {
  "workflows.judgeTimeoutMs": milliseconds(
    "WORKFLOWS_JUDGE_TIMEOUT_MS",
    5_000,
    100,
    60_000,
    "How long judging one definition may take, from when its turn comes; then it is answered 503 and its thread is replaced. A net: what takes much work is refused by a count before.",
  ),
  "workflows.judgeWaitingMax": amount(
    "WORKFLOWS_JUDGE_WAITING_MAX",
    "definitions",
    256,
    1,
    10_000,
    "Definitions that may wait to be judged, of all tenants; more are answered 503. Each holds up to 1 MiB.",
  ),
  "workflows.tenantJudgeWaitingMax": amount(
    "WORKFLOWS_TENANT_JUDGE_WAITING_MAX",
    "definitions",
    32,
    1,
    10_000,
    "The same for one tenant, answered 429. Tenants take turns, so that one that sends many delays the others by one.",
  ),
} as const;

export const dispatchSettings = {
  "dispatch.checkUrl": optionalText(
    "DISPATCH_CHECK_URL",
    /^https?:\/\/[^\s@]+$/,
    "Asked by POST before workers may have a job of a workflow of risk high. https, or http on this machine.",
  ),
  "dispatch.token": secretText(
    "DISPATCH_TOKEN",
    /^[\x21-\x7e]{1,4096}$/,
    "Sent to dispatch.checkUrl as a bearer token; never shown.",
  ),
  "dispatch.checkTimeoutMs": milliseconds(
    "DISPATCH_CHECK_TIMEOUT_MS",
    5_000,
    10,
    3_600_000,
    "How long one question to the check may take; beyond it the job stays held and is asked about again.",
  ),
  "dispatch.holdMs": milliseconds(
    "DISPATCH_HOLD_MS",
    10_000,
    10,
    86_400_000,
    "How soon the check is asked again about a job that it holds, unless it says when; also the longest pause after trouble.",
  ),
  "dispatch.hold": choice(
    "DISPATCH_HOLD",
    ["auto", "high", "off"],
    "high: jobs of workflows of risk high wait for the check, also if another process asks it. auto: if this process has a check. off: never.",
  ),
  "dispatch.allowInsecure": choice(
    "DISPATCH_ALLOW_INSECURE",
    ["no", "yes"],
    "yes: dispatch.checkUrl may be http on another machine, where inputs and the token can be read on the way.",
  ),
  "dispatch.checksMax": amount(
    "DISPATCH_CHECKS_MAX",
    "checks",
    32,
    1,
    1_000,
    "Jobs that this process asks about at the same time.",
  ),
} as const;

/** Encrypted, or a way that does not leave this machine. */
export function isSafeAddress(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, hostname } = new URL(text);
  if (protocol === "https:") return true;
  return protocol === "http:" && /^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname);
}
