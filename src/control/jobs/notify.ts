// Does the jobs of notify steps that name no topic of their own: each notification becomes one line of the log.

import type { JsonValue } from "../../domain/fingerprint.ts";
import type { ClaimToken, JobHint } from "../../domain/job.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { Consumer } from "../../ports/bus.ts";
import { ask } from "../ask-until-known.ts";
import type { Engine } from "../engine/engine.ts";
import { traceClaim, traceparentOf } from "./claim-jobs.ts";
import { deliverResult } from "./report-result.ts";

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
  await deliverResult(engine, { caller: { tenant, actor: worker }, ...report }, "gateway");
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
