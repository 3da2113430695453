// Fails a job that its budget does not pay for: the worker never gets it, or is told to stop.
import type { BudgetId } from "../../domain/budgets.ts";
import type { ClaimToken, JobId } from "../../domain/job.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { Engine } from "../engine/engine.ts";
import { deliverResult } from "./report-result.ts";

type Unpaid = {
  readonly tenant: TenantId;
  readonly jobId: JobId;
  readonly token: ClaimToken;
  readonly budget: BudgetId;
};

/** While the store is away, or the run is busy. */
const triesMax = 10;
const againMs = 250;

/**
 * In the background, in the name of the claim. If this process dies before, the claim runs out, and the claim or heartbeat of
 * the next attempt meets the same budget.
 */
export function failUnpaid(engine: Engine, { tenant, jobId, token, budget }: Unpaid): void {
  const { clock, instance, metrics } = engine.ports;
  metrics.count("jobs_over_budget_total", {});
  const error = { code: "budget_exhausted", message: `the budget ${budget} does not pay for it` };
  const caller = { tenant, actor: `budgets:${instance}` };
  const report = { caller, jobId, token, outcome: "failed", error } as const;
  engine.background.run("failing a job that its budget does not pay for", async () => {
    for (let deliveries = 1; deliveries <= triesMax; deliveries += 1) {
      const answer = await deliverResult(engine, report, { path: "bus", deliveries, ageMs: 0 });
      if (answer.kind === "run_busy") await clock.sleep(answer.retryAfterMs);
      else if (answer.kind === "unknown" || answer.kind === "unavailable") await clock.sleep(againMs);
      else break;
    }
    engine.workers.finished(token);
  });
}
