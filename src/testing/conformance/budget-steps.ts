// What the cases about rates and budgets share: settings, starts with rates, metered jobs, claims and reports, and what ledgers say.
import type { Amounts, BudgetId, LedgerId, RunBudget, TenantBudget } from "../../domain/budgets.ts";
import { budgetSpec, ledgerId, periodAt, tenantBudgetId, workflowBudgetId } from "../../domain/budgets.ts";
import type { ClaimTerms, JobId, JobSpec } from "../../domain/job.ts";
import { type StartRate, tenantRateId, workflowRateId } from "../../domain/rates.ts";
import { parseRunId, type RunId } from "../../domain/run.ts";
import type { NewRun } from "../../ports/admission-operations.ts";
import type { LedgerState } from "../../ports/queue-operations.ts";
import { planOf } from "./gate-steps.ts";
import { call, type Harness, only } from "./harness.ts";
import { claim, deliver, jobOf, jobState, resultOf } from "./run-steps.ts";

/** Longer than any case takes on a real clock: nearly nothing drains meanwhile. */
export const hourMs = 3_600_000;

export const usd = 1_000_000;

/** So many starts an hour, of the tenant or of a workflow. */
export function perHour(
  limit: number,
  options: Partial<StartRate> & { readonly of?: string } = {},
): StartRate {
  const { of, ...rest } = options;
  const perMs = rest.perMs ?? hourMs;
  const rate = of === undefined ? tenantRateId(perMs) : workflowRateId(of, perMs);
  return { rate, limit, perMs, burst: limit, atLimit: "reject", ...rest };
}

/** A run whose start counts in these rates; it may wait. */
export function ratedRun(
  harness: Harness,
  rates: readonly StartRate[],
  options: Parameters<Harness["newRun"]>[0] & { readonly deadlineMs?: number } = {},
): NewRun {
  const { deadlineMs = 600_000, gates = planOf([], { deadlineMs }), ...rest } = options;
  return harness.newRun({ start: "inbox", gates, rates, ...rest });
}

export function startRun({ store, tenant }: Harness, run: NewRun) {
  return store.admit({ tenant, run }, call);
}

/** `admitted`, `queued`, or the refusal with how long to wait. */
export async function startSaid(harness: Harness, run: NewRun): Promise<string> {
  const answer = await startRun(harness, run);
  return answer.kind === "start_rate_exceeded" ? `${answer.kind} ${answer.retryAfterMs}` : answer.kind;
}

export const workflow = "deploy";

/** The workflow's budget `spend` by month in usd. */
export const workflowBudget: BudgetId = workflowBudgetId(workflow, budgetSpec("spend", "usd", "month"));
export const tenantSpend: BudgetId = tenantBudgetId("all", { unit: "usd", per: "month" });

export function tenantBudget(amount: number, options: Partial<TenantBudget> = {}) {
  return { budgets: { all: { unit: "usd", amount, per: "month", atLimit: "hold", ...options } as const } };
}

/** What the workflow's current revision allows; absent when nothing is set. */
export async function saveAmount(harness: Harness, amount?: number, extra: object = {}): Promise<void> {
  const { store, tenant } = harness;
  const limits = amount === undefined ? {} : { "budget.spend~usd~month": amount };
  const document = { tenant, collection: "workflow", id: workflow, body: "{}" } as const;
  const change = { changeId: harness.id("change"), actor: "tester", limits: { ...limits, ...extra } };
  only(await store.putDocument({ ...document, ...change }, call), "saved");
}

export const byWorkflow = (atLimit: RunBudget["atLimit"]): RunBudget => ({ budget: workflowBudget, atLimit });

type Metered = Partial<JobSpec> & {
  readonly estimate?: Amounts;
  readonly budgets?: readonly RunBudget[];
};

export function meteredJob(runId: RunId, index: number, { estimate, budgets, ...rest }: Metered): JobSpec {
  const meter = { estimate: estimate ?? {}, budgets: budgets ?? [] };
  const isMetered = estimate !== undefined || budgets !== undefined;
  return jobOf(runId, { step: `s${index}`, ...rest, ...(isMetered ? { meter } : {}) });
}

/** A run with jobs of these estimates, one after the other. */
export async function runOf(
  harness: Harness,
  jobs: readonly Metered[],
): Promise<{ readonly runId: RunId; readonly jobIds: readonly JobId[] }> {
  const runId = harness.runId();
  const specs = jobs.map((job, index) => meteredJob(runId, index, job));
  await harness.admit(harness.newRun({ runId, change: { jobs: specs, status: "running" } }));
  return { runId, jobIds: specs.map(({ jobId }) => jobId) };
}

