// Asks the server for messages of one consumer, never for more than there are free places.
// The client's own loop keeps up to a batch in a queue of its own: in nobody's hands, while their time for a verdict runs out and
// other processes are idle. It also waits 30 s before it looks for a consumer that was removed. So the loop is ours.
import type { Msg, Subscription } from "@nats-io/transport-node";
import type { Clock } from "../../ports/ports.ts";
import type { Link } from "./link.ts";
import { waitAtMost } from "./wait-at-most.ts";

export type Pull = {
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
const endWithinMs = 500;
const nanosecondsPerMs = 1_000_000;

const codes = { heartbeat: 100, requestTimeout: 408, conflict: 409, notFound: 404 } as const;
/** The one conflict that is none. All others are tried anew, after a while: at once would be as fast as the server can refuse. */
const complete = /batch completed/i;

export function startPull(clock: Clock, link: Link, terms: PullTerms): Pull {
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
      if (!subscription.isClosed()) await waitAtMost(clock, endWithinMs, subscription.drain());
    },
  };
}
