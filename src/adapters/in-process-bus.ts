// The bus inside one process, with the semantics of JetStream: acknowledgement, delayed redelivery, a cap, duplicate ids.
import {
  type Bus,
  type BusDelivery,
  type BusMessage,
  type BusStream,
  busStreams,
  type Consumer,
  type ConsumerTerms,
  type Handlers,
  keepsLatest,
} from "../ports/bus.ts";
import type { CancelTimer, Clock, Log } from "../ports/ports.ts";
import { judgeDelivery } from "./judge-delivery.ts";

type Stored = Pick<BusDelivery, "subject" | "body" | "sender"> & {
  readonly storedMs: number;
  deliveries: number;
  gone: boolean;
};

/** Messages for the consumers of one name, who share them. */
type Queue = {
  /** Messages that wait for a consumer, oldest first. */
  readonly waiting: Set<Stored>;
  /** Where only the latest is kept: the message of each subject. */
  readonly bySubject: Map<string, Stored>;
  /** Messages that wait for their delay: in nobody's hands, so that a hot run's retries hold up nobody else. */
  readonly parked: Map<Stored, CancelTimer>;
  readonly consumers: Set<Pull>;
};

type Stream = {
  /** On `hints` one for each name that consumes; elsewhere one that is always there. */
  readonly queues: Map<string, Queue>;
  readonly seen: Map<string, number>;
};

type Pull = { pull(): void; passesOver(tenant: string, topic: string): boolean };

/** As JetStream's default window: an id is remembered for two minutes. */
const duplicateWindowMs = 120_000;

/** How long after a failed `giveUp` it is tried again. */
const giveUpAgainMs = 2_000;

/** The name of the one queue where there is only one. */
const shared = "shared";

export function createInProcessBus(ports: { readonly clock: Clock; readonly log: Log }): Bus {
  const streams = new Map(busStreams.map((name) => [name, openStream(name)]));
  const closed = new AbortController();
  const streamOf = (name: BusStream) => streams.get(name) as Stream;

  return {
    async publish(name, message) {
      if (closed.signal.aborted) return { kind: "unavailable", cause: "the bus is closed" };
      const stream = streamOf(name);
      const storedMs = ports.clock.monotonicMs();
      if (isDuplicate(stream, message, storedMs)) return { kind: "published" };
      const { subject, body, sender } = message;
      const signed = sender === undefined ? {} : { sender: sender.keyId };
      for (const queue of stream.queues.values()) {
        const stored = { subject, body, ...signed, storedMs, deliveries: 0, gone: false };
        if (keepsLatest(name)) replace(queue, stored);
        queue.waiting.add(stored);
        wake(queue);
      }
      return { kind: "published" };
    },
    passesOver(name, tenant, topic) {
      for (const { consumers } of streamOf(name).queues.values()) {
        for (const consumer of consumers) if (!consumer.passesOver(tenant, topic)) return false;
      }
      return isFannedOut(name);
    },
    consume(terms, handlers) {
      const stream = streamOf(terms.stream);
      const queueName = isFannedOut(terms.stream) ? terms.name : shared;
      const queue = stream.queues.get(queueName) ?? openQueue();
      stream.queues.set(queueName, queue);
      const consumer = startConsumer(ports, queue, { terms, handlers, closed: closed.signal });
      return {
        async stop() {
          await consumer.stop();
          // Messages for a name without a consumer would never be delivered.
          if (!isFannedOut(terms.stream) || queue.consumers.size > 0) return;
          stream.queues.delete(queueName);
          forgetParked(queue);
        },
      };
    },
    // There is no other process.
    announce: () => {},
    listen: () => ({ stop: async () => {} }),
    // Workers in this process need no messages.
    serve: () => ({ stop: async () => {} }),
    async close() {
      closed.abort();
      for (const { queues } of streams.values()) for (const queue of queues.values()) forgetParked(queue);
    },
  };
}

function isFannedOut(stream: BusStream): boolean {
  return stream === "hints";
}

function openStream(name: BusStream): Stream {
  const queues = new Map<string, Queue>(isFannedOut(name) ? [] : [[shared, openQueue()]]);
  return { queues, seen: new Map() };
}

function openQueue(): Queue {
  return { waiting: new Set(), bySubject: new Map(), parked: new Map(), consumers: new Set() };
}

function forgetParked(queue: Queue): void {
  for (const cancel of queue.parked.values()) cancel();
  queue.parked.clear();
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
function replace(queue: Queue, stored: Stored): void {
  const old = queue.bySubject.get(stored.subject);
  if (old !== undefined) {
    old.gone = true;
    queue.waiting.delete(old);
    queue.parked.get(old)?.();
    queue.parked.delete(old);
  }
  queue.bySubject.set(stored.subject, stored);
}

function wake(queue: Queue): void {
  for (const consumer of queue.consumers) {
    if (queue.waiting.size === 0) return;
    consumer.pull();
  }
}

/** The queue keeps the message until its time has come, whatever becomes of the consumer that had it. */
function parkIn(clock: Clock, queue: Queue, stored: Stored, delayMs: number): void {
  const cancel = clock.timer(delayMs, () => {
    queue.parked.delete(stored);
    queue.waiting.add(stored);
    wake(queue);
  });
  queue.parked.set(stored, cancel);
}

type Work = { readonly terms: ConsumerTerms; readonly handlers: Handlers; readonly closed: AbortSignal };

function startConsumer(
  { clock, log }: { readonly clock: Clock; readonly log: Log },
  queue: Queue,
  work: Work,
): Consumer {
  const { terms, handlers } = work;
  const stopped = new AbortController();
  const stop = AbortSignal.any([stopped.signal, work.closed]);
  const underWay = new Set<Promise<void>>();
  let pending = 0;

  const remove = (stored: Stored) => {
    stored.gone = true;
    if (queue.bySubject.get(stored.subject) === stored) queue.bySubject.delete(stored.subject);
  };
  const park = (stored: Stored, delayMs: number) => {
    if (!stored.gone && !work.closed.aborted) parkIn(clock, queue, stored, delayMs);
  };

  async function deliver(stored: Stored): Promise<void> {
    stored.deliveries += 1;
    const { gone: _gone, storedMs, ...sent } = stored;
    const delivery = { ...sent, ageMs: clock.monotonicMs() - storedMs };
    if (stored.deliveries > terms.deliveriesMax) return drop(stored, delivery, "deliveries_exhausted");
    const verdict = await judgeDelivery({ clock, log }, work, delivery);
    if (stored.gone) return;
    if (verdict === "late") park(stored, 0);
    else if (verdict.kind === "done") remove(stored);
    else if (verdict.kind === "drop") await drop(stored, delivery, verdict.because);
    else park(stored, verdict.delayMs);
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
      const [stored] = queue.waiting;
      if (stored === undefined) return;
      queue.waiting.delete(stored);
      pending += 1;
      const task = deliver(stored).finally(() => {
        pending -= 1;
        underWay.delete(task);
        pull();
      });
      underWay.add(task);
    }
  };
  const passesOver = (tenant: string, topic: string) => handlers.passesOver?.(tenant, topic) === true;
  const consumer = { pull, passesOver };
  queue.consumers.add(consumer);
  pull();
  return {
    async stop() {
      stopped.abort();
      queue.consumers.delete(consumer);
      await Promise.all(underWay);
    },
  };
}
