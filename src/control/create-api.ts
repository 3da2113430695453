// The table of everything that may be asked of a control plane. Its types are those of the flows; an area's file lists its own.

import { startWorkflow } from "./admission/start-run.ts";
import { approvalFlows } from "./approvals/decide-approval.ts";
import { readTrail, recordRefusals } from "./audit/read-trail.ts";
import { verifyTrail } from "./audit/verify-trail.ts";
import { canaryFlows } from "./canaries/canaries.ts";
import { deadLetterFlows } from "./dead-letters/dead-letters.ts";
import { inspectDeadLetter } from "./dead-letters/inspect-dead-letter.ts";
import { retryDeadLetter } from "./dead-letters/retry-dead-letter.ts";
import { cancelRun, deleteRun } from "./engine/deliver-entry.ts";
import type { Engine } from "./engine/engine.ts";
import { followEvents, followRun, readEvents } from "./events/event-feeds.ts";
import { pollJobs } from "./jobs/poll-jobs.ts";
import { reportResult } from "./jobs/report-result.ts";
import { getJob, heartbeat, listReadyJobs, listWorkers } from "./jobs/workers.ts";
import { keyFlows } from "./keys/api-keys.ts";
import { acquireLock } from "./locks/acquire-public-lock.ts";
import { lockFlows } from "./locks/public-locks.ts";
import { policyFlows } from "./policies/policies.ts";
import { poolFlows } from "./pools/pools.ts";
import { livingProcesses } from "./processes.ts";
import { budgetFlows } from "./queues/budgets.ts";
import { queueFlows } from "./queues/queues.ts";
import type { Ready } from "./readiness.ts";
import { dryRun } from "./runs/dry-run.ts";
import { explainRun } from "./runs/explain-run.ts";
import { readFlows } from "./runs/read-run.ts";
import { planRerun, rerunRun } from "./runs/rerun-run.ts";
import { removeTenant } from "./tenants/remove-tenant.ts";
import { tenantFlows } from "./tenants/tenants.ts";
import { workflowFlows } from "./workflows/workflows.ts";

const flows = {
  ...workflowFlows,
  ...{ startWorkflow, dryRun, rerunRun, planRerun, cancelRun, deleteRun },
  ...readFlows,
  explainRun,
  ...{ pollJobs, heartbeat, reportResult, getJob, listReadyJobs, listWorkers },
  ...approvalFlows,
  ...deadLetterFlows,
  ...{ inspectDeadLetter, retryDeadLetter },
  ...lockFlows,
  acquireLock,
  ...poolFlows,
  ...queueFlows,
  ...budgetFlows,
  ...policyFlows,
  ...canaryFlows,
  ...tenantFlows,
  removeTenant,
  ...keyFlows,
  ...{ readEvents, followEvents, followRun },
  ...{ readTrail, verifyTrail, recordRefusals },
  ...{ ready, storeAheadMs, livingProcesses },
};

/** A flow as its caller sees it: the engine is given. */
type Bound<Flow> = Flow extends (engine: never, ...asked: infer Asked) => infer Answer
  ? (...asked: Asked) => Answer
  : never;

export type ControlApi = { readonly [Name in keyof typeof flows]: Bound<(typeof flows)[Name]> };

export function createApi(engine: Engine): ControlApi {
  type Flow = (engine: Engine, request: unknown, signal: unknown) => unknown;
  const bound = Object.entries(flows).map(([name, flow]) => [
    name,
    (request: unknown, signal: unknown) => (flow as Flow)(engine, request, signal),
  ]);
  return Object.fromEntries(bound) as ControlApi;
}

/** Whether the store takes changes now. */
function ready(engine: Engine): Promise<Ready> {
  return engine.readiness.check();
}

/** How far the store's time is ahead of this machine's wall clock. */
function storeAheadMs({ storeTime }: Engine): number | undefined {
  return storeTime.aheadMs();
}