/** One job of a run of its own. */
export async function jobWith(harness: Harness, options: Metered = {}): Promise<JobId> {
  const { jobIds } = await runOf(harness, [options]);
  return jobIds[0] as JobId;
}

export async function readyJobs(harness: Harness, topic = "shell"): Promise<readonly JobId[]> {
  const { store, tenant } = harness;
  const { jobs } = only(await store.listReadyJobs({ tenant, topic, limit: 100 }, call), "listed");
  return jobs.map(({ jobId }) => jobId);
}

/** `claimed`, `claimed over <budget>`, or why not. */
export async function claimSaid(
  harness: Harness,
  jobId: JobId,
  terms: ClaimTerms = harness.claim(),
): Promise<string> {
  const answer = await claim(harness, jobId, terms);
  if (answer.kind === "refused") return answer.because;
  return answer.overBudget === undefined ? "claimed" : `claimed over ${answer.overBudget}`;
}

type HeldJob = { readonly jobId: JobId; readonly token: ClaimTerms["token"] };

/** A job that a worker holds. */
export async function held(harness: Harness, options: Metered = {}, leaseMs = 60_000): Promise<HeldJob> {
  const jobId = await jobWith(harness, options);
  const terms = harness.claim(leaseMs);
  only(await claim(harness, jobId, terms), "claimed");
  return { jobId, token: terms.token };
}

export function runIdOf(jobId: JobId): RunId {
  const runId = parseRunId(jobId.slice(0, jobId.indexOf(":")));
  if (runId === undefined) throw new Error(`${jobId} names no run`);
  return runId;
}

/** What became of a report. */
export async function report(
  harness: Harness,
  job: HeldJob,
  options: Parameters<typeof resultOf>[2] = {},
): Promise<string> {
  return (await deliver(harness, runIdOf(job.jobId), resultOf(harness, job, options))).kind;
}

/** `<expiry or lost>`, with ` stop` and the budget where it says so. */
export async function beatWith(
  harness: Harness,
  { jobId, token }: HeldJob,
  usage?: Amounts,
): Promise<string> {
  const beats = [{ jobId, token, leaseMs: 60_000, ...(usage === undefined ? {} : { usage }) }];
  const answer = await harness.store.heartbeatJobs({ tenant: harness.tenant, beats }, call);
  const [said] = only(answer, "judged").answers;
  if (said?.kind !== "extended") return said?.kind ?? "nothing";
  return `extended${said.stop ? " stop" : ""}${said.overBudget === undefined ? "" : ` ${said.overBudget}`}`;
}

export async function ledgers({ store, tenant }: Harness): Promise<readonly LedgerState[]> {
  return only(await store.listLedgers({ tenant, after: "", limit: 100 }, call), "listed").ledgers;
}

/** The present period of a budget: `<spent>+<reserved>`, and how many jobs it holds. */
export async function ledgerSaid(harness: Harness, budget: BudgetId = tenantSpend): Promise<string> {
  const id = await presentLedger(harness, budget);
  const found = (await ledgers(harness)).find(({ ledger }) => ledger === id);
  if (found === undefined) return "no ledger";
  return `${found.spent / usd}+${found.reserved / usd} ${found.parked} parked`;
}

async function presentLedger(harness: Harness, budget: BudgetId): Promise<LedgerId> {
  return ledgerId(budget, periodAt("month", await harness.now()).startMs);
}

/** The crossing events of the tenant, in order. */
export async function crossingsSaid({ store, tenant }: Harness): Promise<readonly string[]> {
  const { events } = only(await store.readEvents({ tenant, after: 0, limit: 1_000 }, call), "events");
  return events.filter(({ type }) => type === "budget_crossed").map(({ detail }) => detail);
}

export const costs = (amount: number) => ({ estimate: { usd: amount * usd } });
export const uses = (amount: number) => ({ usage: { usd: amount * usd } });

export async function said(harness: Harness, jobIds: readonly JobId[]): Promise<readonly string[]> {
  const answers: string[] = [];
  for (const jobId of jobIds) answers.push(await claimSaid(harness, jobId));
  return answers;
}

export async function states(harness: Harness, jobIds: readonly JobId[]): Promise<readonly string[]> {
  return Promise.all(jobIds.map((jobId) => jobState(harness, jobId)));
}
