// The table of everything that may be asked of a control plane: a row for each flow, whose types are those of the flow itself.

import { platformTenant } from "../domain/tenant.ts";
import { startWorkflow } from "./admission/start-run.ts";
import { approvalContext, decideApproval, listApprovals } from "./approvals/decide-approval.ts";
import { readTrail, recordRefusals } from "./audit/read-trail.ts";
import { verifyTrail } from "./audit/verify-trail.ts";
import { getCanary, keepCanary, listCanaries, rollBackCanary, startCanary } from "./canaries/canaries.ts";
import { listDeadLetters, purgeDeadLetters, removeDeadLetter } from "./dead-letters/dead-letters.ts";
import { inspectDeadLetter } from "./dead-letters/inspect-dead-letter.ts";
import { retryDeadLetter } from "./dead-letters/retry-dead-letter.ts";
import { cancelRun, deleteRun } from "./engine/cancel-run.ts";
import type { Engine } from "./engine/engine.ts";
import { followEvents, followRun, readEvents } from "./events/event-feeds.ts";
import { pollJobs } from "./jobs/poll-jobs.ts";
import { reportResult } from "./jobs/report-result.ts";
import { getJob, heartbeat, listReadyJobs, listWorkers } from "./jobs/workers.ts";
import { authenticate, createKey, describeKeys, listKeys, revokeKey } from "./keys/api-keys.ts";
import { acquireLock } from "./locks/acquire-public-lock.ts";
import {
  breakLock,
  inspectLock,
  listAllLocks,
  listLocks,
  releaseLock,
  renewLock,
} from "./locks/public-locks.ts";
import { getPolicies, removeRollout, rollOut, setPolicies } from "./policies/policies.ts";
import {
  addPoolTopic,
  changePool,
  getPool,
  listPools,
  listTopics,
  removePool,
  removePoolTopic,
  removeTopic,
  setPool,
  setTopic,
} from "./pools/pools.ts";
import { dryRun } from "./runs/dry-run.ts";
import { explainRun } from "./runs/explain-run.ts";
import { getRun, listItems, listRuns, lookUpKey, readTimeline } from "./runs/read-run.ts";
import { planRerun, rerunRun } from "./runs/rerun-run.ts";
import { removeTenant } from "./tenants/remove-tenant.ts";
import { changeTenant, createTenant, getTenant, listTenants, streamsMax } from "./tenants/tenants.ts";
import {
  getWorkflow,
  listWorkflows,
  removeWorkflow,
  saveWorkflow,
  validateWorkflow,
} from "./workflows/workflows.ts";

const flows = {
  ...{ saveWorkflow, validateWorkflow, getWorkflow, listWorkflows, removeWorkflow },
  ...{ startWorkflow, dryRun, rerunRun, planRerun, cancelRun, deleteRun, lookUpKey },
  ...{ getRun, listRuns, listItems, readTimeline, explainRun },
  ...{ pollJobs, heartbeat, reportResult, getJob, listReadyJobs, listWorkers },
  ...{ listApprovals, approvalContext, decideApproval },
  ...{ listDeadLetters, inspectDeadLetter, retryDeadLetter, removeDeadLetter, purgeDeadLetters },
  ...{ acquireLock, renewLock, releaseLock, inspectLock, listLocks, listAllLocks, breakLock },
  ...{ listPools, getPool, setPool, changePool, removePool, addPoolTopic, removePoolTopic },
  ...{ listTopics, setTopic, removeTopic },
  ...{ getPolicies, setPolicies, rollOut, removeRollout },
  ...{ startCanary, listCanaries, getCanary, rollBackCanary, keepCanary },
  ...{ createTenant, getTenant, listTenants, changeTenant, removeTenant, streamsMax },
  ...{ createKey, listKeys, describeKeys, revokeKey, authenticate },
  ...{ readEvents, followEvents, followRun },
  ...{ readTrail, verifyTrail, recordRefusals },
  ready,
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

/** Whether the store answers now. */
async function ready({ ports, config }: Engine): Promise<boolean> {
  const deadlineMs = config["store.callTimeoutMs"];
  const answer = await ports.store.getTenant({ tenant: platformTenant }, { deadlineMs });
  return answer.kind === "tenant";
}
