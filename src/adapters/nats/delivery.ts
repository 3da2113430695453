// One message that JetStream has delivered: how often it was, and the words that end the delivery.
import type { Msg } from "@nats-io/transport-node";

/** 1 for the first delivery. The reply subject says it: its fifth part, or the seventh since servers name their domain. */
export function deliveriesOf({ reply = "" }: Msg): number {
  const parts = reply.split(".");
  return Number(parts[parts.length === 9 ? 4 : 6] ?? Number.NaN);
}

/** Stored no longer. */
export function acknowledge(message: Msg): void {
  say(message, "+ACK");
}

/** Delivered again after the delay, to any consumer. */
export function deliverLater(message: Msg, delayMs: number): void {
  const delay = Math.max(0, Math.round(delayMs)) * 1_000_000;
  say(message, delay === 0 ? "-NAK" : `-NAK ${JSON.stringify({ delay })}`);
}

/** Never delivered again. */
export function terminate(message: Msg): void {
  say(message, "+TERM");
}

/** A word that does not arrive costs a redelivery, as if the process had crashed; a closed connection throws. */
function say(message: Msg, word: string): void {
  try {
    message.respond(word);
  } catch {
    // The server delivers it again.
  }
}
