// Wakes the claims of a topic at the moment at which its rate lets them pass: the next look, a second later, would waste its units.
import type { TenantId } from "../../domain/tenant.ts";
import type { CancelTimer, Clock } from "../../ports/ports.ts";

export type RateAlarms = {
  /** A claim was refused, and would pass then. */
  set(tenant: TenantId, topic: string, againInMs: number): void;
  close(): void;
};

/** Beyond it claims are tried with those of full limits, up to a second late. */
const alarmsMax = 10_000;

export function createRateAlarms(clock: Clock, ring: (tenant: TenantId, topic: string) => void): RateAlarms {
  const alarms = new Map<string, { readonly atMs: number; readonly cancel: CancelTimer }>();
  let isClosed = false;
  return {
    set(tenant, topic, againInMs) {
      const key = `${tenant} ${topic}`;
      const atMs = clock.monotonicMs() + againInMs;
      const before = alarms.get(key);
      if (isClosed || (before !== undefined && before.atMs <= atMs)) return;
      if (before === undefined && alarms.size >= alarmsMax) return;
      before?.cancel();
      const cancel = clock.timer(againInMs, () => {
        alarms.delete(key);
        ring(tenant, topic);
      });
      alarms.set(key, { atMs, cancel });
    },
    close() {
      isClosed = true;
      for (const { cancel } of alarms.values()) cancel();
      alarms.clear();
    },
  };
}
