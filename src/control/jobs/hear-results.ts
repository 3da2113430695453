// What arrives over the bus: results of workers, and notifications, which the control plane does itself.

import { workerRoles } from "../../domain/api-key.ts";
import type { JsonValue } from "../../domain/fingerprint.ts";
import { type ClaimToken, type JobHint, parseJobId } from "../../domain/job.ts";
import { parseTenantId, type TenantId } from "../../domain/tenant.ts";
import type { Bus, BusDelivery, Consumer, Publication, Sender, Verdict } from "../../ports/bus.ts";
import type { Metrics } from "../../ports/ports.ts";
import { ask } from "../ask-until-known.ts";
import type { Caller } from "../caller.ts";
import { writeResultLetter } from "../dead-letters/write-result-letter.ts";
import type { Engine } from "../engine/engine.ts";
import { findSender } from "../keys/api-keys.ts";
import { traceClaim, traceparentOf } from "./claim-jobs.ts";
import { type ResultMessage, readResult, writeResult } from "./read-result.ts";
import { deliverResult, shownAnswer } from "./report-result.ts";
import type { ResultReport } from "./result-entry.ts";

/** As workers that speak over the bus report. The claim token names the message: published twice, it is stored once. */
export function publishResult(
  bus: Bus,
  {
    tenant,
    sender,
    report,
  }: {
    readonly tenant: TenantId;
    /** Needed where the bus leaves the process. */
    readonly sender?: Sender;
    readonly report: ResultReport;
  },
): Promise<Publication> {
  return bus.publish("results", {
    subject: `${tenant}/${report.jobId}`,
    messageId: report.token,
    body: writeResult(report),
    ...(sender === undefined ? {} : { sender }),
  });
}

/** How soon after trouble with the store a result is delivered again. */
const troubleRetryMs = 1_000;

export function hearResults(engine: Engine): Consumer {
  return engine.bus.consume(
    {
      stream: "results",
      name: "engine",
      ackWaitMs: 30_000,
      deliveriesMax: engine.config["results.deliveriesMax"],
      pendingMax: 2_048,
    },
    {
      async handle(delivery) {
        const { tenant, jobId } = namesIn(delivery);
        const result = await readResult(engine.ports.clock, jobId, delivery.body);
        if (tenant === undefined || result === undefined) return { kind: "drop", because: "unreadable" };
        return handleResult(engine, tenant, { delivery, jobId, result });
      },
      giveUp: (delivery, because) => writeDeadLetter(engine, delivery, because),
      senderOf: (keyId) => reportingKey(engine, keyId),
    },
  );
}

/** Throws while the store does not say. */
export async function reportingKey(engine: Engine, keyId: string): Promise<Sender | undefined> {
  const found = await findSender(engine, { keyId });
  if (found.kind === "unauthenticated") return undefined;
  if (found.kind !== "authenticated") throw new Error(found.cause);
  const { key } = found;
  return workerRoles.some((role) => role === key.role) ? key : undefined;
}

/** Usage that is not counted never costs the result or the heartbeat that brings it. */
export function countRefused(metrics: Metrics, refused: readonly string[]): void {
  for (const _unit of refused) metrics.count("usage_refused_total", {});
}

type Reported = {
  readonly delivery: BusDelivery;
  readonly jobId: string;
  readonly result: ResultMessage;
};

