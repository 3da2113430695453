// Announces to the other processes which tenants this one has changed, so that their watchers need not wait for a poll.
import type { TenantId } from "../../domain/tenant.ts";
import type { Bus, Consumer } from "../../ports/bus.ts";
import type { Clock } from "../../ports/ports.ts";
import type { Wakes } from "./wakes.ts";

/** Changes within this time share one announcement: at most 100 a second, however many runs move. */
const gatherMs = 10;

export type ChangeAnnouncer = {
  changed(tenant: TenantId): void;
  /** Announces what is pending, then no more. */
  close(): void;
};

export function createChangeAnnouncer(clock: Clock, bus: Bus): ChangeAnnouncer {
  const changed = new Set<TenantId>();
  let cancel = () => {};
  let isClosed = false;
  const announce = () => {
    if (changed.size > 0) bus.announce("events", JSON.stringify([...changed]));
    changed.clear();
  };
  return {
    changed(tenant) {
      if (isClosed) return;
      changed.add(tenant);
      if (changed.size === 1) cancel = clock.timer(gatherMs, announce);
    },
    close() {
      isClosed = true;
      cancel();
      announce();
    },
  };
}

export function hearChanges(bus: Bus, wakes: Wakes): Consumer {
  return bus.listen("events", (body) => {
    for (const tenant of JSON.parse(body) as readonly TenantId[]) wakes.changed(tenant);
  });
}
