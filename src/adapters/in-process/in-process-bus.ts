// The bus inside one process, with the semantics of JetStream: acknowledgement, delayed redelivery, a cap, duplicate ids.
import type {
  Bus,
  BusDelivery,
  BusMessage,
  BusStream,
  Consumer,
  ConsumerTerms,
  Handlers,
  Verdict,
} from "../../ports/bus.ts";
import { busStreams, keepsLatest } from "../../ports/bus.ts";
import type { CancelTimer, Clock } from "../../ports/clock.ts";
import type { Log } from "../../ports/log.ts";

type Stored = { readonly subject: string; readonly body: string; deliveries: number; gone: boolean };

type Stream = {
  /** Messages that wait for a consumer, oldest first. */
  readonly waiting: Set<Stored>;
  /** Where only the latest is kept: the message of each subject. */
  readonly bySubject: Map<string, Stored>;
  /** Messages that wait for their delay: in nobody's hands, so that a hot run's retries hold up nobody else. */
  readonly parked: Map<Stored, CancelTimer>;
  readonly seen: Map<string, number>;
  readonly consumers: Set<Pull>;
};

type Pull = { pull(): void };

/** As JetStream's default window: an id is remembered for two minutes. */
const duplicateWindowMs = 120_000;

/** How long after a failed `giveUp` it is tried again. */
const giveUpAgainMs = 5_000;

export function createInProcessBus(ports: { readonly clock: Clock; readonly log: Log }): Bus {
  const streams = new Map<BusStream, Stream>(
    busStreams.map((name) => [
      name,
      {
        waiting: new Set(),
        bySubject: new Map(),
        parked: new Map(),
        seen: new Map(),
        consumers: new Set(),
      },
    ]),
  );
  const closed = new AbortController();
  const streamOf = (name: BusStream) => streams.get(name) as Stream;

  return {
    async publish(name, message) {
      if (closed.signal.aborted) return { kind: "unavailable", cause: "the bus is closed" };
      const stream = streamOf(name);
      if (isDuplicate(stream, message, ports.clock.monotonicMs())) return { kind: "published" };
      const stored = { subject: message.subject, body: message.body, deliveries: 0, gone: false };
      if (keepsLatest(name)) replace(stream, stored);
      stream.waiting.add(stored);
      wake(stream);
      return { kind: "published" };
    },
    consume: (terms, handlers) =>
      startConsumer(ports, streamOf(terms.stream), { terms, handlers, closed: closed.signal }),
    // There is no other process.
    announce: () => {},
    listen: () => ({ stop: async () => {} }),
    async close() {
      closed.abort();
      for (const { parked } of streams.values()) for (const cancel of parked.values()) cancel();
    },
  };
}

function isDuplicate(stream: Stream, { messageId }: BusMessage, nowMs: number): boolean {
  if (messageId === undefined) return false;
  for (const [id, atMs] of stream.seen) {
    if (nowMs - atMs < duplicateWindowMs) break;
    stream.seen.delete(id);
  }
  if (stream.seen.has(messageId)) return true;
  stream.seen.set(messageId, nowMs);
  return false;
}

/** One message per subject: the new one takes the old one's place. */
function replace(stream: Stream, stored: Stored): void {
  const old = stream.bySubject.get(stored.subject);
  if (old !== undefined) {
    old.gone = true;
    stream.waiting.delete(old);
    stream.parked.get(old)?.();
    stream.parked.delete(old);
  }
  stream.bySubject.set(stored.subject, stored);
}

function wake(stream: Stream): void {
  for (const consumer of stream.consumers) {
    if (stream.waiting.size === 0) return;
    consumer.pull();
  }
}

/** The stream keeps the message until its time has come, whatever becomes of the consumer that had it. */
function parkIn(clock: Clock, stream: Stream, stored: Stored, delayMs: number): void {
  const cancel = clock.timer(delayMs, () => {
    stream.parked.delete(stored);
    stream.waiting.add(stored);
    wake(stream);
  });
  stream.parked.set(stored, cancel);
}

type Work = { readonly terms: ConsumerTerms; readonly handlers: Handlers; readonly closed: AbortSignal };

function startConsumer(
  { clock, log }: { readonly clock: Clock; readonly log: Log },
  stream: Stream,
  work: Work,
): Consumer {
  const { terms, handlers } = work;
  const stopped = new AbortController();
  const stop = AbortSignal.any([stopped.signal, work.closed]);
  const underWay = new Set<Promise<void>>();
  let pending = 0;

  const remove = (stored: Stored) => {
    stored.gone = true;
    if (stream.bySubject.get(stored.subject) === stored) stream.bySubject.delete(stored.subject);
  };
  const park = (stored: Stored, delayMs: number) => {
    if (!stored.gone && !work.closed.aborted) parkIn(clock, stream, stored, delayMs);
  };

  async function deliver(stored: Stored): Promise<void> {
    stored.deliveries += 1;
    const delivery = { subject: stored.subject, body: stored.body, deliveries: stored.deliveries };
    if (stored.deliveries > terms.deliveriesMax) return drop(stored, delivery, "deliveries_exhausted");
    const verdict = await judged(delivery);
    if (stored.gone) return;
    if (verdict.kind === "done") remove(stored);
    else if (verdict.kind === "drop") await drop(stored, delivery, verdict.because);
    else park(stored, verdict.delayMs);
  }

  /** A handler that throws or says nothing in time gets the message again, as if it had crashed. */
  async function judged(delivery: BusDelivery): Promise<Verdict> {
    let cancelLate = () => {};
    const late = new Promise<Verdict>((resolve) => {
      const verdict = { kind: "retry", delayMs: 0, because: "no verdict in time" } as const;
      cancelLate = clock.timer(terms.ackWaitMs, () => resolve(verdict));
    });
    try {
      return await Promise.race([handlers.handle(delivery), late]);
    } catch (error) {
      log.error("a bus handler failed", {
        cause: error instanceof Error ? (error.stack ?? error.message) : String(error),
      });
      return { kind: "retry", delayMs: Math.min(terms.ackWaitMs, 1_000), because: "the handler failed" };
    } finally {
      cancelLate();
    }
  }

  /** The dead letter is written first; until then the message stays. */
  async function drop(stored: Stored, delivery: BusDelivery, because: string): Promise<void> {
    try {
      await handlers.giveUp(delivery, because);
      remove(stored);
    } catch (error) {
      log.error("a message could not be given up", {
        cause: error instanceof Error ? error.message : String(error),
      });
      stored.deliveries -= 1;
      park(stored, giveUpAgainMs);
    }
  }

  const pull = () => {
    while (!stop.aborted && pending < terms.pendingMax) {
      const [stored] = stream.waiting;
      if (stored === undefined) return;
      stream.waiting.delete(stored);
      pending += 1;
      const task = deliver(stored).finally(() => {
        pending -= 1;
        underWay.delete(task);
        pull();
      });
      underWay.add(task);
    }
  };
  const consumer = { pull };
  stream.consumers.add(consumer);
  pull();
  return {
    async stop() {
      stopped.abort();
      stream.consumers.delete(consumer);
      await Promise.all(underWay);
    },
  };
}
