// A worker's result on its way to the run: handed over, or tried again later while the run is busy.
import { hash } from "node:crypto";
import type { Outcome } from "../../domain/engine/records.ts";
import type { NewEntry } from "../../domain/inbox.ts";
import { type JobParts, parseJobId } from "../../domain/job.ts";
import type { WaitPolicy } from "../../domain/tenant.ts";
import { waitDelayMs } from "../../domain/wait.ts";
import type { Caller, ReportAnswer, ResultReport } from "../control-api.ts";
import { type DeliveryAnswer, deliverEntry } from "../engine/deliver-entry.ts";
import { deliverToFreeRun } from "../engine/deliver-to-free-run.ts";
import { type Engine, settingsOf } from "../engine/engine.ts";

/** `gateway` waits a few seconds for a busy run (strategy `retry`); `bus` does not, its transport carries the delay. */
export type ResultPath = "gateway" | "bus";

export async function reportResult(
  engine: Engine,
  caller: Caller,
  report: ResultReport,
  path: ResultPath,
): Promise<ReportAnswer> {
  const { ports, config } = engine;
  const parts = parseJobId(report.jobId);
  if (parts === undefined) return { kind: "refused", because: "stale_claim" };
  const startedMs = ports.clock.monotonicMs();
  const { tenant, credential } = caller;
  const entry = entryOf(report, parts);
  const request = { tenant, runId: parts.runId, entry, ...(credential === undefined ? {} : { credential }) };
  const settings = await settingsOf(engine, tenant);
  const strategy = settings?.resultsStrategy ?? config["results.strategy"];
  const answer =
    strategy === "handoff"
      ? await deliverEntry(engine, request)
      : await deliverToFreeRun(engine, request, path);
  const seconds = (ports.clock.monotonicMs() - startedMs) / 1000;
  ports.metrics.observe("job_result_latency_seconds", { strategy }, seconds);
  if (answer.kind !== "run_busy") return reportAnswer(answer);
  const wait = settings?.resultsWait ?? config["results.retry.wait"];
  return { kind: "run_busy", retryAfterMs: busyDelayMs(engine, wait, path) };
}

/** Used for a busy run only, by no other retry. */
function busyDelayMs({ ports, config }: Engine, wait: WaitPolicy, path: ResultPath): number {
  const shape = {
    kind: "around",
    baseMs: config["results.retry.baseMs"],
    jitterFraction: config["results.retry.jitterFraction"],
  } as const;
  const delayMs = waitDelayMs(wait, shape, 0, ports.random.fraction());
  ports.metrics.count("lock_busy_retries_total", { path, policy: wait });
  ports.metrics.observe("lock_busy_retry_delay_seconds", { policy: wait }, delayMs / 1000);
  return delayMs;
}

function reportAnswer(answer: DeliveryAnswer): ReportAnswer {
  if (answer.kind !== "refused") return answer;
  switch (answer.because) {
    case "duplicate":
      return { kind: "duplicate" };
    case "run_ended":
    case "run_not_found":
    case "credential_revoked":
      return { kind: "refused", because: answer.because };
    case "stale_claim":
    case "timer_not_due":
    case "approval_not_found":
    case "approval_decided":
    case "approval_expired":
    case "approval_changed":
    case "self_approval":
    case "already_cancelling":
    case "job_not_held":
    case "stale_fence":
    case "letter_not_found":
    case "not_retryable":
    case "limit_reached":
    case "tenant_stopped":
      return { kind: "refused", because: "stale_claim" };
  }
}

/** The same report gives the same entry id, so that a repeat is recognised and another result is not taken for it. */
function entryOf(report: ResultReport, { step, attempt }: JobParts): NewEntry {
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
