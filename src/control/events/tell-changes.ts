// Tells the other processes which tenants this one has changed, so that their watchers need not wait for a poll.
import type { TenantId } from "../../domain/tenant.ts";
import type { Bus, Consumer } from "../../ports/bus.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Wakes } from "./wakes.ts";

/** Changes within this time share one announcement: at most 100 a second, however many runs move. */
const gatherMs = 10;

export type Teller = {
  changed(tenant: TenantId): void;
  /** Tells what is still untold, and no more. */
  close(): void;
};

export function createTeller(clock: Clock, bus: Bus): Teller {
  const changed = new Set<TenantId>();
  let cancel = () => {};
  let isClosed = false;
  const tell = () => {
    if (changed.size > 0) bus.announce("events", JSON.stringify([...changed]));
    changed.clear();
  };
  return {
    changed(tenant) {
      if (isClosed) return;
      changed.add(tenant);
      if (changed.size === 1) cancel = clock.timer(gatherMs, tell);
    },
    close() {
      isClosed = true;
      cancel();
      tell();
    },
  };
}

export function hearChanges(bus: Bus, wakes: Wakes): Consumer {
  return bus.listen("events", (body) => {
    for (const tenant of JSON.parse(body) as readonly TenantId[]) wakes.changed(tenant);
  });
}
