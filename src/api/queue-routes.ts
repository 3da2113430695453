// Gates and queues of the HTTP contract.
import * as z from "zod";
import type { KeyRole } from "../domain/api-key.ts";
import { prioritiesMax } from "../domain/gates.ts";
import { slotHolder } from "./explanation-schemas.ts";
import { nothing, pageOf, pageQuery, wholeNumberText } from "./fields.ts";
import type { Route } from "./route.ts";
import { runSummary } from "./schemas.ts";

const gateFields = {
  gate: z
    .string()
    .meta({ description: "`by-key.`, `by-workflow.` or `named.` and what it is of, or `tenant`." }),
  limit: z.number().exactOptional().meta({ description: "Absent when it lets everybody through." }),
  active: z.number().meta({ description: "Runs that hold a place." }),
  waiting: z.number(),
};

const gateState = z.object(gateFields).meta({ id: "GateState" });

const gate = z
  .object({
    ...gateFields,
    holders: z.array(slotHolder).meta({ description: "Those that hold its places, the oldest first." }),
    queue: z
      .array(runSummary)
      .meta({ description: "Those that wait, in the order in which they would be let through now." }),
  })
  .meta({ id: "Gate" });

const queues = z.object({
  ...pageOf(gateState).shape,
  queued: z.number().meta({ description: "Runs that wait at all gates of the tenant." }),
});

const moveBody = z
  .strictObject({
    to: z
      .union([z.literal("head"), z.number().int().min(0).max(prioritiesMax)])
      .meta({ description: "Before all others, or behind those of a priority." }),
    move_id: z
      .string()
      .regex(/^[A-Za-z0-9_-]{1,128}$/, "must be 1 to 128 characters of A-Z a-z 0-9 _ -")
      .exactOptional()
      .meta({ description: "Chosen by the caller: a repeat with the same has no further effect." }),
  })
  .meta({ id: "MoveQueued" });

const readers = ["viewer", "operator", "admin"] as const satisfies readonly KeyRole[];
const operators = ["operator", "admin"] as const satisfies readonly KeyRole[];

export const queueRoutes = {
  listQueues: {
    method: "GET",
    path: "/api/v1/queues",
    summary: "List the gates at which runs wait.",
    access: readers,
    query: z.strictObject(pageQuery),
    replies: { 200: queues },
    errors: [],
  },
  getGate: {
    method: "GET",
    path: "/api/v1/gates/{id}",
    summary: "Show a gate: its limit, the runs that hold its places, and those that wait.",
    access: readers,
    query: z.strictObject({ limit: wholeNumberText({ min: 1, max: 500 }).exactOptional() }),
    replies: { 200: gate },
    errors: ["gate_not_found"],
  },
  moveQueued: {
    method: "POST",
    path: "/api/v1/workflow-runs/{id}/queue",
    summary: "Give a queued run another place: before all others, or behind those of a priority.",
    access: operators,
    body: moveBody,
    replies: { 204: nothing },
    errors: ["run_not_found", "run_not_queued", "effect_unknown"],
  },
} as const satisfies Record<string, Route>;
