// A consumer on JetStream: asks for messages, acts on verdicts, and sets itself up again whatever becomes of the server.
import { AckPolicy, type ConsumerConfig, DeliverPolicy } from "@nats-io/jetstream";
import { type Msg, nanos, type Subscription } from "@nats-io/transport-node";
import type { Consumer, ConsumerTerms, Handlers } from "../../ports/bus.ts";
import type { Clock, Log, Random } from "../../ports/ports.ts";
import { deliver, deliverLater, type Work } from "./deliver.ts";
import { connected, type Link, waitAtMost } from "./link.ts";
import type { Writing } from "./messages.ts";
import { createParking } from "./parking.ts";
import { type Streams, writeToken } from "./streams.ts";
import { createWorkerReader } from "./worker-messages.ts";

type ConsumerScene = {
  readonly clock: Clock;
  readonly log: Log;
  readonly random: Random;
  readonly link: Link;
  readonly writing: Writing;
  readonly streams: Streams;
};

export type NatsConsumer = Consumer & {
  readonly terms: ConsumerTerms;
  /** Resolves when the server knows the consumer, or when that has failed once. */
  readonly started: Promise<void>;
  /** Takes nothing more and waits for nobody. */
  abandon(): void;
  /** Nothing need be kept on the server for this name any more. */
  remove(): Promise<void>;
};

/**
 * Messages that wait for their delay count on the server's side. With the client's own limit there, the retries of one hot
 * run filled it, and of 50 results of other runs none came through within 4 s.
 */
const unacknowledgedMax = 100_000;
/** A process that is gone leaves its consumer of hints behind, and every hint is kept for it that long. */
const forgottenAfterMs = 60_000;
const againAfterMs = { first: 100, most: 2_000 };
/** A server that hangs is not waited for. */
const endWithinMs = 1_000;
/** How often a consumer that is cut off says that messages may pass it by. */
const missedEveryMs = 1_000;

export function startConsumer(scene: ConsumerScene, terms: ConsumerTerms, handlers: Handlers): NatsConsumer {
  const { clock, link, writing } = scene;
  const stopped = new AbortController();
  const underWay = new Set<Promise<void>>();
  const parking = createParking(clock);
  const place = { stream: writing.names.stream(terms.stream), consumer: writeToken(terms.name) };
  let pull: Pull | undefined;
  const starting = createMoment();
  const cutOff = cutOffState(scene, terms, handlers);
  const work = workOf(scene, terms, handlers);

  const receive = (message: Msg) => {
    // On its way when we stopped: somebody else's.
    if (stopped.signal.aborted) return deliverLater(message, 0);
    const task = deliver({ ...scene, later: parking.later }, work, message).finally(() => {
      underWay.delete(task);
      pull?.ask();
    });
    underWay.add(task);
  };

  /** Until this way of getting messages ends. */
  async function consume(): Promise<string> {
    await scene.streams.ensure(terms.stream);
    await link.manager.consumers.add(place.stream, consumerSettings(terms, place.consumer));
    if (stopped.signal.aborted) return "stopped";
    pull = startPull(clock, link, {
      ...place,
      inbox: `${writing.names.inboxPrefix}.${scene.random.token()}`,
      freePlaces: () => terms.pendingMax - underWay.size,
      placesMin: Math.max(1, terms.pendingMax >> 2),
      receive,
    });
    starting.reached();
    cutOff.isOver();
    const reason = await pull.ended;
    await pull.end();
    return reason;
  }

  async function keepConsuming(): Promise<void> {
    for (let failures = 0; !stopped.signal.aborted; ) {
      const beganMs = clock.monotonicMs();
      const reason = await consume().catch((error) =>
        error instanceof Error ? error.message : String(error),
      );
      if (stopped.signal.aborted) return;
      starting.reached();
      cutOff.begins(reason);
      failures = clock.monotonicMs() - beganMs > 10_000 ? 0 : failures + 1;
      await clock.sleep(againDelayMs(failures, scene.random), stopped.signal);
      if (!link.isUp()) await connected(link, stopped.signal);
    }
  }

  const running = keepConsuming();
  const abandon = () => {
    stopped.abort();
    cutOff.end();
    starting.reached();
    void pull?.end();
    // After the last request was withdrawn: what is given back earlier could come to us once more.
    parking.end();
  };
  return {
    terms,
    started: starting.promise,
    abandon,
    async stop() {
      abandon();
      await waitAtMost(clock, endWithinMs, running);
      await Promise.all(underWay);
    },
    async remove() {
      // One that cannot be removed now is removed by the server, after a while without a sign of us.
      if (!link.isUp()) return;
      const removed = link.manager.consumers.delete(place.stream, place.consumer);
      await waitAtMost(clock, endWithinMs, removed);
    },
  };
}

function createMoment(): { readonly promise: Promise<void>; reached(): void } {
  let reached = () => {};
  const promise = new Promise<void>((resolve) => {
    reached = resolve;
  });
  return { promise, reached: () => reached() };
}

function workOf({ writing, link }: ConsumerScene, terms: ConsumerTerms, handlers: Handlers): Work {
  const { senderOf } = handlers;
  if (senderOf === undefined) return { terms, handlers };
  return { terms, handlers, readWorker: createWorkerReader(writing, link, senderOf) };
}

