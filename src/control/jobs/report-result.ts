// A worker's result on its way to its run, by strategy: `handoff` leaves it to a busy run's owner, `retry` tries again later.
import type { BudgetId } from "../../domain/budgets.ts";
import { type ClaimToken, type JobId, parseJobId } from "../../domain/job.ts";
import { type LockToken, type RiskClass, waitDelayMs } from "../../domain/lock.ts";
import type { Policies, RenewalChoice, TenantId, WaitPolicy } from "../../domain/tenant.ts";
import type { BusDelivery } from "../../ports/bus.ts";
import type { Answer } from "../../ports/store.ts";
import { settingsOf } from "../admission/tenant-cache.ts";
import { ask } from "../ask-until-known.ts";
import type { Caller } from "../caller.ts";
import { writeResultLetter } from "../dead-letters/write-result-letter.ts";
import { type Delivery, type DeliveryRequest, deliverEntry, deliveryOf } from "../engine/deliver-entry.ts";
import { drainOwned } from "../engine/drain-run.ts";
import type { Engine } from "../engine/engine.ts";
import { instantOf } from "../locks/lease-terms.ts";
import { assignPolicies } from "../policies/assign-policies.ts";
import type { WaitingResult } from "./busy-results.ts";
import { entryOf, type ResultReport } from "./result-entry.ts";

/** Refused for good: the claim is not (or no longer) this worker's, it was reported before, the run has ended or is gone. */
export type ReportAnswer =
  | Delivery<"result">
  /** Strategy `retry` only: another owner has the run; report again after the delay. */
  | { readonly kind: "run_busy"; readonly retryAfterMs: number }
  /** The run was busy at the last report that is allowed: the result is in the dead letters. */
  | { readonly kind: "deliveries_exhausted" };

/** `gateway` waits a few seconds for a busy run (strategy `retry`); `bus` does not, its transport carries the delay. */
type ResultPath = "gateway" | "bus";

/** How a report came, and which one of its result it is: 1 for the first. */
type Arrival = Pick<BusDelivery, "deliveries" | "ageMs"> & { readonly path: ResultPath };

/** Without `delivery` and `waitedMs` as workers before 0.2 report: then only this process's memory counts. */
type ReportRequest = ResultReport & {
  readonly caller: Caller;
  readonly delivery?: number;
  readonly waitedMs?: number;
};

/** A worker's own report: what is final frees its place in the list of workers. */
export async function reportResult(engine: Engine, report: ReportRequest): Promise<ReportAnswer> {
  const { delivery = 1, waitedMs = 0 } = report;
  const arrival = { path: "gateway", deliveries: delivery, ageMs: waitedMs } as const;
  const answer = await deliverResult(engine, report, arrival);
  if (isFinal(answer)) engine.workers.finished(report.token);
  return answer;
}

export async function deliverResult(
  engine: Engine,
  report: ResultReport & { readonly caller: Caller },
  arrival: Arrival,
): Promise<ReportAnswer> {
  const { ports, busyResults } = engine;
  const parts = parseJobId(report.jobId);
  if (parts === undefined) return { kind: "stale_claim" };
  const span = ports.tracer.startSpan("result", "internal", report.traceparent);
  const { tenant, credential } = report.caller;
  const { runId, step, attempt } = parts;
  const entry = entryOf(report, parts);
  const waiting = waitingOf(engine, entry.entryId, arrival);
  const request = credential === undefined ? { tenant, runId, entry } : { tenant, runId, entry, credential };
  const read = settingsOf(engine, tenant);
  const assigning = assignPolicies(engine, read instanceof Promise ? await read : read, runId);
  const { policies, arm } = assigning instanceof Promise ? await assigning : assigning;
  const ageMs = ports.clock.monotonicMs() - waiting.arrivedMs;
  const notes = engine.samples.ofResult(arm, { ageMs });
  if (waiting.deliveries === 1) notes?.arrived();
  const strategy = policies["results.strategy"];
  const { path } = arrival;
  let { busyTries } = waiting;
  let answer: ReportedOnce;
  if (strategy === "handoff") answer = await deliverEntry(engine, request);
  else {
    const tried = await deliverToFreeRun(engine, request, { path, waiting, policies });
    if (tried.busyTries > busyTries) notes?.foundBusy(tried.busyTries - busyTries);
    ({ busyTries, answer } = tried);
    if (answer.kind === "run_busy") answer = await withinCap(engine, answer, { path, waiting, report });
  }
  if (isFinal(answer)) {
    busyResults.settle(entry.entryId);
    const latencyMs = ports.clock.monotonicMs() - waiting.arrivedMs;
    ports.metrics.observe("job_result_latency_seconds", { strategy }, latencyMs / 1000);
    const lockWaitMs = busyTries === 0 ? 0 : latencyMs;
    if (answer.kind === "accepted") notes?.durable({ latencyMs, lockWaitMs, busyTries });
  } else if (path === "gateway") {
    busyResults.keep(entry.entryId, { ...waiting, busyTries });
  }
  const outcome = answer.kind === "unauthenticated" ? "credential_revoked" : answer.kind;
  span?.note({ tenant, run: runId, step, attempt, strategy, outcome });
  span?.end(answer.kind === "unavailable" || answer.kind === "unknown" ? "failed" : undefined);
  if (answer.kind !== "run_busy") return answer;
  return { kind: "run_busy", retryAfterMs: busyDelayMs(engine, policies, path) };
}

