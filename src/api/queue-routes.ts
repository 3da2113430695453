// Gates, queues and budgets of the HTTP contract.
import * as z from "zod";
import type { KeyRole } from "../domain/api-key.ts";
import { periods } from "../domain/budgets.ts";
import { prioritiesMax } from "../domain/gates.ts";
import { slotHolder } from "./explanation-schemas.ts";
import { nothing, pageOf, pageQuery, time, wholeNumberText } from "./fields.ts";
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

const budgetPeriod = z
  .object({
    budget: z.string().meta({ description: "Its id: `tenant.` or `workflow.` and what it is of." }),
    name: z.string(),
    unit: z.string(),
    per: z.enum(periods),
    workflow_id: z.string().exactOptional().meta({ description: "Absent for one of the tenant's settings." }),
    key_hash: z
      .string()
      .exactOptional()
      .meta({ description: "Of the key's value: the first 32 hexadecimal digits of its SHA-256." }),
    period_start: time,
    period_end: time,
    amount: z
      .number()
      .exactOptional()
      .meta({ description: "Absent when the budget is not set any more: it stops nobody." }),
    spent: z.number(),
    reserved: z.number().meta({ description: "By jobs under way, until their results say what they used." }),
    percent: z.number().exactOptional().meta({ description: "Of the amount that is spent." }),
    held_jobs: z.number().meta({ description: "Jobs that wait for it." }),
    forecast: z.number().exactOptional().meta({
      description:
        "What is spent at the end of the period if jobs go on as since the first of the period; absent in its first minute.",
    }),
    exhausts_at: time
      .exactOptional()
      .meta({ description: "When the amount is spent at that rate, if it is." }),
  })
  .meta({ id: "BudgetPeriod", description: "A budget in one of its periods." });

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
  listBudgets: {
    method: "GET",
    path: "/api/v1/budgets",
    summary: "List what budgets have spent in their present period.",
    access: readers,
    query: z.strictObject({
      ...pageQuery,
      periods: z
        .enum(["present", "all"])
        .exactOptional()
        .meta({ description: "all: also past ones, of the last 35 days." }),
    }),
    replies: { 200: pageOf(budgetPeriod) },
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
