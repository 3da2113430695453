// A worker's line to NATS that answers by a script, for tests of what a worker sends over the bus and makes of the answers.
import type { BusLink, Heard } from "../../src/sdk/worker/bus-link.ts";
import type { BusMessage } from "../../src/sdk/worker/bus-messages.ts";

type Listener = Parameters<BusLink["listen"]>[0];

export type SentMessage = { readonly message: BusMessage; readonly replyTo: string };

/** What is heard after a message was sent, by the subject it is heard on, or what sending it throws. */
export type Script = (sent: SentMessage, link: ScriptedLink) => void;

export type ScriptedLink = BusLink & {
  readonly sent: SentMessage[];
  readonly opened: number[];
  /** Subjects that somebody listens to now. */
  readonly listening: ReadonlyMap<string, Listener>;
  say(subject: string, heard: Heard): void;
  bytesMax: number;
};

export function scriptedLink(script: Script = () => {}): ScriptedLink {
  const listening = new Map<string, Listener>();
  let names = 0;
  const link: ScriptedLink = {
    url: "nats://test",
    subjects: {
      ...{
        poll: "i.requests.acme.poll",
        heartbeat: "i.requests.acme.heartbeat",
        report: "i.requests.acme.report",
      },
      answers: "i.answers.acme.k",
      result: (jobId) => `i.results.acme.${jobId}`,
    },
    sent: [],
    opened: [],
    listening,
    bytesMax: 1_000_000,
    async open() {
      link.opened.push(link.sent.length);
    },
    listen(listener) {
      names += 1;
      const subject = `${listener.source} ${names}`;
      listening.set(subject, listener);
      return { subject, end: () => listening.delete(subject) };
    },
    send(message, replyTo) {
      link.sent.push({ message, replyTo });
      script({ message, replyTo }, link);
    },
    fits: ({ body }) => body.length <= link.bytesMax,
    say: (subject, heard) => listening.get(subject)?.hear(heard),
    async close() {},
  };
  return link;
}

export const bodyOf = ({ message }: SentMessage) => JSON.parse(message.body) as Record<string, unknown>;
