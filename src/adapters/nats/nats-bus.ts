// The bus on NATS JetStream: hints to every process, notices, checks and results to one, announcements to the others.
import { JetStreamApiCodes, JetStreamApiError } from "@nats-io/jetstream";
import { type Msg, TimeoutError } from "@nats-io/transport-node";
import { InterlockError } from "../../errors.ts";
import {
  type Bus,
  type BusMessage,
  type BusStream,
  busStreams,
  type ConsumerTerms,
  type Publication,
} from "../../ports/bus.ts";
import type { CancelTimer, Clock, Metrics, Random } from "../../ports/ports.ts";
import { answerWorkers } from "./answer-workers.ts";
import { type NatsConsumer, startConsumer } from "./consumer.ts";
import { type Link, type LinkPorts, type NatsAccess, openLink, waitAtMost } from "./link.ts";
import {
  createRefusals,
  createSigner,
  readAnnouncement,
  type Writing,
  writeAnnouncement,
  writeMessage,
} from "./messages.ts";
import { createStreams, namesOf, type Streams } from "./streams.ts";

export type NatsBusOptions = NatsAccess &
  LinkPorts & {
    /** First part of every stream and subject. */
    readonly prefix: string;
    /** The first signs, all verify; none means that messages are not signed. */
    readonly signingKeys?: readonly string[];
    /** Servers that keep a copy of each stream. */
    readonly replicas?: number;
  };

/** Throws when no server can be reached or none suits; later outages are survived. */
export async function openNatsBus(options: NatsBusOptions): Promise<Bus> {
  const { prefix, signingKeys = [], replicas = 1 } = options;
  const names = namesOf(prefix);
  const link = await openLink(options, names, options);
  const writing = {
    clock: options.clock,
    names,
    signer: createSigner(signingKeys),
    refusals: createRefusals(options),
  };
  const streams = createStreams({ ...options, manager: link.manager, names }, replicas);
  await makeStreams(link, streams);
  return busOn({ options, link, writing, streams });
}

async function makeStreams(link: Link, streams: Streams): Promise<void> {
  try {
    if (link.connection.info?.jetstream !== true) {
      throw new InterlockError("bus_unsuitable", "the NATS server runs without JetStream");
    }
    for (const stream of busStreams) await streams.ensure(stream);
  } catch (error) {
    await link.close();
    if (error instanceof InterlockError) throw error;
    const detail = `the streams cannot be made: ${causeOf(error)}`;
    throw new InterlockError(isPassing(error) ? "bus_unavailable" : "bus_unsuitable", detail, {
      cause: error,
    });
  }
}

/** A cluster that has no leader, or too few servers for `bus.replicas`, or that does not answer. */
function isPassing(error: unknown): boolean {
  if (error instanceof TimeoutError) return true;
  const isOff =
    error instanceof JetStreamApiError && error.code === JetStreamApiCodes.JetStreamNotEnabledForAccount;
  return error instanceof JetStreamApiError && error.status === 503 && !isOff;
}

/** A server takes milliseconds to make a consumer; one that hangs must not hold up who publishes. */
const startWithinMs = 1_000;

type Parts = {
  readonly options: NatsBusOptions;
  readonly link: Link;
  readonly writing: Writing;
  readonly streams: Streams;
};

function busOn({ options, link, writing, streams }: Parts): Bus {
  const { connection } = link;
  const consumers = new Set<NatsConsumer>();
  const starting = new Set<NatsConsumer>();
  const scene = { ...options, link, writing, streams };
  const publisher = createPublisher(options, link, writing, (stream) => streams.ensure(stream));
  let closed = false;

  /** A consumer that has just been started counts from now on, although the server has yet to hear of it. */
  const startedOn = (stream: BusStream) => {
    const own = [...starting].filter(({ terms }) => terms.stream === stream);
    return waitAtMost(options.clock, startWithinMs, Promise.all(own.map(({ started }) => started)));
  };

  return {
    async publish(stream, message) {
      if (closed) return { kind: "unavailable", cause: "the bus is closed" };
      if (starting.size > 0) await startedOn(stream);
      return publisher.publish(stream, message);
    },
    consume(terms, handlers) {
      const consumer = startConsumer(scene, terms, handlers);
      consumers.add(consumer);
      starting.add(consumer);
      void consumer.started.then(() => starting.delete(consumer));
      return {
        async stop() {
          await consumer.stop();
          consumers.delete(consumer);
          // Only on `hints` a name is one process's own.
          if (terms.stream === "hints" && !hasName(consumers, terms)) await consumer.remove();
        },
      };
    },
    announce(channel, body) {
      if (closed || !link.isUp()) return;
      const { subject, headers } = writeAnnouncement(writing, channel, body);
      connection.publish(subject, body, headers === undefined ? {} : { headers });
    },
    listen(channel, hear) {
      const subscription = connection.subscribe(writing.names.channel(channel), {
        callback: (error, message) => {
          if (error !== null) return;
          const incoming = readAnnouncement(writing, message);
          if (incoming.kind !== "believed") return;
          try {
            hear(incoming.body);
          } catch (thrown) {
            // Whatever is thrown here ends the client's connection, with everything that goes over it.
            const cause = thrown instanceof Error ? thrown.message : String(thrown);
            options.log.warn("an announcement could not be read", { channel, cause });
          }
        },
      });
      return { stop: async () => subscription.unsubscribe() };
    },
    serve: (handlers) => answerWorkers(scene, handlers),
    async close() {
      if (closed) return;
      closed = true;
      for (const consumer of consumers) consumer.abandon();
      publisher.close();
      await link.close();
    },
  };
}

