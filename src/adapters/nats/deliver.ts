// What becomes of one delivered message: it is believed or not, handled in time or not, and ended as the verdict says.
import type { Msg } from "@nats-io/transport-node";
import type { BusDelivery, ConsumerTerms, Handlers } from "../../ports/bus.ts";
import type { Clock, Log } from "../../ports/ports.ts";
import { judgeDelivery } from "../judge-delivery.ts";
import { readMessage, readSubject, type Writing } from "./messages.ts";
import type { ReadWorker } from "./worker-messages.ts";

type DeliveryScene = {
  readonly clock: Clock;
  readonly log: Log;
  readonly writing: Writing;
  /** Has it delivered again after the delay. */
  later(message: Msg, delayMs: number): void;
};

/** How long after a failed `giveUp` it is tried again. */
const giveUpAgainMs = 2_000;

/** How long after its sender's key could not be looked up a message is delivered again. */
const lookUpAgainMs = 1_000;

export type Work = {
  readonly terms: ConsumerTerms;
  readonly handlers: Handlers;
  /** Where senders sign. */
  readonly readWorker?: ReadWorker;
};

export async function deliver(scene: DeliveryScene, work: Work, message: Msg): Promise<void> {
  const { terms } = work;
  const incoming = await read(scene, work, message);
  if (incoming.kind === "refused") return terminate(message);
  if (incoming.kind === "unknown") return scene.later(message, lookUpAgainMs);
  const { kind: _believed, ...believed } = incoming;
  const delivery = { ...believed, ...historyOf(message, scene.clock) };
  if (delivery.deliveries > terms.deliveriesMax)
    return drop(scene, work, { message, delivery }, "deliveries_exhausted");
  const verdict = await judgeDelivery(scene, work, delivery);
  // The server has delivered it again by then.
  if (verdict === "late") return;
  if (verdict.kind === "done") acknowledge(message);
  else if (verdict.kind === "retry") scene.later(message, verdict.delayMs);
  else await drop(scene, work, { message, delivery }, verdict.because);
}

type Read =
  | ({ readonly kind: "believed" } & Omit<BusDelivery, "deliveries" | "ageMs">)
  | { readonly kind: "refused" }
  /** The store did not say whose key it is. */
  | { readonly kind: "unknown" };

async function read({ writing, log }: DeliveryScene, work: Work, message: Msg): Promise<Read> {
  const { stream } = work.terms;
  if (work.readWorker === undefined) return readMessage(writing, stream, message);
  const subject = readSubject(writing, stream, message) ?? "";
  const sent = await work.readWorker("results", subject.split("/", 1)[0] ?? "", message).catch((error) => {
    log.warn("the sender of a message could not be looked up", { cause: causeOf(error) });
    return { kind: "unknown" } as const;
  });
  return sent.kind === "believed" ? { ...sent, subject, body: message.string() } : sent;
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
    log.error("a message could not be given up", { cause: causeOf(error) });
    later(message, giveUpAgainMs);
  }
}

function causeOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
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
