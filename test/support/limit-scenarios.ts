// The scenarios of rates and budgets: starts that count and wait, claims that are charged and parked, and how that is settled.
import type { TenantKeys } from "../../src/adapters/redis/keys.ts";
import { budgetSpec, workflowBudgetId } from "../../src/domain/budgets.ts";
import type { JobId } from "../../src/domain/job.ts";
import {
  byWorkflow,
  costs,
  hourMs,
  perHour,
  ratedRun,
  saveAmount,
  startRun,
  tenantBudget,
  usd,
  uses,
  workflowBudget,
} from "../../src/testing/conformance/budget-steps.ts";
import { planOf } from "../../src/testing/conformance/gate-steps.ts";
import { type Harness, only } from "../../src/testing/conformance/harness.ts";
import {
  changeOf,
  claim,
  commitOf,
  deliveryOf,
  jobOf,
  resultOf,
  runLock,
} from "../../src/testing/conformance/run-steps.ts";
import type { Preparation } from "./operation-scenarios.ts";

const queued = perHour(1, { atLimit: "queue" });

/** What counts by unit, and what stays in the ledgers of a tenant. */
function limitKeys({ start }: TenantKeys, { tenant }: Harness) {
  return {
    startRate: `${start}rate:${tenant}:${queued.rate}`,
    topicRate: `${start}rate:${tenant}:topic.shell~usd~${hourMs}`,
    ledgers: `${start}ledgers:${tenant}`,
    ledgerIds: `${start}ledger-ids:${tenant}`,
    line: `${start}parked:${tenant}:${workflowBudget}`,
    lines: `${start}parked-lines:${tenant}`,
  };
}

const settings = {
  ...tenantBudget(10 * usd),
  topicRates: { shell: [{ limit: 100, perMs: hourMs, burst: 100, unit: "usd" }] },
};

const charged = (harness: Harness) => ({
  meter: { ...costs(6), budgets: [] },
  claim: harness.claim(),
});

/** A job that its workflow's budget holds, and one that is charged. */
async function heldAndCharged(harness: Harness) {
  await harness.set(settings);
  await saveAmount(harness, usd);
  const runId = harness.runId();
  const terms = charged(harness);
  const meter = { estimate: { usd }, budgets: [byWorkflow("hold")] };
  const [first, waiting] = [jobOf(runId, { step: "first", meter }), jobOf(runId, { step: "waits", meter })];
  const jobs = [jobOf(runId, terms), waiting, first];
  await harness.admit(harness.newRun({ runId, change: { jobs } }));
  const firstTerms = harness.claim();
  only(await claim(harness, first.jobId, firstTerms), "claimed");
  const jobId = jobOf(runId).jobId;
  return { runId, jobId, token: terms.claim.token, waiting: waiting.jobId, first: first.jobId };
}

async function park(harness: Harness, jobId: JobId) {
  only(await claim(harness, jobId), "refused");
}

export const listLedgers: Preparation<"listLedgers"> = async (harness) => {
  await heldAndCharged(harness);
  return { request: { tenant: harness.tenant, after: "", limit: 10 }, writes: [], kind: "listed" };
};

