// Every resource and body of the HTTP contract; routes.ts says which operation uses which.
import * as z from "zod";
import { stepStatuses } from "../domain/engine/records.ts";
import { jobStates } from "../domain/job.ts";
import { runStatuses } from "../domain/run.ts";
import { anyJson, callerName, freeText, time, topic } from "./fields.ts";
import { queuePlace } from "./queue-schemas.ts";

export const runStatus = z.enum(runStatuses).meta({ id: "RunStatus" });

// Workflows

export const workflow = z
  .object({ id: z.string(), revision: z.number(), saved_at: time, definition: anyJson })
  .meta({ id: "Workflow", description: "A definition as it was sent, and which revision of it this is." });

export const savedWorkflow = z.object({ id: z.string(), revision: z.number() }).meta({ id: "SavedWorkflow" });

export const problem = z
  .object({
    path: z.string(),
    message: z.string(),
    line: z.number().exactOptional().meta({ description: "In a text in YAML, counted from 1." }),
    column: z.number().exactOptional(),
  })
  .meta({ id: "PlaceOfProblem", description: "Something wrong at a place, such as steps.review.topic." });

export const validatedWorkflow = z
  .object({
    valid: z.boolean(),
    steps: z.number().exactOptional().meta({ description: "How many steps a valid definition has." }),
    hash: z
      .string()
      .exactOptional()
      .meta({ description: "What runs of it would be pinned to; absent without an id." }),
    problems: z
      .array(problem)
      .exactOptional()
      .meta({ description: "All that is wrong, when it is not valid." }),
    warnings: z
      .array(problem)
      .exactOptional()
      .meta({ description: "What would only fail when a run gets there." }),
  })
  .meta({ id: "ValidatedWorkflow" });

// Runs

export const startedRun = z.object({ run_id: z.string(), status: runStatus }).meta({ id: "StartedRun" });

const runFields = {
  id: z.string().meta({ description: "The same as run_id." }),
  run_id: z.string(),
  workflow_id: z.string(),
  org_id: z.string().meta({ description: "The tenant." }),
  definition: z.string().meta({ description: "Content hash of the definition that the run is pinned to." }),
  status: runStatus,
  version: z.number().meta({ description: "Grows by one with every change." }),
  created_by: z.string(),
  created_at: time,
  updated_at: time,
  completed_at: time.exactOptional(),
  cancel_requested: z.boolean(),
  parent_run_id: z
    .string()
    .exactOptional()
    .meta({ description: "For a run that a step of another run has started." }),
  parent_step_id: z.string().exactOptional(),
  root_run_id: z.string().exactOptional(),
  priority: z.number().exactOptional().meta({ description: "From 0 to 9; of a run that has gates." }),
  queue: queuePlace.exactOptional().meta({ description: "While it is queued, or waits to come back." }),
  places_released: z.literal(true).exactOptional().meta({
    description: "It has given its places back while it waits, as its workflow asks for with slots.",
  }),
  end_reason: z.string().exactOptional().meta({
    description:
      "Why a run has ended that never began: queue_deadline_passed, superseded_by and the newer run, or what was said with the cancel.",
  }),
};

export const runSummary = z.object(runFields).meta({ id: "RunSummary" });

const stepError = z.object({ message: z.string(), code: z.string().exactOptional() });

export const step = z
  .object({
    step_id: z.string(),
    name: z.string(),
    type: z.string(),
    status: z.enum(stepStatuses),
    attempts: z.number(),
    failures: z.number().exactOptional(),
    lost_claims: z.number().exactOptional(),
    hand_backs: z.number().exactOptional(),
    waiting_for: z.string().exactOptional(),
    wakes_at: time.exactOptional(),
    started_at: time.exactOptional(),
    completed_at: time.exactOptional(),
    job_id: z.string().exactOptional(),
    error: stepError.exactOptional(),
    output: anyJson.exactOptional(),
    skipped_because: z.string().exactOptional(),
    handles: z.string().exactOptional(),
    children: z
      .object({ total: z.number(), open: z.number(), succeeded: z.number(), failed: z.number() })
      .exactOptional(),
    iteration: z.number().exactOptional(),
    child_run_id: z.string().exactOptional(),
    output_omitted: z.literal(true).exactOptional(),
  })
  .meta({ id: "Step" });

export const run = z
  .object({
    ...runFields,
    started_at: time.exactOptional(),
    input: anyJson.exactOptional(),
    error: z
      .object({
        step_id: z.string().exactOptional(),
        status: z.string(),
        message: z.string().exactOptional(),
        code: z.string().exactOptional(),
      })
      .exactOptional(),
    open_steps: z.number(),
    steps: z.record(z.string(), step),
  })
  .meta({ id: "Run" });

