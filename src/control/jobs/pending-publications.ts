// Messages that the bus did not accept, published again until it does: an outage then costs less than a sweep interval.
import type { Bus, BusMessage, BusStream } from "../../ports/bus.ts";
import type { Clock, Random } from "../../ports/ports.ts";

export type PendingPublications = {
  keep(stream: BusStream, message: BusMessage): void;
  close(): void;
};

/** Those that do not fit are left to the sweep, which names every job that nobody has claimed after 30 s. */
const pendingMax = 10_000;
const againAfterMs = 1_000;
const togetherMax = 100;

type PendingPublication = { readonly stream: BusStream; readonly message: BusMessage };

export function createPendingPublications(
  ports: { readonly clock: Clock; readonly random: Random },
  bus: Bus,
): PendingPublications {
  const pending = new Map<string, PendingPublication>();
  let cancel: (() => void) | undefined;
  let closed = false;

  /** Spread, so that the processes that an outage has cut off do not come back all at once. */
  const schedule = () => {
    if (closed || pending.size === 0) return;
    const delayMs = againAfterMs * (0.5 + 0.5 * ports.random.fraction());
    cancel ??= ports.clock.timer(delayMs, () => {
      void publishAll().finally(() => {
        cancel = undefined;
        schedule();
      });
    });
  };

  /** One goes first: while it is not taken the others would not be either. */
  async function publishAll(): Promise<void> {
    for (let together = 1; !closed && pending.size > 0; together = togetherMax) {
      const some = [...pending.entries()].slice(0, together);
      const taken = await Promise.all(some.map(([key, one]) => publishOne(key, one)));
      if (taken.includes(false)) return;
    }
  }

  async function publishOne(key: string, one: PendingPublication): Promise<boolean> {
    const publication = await bus.publish(one.stream, one.message);
    if (publication.kind !== "published") return false;
    if (pending.get(key) === one) pending.delete(key);
    return true;
  }

  return {
    keep(stream, message) {
      const key = `${stream} ${message.subject}`;
      const [oldest] = pending.keys();
      if (pending.size >= pendingMax && oldest !== undefined && !pending.has(key)) pending.delete(oldest);
      pending.set(key, { stream, message });
      schedule();
    },
    close() {
      closed = true;
      cancel?.();
    },
  };
}
