// Puts the flows together into the table of everything that may be asked of a control plane.
import type { ApprovalId } from "../domain/approval.ts";
import { digestOf } from "../domain/reservation.ts";
import { platformTenant, type TenantSettings } from "../domain/tenant.ts";
import { startWorkflow } from "./admission/start-workflow.ts";
import { decideApproval } from "./approvals/decide-approval.ts";
import { ask } from "./ask-until-known.ts";
import { createAuditApi } from "./audit/audit-api.ts";
import { createCanaryApi } from "./canaries/canaries.ts";
import { tellChanged } from "./canaries/watch-canaries.ts";
import type { ControlApi } from "./control-api.ts";
import { createDeadLetterApi } from "./dead-letters/dead-letter-api.ts";
import { cancelRun, deleteRun } from "./engine/cancel-run.ts";
import type { Engine } from "./engine/engine.ts";
import { followEvents, followRun } from "./events/event-feeds.ts";
import { createPolledBatches, pollJobs } from "./jobs/poll-jobs.ts";
import { reportResult } from "./jobs/report-result.ts";
import { heartbeat, type Workers, type WorkerViews } from "./jobs/workers.ts";
import {
  authenticate,
  createKey,
  createKeyCache,
  describeKeys,
  listKeys,
  revokeKey,
} from "./keys/api-keys.ts";
import { createLockApi } from "./locks/public-locks.ts";
import { createPolicyApi } from "./policies/policies.ts";
import { createPoolApi } from "./pools/pools.ts";
import { explainRun } from "./runs/explain-run.ts";
import { createRunApi } from "./runs/run-api.ts";
import { streamsMax, withQuotas } from "./tenants/quotas.ts";
import { removeTenant } from "./tenants/remove-tenant.ts";
import { changeTenant, createTenant, getTenant, listTenants } from "./tenants/tenants.ts";
import { getWorkflow, listWorkflows, removeWorkflow } from "./workflows/read-workflows.ts";
import { saveWorkflow } from "./workflows/save-workflow.ts";
import { validateWorkflow } from "./workflows/validate-workflow.ts";

/** A worker whose answer was lost asks again within this time. */
const batchKeepMs = 60_000;

export function createApi(engine: Engine, workers: Workers, views: WorkerViews): ControlApi {
  const keys = createKeyCache(engine, engine.config["admission.tenantCacheMs"]);
  const desk = { engine, workers, batches: createPolledBatches(engine, { keepMs: batchKeepMs }) };
  return {
    saveWorkflow: (caller, definition) => saveWorkflow(engine, caller, definition),
    validateWorkflow: (tenant, definition) => validateWorkflow(engine, tenant, definition),
    getWorkflow: (tenant, id) => getWorkflow(engine, tenant, id),
    listWorkflows: (tenant, page) => listWorkflows(engine, tenant, page),
    removeWorkflow: (caller, id) => removeWorkflow(engine, caller, id),
    startWorkflow: (request, signal) => startWorkflow(engine, request, signal),
    cancelRun: (caller, runId, reason) => cancelRun(engine, caller, runId, reason),
    deleteRun: (caller, runId) => deleteRun(engine, caller, runId),
    pollJobs: (request, signal) => pollJobs(desk, request, signal),
    heartbeat: (caller, worker, beats) => heartbeat(desk, caller, worker, beats),
    async reportResult(caller, report) {
      const answer = await reportResult(engine, caller, report, "gateway");
      if (answer.kind !== "run_busy" && !isTrouble(answer)) workers.finished(report.token);
      return answer;
    },
    listWorkers: (tenant) => views.list(tenant),
    decideApproval: (request) => decideApproval(engine, request),
    createTenant: (actor, tenant, settings) => createTenant(engine, actor, tenant, settings),
    getTenant: (tenant) => getTenant(engine, tenant),
    streamsMax: (tenant) => streamsMax(engine, tenant),
    listTenants: (page) => listTenants(engine, page),
    async changeTenant(actor, tenant, changes, expectedVersion) {
      const known = await getTenant(engine, tenant);
      if (known.kind !== "tenant") return known;
      const decide = (settings: TenantSettings) => withQuotas(settings, changes);
      return changeTenant(engine, actor, tenant, decide, expectedVersion);
    },
    removeTenant: (actor, tenant) => removeTenant({ engine, keys }, actor, tenant),
    createKey: (by, tenant, options) => createKey(engine, by, tenant, options),
    listKeys: (tenant, page) => listKeys(engine, tenant, page),
    describeKeys: (keyIds) => describeKeys(engine, keyIds),
    revokeKey: (by, tenant, keyId) => revokeKey(engine, keys, { by, tenant, keyId }),
    authenticate: (text, from) => authenticate(engine, keys, text, from),
    followEvents: (tenant, start) => followEvents(engine, tenant, start),
    followRun: (tenant, runId, start) => followRun(engine, { tenant, runId }, start),
    ...createRunApi(engine),
    ...createLockApi(engine),
    ...createPoolApi(engine, views),
    ...createPolicyApi(engine, () => tellChanged(engine)),
    ...createCanaryApi(engine),
    ...createDeadLetterApi(engine),
    ...createAuditApi(engine),
    explainRun: (tenant, runId) => explainRun({ engine, workers: views }, tenant, runId),
    ...reads(engine),
  };
}

function isTrouble(answer: { readonly kind: string }): boolean {
  return answer.kind === "unknown" || answer.kind === "unavailable";
}

type Reads =
  | "listRuns"
  | "readTimeline"
  | "getJob"
  | "listReadyJobs"
  | "listApprovals"
  | "approvalContext"
  | "readEvents"
  | "lookUpKey"
  | "ready";

/** Questions that one store operation answers. */
function reads(engine: Engine): Pick<ControlApi, Reads> {
  return {
    listRuns: (tenant, page) => ask(engine, "listRuns", { tenant, ...page }),
    readTimeline: (tenant, runId, page) => ask(engine, "readTimeline", { tenant, runId, ...page }),
    getJob: (tenant, jobId) => ask(engine, "getJob", { tenant, jobId }),
    listReadyJobs: (tenant, topic, limit) => ask(engine, "listReadyJobs", { tenant, topic, limit }),
    listApprovals: (tenant, page) => ask(engine, "listApprovals", { tenant, ...page }),
    async approvalContext(tenant, approvalId) {
      const answer = await ask(engine, "getApproval", { tenant, approvalId: approvalId as ApprovalId });
      if (answer.kind !== "approval") return answer;
      const { approval } = answer;
      const run = await ask(engine, "loadRun", {
        tenant,
        runId: approval.runId,
        records: [approval.payloadKey],
      });
      if (run.kind !== "run") return run;
      return { kind: "context", approval, shown: run.records[0]?.body ?? "null" };
    },
    readEvents: (tenant, page) => ask(engine, "readEvents", { tenant, ...page }),
    lookUpKey: (tenant, key) =>
      ask(engine, "inspectReservation", { tenant, digest: digestOf("start_run", key) }),
    async ready() {
      const request = { tenant: platformTenant };
      const answer = await engine.ports.store.getTenant(request, {
        deadlineMs: engine.config["store.callTimeoutMs"],
      });
      return answer.kind === "tenant";
    },
  };
}