export const timelineRow = z
  .looseObject({ version: z.number(), at: time, type: z.string() })
  .meta({ id: "TimelineRow", description: "What happened, in the order of the run's versions." });

export const cancelBody = z.strictObject({ reason: freeText(512).exactOptional() }).meta({ id: "Cancel" });

// Jobs

export const readyJob = z
  .object({ job_id: z.string(), run_id: z.string(), topic: z.string(), created_at: time })
  .meta({ id: "ReadyJob" });

export const job = z
  .object({
    job_id: z.string(),
    run_id: z.string(),
    step_id: z.string(),
    attempt: z.number(),
    iteration: z.number().exactOptional(),
    topic: z.string(),
    state: z.enum(jobStates),
    created_at: time,
    deadline_at: time.exactOptional(),
    worker_id: z.string().exactOptional(),
    claimed_at: time.exactOptional(),
    claim_expires_at: time.exactOptional(),
    progress: anyJson.exactOptional(),
  })
  .meta({ id: "Job", description: "A job without its claim token, which only its worker knows." });

export const claimedJob = z
  .object({
    job_id: z.string(),
    run_id: z.string(),
    step_id: z.string(),
    attempt: z.number().meta({
      description: "Counts from 1 in every iteration of a loop; the number in job_id goes on counting.",
    }),
    iteration: z.number().exactOptional().meta({ description: "Of the loop that the step is in." }),
    idempotency_key: z.string().exactOptional().meta({
      description:
        "The same for every attempt at this piece of work: give it to what has the effect. `<run>:<step>`, and from a loop's second iteration on `#` and the iteration.",
    }),
    topic: z.string(),
    claim_token: z.string().meta({ description: "Proof of the claim: heartbeats and results carry it." }),
    fence: z.number().meta({ description: "Grows with every claim: guard your own writes with it." }),
    lease_ms: z.number().meta({ description: "The claim is lost after this long without a heartbeat." }),
    deadline_at: time.exactOptional(),
    traceparent: z.string().exactOptional().meta({
      description: "W3C trace context, if the run has one: the parent of the worker's own spans.",
    }),
    input: anyJson,
  })
  .meta({ id: "ClaimedJob" });

/** Of items in one request. */
const batchMax = 100;

const leaseMs = z
  .number()
  .int()
  .min(1_000)
  .max(600_000)
  .meta({ description: "How long the worker may be silent; the server's own lease when absent." });

export const pollBody = z
  .strictObject({
    worker_id: callerName,
    topics: z.array(topic).min(1).max(64),
    poll_id: callerName.meta({ description: "Repeat a poll with the same id and it gets the same jobs." }),
    max_jobs: z.number().int().min(1).max(batchMax).default(1),
    wait_ms: z.number().int().min(0).max(300_000).default(0),
    lease_ms: leaseMs.exactOptional(),
    labels: z.record(z.string().min(1).max(64), z.string().max(128)).exactOptional(),
    capabilities: z.array(z.string().min(1).max(128)).max(64).exactOptional(),
    pool: topic.exactOptional().meta({ description: "The worker's pool; absent means `default`." }),
  })
  .meta({ id: "Poll" });

export const polledJobs = z
  .object({
    jobs: z.array(claimedJob),
    draining: z
      .boolean()
      .exactOptional()
      .meta({ description: "The worker's pool drains: there will be no more jobs, and it may stop." }),
  })
  .meta({ id: "PolledJobs" });

const claimFields = { job_id: z.string().min(1).max(256), claim_token: z.string().min(1).max(128) };

/** Anything is taken: what cannot be counted never costs a result. */
const usage = anyJson.exactOptional().meta({
  description:
    "What the attempt has used up to now, by unit, as {tokens: 812, usd: 0.0121}: it settles what its claim reserved in rates and budgets. Rounded up to millionths; an amount that is negative, no number or too large is not counted.",
});

export const heartbeatBody = z
  .strictObject({
    worker_id: callerName,
    jobs: z
      .array(
        z.strictObject({
          ...claimFields,
          lease_ms: leaseMs.exactOptional(),
          progress: anyJson.exactOptional(),
          usage,
        }),
      )
      .min(1)
      .max(batchMax),
  })
  .meta({ id: "Heartbeat" });

const refusedUsage = z.array(z.string()).exactOptional().meta({ description: "Units that are not counted." });