/** Over the bus the message knows its own history. A gateway takes the larger of what the worker says and what it remembers. */
function waitingOf(
  { ports, busyResults }: Engine,
  entryId: string,
  { path, deliveries, ageMs }: Arrival,
): WaitingResult {
  const arrivedMs = ports.clock.monotonicMs() - ageMs;
  const busyTries = deliveries - 1;
  const known = path === "gateway" ? busyResults.find(entryId) : undefined;
  if (known === undefined) return { arrivedMs, deliveries, busyTries };
  return {
    arrivedMs: Math.min(arrivedMs, known.arrivedMs),
    deliveries: Math.max(deliveries, known.deliveries + 1),
    busyTries: Math.max(busyTries, known.busyTries),
  };
}

type Tried = Delivery<"result"> | { readonly kind: "run_busy" };

/** By this report of it. */
type ReportedOnce = Tried | { readonly kind: "deliveries_exhausted" };

type CappedReport = {
  readonly path: ResultPath;
  readonly waiting: WaitingResult;
  readonly report: ReportRequest;
};

/** The bus counts for itself. The dead letter is written first: without it the worker has to report once more. */
async function withinCap(
  engine: Engine,
  busy: Tried,
  { path, waiting, report: { caller, delivery: _delivery, waitedMs: _waitedMs, ...report } }: CappedReport,
): Promise<ReportedOnce> {
  if (path === "bus" || waiting.deliveries < engine.config["results.deliveriesMax"]) return busy;
  const because = "deliveries_exhausted";
  const { tenant } = caller;
  const letter = await writeResultLetter(engine, { tenant, id: report.jobId, because, content: { report } });
  return letter.kind === "written" ? { kind: because } : letter;
}

/** While the run is busy, and with trouble, the result is reported again: it is measured once, when it is durable or refused. */
function isFinal({ kind }: { readonly kind: string }): boolean {
  return kind !== "run_busy" && kind !== "unavailable" && kind !== "unknown";
}

type FinalAnswer = Exclude<ReportAnswer, { kind: "run_busy" | "unavailable" | "unknown" }>;

/** As workers see it, over HTTP and over the bus. */
export function shownAnswer({ kind }: FinalAnswer) {
  if (kind === "accepted") return { kind };
  if (kind === "duplicate") return { kind, applied: false, because: "reported_otherwise" } as const;
  return { kind: "refused", because: kind === "unauthenticated" ? "credential_revoked" : kind } as const;
}

/** Used for a busy run only, by no other retry. */
function busyDelayMs({ ports }: Engine, policies: Policies, path: ResultPath): number {
  const wait = policies["results.wait"];
  const shape = {
    kind: "around",
    baseMs: policies["results.retry.baseMs"],
    jitterFraction: policies["results.retry.jitterFraction"],
  } as const;
  const delayMs = waitDelayMs(wait, shape, 0, ports.random.fraction());
  countBusyRetry(ports, { path, policy: wait, delayMs });
  return delayMs;
}

type BusyRetry = { readonly path: ResultPath; readonly policy: WaitPolicy; readonly delayMs: number };

function countBusyRetry({ metrics }: Engine["ports"], { path, policy, delayMs }: BusyRetry): void {
  metrics.count("lock_busy_retries_total", { path, policy });
  metrics.observe("lock_busy_retry_delay_seconds", { lock: "run", policy }, delayMs / 1000);
}

type FreeRunTerms = {
  readonly path: ResultPath;
  readonly policies: Policies;
  /** What earlier reports of the same entry have found. */
  readonly waiting: WaitingResult;
};

