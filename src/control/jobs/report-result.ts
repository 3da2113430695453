// A worker's result on its way to the run: handed over, or tried again later while the run is busy.
import { hash } from "node:crypto";
import type { Outcome } from "../../domain/engine/records.ts";
import type { NewEntry } from "../../domain/inbox.ts";
import { type JobParts, parseJobId } from "../../domain/job.ts";
import type { WaitPolicy } from "../../domain/tenant.ts";
import { waitDelayMs } from "../../domain/wait.ts";
import type { Caller, ReportAnswer, ResultReport } from "../control-api.ts";
import { deliverEntry } from "../engine/deliver-entry.ts";
import { deliverToFreeRun } from "../engine/deliver-to-free-run.ts";
import { type Engine, settingsOf } from "../engine/engine.ts";
import { assignPolicies } from "../policies/assign-policies.ts";

/** `gateway` waits a few seconds for a busy run (strategy `retry`); `bus` does not, its transport carries the delay. */
type ResultPath = "gateway" | "bus";

export async function reportResult(
  engine: Engine,
  caller: Caller,
  report: ResultReport,
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
      : await deliverToFreeRun(engine, request, { path, waiting, renewal: policies["renewal.policy"] });
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
  return { kind: "run_busy", retryAfterMs: busyDelayMs(engine, policies["results.wait"], path) };
}

/** While the run is busy, and with trouble, the result is reported again: it is measured once, when it is durable or refused. */
function isFinal({ kind }: { readonly kind: string }): boolean {
  return kind !== "run_busy" && kind !== "unavailable" && kind !== "unknown";
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
