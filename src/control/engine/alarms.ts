// Local alarms for the timers that this process set: exact while it lives. The sweep is the net after a crash.
import type { RunId } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { CancelTimer, Clock } from "../../ports/ports.ts";

type AlarmTarget = { readonly tenant: TenantId; readonly runId: RunId; readonly timerId: string };

export type Alarms = {
  set(target: AlarmTarget, afterMs: number): void;
  clear(target: AlarmTarget): void;
  /** Forgets all alarms and sets no more: what is still under way commits, and the sweep of others is its net. */
  close(): void;
};

/** The longest that a timer of the platform can wait; what is later is left to the sweep. */
const longestMs = 2_147_483_000;

/** Bounds the memory; beyond it timers are up to a sweep late. */
const alarmsMax = 100_000;

export function createAlarms(clock: Clock, ring: (target: AlarmTarget) => void): Alarms {
  const alarms = new Map<string, CancelTimer>();
  let closed = false;
  const keyOf = ({ runId, timerId }: AlarmTarget) => `${runId} ${timerId}`;
  const clear = (key: string) => {
    alarms.get(key)?.();
    alarms.delete(key);
  };
  return {
    set(target, afterMs) {
      const key = keyOf(target);
      clear(key);
      if (closed || afterMs > longestMs || alarms.size >= alarmsMax) return;
      // One millisecond more: the store compares whole milliseconds, and an alarm that is early is in vain.
      const cancel = clock.timer(Math.max(0, afterMs) + 1, () => {
        alarms.delete(key);
        ring(target);
      });
      alarms.set(key, cancel);
    },
    clear: (target) => clear(keyOf(target)),
    close() {
      closed = true;
      for (const cancel of alarms.values()) cancel();
      alarms.clear();
    },
  };
}
