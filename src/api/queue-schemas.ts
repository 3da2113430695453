// What answers say of a run that waits: at a gate, for its rate, or to come back.
import * as z from "zod";
import { time } from "./fields.ts";

/** Of a run that waits at a gate, or for its rate. */
export const queuePlace = z
  .object({
    gate: z.string().exactOptional().meta({ description: "Absent while it waits for a rate." }),
    rate: z
      .string()
      .exactOptional()
      .meta({ description: "The rate that makes it wait, before its first gate." }),
    starts_at: time.exactOptional().meta({ description: "With a rate: when it goes on to its gates." }),
    level: z
      .number()
      .exactOptional()
      .meta({ description: "Priority, raised by those behind; 10: first; 11: it comes back." }),
    since: time,
    deadline_at: time.exactOptional().meta({
      description: "If it has not begun by then, it ends as timed_out. A run that comes back has none.",
    }),
    position: z.number().exactOptional().meta({
      description: "1 is the next. An estimate: others may come before it, or leave. Not in lists.",
    }),
  })
  .meta({ id: "QueuePlace" });

export const queuedRun = z
  .object({
    run_id: z.string(),
    status: z.literal("queued"),
    gate: z.string().exactOptional().meta({ description: "Where it waits: GET /gates/{id}." }),
    rate: z.string().exactOptional().meta({ description: "Instead of a gate: the rate that makes it wait." }),
    starts_at: time.exactOptional().meta({ description: "With a rate: when it goes on to its gates." }),
    position: z.number().meta({ description: "1 is the next; an estimate." }),
    deadline_at: time,
  })
  .meta({
    id: "QueuedRun",
    description: "The run waits for a place at a gate or for its rate, and begins by itself.",
  });
