// Does the jobs that the control plane does itself: notifications.
import type { JobHint } from "../../domain/job.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { Consumer } from "../../ports/bus.ts";
import type { Engine } from "../engine/engine.ts";
import { notify } from "./notify.ts";

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
