// What is sent and answered where runs are tried out or done again.
import * as z from "zod";
import { truncationCauses } from "../domain/engine/dry-run.ts";
import { stepStatuses } from "../domain/engine/records.ts";
import { anyJson } from "./fields.ts";

const stepId = z.string().min(1).max(64);

export const dryRunBody = z
  .strictObject({
    input: anyJson.exactOptional(),
    outputs: z.record(stepId, anyJson).exactOptional(),
  })
  .meta({
    id: "DryRunRequest",
    description: "`outputs` says what workers and child runs would answer, by step; null for those left out.",
  });

export const dryRun = z
  .object({
    dry_run: z.literal(true),
    status: z.string(),
    truncated: z.boolean(),
    truncated_because: z.enum(truncationCauses).exactOptional().meta({
      description:
        "Why it ends before the run would: `entries`, too many things happen; `work`, its expressions cost too much together; `size`, it would be too long to show.",
    }),
    steps: z.array(
      z.object({
        step_id: z.string(),
        type: z.string(),
        status: z.enum(stepStatuses),
        topic: z.string().exactOptional(),
        input: anyJson.exactOptional(),
        output: anyJson.exactOptional(),
        error: z.object({ message: z.string(), code: z.string().exactOptional() }).exactOptional(),
        skipped_because: z.string().exactOptional(),
      }),
    ),
  })
  .meta({ id: "DryRun", description: "The steps in the order in which they would begin." });

export const rerunBody = z
  .strictObject({ from_step: stepId, dry_run: z.boolean().exactOptional() })
  .meta({ id: "RerunRequest" });

export const rerunPlan = z
  .object({
    dry_run: z.literal(true),
    from_step: z.string(),
    kept: z.array(z.string()),
    again: z.array(z.string()),
  })
  .meta({
    id: "RerunPlan",
    description: "Steps whose results are taken over, and steps that may run again.",
  });
