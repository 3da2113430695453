// Strategy `retry`, the baseline: an entry is only taken by a run that nobody owns; a busy one answers "later".
import type { LockToken, RiskClass } from "../../domain/lock.ts";
import { waitDelayMs } from "../../domain/wait.ts";
import type { Answer } from "../../ports/store.ts";
import { askUntilKnown } from "../ask-until-known.ts";
import { instantOf } from "../locks/lease-target.ts";
import { runLockTerms } from "../locks/lease-terms.ts";
import { type DeliveryAnswer, type DeliveryRequest, deliveryAnswer } from "./deliver-entry.ts";
import { drainOwned } from "./drain-run.ts";
import { type Engine, storeLimits } from "./engine.ts";

export async function deliverToFreeRun(
  engine: Engine,
  request: DeliveryRequest,
  path: "gateway" | "bus",
): Promise<DeliveryAnswer | { readonly kind: "run_busy" }> {
  const { clock, metrics, log } = engine.ports;
  const { tenant, runId, entry } = request;
  const waitMs = path === "gateway" ? engine.config["locks.run.waitMs"] : 0;
  const startedMs = clock.monotonicMs();
  for (let retries = 0; ; retries += 1) {
    const answer = await tryOnce(engine, request);
    const waitedMs = clock.monotonicMs() - startedMs;
    if (answer.kind !== "run_busy") {
      metrics.observe("run_lock_wait_seconds", { path }, waitedMs / 1000);
      const bucket = retries === 0 ? "0" : retries === 1 ? "1" : "2+";
      if (answer.kind === "delivered") metrics.count("run_lock_acquired_total", { path, retries: bucket });
      return deliveryAnswer(engine, entry, answer);
    }
    const pauseMs = pollDelayMs(engine);
    if (waitedMs + pauseMs > waitMs) {
      log.info("run lock busy", { tenant, run: runId, holder: answer.instance });
      return { kind: "run_busy" };
    }
    await clock.sleep(pauseMs);
  }
}

async function tryOnce(engine: Engine, request: DeliveryRequest): Promise<Answer<"deliver">> {
  const { ports, config } = engine;
  const { tenant, runId } = request;
  const token = ports.random.token() as LockToken;
  const since = instantOf(ports.clock);
  const take = { token, instance: ports.instance, ttlMs: config["locks.run.ttlMs"] };
  const answer = await askUntilKnown(ports, "deliver", storeLimits(config), (deadlineMs) =>
    ports.store.deliver({ ...request, take, whenBusy: "refuse", records: [] }, { deadlineMs }),
  );
  if (answer.kind === "delivered" && answer.run.kind === "owned") {
    const { run } = answer;
    const terms = runLockTerms(config, await riskOf(engine, request, run.header.definition), "try_once");
    const grant = { kind: "acquired", token, fence: run.fence, since } as const;
    engine.background.run("draining a run", () => drainOwned(engine, { tenant, runId, terms, grant }, run));
  }
  return answer;
}

/** The risk class decides what a failed renewal means; an unreadable definition is treated as the default. */
async function riskOf(engine: Engine, { tenant }: DeliveryRequest, definition: string): Promise<RiskClass> {
  const pinned = await engine.definitions.pinned(tenant, definition);
  return pinned.kind === "compiled" ? pinned.definition.risk : "standard";
}

function pollDelayMs({ ports, config }: Engine): number {
  const jitterFraction = config["locks.pollJitterFraction"];
  const shape = { kind: "around", baseMs: config["locks.run.pollMs"], jitterFraction } as const;
  return waitDelayMs("jitter", shape, 0, ports.random.fraction());
}