export const limitVariants = {
  async "admit: a start that waits for its rate"(harness, keys) {
    only(await startRun(harness, ratedRun(harness, [queued], { gates: planOf([]) })), "admitted");
    const run = ratedRun(harness, [queued], { gates: planOf([], { deadlineMs: 2 * hourMs }) });
    const writes = [
      ...[keys.run(run.runId), keys.runs, keys.queued, keys.tenant, keys.events, keys.due],
      limitKeys(keys, harness).startRate,
    ];
    return { request: { tenant: harness.tenant, run }, writes, kind: "queued" };
  },
  async "admit: a job that is born charged"(harness, keys) {
    await harness.set(settings);
    const runId = harness.runId();
    const run = harness.newRun({ runId, change: { jobs: [jobOf(runId, charged(harness))] } });
    const { topicRate, ledgers, ledgerIds } = limitKeys(keys, harness);
    const writes = [
      ...[keys.run(runId), keys.runs, keys.active, keys.events, keys.due, keys.fence, keys.running],
      ...[topicRate, ledgers, ledgerIds],
    ];
    return { request: { tenant: harness.tenant, run }, writes, kind: "admitted" };
  },
  async "claimJobs: one that is charged, and one that is parked"(harness, keys) {
    const { runId, waiting } = await heldAndCharged(harness);
    const budget = workflowBudgetId("deploy", budgetSpec("spend", "usd", "month"), "0".repeat(32));
    const meter = { estimate: { usd }, budgets: [{ budget, atLimit: "hold" as const }] };
    const second = jobOf(runId, { step: "second", meter });
    await harness.commit(runId, { jobs: [second] });
    const claims = [waiting, second.jobId].map((jobId) => ({ jobId, terms: harness.claim() }));
    const { topicRate, ledgers, ledgerIds, line, lines } = limitKeys(keys, harness);
    const writes = [
      ...[keys.run(runId), keys.ready("shell"), keys.due, keys.fence, keys.running],
      ...[topicRate, ledgers, ledgerIds, line, lines],
    ];
    return { request: { tenant: harness.tenant, claims }, writes, kind: "judged" };
  },
  async "heartbeatJobs: usage beyond what is reserved"(harness, keys) {
    const { runId, jobId, token } = await heldAndCharged(harness);
    const beats = [{ jobId, token, leaseMs: 90_000, ...uses(8) }];
    const writes = [keys.run(runId), keys.due, limitKeys(keys, harness).ledgers];
    return { request: { tenant: harness.tenant, beats }, writes, kind: "judged" };
  },
  async "deliver: the result of a charged job, which crosses half of a budget"(harness, keys) {
    const { runId, ...job } = await heldAndCharged(harness);
    const change = changeOf({});
    const proposal = { expectedVersion: 1, commitId: "proposed", change };
    const request = deliveryOf(harness, runId, resultOf(harness, job, uses(5)), { proposal });
    const { topicRate, ledgers } = limitKeys(keys, harness);
    const writes = [keys.run(runId), keys.events, keys.due, keys.running, topicRate, ledgers];
    return { request, writes, kind: "applied" };
  },
  async "deliver: a late report of a charged job"(harness, keys) {
    const { runId, ...job } = await heldAndCharged(harness);
    await harness.commit(runId, { voidJobs: [job.jobId] });
    const request = deliveryOf(harness, runId, resultOf(harness, job, uses(9)));
    const { topicRate, ledgers } = limitKeys(keys, harness);
    return { request, writes: [keys.run(runId), keys.events, topicRate, ledgers], kind: "stale_claim" };
  },
  async "commit: charged and parked jobs called off"(harness, keys) {
    const { runId, jobId, first, waiting } = await heldAndCharged(harness);
    await park(harness, waiting);
    const guard = await harness.acquire(runLock(runId), 60_000);
    const change = { voidJobs: [jobId, waiting, first] };
    const request = commitOf(harness, runId, guard, { change });
    const { ledgers, line, lines } = limitKeys(keys, harness);
    const writes = [
      ...[keys.run(runId), keys.events, keys.due, keys.running, ledgers, line, lines],
      ...[keys.lock(guard.lock), keys.grant(guard.lock)],
    ];
    return { request, writes, kind: "committed" };
  },
  async "deleteRun: with charged and parked jobs"(harness, keys, remove) {
    const { runId, waiting } = await heldAndCharged(harness);
    await park(harness, waiting);
    await harness.end(runId, "failed");
    await remove(keys.grant(runLock(runId)));
    const { ledgers, line, lines } = limitKeys(keys, harness);
    const writes = [
      ...[keys.run(runId), keys.runs, keys.events, keys.trail, keys.due, keys.running],
      ...[ledgers, line, lines],
    ];
    return { request: { tenant: harness.tenant, runId, actor: "tester" }, writes, kind: "deleted" };
  },
  async "setTenant: where a budget holds jobs"(harness, keys) {
    await park(harness, (await heldAndCharged(harness)).waiting);
    const change = { settings: {}, expectedVersion: 1, changeId: "second", actor: "tester" };
    const writes = [keys.tenant, keys.events, keys.trail, keys.due];
    return { request: { tenant: harness.tenant, ...change }, writes, kind: "saved" };
  },
  async "putDocument: a workflow, where a budget holds jobs"(harness, keys) {
    await park(harness, (await heldAndCharged(harness)).waiting);
    const name = { tenant: harness.tenant, collection: "workflow", id: "w" } as const;
    const documents = [keys.documents("workflow"), keys.documentIds("workflow")];
    const change = { body: "{}", changeId: "c", actor: "tester" };
    const writes = [...documents, keys.events, keys.trail, keys.due];
    return { request: { ...name, ...change }, writes, kind: "saved" };
  },
  async "removeDocument: a workflow, where a budget holds jobs"(harness, keys) {
    await park(harness, (await heldAndCharged(harness)).waiting);
    const request = { tenant: harness.tenant, collection: "workflow", id: "deploy", actor: "a" } as const;
    const documents = [keys.documents("workflow"), keys.documentIds("workflow")];
    const writes = [...documents, keys.events, keys.trail, keys.due];
    return { request, writes, kind: "removed" };
  },
} satisfies Record<
  string,
  | Preparation<"admit">
  | Preparation<"claimJobs">
  | Preparation<"heartbeatJobs">
  | Preparation<"deliver">
  | Preparation<"commit">
  | Preparation<"deleteRun">
  | Preparation<"setTenant">
  | Preparation<"putDocument">
  | Preparation<"removeDocument">
>;