function consumerSettings(terms: ConsumerTerms, name: string): Partial<ConsumerConfig> {
  return {
    durable_name: name,
    ack_policy: AckPolicy.Explicit,
    ack_wait: nanos(terms.ackWaitMs),
    // Deliveries are counted here: a server that has delivered often enough drops the message without a dead letter.
    max_deliver: -1,
    max_ack_pending: Math.max(unacknowledgedMax, terms.pendingMax),
    ...(terms.stream === "hints"
      ? { deliver_policy: DeliverPolicy.New, inactive_threshold: nanos(forgottenAfterMs), mem_storage: true }
      : { deliver_policy: DeliverPolicy.All }),
  };
}

function againDelayMs(failures: number, random: Random): number {
  const ceilingMs = Math.min(againAfterMs.most, againAfterMs.first * 2 ** Math.min(failures, 10));
  return ceilingMs * (0.5 + 0.5 * random.fraction());
}

/** Says once when the consumer is cut off and once when it is back, and meanwhile that messages may pass it by. */
function cutOffState({ clock, log, random }: ConsumerScene, terms: ConsumerTerms, handlers: Handlers) {
  let sinceMs: number | undefined;
  let cancel = () => {};
  const missed = () => {
    handlers.missed?.();
    cancel = clock.timer(missedEveryMs * (0.75 + 0.5 * random.fraction()), missed);
  };
  return {
    end: () => cancel(),
    begins(reason: string) {
      if (sinceMs !== undefined) return;
      sinceMs = clock.monotonicMs();
      log.warn("a consumer of the bus is cut off", { stream: terms.stream, reason });
      missed();
    },
    isOver() {
      cancel();
      if (sinceMs === undefined) return;
      const afterMs = Math.round(clock.monotonicMs() - sinceMs);
      sinceMs = undefined;
      log.info("a consumer of the bus is back", { stream: terms.stream, after_ms: afterMs });
      handlers.missed?.();
    },
  };
}

type Pull = {
  /** To be called when places have become free. */
  ask(): void;
  /** Resolves with the reason when no message can come this way any more. */
  readonly ended: Promise<string>;
  /** Asks for nothing more. What is on its way arrives all the same until this resolves. */
  end(): Promise<void>;
};

type PullTerms = {
  readonly stream: string;
  readonly consumer: string;
  readonly inbox: string;
  freePlaces(): number;
  /** With fewer free places a request is not worth its message, while one is open or others are in hand. */
  readonly placesMin: number;
  receive(message: Msg): void;
};

const openMs = 30_000;
/** The server shows that it still knows the request; after two and a half without a sign it is given up. */
const heartbeatMs = 1_000;
const silenceMaxMs = 2_500;
/** For what is on its way; a server that hangs sends nothing, and is not waited for. */
const drainWithinMs = 500;
const nanosecondsPerMs = 1_000_000;

const codes = { heartbeat: 100, requestTimeout: 408, conflict: 409, notFound: 404 } as const;
/** The one conflict that is none. All others are tried anew, after a while: at once would be as fast as the server can refuse. */
const complete = /batch completed/i;

function startPull(clock: Clock, link: Link, terms: PullTerms): Pull {
  const { connection } = link;
  const subject = `$JS.API.CONSUMER.MSG.NEXT.${terms.stream}.${terms.consumer}`;
  let requests = 0;
  /** Messages that the open request may still bring. */
  let asked = 0;
  let heardMs = clock.monotonicMs();
  let finished = false;
  let cancelCheck = () => {};
  let finish = (_reason: string) => {};
  const ended = new Promise<string>((resolve) => {
    finish = (reason) => {
      finished = true;
      cancelCheck();
      unwatch();
      resolve(reason);
    };
  });
  const reply = () => `${terms.inbox}.${requests}`;

  const ask = () => {
    const free = terms.freePlaces();
    if (finished || asked > 0 || free < terms.placesMin) return;
    requests += 1;
    asked = free;
    heardMs = clock.monotonicMs();
    const request = {
      batch: free,
      expires: openMs * nanosecondsPerMs,
      idle_heartbeat: heartbeatMs * nanosecondsPerMs,
    };
    try {
      connection.publish(subject, JSON.stringify(request), { reply: reply() });
    } catch (error) {
      finish(error instanceof Error ? error.message : String(error));
    }
  };

  const hear = (message: Msg) => {
    heardMs = clock.monotonicMs();
    // The server's own words come under the name of the request, messages under their subject.
    if (!message.subject.startsWith(`${terms.inbox}.`)) {
      asked = Math.max(0, asked - 1);
      terms.receive(message);
    } else if (message.subject === reply())
      hearStatus(message.headers?.code ?? 0, message.headers?.description ?? "");
    ask();
  };

  const hearStatus = (code: number, description: string) => {
    if (code === codes.heartbeat) return;
    asked = 0;
    const isOver = code === codes.requestTimeout || code === codes.notFound;
    if (isOver || (code === codes.conflict && complete.test(description))) return;
    finish(`${code} ${description}`.trim());
  };

  const check = () => {
    cancelCheck = clock.timer(heartbeatMs, () => {
      if (asked > 0 && clock.monotonicMs() - heardMs > silenceMaxMs)
        finish("no sign of life from the server");
      else check();
    });
  };

  const unwatch = link.watch((state) => {
    if (state === "down") finish("the connection was lost");
  });
  const subscription: Subscription = connection.subscribe(`${terms.inbox}.*`, {
    callback: (error, message) => {
      if (error === null) hear(message);
      else finish(error.message);
    },
  });
  check();
  ask();
  if (!link.isUp()) finish("there is no connection");

  return {
    ask,
    ended,
    async end() {
      finish("stopped");
      if (!subscription.isClosed()) await waitAtMost(clock, drainWithinMs, subscription.drain());
    },
  };
}