export const heartbeatAnswer = z
  .object({
    jobs: z.array(
      z.union([
        z.object({
          job_id: z.string(),
          kind: z.literal("extended"),
          lease_ms: z.number(),
          stop: z.boolean().meta({ description: "The work is no longer wanted: give up, do not report." }),
          refused_usage: refusedUsage,
        }),
        z.object({ job_id: z.string(), kind: z.literal("lost") }),
      ]),
    ),
  })
  .meta({ id: "HeartbeatAnswer" });

export const resultItem = z
  .strictObject({
    ...claimFields,
    status: z.enum(["succeeded", "failed", "handed_back"]).meta({
      description:
        "handed_back: not done, and not failed; another worker gets the step's next attempt at once. Needs neither output nor error.",
    }),
    retryable: z
      .boolean()
      .exactOptional()
      .meta({ description: "For a failure: whether another attempt may help. True by default." }),
    output: anyJson.exactOptional(),
    error: z
      .strictObject({ message: z.string().max(4_096), code: z.string().max(128).exactOptional() })
      .exactOptional(),
    usage,
    traceparent: z.string().max(256).exactOptional().meta({
      description:
        "W3C trace context of this result, where results of several traces are reported together; that of the request otherwise. One that cannot be read is passed over.",
    }),
    delivery: z.int().min(1).max(10_000).exactOptional().meta({
      description:
        "Which report of this result it is: 1 for the first, one more after each answer `retry`. The server counts for itself too, and takes the larger number.",
    }),
    waited_ms: z.int().min(0).max(604_800_000).exactOptional().meta({
      description: "Milliseconds since the first report of this result, 7 days at most.",
    }),
  })
  .meta({ id: "Result" });

export const resultsBody = z
  .strictObject({ worker_id: callerName, results: z.array(resultItem).min(1).max(batchMax) })
  .meta({ id: "Results" });

export const resultAnswer = z
  .object({
    job_id: z.string(),
    kind: z.enum(["accepted", "duplicate", "refused", "retry"]).meta({
      description:
        "accepted is durable, also for the same report sent again; duplicate: this claim has reported something else, which counts, and this report does not; refused is final; retry asks to report again.",
    }),
    applied: z
      .literal(false)
      .exactOptional()
      .meta({ description: "With duplicate: what was reported now has no effect, whatever it says." }),
    because: z.string().exactOptional().meta({
      description:
        "With refused and `deliveries_exhausted`: the run was busy at each of `results.deliveriesMax` reports, and the result is in the dead letters.",
    }),
    retry_after_ms: z.number().exactOptional(),
    refused_usage: refusedUsage,
  })
  .meta({ id: "ResultAnswer" });

export const resultsAnswer = z.object({ results: z.array(resultAnswer) }).meta({ id: "ResultsAnswer" });

export const worker = z
  .object({
    worker_id: z.string(),
    topics: z.array(z.string()),
    places: z.number(),
    labels: z.record(z.string(), z.string()),
    capabilities: z.array(z.string()),
    pool: z.string(),
    running: z.number(),
    jobs: z.array(z.string()).meta({ description: "What it works on; only some when there are many." }),
    last_seen_ms_ago: z.number(),
  })
  .meta({ id: "Worker" });

// Approvals

export const approvalState = z.enum(["pending", "approved", "rejected", "expired", "cancelled"]);

const approvalFields = {
  job_id: z.string(),
  run_id: z.string(),
  step_id: z.string(),
  state: approvalState,
  hash: z.string().meta({ description: "Of what is shown: name it in the decision." }),
  requested_by: z.string(),
  separate_duties: z.boolean(),
  requested_at: time,
  expires_at: time.exactOptional(),
  decided_at: time.exactOptional(),
  decided_by: z.string().exactOptional(),
  decided_by_name: z.string().exactOptional().meta({ description: "The owner of the key that decided." }),
  decided_by_role: z.string().exactOptional(),
  reason: z.string().exactOptional(),
};

export const approval = z.object(approvalFields).meta({ id: "Approval" });

export const approvalContext = z
  .object({ ...approvalFields, payload: anyJson, canonical: z.string() })
  .meta({ id: "ApprovalContext", description: "What is to be approved; the hash is of the canonical text." });

export const decisionBody = z
  .strictObject({
    hash: z
      .string()
      .regex(/^[0-9a-f]{64}$/, "must be 64 hexadecimal digits")
      .exactOptional(),
    reason: freeText(512).exactOptional(),
  })
  .meta({ id: "Decision" });
