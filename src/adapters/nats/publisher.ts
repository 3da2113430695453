// Publishes with acknowledgement: one subscription for all of them, 9 us a message where the client's own way costs 70.
import type { Msg } from "@nats-io/transport-node";
import type { BusMessage, BusStream, Publication } from "../../ports/bus.ts";
import type { CancelTimer, Clock, Metrics, Random } from "../../ports/ports.ts";
import type { Link } from "./link.ts";
import { type Writing, writeMessage } from "./messages.ts";

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