async function handleResult(
  engine: Engine,
  tenant: TenantId,
  { delivery, jobId, result }: Reported,
): Promise<Verdict> {
  const { sender, deliveries, ageMs } = delivery;
  const tell = (answer: object) => delivery.answer?.(JSON.stringify({ job_id: jobId, ...answer }));
  const { report, outputBytes, refusedUsage } = result;
  if (deliveries === 1) countRefused(engine.ports.metrics, refusedUsage);
  if (outputBytes > engine.config["jobs.resultBytesMax"]) {
    tell({ kind: "refused", because: "payload_too_large" });
    return { kind: "done" };
  }
  const caller: Caller =
    sender === undefined ? { tenant, actor: "worker" } : { tenant, actor: sender, credential: sender };
  const answer = await deliverResult(engine, { caller, ...report }, { path: "bus", deliveries, ageMs });
  if (answer.kind === "run_busy") {
    const { retryAfterMs } = answer;
    tell({ kind: "waiting", deliveries, retry_after_ms: Math.ceil(retryAfterMs) });
    return { kind: "retry", delayMs: retryAfterMs, because: "run lock busy" };
  }
  if (answer.kind === "unknown" || answer.kind === "unavailable")
    return { kind: "retry", delayMs: troubleRetryMs, because: answer.cause };
  engine.workers.finished(report.token);
  tell({ ...shownAnswer(answer), ...(refusedUsage.length === 0 ? {} : { refused_usage: refusedUsage }) });
  return { kind: "done" };
}

/** Throws when it could not be written: then the message stays on the bus. */
async function writeDeadLetter(engine: Engine, delivery: BusDelivery, because: string): Promise<void> {
  const { ports } = engine;
  const { tenant, jobId: id } = namesIn(delivery);
  if (tenant === undefined || parseJobId(id) === undefined) {
    ports.log.error("a result of nobody was dropped", { subject: delivery.subject });
    return;
  }
  const result = await readResult(ports.clock, id, delivery.body);
  const content = result === undefined ? { message: delivery.body } : { report: result.report };
  const letter = await writeResultLetter(engine, { tenant, id, because, content });
  if (letter.kind !== "written") throw new Error(letter.cause);
  delivery.answer?.(JSON.stringify({ job_id: id, kind: "refused", because }));
}

/** The subject says whose result of which job it is; a bus that leaves the process lets only that tenant's keys say so. */
function namesIn({ subject }: BusDelivery) {
  const end = Math.max(0, subject.indexOf("/"));
  return { tenant: parseTenantId(subject.slice(0, end)), jobId: subject.slice(end + 1) };
}

/** Watchers of the run's events have seen the notification when its job was enqueued. */
async function notify(engine: Engine, tenant: TenantId, { jobId }: JobHint): Promise<void> {
  const { ports, config } = engine;
  const worker = `notifier ${ports.instance}`;
  const token = ports.random.token() as ClaimToken;
  const terms = { token, worker, leaseMs: config["jobs.leaseMs"] };
  const answer = await ask(engine, "claimJobs", { tenant, claims: [{ jobId, terms }] });
  const [claim] = answer.kind === "judged" ? answer.answers : [];
  // Another process has it, or nobody wants it any more.
  if (claim?.kind !== "claimed") return;
  const claimed = traceClaim(ports, tenant, { ...claim, token });
  const traceparent = traceparentOf(claimed);
  const input = JSON.parse(claim.input) as { readonly level?: JsonValue; readonly message?: JsonValue };
  const fields = { tenant, run: claim.job.runId, step: claim.job.step, notification: JSON.stringify(input) };
  if (input.level === "error" || input.level === "warn") ports.log.warn("workflow notification", fields);
  else ports.log.info("workflow notification", fields);
  const report = {
    jobId,
    token,
    outcome: "succeeded",
    output: { notified: true },
    ...(traceparent === undefined ? {} : { traceparent }),
  } as const;
  const arrival = { path: "gateway", deliveries: 1, ageMs: 0 } as const;
  await deliverResult(engine, { caller: { tenant, actor: worker }, ...report }, arrival);
}

export function hearNotices(engine: Engine): Consumer {
  return engine.bus.consume(
    { stream: "notices", name: "notifier", ackWaitMs: 30_000, deliveriesMax: 10, pendingMax: 256 },
    {
      async handle({ body }) {
        const { tenant, hint } = JSON.parse(body) as { readonly tenant: TenantId; readonly hint: JobHint };
        await notify(engine, tenant, hint);
        return { kind: "done" };
      },
      // A hint is only a hint: the store still knows the job, and the sweep names it again.
      giveUp: async () => {},
    },
  );
}
