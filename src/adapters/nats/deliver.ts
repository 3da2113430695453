// What becomes of one delivered message: it is believed or not, handled in time or not, and ended as the verdict says.
import type { Msg } from "@nats-io/transport-node";
import type { BusDelivery, ConsumerTerms, Handlers } from "../../ports/bus.ts";
import type { Clock, Log } from "../../ports/ports.ts";
import { judgeDelivery } from "../judge-delivery.ts";
import { readMessage, type Writing } from "./messages.ts";

type DeliveryScene = {
  readonly clock: Clock;
  readonly log: Log;
  readonly writing: Writing;
  /** Has it delivered again after the delay. */
  later(message: Msg, delayMs: number): void;
};

/** How long after a failed `giveUp` it is tried again. */
const giveUpAgainMs = 2_000;

export type Work = { readonly terms: ConsumerTerms; readonly handlers: Handlers };

export async function deliver(scene: DeliveryScene, work: Work, message: Msg): Promise<void> {
  const { terms } = work;
  const incoming = readMessage(scene.writing, terms.stream, message);
  if (incoming.kind === "refused") return terminate(message);
  const { subject, body } = incoming;
  const delivery = { subject, body, ...historyOf(message, scene.clock) };
  if (delivery.deliveries > terms.deliveriesMax)
    return drop(scene, work, { message, delivery }, "deliveries_exhausted");
  const verdict = await judgeDelivery(scene, work, delivery);
  // The server has delivered it again by then.
  if (verdict === "late") return;
  if (verdict.kind === "done") acknowledge(message);
  else if (verdict.kind === "retry") scene.later(message, verdict.delayMs);
  else await drop(scene, work, { message, delivery }, verdict.because);
}

type Delivered = { readonly message: Msg; readonly delivery: BusDelivery };

/** The dead letter is written first; until then the message stays. */
async function drop(
  { log, later }: DeliveryScene,
  { handlers }: Work,
  { message, delivery }: Delivered,
  because: string,
): Promise<void> {
  try {
    await handlers.giveUp(delivery, because);
    terminate(message);
  } catch (error) {
    log.error("a message could not be given up", {
      cause: error instanceof Error ? error.message : String(error),
    });
    later(message, giveUpAgainMs);
  }
}

/**
 * The reply subject says it. Its fifth part is the number of deliveries, 1 for the first; its eighth is when the message was stored, in
 * nanoseconds. Servers that name their domain put two parts in front. The two clocks may differ: nothing is younger than 0.
 */
function historyOf({ reply = "" }: Msg, clock: Clock): Pick<BusDelivery, "deliveries" | "ageMs"> {
  const parts = reply.split(".");
  const ahead = parts.length === 9 ? 0 : 2;
  const deliveries = Number(parts[4 + ahead] ?? Number.NaN);
  const storedAtMs = Number(parts[7 + ahead] ?? Number.NaN) / 1_000_000;
  return { deliveries, ageMs: Math.max(0, clock.wallMs() - storedAtMs) || 0 };
}

/** Stored no longer. */
function acknowledge(message: Msg): void {
  say(message, "+ACK");
}

/** Delivered again after the delay, to any consumer, by the server's own timing. */
export function deliverLater(message: Msg, delayMs: number): void {
  const delay = Math.max(0, Math.round(delayMs)) * 1_000_000;
  say(message, delay === 0 ? "-NAK" : `-NAK ${JSON.stringify({ delay })}`);
}

/** Never delivered again. */
function terminate(message: Msg): void {
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
