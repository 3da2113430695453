// Asks the store what is due in one partition and does what follows: drains runs, publishes jobs again, reports repairs.
import type { Partition } from "../../domain/partition.ts";
import { drainRun } from "../engine/drain-run.ts";
import type { Engine } from "../engine/engine.ts";
import { publishJob } from "../jobs/publish-job.ts";

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
