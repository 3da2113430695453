// The bus on NATS JetStream: hints to every process, notices, checks and results to one, announcements to the others.
import { InterlockError } from "../../errors.ts";
import { type Bus, type BusStream, busStreams, type ConsumerTerms } from "../../ports/bus.ts";
import { type NatsConsumer, startConsumer } from "./consumer.ts";
import { type Link, type LinkPorts, type NatsAccess, openLink } from "./link.ts";
import { readAnnouncement, type Writing, writeAnnouncement } from "./messages.ts";
import { createPublisher } from "./publisher.ts";
import { createRefusals } from "./refusals.ts";
import { createSigner } from "./signatures.ts";
import { createStreams, type Streams } from "./streams.ts";
import { type BusUser, namesOf } from "./subjects.ts";
import { waitAtMost } from "./wait-at-most.ts";

export type NatsBusOptions = NatsAccess &
  LinkPorts & {
    /** First part of every stream and subject. */
    readonly prefix: string;
    /** The first signs, all verify; none means that messages are not signed. */
    readonly signingKeys?: readonly string[];
    /** Servers that keep a copy of each stream. */
    readonly replicas?: number;
    /** A reporter may only publish results: it neither makes streams nor consumes. */
    readonly as?: BusUser;
  };

/** Throws when no server can be reached or none suits; later outages are survived. */
export async function openNatsBus(options: NatsBusOptions): Promise<Bus> {
  const { prefix, as = "control-plane", signingKeys = [], replicas = 1 } = options;
  const names = namesOf(prefix, as);
  const link = await openLink(options, names, options);
  const writing = {
    clock: options.clock,
    names,
    signer: createSigner(signingKeys),
    refusals: createRefusals(options),
  };
  const streams = createStreams({ manager: link.manager, names, log: options.log }, replicas);
  if (as === "control-plane") await makeStreams(link, streams);
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
    const cause = error instanceof Error ? error.message : String(error);
    throw new InterlockError("bus_unsuitable", `the streams cannot be made: ${cause}`, { cause: error });
  }
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
  const publisher = createPublisher(options, link, writing, async (stream) => {
    if (options.as === "reporter") throw new Error("the stream is missing");
    await streams.ensure(stream);
  });
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