async function deliverToFreeRun(
  engine: Engine,
  request: DeliveryRequest<"result">,
  { path, policies, waiting }: FreeRunTerms,
): Promise<{
  readonly answer: Tried;
  /** Over all reports, these tries included. */
  readonly busyTries: number;
}> {
  const { clock, metrics, log } = engine.ports;
  const { tenant, runId, entry } = request;
  const waitMs = path === "gateway" ? policies["locks.run.waitMs"] : 0;
  const startedMs = clock.monotonicMs();
  for (let { busyTries } = waiting; ; ) {
    const answer = await tryOnce(engine, request, policies["renewal.policy"]);
    if (answer.kind !== "run_busy") {
      const isTrouble = answer.kind === "unknown" || answer.kind === "unavailable";
      const waitedMs = clock.monotonicMs() - waiting.arrivedMs;
      // With trouble the result is reported again, and measured then.
      if (!isTrouble) metrics.observe("run_lock_wait_seconds", { path }, waitedMs / 1000);
      const retries = busyTries === 0 ? "0" : busyTries === 1 ? "1" : "2+";
      if (answer.kind === "delivered") metrics.count("run_lock_acquired_total", { path, retries });
      return { answer: deliveryOf(engine, entry, answer), busyTries };
    }
    busyTries += 1;
    const pauseMs = pollDelayMs(engine, policies["locks.run.pollMs"]);
    if (clock.monotonicMs() - startedMs + pauseMs > waitMs) {
      log.info("run lock busy", { tenant, run: runId, holder: answer.instance });
      return { answer: { kind: "run_busy" }, busyTries };
    }
    countBusyRetry(engine.ports, { path, policy: pollPolicy, delayMs: pauseMs });
    await clock.sleep(pauseMs);
  }
}

async function tryOnce(
  engine: Engine,
  request: DeliveryRequest<"result">,
  renewal: RenewalChoice,
): Promise<Answer<"deliver">> {
  const { ports, config } = engine;
  const { tenant, runId } = request;
  const token = ports.random.token() as LockToken;
  const since = instantOf(ports.clock);
  const take = { token, instance: ports.instance, ttlMs: config["locks.run.ttlMs"] };
  const answer = await ask(engine, "deliver", { ...request, take, whenBusy: "refuse", records: [] });
  if (answer.kind === "delivered" && answer.run.kind === "owned") {
    const { run } = answer;
    const risk = await riskOf(engine, request, run.header.definition);
    const terms = engine.terms.locks.run[renewal][risk];
    const grant = { kind: "acquired", token, fence: run.fence, since } as const;
    engine.background.run("draining a run", () => drainOwned(engine, { tenant, runId, terms, grant }, run));
  }
  return answer;
}

/** The risk class decides what a failed renewal means; an unreadable definition is treated as the default. */
async function riskOf(
  engine: Engine,
  { tenant }: DeliveryRequest<"result">,
  definition: string,
): Promise<RiskClass> {
  const pinned = await engine.definitions.pinned(tenant, definition);
  return pinned.kind === "compiled" ? pinned.definition.risk : "standard";
}

/** Whatever the policy of the results: a crowd of waiters must not ask in step. */
const pollPolicy = "jitter";

function pollDelayMs({ ports, config }: Engine, baseMs: number): number {
  const jitterFraction = config["locks.pollJitterFraction"];
  const shape = { kind: "around", baseMs, jitterFraction } as const;
  return waitDelayMs(pollPolicy, shape, 0, ports.random.fraction());
}

export type Unpaid = {
  readonly tenant: TenantId;
  readonly jobId: JobId;
  readonly token: ClaimToken;
  readonly budget: BudgetId;
};

/** While the store is away, or the run is busy. */
const unpaidTriesMax = 10;
const unpaidAgainMs = 250;

/**
 * Fails a job that its budget does not pay for: its worker never gets it, or is told to stop. In the background, in the name
 * of the claim. If this process dies before, the claim runs out, and the claim or heartbeat of the next attempt meets the same
 * budget.
 */
export function failUnpaid(engine: Engine, { tenant, jobId, token, budget }: Unpaid): void {
  const { clock, instance, metrics } = engine.ports;
  metrics.count("jobs_over_budget_total", {});
  const error = { code: "budget_exhausted", message: `the budget ${budget} does not pay for it` };
  const caller = { tenant, actor: `budgets:${instance}` };
  const report = { caller, jobId, token, outcome: "failed", error } as const;
  engine.background.run("failing a job that its budget does not pay for", async () => {
    for (let deliveries = 1; deliveries <= unpaidTriesMax; deliveries += 1) {
      const answer = await deliverResult(engine, report, { path: "bus", deliveries, ageMs: 0 });
      if (answer.kind === "run_busy") await clock.sleep(answer.retryAfterMs);
      else if (answer.kind === "unknown" || answer.kind === "unavailable") await clock.sleep(unpaidAgainMs);
      else break;
    }
    engine.workers.finished(token);
  });
}
