// The settings of how definitions are read.
import { amount, milliseconds } from "./kinds.ts";

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
