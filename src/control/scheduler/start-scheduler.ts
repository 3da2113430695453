// The scheduler role: receives held jobs, each in one process, and asks the dispatch check about them.
import type { JobHint } from "../../domain/job.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { BusDelivery, Consumer, Verdict } from "../../ports/bus.ts";
import type { DispatchCheck } from "../../ports/ports.ts";
import type { Engine } from "../engine/engine.ts";
import { dispatchJob } from "./dispatch-job.ts";

/** What a question takes besides the check's own time: the lock, two reads, the delivery, each with its repeats. */
const aroundCheckMs = 30_000;

/** A job may be held for days: only what settles it ends the asking. Should the bus forget it, the sweep names it again. */
const deliveriesMax = 1_000_000;

export function startScheduler(engine: Engine, check: DispatchCheck): Consumer {
  const { bus, config } = engine;
  const questions = new Set<AbortController>();
  let stopped = false;

  async function handle({ body, deliveries }: BusDelivery): Promise<Verdict> {
    const hint = readHint(body);
    if (hint === undefined) return { kind: "drop", because: "unreadable" };
    // One for each: Node warns of a leak when more than ten wait for the same signal.
    const question = new AbortController();
    questions.add(question);
    try {
      const named = { tenant: hint.tenant, jobId: hint.hint.jobId, tries: deliveries };
      const end = await dispatchJob({ engine, check }, named, question.signal);
      if (end.kind === "settled") return { kind: "done" };
      return { kind: "retry", delayMs: end.delayMs, because: end.because };
    } catch (error) {
      if (!stopped) throw error;
      return { kind: "retry", delayMs: 0, because: "stopped" };
    } finally {
      questions.delete(question);
    }
  }

  const consumer = bus.consume(
    {
      stream: "checks",
      name: "scheduler",
      ackWaitMs: config["dispatch.checkTimeoutMs"] + config["locks.job.waitMs"] + aroundCheckMs,
      deliveriesMax,
      pendingMax: config["dispatch.checksMax"],
    },
    { handle, giveUp: async () => {} },
  );
  return {
    async stop() {
      stopped = true;
      for (const question of questions) question.abort(new Error("the scheduler stops"));
      await consumer.stop();
    },
  };
}

function readHint(body: string): { readonly tenant: TenantId; readonly hint: JobHint } | undefined {
  try {
    return JSON.parse(body) as { readonly tenant: TenantId; readonly hint: JobHint };
  } catch {
    return undefined;
  }
}
