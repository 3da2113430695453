// Tells those who can do something about a job that it is there: workers' processes, the notifier, or the scheduler.
import { type JobHint, notifyTopic } from "../../domain/job.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { BusStream } from "../../ports/bus.ts";
import type { Engine } from "../engine/engine.ts";

/**
 * In the background. A hint that the bus loses costs time, and the sweep names the job again; one that the bus does not take is
 * published again as soon as it does.
 */
export function publishJob(
  {
    bus,
    offers,
    background,
    pendingPublications,
  }: Pick<Engine, "bus" | "offers" | "background" | "pendingPublications">,
  tenant: TenantId,
  hint: JobHint,
): void {
  const stream = streamOf(hint);
  const message = offers.hintMessage(tenant, hint);
  background.run("publishing a job", async () => {
    const publication = await bus.publish(stream, message);
    if (publication.kind === "unavailable") pendingPublications.keep(stream, message);
  });
}

/** No worker may have a held job, and what the control plane does itself is not for workers either. */
function streamOf({ held, topic }: JobHint): BusStream {
  if (held === true) return "checks";
  return topic === notifyTopic ? "notices" : "hints";
}
