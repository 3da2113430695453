// What arrives over the bus: results of workers, and notifications, which the control plane does itself.

import type { JsonValue } from "../../domain/fingerprint.ts";
import { type ClaimToken, type JobHint, parseJobId } from "../../domain/job.ts";
import { parseTenantId, type TenantId } from "../../domain/tenant.ts";
import type { Bus, BusDelivery, Consumer, Publication } from "../../ports/bus.ts";
import { ask } from "../ask-until-known.ts";
import type { Caller } from "../caller.ts";
import { writeResultLetter } from "../dead-letters/write-result-letter.ts";
import type { Engine } from "../engine/engine.ts";
import { traceClaim, traceparentOf } from "./claim-jobs.ts";
import { deliverResult } from "./report-result.ts";
import type { ResultReport } from "./result-entry.ts";

type BusResult = { readonly caller: Caller; readonly report: ResultReport };

/** For workers that speak over the bus. The claim token names the message: published twice, it is stored once. */
export function publishResult(bus: Bus, { caller, report }: BusResult): Promise<Publication> {
  const body = JSON.stringify({ caller, report } satisfies BusResult);
  return bus.publish("results", {
    subject: `${caller.tenant}/${report.jobId}`,
    messageId: report.token,
    body,
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
      async handle({ subject, body, deliveries, ageMs }) {
        const result = readResult(body);
        if (result === undefined) return { kind: "drop", because: "unreadable" };
        // Who may publish under whose name is the bus's to say; what the message says of itself proves nothing.
        if (result.caller.tenant !== tenantOf(subject))
          return { kind: "drop", because: "another tenant's subject" };
        const report = { caller: result.caller, ...result.report };
        const answer = await deliverResult(engine, report, { path: "bus", deliveries, ageMs });
        if (answer.kind === "run_busy")
          return { kind: "retry", delayMs: answer.retryAfterMs, because: "run lock busy" };
        if (answer.kind === "unknown" || answer.kind === "unavailable")
          return { kind: "retry", delayMs: troubleRetryMs, because: answer.cause };
        return { kind: "done" };
      },
      giveUp: (delivery, because) => writeDeadLetter(engine, delivery, because),
    },
  );
}

/** Throws when it could not be written: then the message stays on the bus. */
async function writeDeadLetter(
  engine: Engine,
  { subject, body }: BusDelivery,
  because: string,
): Promise<void> {
  const { ports } = engine;
  const tenant = tenantOf(subject);
  const id = subject.slice((tenant ?? "").length + 1);
  if (tenant === undefined || parseJobId(id) === undefined) {
    ports.log.error("a result of nobody was dropped", { subject });
    return;
  }
  const report = readResult(body)?.report;
  const content = report?.jobId === id ? { report } : { message: body };
  const letter = await writeResultLetter(engine, { tenant, id, because, content });
  if (letter.kind !== "written") throw new Error(letter.cause);
}

function tenantOf(subject: string): TenantId | undefined {
  return parseTenantId(subject.slice(0, Math.max(0, subject.indexOf("/"))));
}

function readResult(body: string): BusResult | undefined {
  try {
    const result = JSON.parse(body) as Partial<BusResult> | null;
    if (typeof result?.caller !== "object" || typeof result.report !== "object") return undefined;
    return result as BusResult;
  } catch {
    return undefined;
  }
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
