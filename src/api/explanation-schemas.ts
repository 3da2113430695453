// What explanations look like: why a run does not move, and which runs hold the slots.
import * as z from "zod";
import { heldReasons, unclaimedReasons } from "../domain/why/explanation.ts";
import { anyJson, time } from "./fields.ts";
import { runStatus } from "./schemas.ts";

const error = z.object({ message: z.string(), code: z.string().exactOptional() });

const item = {
  since: time,
  what_to_do: z.string().meta({ description: "In plain words, for whoever is to get the run going." }),
};

const missing = {
  missing_capabilities: z.array(z.string()).exactOptional(),
  missing_labels: z.record(z.string(), z.string()).exactOptional(),
};

export const slotHolder = z
  .object({
    run_id: z.string(),
    workflow_id: z.string(),
    status: runStatus,
    since: time.meta({ description: "When it was admitted." }),
    path: z.string().meta({ description: "Asks why that run does not end." }),
  })
  .meta({ id: "SlotHolder", description: "A run that holds one of the tenant's slots." });

const approvalItem = z.object({
  kind: z.literal("approval"),
  step_id: z.string(),
  approval_id: z.string(),
  requested_by: z.string(),
  expires_at: time.exactOptional(),
  may_decide: z.string(),
  path: z.string(),
  ...item,
});

const unclaimedItem = z.object({
  kind: z.literal("job_unclaimed"),
  step_id: z.string(),
  job_id: z.string(),
  topic: z.string(),
  attempt: z.number(),
  republished: z.number().meta({ description: "How often it was offered again." }),
  because: z.enum(unclaimedReasons),
  detail: z.string(),
  places: z
    .object({ running: z.number(), max: z.number() })
    .exactOptional()
    .meta({ description: "Of the limit on running jobs that is reached." }),
  ...missing,
  workers: z
    .array(
      z.object({
        worker_id: z.string(),
        running: z.number(),
        jobs: z.array(z.string()),
        last_seen_ms_ago: z.number(),
        free_places: z.number().exactOptional(),
        ...missing,
      }),
    )
    .meta({ description: "Workers of the topic that this process has seen, the nearest first." }),
  similar_topics: z.array(z.string()),
  ...item,
});

const heldItem = z.object({
  kind: z.literal("job_held"),
  step_id: z.string(),
  job_id: z.string(),
  topic: z.string(),
  attempt: z.number(),
  because: z.enum(heldReasons),
  detail: z.string(),
  last_reason: z.string().exactOptional(),
  last_said_at: time.exactOptional(),
  ...item,
});

const runningItem = z.object({
  kind: z.literal("job_running"),
  step_id: z.string(),
  job_id: z.string(),
  worker_id: z.string(),
  attempt: z.number(),
  lease_ms_left: z.number(),
  deadline_at: time.exactOptional(),
  progress: anyJson.exactOptional(),
  ...item,
});

const timerItem = z.object({
  kind: z.literal("timer"),
  step_id: z.string(),
  timer: z.enum(["retry", "delay"]),
  due_at: time,
  attempts: z.number(),
  failures: z.number(),
  last_error: error.exactOptional(),
  ...item,
});

const lockItem = z.object({
  kind: z.literal("run_lock"),
  entries: z.array(z.object({ kind: z.string(), about: z.string() })),
  holder: z
    .object({
      instance: z.string(),
      owner: z.string().exactOptional(),
      held_for_ms: z.number(),
      expires_in_ms: z.number(),
    })
    .exactOptional(),
  ...item,
});

const childRunItem = z.object({
  kind: z.literal("child_run"),
  step_id: z.string(),
  run_id: z.string(),
  run_status: z.string().exactOptional(),
  path: z.string(),
  ...item,
});

const childrenItem = z.object({
  kind: z.literal("children"),
  step_id: z.string(),
  total: z.number().exactOptional(),
  open: z.number().exactOptional(),
  succeeded: z.number().exactOptional(),
  failed: z.number().exactOptional(),
  iteration: z.number().exactOptional(),
  ...item,
});

const limitItem = z.object({
  kind: z.literal("limit"),
  limit: z.number(),
  active: z.number(),
  runs: z.array(slotHolder),
  ...item,
});

const queueItem = z.object({
  kind: z.literal("queued"),
  gate: z.string(),
  detail: z.string(),
  limit: z.number().exactOptional(),
  active: z.number(),
  waiting: z.number(),
  position: z
    .number()
    .exactOptional()
    .meta({ description: "1 is the next; absent for one that is far behind." }),
  ahead: z
    .array(slotHolder)
    .meta({ description: "Some of those that are let through before it, the next first." }),
  holders: z.array(slotHolder).meta({ description: "Some of those that hold the places, the oldest first." }),
  deadline_at: time.exactOptional().meta({ description: "Absent for a run that comes back." }),
  expected_at: time.exactOptional().meta({
    description:
      "An estimate by how often runs that passed the gate ended lately; absent when that is not known.",
  }),
  ...item,
});

const rateItem = z.object({
  kind: z.literal("start_rate"),
  rate: z.string(),
  starts_at: time.meta({ description: "When it goes on to its gates." }),
  deadline_at: time,
  detail: z.string(),
  ...item,
});

const parkedItem = z.object({
  kind: z.literal("job_parked"),
  step_id: z.string(),
  job_id: z.string(),
  topic: z.string(),
  attempt: z.number(),
  budget: z.string(),
  unit: z.string(),
  spent: z.number(),
  reserved: z.number(),
  estimate: z.number().meta({ description: "What the job is expected to use." }),
  amount: z.number().exactOptional(),
  resets_at: time,
  detail: z.string(),
  ...item,
});

const stoppedItem = z.object({ kind: z.literal("tenant_stopped"), detail: z.string(), ...item });

const ending = z.object({
  status: z.string(),
  at: time,
  step_id: z.string().exactOptional(),
  error: error.exactOptional(),
  dead_letter: z.object({ id: z.string(), state: z.string(), path: z.string() }).exactOptional(),
});

export const explanation = z
  .object({
    run_id: z.string(),
    workflow_id: z.string(),
    status: runStatus,
    since: time.meta({ description: "When the run was changed last." }),
    summary: z.string().meta({ description: "One plain sentence." }),
    waiting_for: z
      .array(
        z.discriminatedUnion("kind", [
          stoppedItem,
          limitItem,
          approvalItem,
          unclaimedItem,
          heldItem,
          runningItem,
          timerItem,
          lockItem,
          childRunItem,
          childrenItem,
          // New kinds come last: the frozen documents compare by place.
          queueItem,
          rateItem,
          parkedItem,
        ]),
      )
      .meta({ description: "The most important first." }),
    open_steps: z.number(),
    not_shown: z.number().meta({ description: "Open steps that are not among the items." }),
    ended: ending.exactOptional(),
    unanswered: z.array(z.string()).meta({ description: "What the store did not answer." }),
  })
  .meta({ id: "Explanation", description: "Why a run does not move, or how it ended." });
