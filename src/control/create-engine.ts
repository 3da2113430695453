// Puts together what the flows of runs share.
import type { Config } from "../config.ts";
import type { Bus } from "../ports/bus.ts";
import type { Ports } from "../ports/ports.ts";
import { createTenantCache } from "./admission/tenant-cache.ts";
import { createAlarms } from "./engine/alarms.ts";
import { createBackground } from "./engine/background.ts";
import { deliverEntry } from "./engine/deliver-entry.ts";
import type { Engine } from "./engine/engine.ts";
import { createRunCache } from "./engine/run-cache.ts";
import { createStoreTime } from "./engine/store-time.ts";
import { createOffers } from "./jobs/offers.ts";
import { createDefinitions } from "./workflows/definitions.ts";

export function createEngine(ports: Ports, bus: Bus, config: Config): Engine {
  const background = createBackground(ports.log);
  const engine: Engine = {
    ports,
    bus,
    config,
    tenants: createTenantCache(ports.clock, config["admission.tenantCacheMs"]),
    definitions: createDefinitions(ports, config),
    runs: createRunCache({
      runsMax: config["engine.cachedRunsMax"],
      runBytesMax: config["engine.cachedRunBytesMax"],
    }),
    alarms: createAlarms(ports.clock, ({ tenant, runId, timerId }) => {
      const entry = { kind: "timer", entryId: `timer:${timerId}`, timerId } as const;
      background.run("a timer", () => deliverEntry(engine, { tenant, runId, entry }));
    }),
    offers: createOffers(ports, config["jobs.hintsMax"]),
    background,
    storeTime: createStoreTime(ports.clock),
  };
  return engine;
}
