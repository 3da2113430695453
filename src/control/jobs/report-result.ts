// A worker's result on its way to its run, by strategy: `handoff` leaves it to a busy run's owner, `retry` tries again later.
import { hash } from "node:crypto";
import type { Outcome } from "../../domain/engine/records.ts";
import type { JsonValue } from "../../domain/fingerprint.ts";
import type { JobOutcome, NewEntry } from "../../domain/inbox.ts";
import { type ClaimToken, type JobId, type JobParts, parseJobId } from "../../domain/job.ts";
import { type LockToken, type RiskClass, waitDelayMs } from "../../domain/lock.ts";
import type { Policies, RenewalChoice } from "../../domain/tenant.ts";
import type { Clock } from "../../ports/ports.ts";
import type { Answer } from "../../ports/store.ts";
import { settingsOf } from "../admission/tenant-cache.ts";
import { ask } from "../ask-until-known.ts";
import type { Caller } from "../caller.ts";
import { type Delivery, type DeliveryRequest, deliverEntry, deliveryOf } from "../engine/deliver-entry.ts";
import { drainOwned } from "../engine/drain-run.ts";
import type { Engine } from "../engine/engine.ts";
import { instantOf } from "../locks/lease-terms.ts";
import { assignPolicies } from "../policies/assign-policies.ts";

export type ResultReport = {
  readonly jobId: JobId;
  readonly token: ClaimToken;
  readonly outcome: JobOutcome;
  /** For a success. */
  readonly output?: JsonValue;
  /** For a failure. */
  readonly error?: { readonly message: string; readonly code?: string };
  /** For a job that is handed back: who does, for people. */
  readonly worker?: string;
  /** The worker's, or the one that it was given with the job. */
  readonly traceparent?: string;
};

/** Refused for good: the claim is not (or no longer) this worker's, it was reported before, the run has ended or is gone. */
export type ReportAnswer =
  | Delivery<"result">
  /** Strategy `retry` only: another owner has the run; report again after the delay. */
  | { readonly kind: "run_busy"; readonly retryAfterMs: number };

/** `gateway` waits a few seconds for a busy run (strategy `retry`); `bus` does not, its transport carries the delay. */
type ResultPath = "gateway" | "bus";

/** A worker's own report: what is final frees its place in the list of workers. */
export async function reportResult(engine: Engine, report: ReportRequest): Promise<ReportAnswer> {
  const answer = await deliverResult(engine, report, "gateway");
  if (isFinal(answer)) engine.workers.finished(report.token);
  return answer;
}

type ReportRequest = ResultReport & { readonly caller: Caller };

export async function deliverResult(
  engine: Engine,
  { caller, ...report }: ReportRequest,
  path: ResultPath,
): Promise<ReportAnswer> {
  const { ports, busyResults } = engine;
  const parts = parseJobId(report.jobId);
  if (parts === undefined) return { kind: "stale_claim" };
  const span = ports.tracer.startSpan("result", "internal", report.traceparent);
  const { tenant, credential } = caller;
  const { runId, step, attempt } = parts;
  const entry = entryOf(report, parts);
  const earlier = busyResults.find(entry.entryId);
  const waiting = earlier ?? { arrivedMs: ports.clock.monotonicMs(), busyTries: 0 };
  const request = { tenant, runId, entry, ...(credential === undefined ? {} : { credential }) };
  const { policies, arm } = await assignPolicies(engine, await settingsOf(engine, tenant), runId);
  const notes = engine.samples.ofResult(arm);
  if (earlier === undefined) notes?.arrived();
  const strategy = policies["results.strategy"];
  const { answer, busyTries } =
    strategy === "handoff"
      ? { answer: await deliverEntry(engine, request), busyTries: waiting.busyTries }
      : await deliverToFreeRun(engine, request, { path, waiting, policies });
  if (busyTries > waiting.busyTries) notes?.foundBusy(busyTries - waiting.busyTries);
  if (isFinal(answer)) {
    busyResults.settle(entry.entryId);
    const latencyMs = ports.clock.monotonicMs() - waiting.arrivedMs;
    ports.metrics.observe("job_result_latency_seconds", { strategy }, latencyMs / 1000);
    const lockWaitMs = busyTries === 0 ? 0 : latencyMs;
    if (answer.kind === "accepted") notes?.durable({ latencyMs, lockWaitMs, busyTries });
  } else {
    busyResults.keep(entry.entryId, { ...waiting, busyTries });
  }
  span?.note({
    tenant,
    run: runId,
    step,
    attempt,
    strategy,
    outcome: answer.kind === "unauthenticated" ? "credential_revoked" : answer.kind,
  });
  span?.end(answer.kind === "unavailable" || answer.kind === "unknown" ? "failed" : undefined);
  if (answer.kind !== "run_busy") return answer;
  return { kind: "run_busy", retryAfterMs: busyDelayMs(engine, policies, path) };
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
  ports.metrics.count("lock_busy_retries_total", { path, policy: wait });
  ports.metrics.observe("lock_busy_retry_delay_seconds", { policy: wait }, delayMs / 1000);
  return delayMs;
}

