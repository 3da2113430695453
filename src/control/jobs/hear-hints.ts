// Listens for hints of jobs and claims those for which this process has a worker waiting.
import type { JobHint } from "../../domain/job.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { Consumer } from "../../ports/bus.ts";
import type { Engine } from "../engine/engine.ts";
import { claimMatches } from "./claim-matches.ts";
import { createJobSearch } from "./look-for-jobs.ts";

export function hearHints(engine: Engine): Consumer {
  const claiming = new Map<string, Promise<unknown>>();
  return engine.bus.consume(
    {
      stream: "hints",
      name: `offers-${engine.ports.instance}`,
      ackWaitMs: 30_000,
      deliveriesMax: 10,
      pendingMax: 1_024,
    },
    {
      async handle({ body }) {
        const { tenant, hint } = JSON.parse(body) as { readonly tenant: TenantId; readonly hint: JobHint };
        engine.offers.learn(tenant, hint);
        // Hints that arrive while a claim is on its way share the next one.
        const key = `${tenant} ${hint.topic}`;
        const waiting = claiming.get(key);
        if (waiting === undefined) {
          const claim = Promise.resolve().then(() => {
            claiming.delete(key);
            return claimMatches(engine, tenant, [hint.topic]);
          });
          claiming.set(key, claim);
          await claim;
        } else await waiting;
        return { kind: "done" };
      },
      // A hint is only a hint: the store still knows the job, and the sweep names it again.
      giveUp: async () => {},
      missed: createJobSearch(engine),
    },
  );
}
