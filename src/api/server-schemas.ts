// What the server says of itself, and of idempotency keys.
import * as z from "zod";
import { keyRoles } from "../domain/api-key.ts";
import { terminalStatuses } from "../domain/run.ts";

export const keyBinding = z
  .object({
    state: z.enum(["pending", "bound"]),
    run_id: z.string(),
    final_status: z.enum(terminalStatuses).exactOptional(),
  })
  .meta({ id: "KeyBinding", description: "The run that a start's idempotency key maps to." });

export const status = z
  .object({
    status: z.enum(["ready", "unavailable"]),
    detail: z.string().exactOptional().meta({ description: "What is wrong, when it is unavailable." }),
    store_ahead_ms: z.number().exactOptional().meta({
      description:
        "How far the store's time is ahead of this server's wall clock; negative when it is behind. Delays, claims and locks go by the store's time.",
    }),
    version: z.string(),
    instance: z.string(),
    tenant: z.string(),
    role: z.enum(keyRoles),
    key_id: z.string(),
    idempotency_keys: z.object({ limit: z.number(), used: z.number() }).exactOptional().meta({
      description:
        "For keys of a tenant: how many of its idempotency keys are remembered. At the limit the oldest are forgotten before their time.",
    }),
    processes: z
      .array(
        z.object({
          instance: z.string(),
          version: z.string(),
          roles: z.array(z.string()),
          seen_ms_ago: z.number(),
        }),
      )
      .exactOptional()
      .meta({ description: "For platform keys: the processes that live on this store." }),
    findings: z
      .array(z.object({ level: z.enum(["warn", "fail"]), message: z.string(), remedy: z.string() }))
      .exactOptional()
      .meta({
        description:
          "For platform keys: what is wrong with these processes, such as settings in which they do not agree, or no engine.",
      }),
  })
  .meta({ id: "Status" });

export const health = z.object({ status: z.string() }).meta({ id: "Health" });
