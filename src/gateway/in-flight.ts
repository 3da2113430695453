// Counts what is under way, in all and per tenant, and refuses what would be too much.
import type { Config } from "../config.ts";
import type { TenantId } from "../domain/tenant.ts";

/** Waiting polls and open streams are many and cost little: they have limits of their own. */
export type Place = "request" | "poll" | "stream";

export type InFlight = {
  /** Before anything is known of the caller. */
  enter(place: Place): "entered" | "overloaded";
  leave(place: Place): void;
  /** `max` is the tenant's own number, where it has one. */
  enterTenant(place: Place, tenant: TenantId, max?: number): "entered" | "too_many_requests";
  leaveTenant(place: Place, tenant: TenantId): void;
  /** Requests, polls and streams under way. */
  total(): number;
  /** Resolves when nothing is under way. */
  idle(): Promise<void>;
};

export function createInFlight(config: Config): InFlight {
  const totals = { request: 0, poll: 0, stream: 0 };
  const totalMax = {
    request: config["gateway.requestsInFlightMax"],
    poll: Number.POSITIVE_INFINITY,
    stream: config["events.streamsMax"],
  };
  const byTenant = {
    request: new Map<TenantId, number>(),
    poll: new Map<TenantId, number>(),
    stream: new Map<TenantId, number>(),
  };
  const tenantMax = {
    request: config["gateway.tenantRequestsInFlightMax"],
    poll: config["gateway.tenantPollsMax"],
    stream: config["events.tenantStreamsMax"],
  };
  const waiters: Array<() => void> = [];
  const total = () => totals.request + totals.poll + totals.stream;
  return {
    enter(place) {
      if (totals[place] >= totalMax[place]) return "overloaded";
      totals[place] += 1;
      return "entered";
    },
    leave(place) {
      totals[place] -= 1;
      if (waiters.length > 0 && total() === 0) for (const resolve of waiters.splice(0)) resolve();
    },
    enterTenant(place, tenant, max = tenantMax[place]) {
      const count = byTenant[place].get(tenant) ?? 0;
      if (count >= max) return "too_many_requests";
      byTenant[place].set(tenant, count + 1);
      return "entered";
    },
    leaveTenant(place, tenant) {
      const count = (byTenant[place].get(tenant) ?? 1) - 1;
      if (count === 0) byTenant[place].delete(tenant);
      else byTenant[place].set(tenant, count);
    },
    total,
    idle: () => (total() === 0 ? Promise.resolve() : new Promise<void>((resolve) => waiters.push(resolve))),
  };
}