/** The same report gives the same entry id, so that a repeat is recognised and another result is not taken for it. */
function entryOf(
  report: ResultReport,
  { step, attempt }: JobParts,
): Extract<NewEntry, { readonly kind: "result" }> {
  const { jobId, token, outcome } = report;
  const body = JSON.stringify(contentOf(report));
  const entryId = `result:${hash("sha256", `${token} ${outcome} ${body}`).slice(0, 32)}`;
  return {
    kind: "result",
    entryId,
    jobId,
    token,
    outcome,
    payload: { key: `result/${step}@${attempt}`, body },
  };
}

function contentOf({ outcome, output = null, error, worker }: ResultReport): Outcome {
  if (outcome === "succeeded") return { output };
  if (outcome === "handed_back") return worker === undefined ? {} : { handed_back_by: worker };
  return { error: error ?? { message: "failed" } };
}

type FreeRunTerms = {
  readonly path: "gateway" | "bus";
  readonly policies: Policies;
  /** What earlier reports of the same entry have found. */
  readonly waiting: WaitingResult;
};

async function deliverToFreeRun(
  engine: Engine,
  request: DeliveryRequest<"result">,
  { path, policies, waiting }: FreeRunTerms,
): Promise<{
  readonly answer: Delivery<"result"> | { readonly kind: "run_busy" };
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

function pollDelayMs({ ports, config }: Engine, baseMs: number): number {
  const jitterFraction = config["locks.pollJitterFraction"];
  const shape = { kind: "around", baseMs, jitterFraction } as const;
  return waitDelayMs("jitter", shape, 0, ports.random.fraction());
}

type WaitingResult = {
  readonly arrivedMs: number;
  /** Tries that found the run busy. */
  readonly busyTries: number;
};

/** Results that found their run busy, by entry: when each first arrived and how often it was tried, over all its reports. */
export type BusyResults = {
  find(entryId: string): WaitingResult | undefined;
  keep(entryId: string, waiting: WaitingResult): void;
  /** It has become durable, or was refused for good. */
  settle(entryId: string): void;
};

/** Bounds the memory; the one that has waited longest is then measured anew. */
const resultsMax = 10_000;

/** Much longer than any delay between two reports: a worker that has not come back by then has gone elsewhere. */
const keepMs = 10 * 60_000;

export function createBusyResults(clock: Clock): BusyResults {
  /** In the order of their first arrival. */
  const waiting = new Map<string, WaitingResult>();

  function dropOld(): void {
    for (const [entryId, { arrivedMs }] of waiting) {
      if (waiting.size <= resultsMax && clock.monotonicMs() - arrivedMs < keepMs) return;
      waiting.delete(entryId);
    }
  }

  return {
    find: (entryId) => waiting.get(entryId),
    keep(entryId, result) {
      waiting.set(entryId, result);
      dropOld();
    },
    settle: (entryId) => void waiting.delete(entryId),
  };
}