function hasName(consumers: ReadonlySet<NatsConsumer>, { stream, name }: ConsumerTerms): boolean {
  return [...consumers].some(({ terms }) => terms.stream === stream && terms.name === name);
}

type Publisher = {
  publish(stream: BusStream, message: BusMessage): Promise<Publication>;
  close(): void;
};

type Answer = Publication | { readonly kind: "no_stream" };
type Waiting = { readonly answer: (answer: Answer) => void; readonly cancel: CancelTimer };

/** Long for a server that works: it acknowledges within a millisecond, or not at all. */
const acknowledgeWithinMs = 2_000;

export function createPublisher(
  ports: { readonly clock: Clock; readonly random: Random; readonly metrics?: Metrics | undefined },
  link: Link,
  writing: Writing,
  /** Before a message is sent again because its stream was missing. */
  makeStream: (stream: BusStream) => Promise<void>,
): Publisher {
  const { connection } = link;
  const inbox = `${writing.names.inboxPrefix}.${ports.random.token()}`;
  const waiting = new Map<string, Waiting>();
  let sent = 0;

  const settle = (name: string, answer: Answer) => {
    const one = waiting.get(name);
    if (one === undefined) return;
    waiting.delete(name);
    one.cancel();
    one.answer(answer);
  };
  const failAll = (cause: string) => {
    for (const name of [...waiting.keys()]) settle(name, unavailable(cause));
  };
  const acknowledgements = connection.subscribe(`${inbox}.*`, {
    callback: (error, message) => {
      if (error !== null) failAll(error.message);
      else settle(message.subject.slice(inbox.length + 1), answerIn(message));
    },
  });
  const unwatch = link.watch((state) => {
    if (state === "down") failAll("the connection was lost");
  });

  /** Whether a message without an answer is stored is not known: it may be sent again, by id or as the latest of its subject. */
  function send(stream: BusStream, message: BusMessage): Promise<Answer> {
    if (!link.isUp()) return Promise.resolve(unavailable("there is no connection"));
    const { subject, headers } = writeMessage(writing, stream, message);
    sent += 1;
    const name = sent.toString(36);
    return new Promise((resolve) => {
      const cancel = ports.clock.timer(acknowledgeWithinMs, () =>
        settle(name, unavailable(`no acknowledgement within ${acknowledgeWithinMs} ms`)),
      );
      waiting.set(name, { answer: resolve, cancel });
      try {
        const reply = `${inbox}.${name}`;
        connection.publish(subject, message.body, headers === undefined ? { reply } : { reply, headers });
      } catch (error) {
        settle(name, unavailable(causeOf(error)));
      }
    });
  }

  async function sendToStream(stream: BusStream, message: BusMessage): Promise<Publication> {
    const answer = await send(stream, message);
    if (answer.kind !== "no_stream") return answer;
    try {
      await makeStream(stream);
    } catch (error) {
      return unavailable(causeOf(error));
    }
    const again = await send(stream, message);
    return again.kind === "no_stream" ? unavailable("there is no stream for it") : again;
  }

  return {
    async publish(stream, message) {
      const publication = await sendToStream(stream, message);
      ports.metrics?.count("bus_publish_total", { stream, outcome: publication.kind });
      return publication;
    },
    close() {
      unwatch();
      acknowledgements.unsubscribe();
      failAll("the bus is closed");
    },
  };
}

const noResponders = 503;

function answerIn(message: Msg): Answer {
  if (message.headers?.code === noResponders) return { kind: "no_stream" };
  try {
    const { error } = message.json<{ readonly error?: { readonly description?: string } }>();
    if (error === undefined) return { kind: "published" };
    return unavailable(error.description ?? "refused without a reason");
  } catch (error) {
    return unavailable(`unreadable acknowledgement: ${causeOf(error)}`);
  }
}

function unavailable(cause: string) {
  return { kind: "unavailable", cause } as const;
}

function causeOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
