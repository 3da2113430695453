// Deliveries of the simulated bus as a NATS client sees them, so that the product's own adapter decides what becomes of each.
import type { Msg } from "@nats-io/transport-node";
import { deliver, type Work } from "../../../src/adapters/nats/deliver.ts";
import { namesOf } from "../../../src/adapters/nats/subjects.ts";
import type { BusStream } from "../../../src/ports/bus.ts";
import type { Log } from "../../../src/ports/log.ts";
import type { Kernel } from "../../../src/testing/kernel.ts";
import type { SimulatedProcess } from "../../../src/testing/simulated-process.ts";

const names = namesOf("simulated");

/** What the adapter says of a delivery. */
export type Word =
  | { readonly kind: "done" }
  | { readonly kind: "later"; readonly delayMs: number }
  | { readonly kind: "never" };

export type WireDelivery = {
  readonly stream: BusStream;
  readonly subject: string;
  readonly body: string;
  readonly deliveries: number;
};

/** In the process that got it; an error that the adapter does not expect ends the simulation. */
export function deliverTo(
  kernel: Kernel,
  process: SimulatedProcess,
  work: Work,
  delivery: WireDelivery,
  hear: (word: Word) => void,
): void {
  const { clock } = process;
  const log = failing(kernel);
  const refusals = { report: () => kernel.fail(new Error(`${delivery.subject} was not believed`)) };
  const writing = { clock, names, signer: undefined, refusals };
  deliver({ clock, log, writing }, work, messageOf(delivery, hear)).catch((error) => kernel.fail(error));
}

function messageOf({ stream, subject, body, deliveries }: WireDelivery, hear: (word: Word) => void): Msg {
  const message = {
    subject: names.subject(stream, subject),
    // The fifth part tells how often it was delivered.
    reply: `$JS.ACK.${names.stream(stream)}.consumer.${deliveries}.1.1.1.0`,
    string: () => body,
    respond: (text: string) => {
      hear(readWord(text));
      return true;
    },
  };
  return message as unknown as Msg;
}

function readWord(text: string): Word {
  if (text === "+ACK") return { kind: "done" };
  if (text === "+TERM") return { kind: "never" };
  if (!text.startsWith("-NAK")) throw new Error(`no server knows the word ${text}`);
  const terms = text.slice("-NAK".length).trim();
  if (terms === "") return { kind: "later", delayMs: 0 };
  const { delay } = JSON.parse(terms) as { readonly delay: number };
  return { kind: "later", delayMs: delay / 1_000_000 };
}

/** A handler that throws is logged and tried again: in a simulation it is a finding. */
function failing(kernel: Kernel): Log {
  return {
    info: () => {},
    warn: () => {},
    error: (message, fields) => {
      if (message.endsWith("failed")) kernel.fail(new Error(`${message}: ${fields?.cause}`));
    },
  };
}
