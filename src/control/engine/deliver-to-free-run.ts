// Strategy `retry`, the baseline: an entry is only taken by a run that nobody owns; a busy one answers "later".
import type { LockToken, RiskClass } from "../../domain/lock.ts";
import type { RenewalChoice } from "../../domain/tenant.ts";
import { waitDelayMs } from "../../domain/wait.ts";
import type { Answer } from "../../ports/store.ts";
import { ask } from "../ask-until-known.ts";
import type { WaitingResult } from "../jobs/busy-results.ts";
import { instantOf } from "../locks/lease-target.ts";
import { type Delivery, type DeliveryRequest, deliveryOf } from "./deliver-entry.ts";
import { drainOwned } from "./drain-run.ts";
import type { Engine } from "./engine.ts";

type FreeRunTerms = {
  readonly path: "gateway" | "bus";
  readonly renewal: RenewalChoice;
  /** What earlier reports of the same entry have found. */
  readonly waiting: WaitingResult;
};

export async function deliverToFreeRun(
  engine: Engine,
  request: DeliveryRequest<"result">,
  { path, renewal, waiting }: FreeRunTerms,
): Promise<{
  readonly answer: Delivery<"result"> | { readonly kind: "run_busy" };
  /** Over all reports, these tries included. */
  readonly busyTries: number;
}> {
  const { clock, metrics, log } = engine.ports;
  const { tenant, runId, entry } = request;
  const waitMs = path === "gateway" ? engine.config["locks.run.waitMs"] : 0;
  const startedMs = clock.monotonicMs();
  for (let { busyTries } = waiting; ; ) {
    const answer = await tryOnce(engine, request, renewal);
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
    const pauseMs = pollDelayMs(engine);
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

function pollDelayMs({ ports, config }: Engine): number {
  const jitterFraction = config["locks.pollJitterFraction"];
  const shape = { kind: "around", baseMs: config["locks.run.pollMs"], jitterFraction } as const;
  return waitDelayMs("jitter", shape, 0, ports.random.fraction());
}
