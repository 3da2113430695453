// Results that arrive over the bus: acknowledged once durable, delivered again while the run is busy, dead letters in the end.

import { parseJobId } from "../../domain/job.ts";
import { parseTenantId, type TenantId } from "../../domain/tenant.ts";
import type { Bus, BusDelivery, Consumer, Publication } from "../../ports/bus.ts";
import { ask } from "../ask-until-known.ts";
import type { Caller } from "../caller.ts";
import type { Engine } from "../engine/engine.ts";
import { deliverResult, type ResultReport } from "./report-result.ts";

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
      async handle({ subject, body }) {
        const result = readResult(body);
        if (result === undefined) return { kind: "drop", because: "unreadable" };
        // Who may publish under whose name is the bus's to say; what the message says of itself proves nothing.
        if (result.caller.tenant !== tenantOf(subject))
          return { kind: "drop", because: "another tenant's subject" };
        const answer = await deliverResult(engine, { caller: result.caller, ...result.report }, "bus");
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
  const run = parseJobId(id)?.runId;
  if (tenant === undefined || run === undefined) {
    ports.log.error("a result of nobody was dropped", { subject });
    return;
  }
  const about = { job_id: id, run_id: run, because, message: body };
  const letter = JSON.stringify({ reason: "deliveries_exhausted", ...about });
  const request = {
    tenant,
    collection: "deadLetter",
    id,
    body: letter,
    changeId: `${id} ${because}`,
    actor: "bus",
  } as const;
  const answer = await ask(engine, "putDocument", request);
  if (answer.kind !== "saved") throw new Error(`the dead letter could not be written: ${answer.kind}`);
  ports.metrics.count("dead_letters_total", { reason: "deliveries_exhausted" });
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
