// Sweeps all partitions at an interval, in every engine process: there is no leader, and a later sweep finds nothing left.
import { allPartitions, type Partition } from "../../domain/tenant.ts";
import { publishJob } from "../jobs/hints.ts";
import { drainRun } from "./drain-run.ts";
import type { Engine } from "./engine.ts";

type Sweeper = { stop(): Promise<void> };

/** Each partition by itself: one whose server does not answer must not make the others late. */
export function startSweeper(engine: Engine, partitions: readonly Partition[] = allPartitions): Sweeper {
  const sweepers = partitions.map((partition) => sweepAgainAndAgain(engine, partition));
  return {
    async stop() {
      await Promise.all(sweepers.map((sweeper) => sweeper.stop()));
    },
  };
}

function sweepAgainAndAgain(engine: Engine, partition: Partition): Sweeper {
  // One signal each: Node warns of a leak when more than ten listen to the same one.
  const stopped = new AbortController();
  const { clock, log, random } = engine.ports;
  const everyMs = engine.config["sweep.everyMs"];
  async function loop(): Promise<void> {
    // Neither partitions nor processes that started together sweep together.
    await clock.sleep(everyMs * random.fraction(), stopped.signal);
    while (!stopped.signal.aborted) {
      try {
        await sweepPartition(engine, partition);
      } catch (error) {
        const cause = error instanceof Error ? error.message : String(error);
        log.error("a sweep failed", { partition, cause });
      }
      await clock.sleep(everyMs, stopped.signal);
    }
  }
  const running = loop();
  return {
    async stop() {
      stopped.abort();
      await running;
    },
  };
}

export async function sweepPartition(engine: Engine, partition: Partition): Promise<void> {
  const { ports, config } = engine;
  const answer = await ports.store.sweep({ partition }, { deadlineMs: config["store.callTimeoutMs"] });
  // Without an answer nothing is lost: what was due still is, or waits in an inbox until its visit is due.
  if (answer.kind !== "swept") return;
  for (const { tenant, runId } of answer.waiting) {
    engine.background.run("draining a run", () => drainRun(engine, tenant, runId));
  }
  for (const { tenant, job } of answer.unclaimed) {
    ports.metrics.count("jobs_published_total", { cause: "sweep" });
    publishJob(engine, tenant, job);
  }
  for (const { tenant, repair, runId } of answer.repairs) {
    ports.metrics.count("sweep_repairs_total", { kind: repair });
    ports.log.warn("sweep repaired what must always hold", { tenant, repair, run: runId });
  }
  for (let lost = 0; lost < answer.lostClaims; lost += 1) ports.metrics.count("job_claims_lost_total", {});
}
