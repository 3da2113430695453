// Jobs that the bus did not take when they were put up: told again until it does, so that an outage costs no sweep's interval.
import type { Bus, BusMessage, BusStream } from "../../ports/bus.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Random } from "../../ports/random.ts";

export type UntoldJobs = {
  keep(stream: BusStream, message: BusMessage): void;
  close(): void;
};

/** Those that do not fit are left to the sweep, which names every job that nobody has claimed after 30 s. */
const untoldMax = 10_000;
const againAfterMs = 1_000;
const togetherMax = 100;

type Untold = { readonly stream: BusStream; readonly message: BusMessage };

export function createUntoldJobs(
  ports: { readonly clock: Clock; readonly random: Random },
  bus: Bus,
): UntoldJobs {
  const untold = new Map<string, Untold>();
  let cancel: (() => void) | undefined;
  let closed = false;

  /** Spread, so that the processes that an outage has cut off do not come back all at once. */
  const schedule = () => {
    if (closed || untold.size === 0) return;
    const delayMs = againAfterMs * (0.5 + 0.5 * ports.random.fraction());
    cancel ??= ports.clock.timer(delayMs, () => {
      void tellAll().finally(() => {
        cancel = undefined;
        schedule();
      });
    });
  };

  /** One goes first: while it is not taken the others would not be either. */
  async function tellAll(): Promise<void> {
    for (let together = 1; !closed && untold.size > 0; together = togetherMax) {
      const some = [...untold.entries()].slice(0, together);
      const taken = await Promise.all(some.map(([key, one]) => tell(key, one)));
      if (taken.includes(false)) return;
    }
  }

  async function tell(key: string, one: Untold): Promise<boolean> {
    const publication = await bus.publish(one.stream, one.message);
    if (publication.kind !== "published") return false;
    if (untold.get(key) === one) untold.delete(key);
    return true;
  }

  return {
    keep(stream, message) {
      const key = `${stream} ${message.subject}`;
      const [oldest] = untold.keys();
      if (untold.size >= untoldMax && oldest !== undefined && !untold.has(key)) untold.delete(oldest);
      untold.set(key, { stream, message });
      schedule();
    },
    close() {
      closed = true;
      cancel?.();
    },
  };
}
