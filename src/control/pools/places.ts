// A place is freed, or limits are changed: jobs that wait for it are claimed at once, here or in another process.
import { hasLimits, type Place, poolLimits } from "../../domain/job.ts";
import type { TenantId, TenantSettings } from "../../domain/tenant.ts";
import type { Consumer } from "../../ports/bus.ts";
import type { Answer, OperationName, RequestOf } from "../../ports/store.ts";
import { settingsOf } from "../admission/tenant-cache.ts";
import type { Engine } from "../engine/engine.ts";
import { claimMatches } from "../jobs/claim-jobs.ts";
import { retryAfterMs } from "./full-limits.ts";

/** Looks at every answer of the store, so that no flow can forget to tell of a place. */
export function noticePlaces<Name extends OperationName>(
  engine: Engine,
  name: Name,
  request: RequestOf<Name>,
  answer: Answer<Name>,
): void {
  if (name === "deliver" && "freed" in answer && answer.freed !== undefined) {
    placeFreed(engine, (request as RequestOf<"deliver">).tenant, answer.freed as Place);
  }
  if (name === "setTenant" && answer.kind === "saved") {
    const { tenant, settings } = request as RequestOf<"setTenant">;
    useLimits(engine, tenant, settings);
    engine.bus.announce("places", JSON.stringify({ tenant } satisfies News));
  }
}

/** What processes tell each other: a place that nobody here could use, or without one that limits were changed. */
type News = { readonly tenant: TenantId; readonly freed?: Place };

/** Listens for places freed elsewhere, and tries again after lost announcements. */
export function hearPlaces(engine: Engine): Consumer {
  const stopped = new AbortController();
  const listening = hearFreedPlaces(engine);
  const retrying = (async () => {
    while (!stopped.signal.aborted) {
      await engine.ports.clock.sleep(retryAfterMs / 2, stopped.signal);
      retryFullLimits(engine);
    }
  })();
  return {
    async stop() {
      stopped.abort();
      await listening.stop();
      await retrying;
    },
  };
}

function hearFreedPlaces(engine: Engine): Consumer {
  const { bus, background } = engine;
  return bus.listen("places", (body) => {
    const { tenant, freed } = JSON.parse(body) as News;
    if (freed !== undefined) background.run("a freed place", () => useFreed(engine, tenant, freed));
    else background.run("changed limits", () => learnLimits(engine, tenant));
  });
}

/** Claims for those that were refused a second ago. */
function retryFullLimits(engine: Engine): void {
  for (const tenant of engine.limits.overdue()) claimFor(engine, tenant);
}

/** Other processes hear of it only if nobody waits for it here. */
function placeFreed(engine: Engine, tenant: TenantId, freed: Place): void {
  engine.background.run("a freed place", async () => {
    if ((await useFreed(engine, tenant, freed)) > 0) return;
    const settings = engine.tenants.recall(tenant);
    if (settings !== undefined && !hasLimits(settings)) return;
    engine.bus.announce("places", JSON.stringify({ tenant, freed } satisfies News));
  });
}

/** Gives how many jobs got it. */
async function useFreed(engine: Engine, tenant: TenantId, freed: Place): Promise<number> {
  const wanted = engine.limits.freed(tenant, freed);
  const ofPool = wanted.pool ? topicsOf(engine, tenant, freed.pool) : [];
  const topics = new Set([...(wanted.topic ? [freed.topic] : []), ...ofPool]);
  if (topics.size === 0) return 0;
  return (await claimMatches(engine, tenant, [...topics])).granted;
}

async function learnLimits(engine: Engine, tenant: TenantId): Promise<void> {
  engine.tenants.forget(tenant);
  const settings = await settingsOf(engine, tenant);
  if (settings !== undefined) useLimits(engine, tenant, settings);
}

/** What was full may have room now; polls of a pool that drains are answered. */
function useLimits(engine: Engine, tenant: TenantId, settings: TenantSettings): void {
  engine.limits.forget(tenant);
  for (const offer of engine.offers.all().filter((each) => each.tenant === tenant)) {
    if (poolLimits(settings, offer.pool)?.draining === true) offer.drain?.();
  }
  claimFor(engine, tenant);
}

function claimFor(engine: Engine, tenant: TenantId): void {
  const topics = topicsOf(engine, tenant);
  if (topics.length === 0) return;
  engine.background.run("claiming what waits", () => claimMatches(engine, tenant, topics));
}

/** Topics that somebody waits for, in this pool or in any. */
function topicsOf({ offers }: Engine, tenant: TenantId, pool?: string): readonly string[] {
  const ours = offers.all().filter((offer) => offer.tenant === tenant);
  const inPool = ours.filter((offer) => pool === undefined || offer.pool === pool);
  return [...new Set(inPool.flatMap(({ topics }) => topics))];
}
