// Deliveries of the simulated bus as a NATS client sees them, so that the product's own adapter decides what becomes of each.
import type { Msg } from "@nats-io/transport-node";
import { deliver, deliverLater, type Work } from "../../../src/adapters/nats/deliver.ts";
import { namesOf } from "../../../src/adapters/nats/streams.ts";
import {
  type BusMessage,
  type BusStream,
  type ConsumerTerms,
  type Handlers,
  keepsLatest,
} from "../../../src/ports/bus.ts";
import type { CancelTimer, Log } from "../../../src/ports/ports.ts";
import type { Kernel } from "../../../src/testing/kernel.ts";
import type { SeededRandom } from "../../../src/testing/seeded-random.ts";
import type { SimulatedProcess } from "../../../src/testing/simulated-process.ts";

const names = namesOf("simulated");

/** What the adapter says of a delivery. */
export type Word =
  | { readonly kind: "done" }
  | { readonly kind: "later"; readonly delayMs: number }
  | { readonly kind: "never" };

type WireDelivery = {
  readonly stream: BusStream;
  readonly subject: string;
  readonly body: string;
  readonly deliveries: number;
  readonly storedAtMs: number;
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
  // Here the server is exact by itself.
  const scene = { clock, log, writing, later: deliverLater };
  deliver(scene, work, messageOf(delivery, hear)).catch((error) => kernel.fail(error));
}

function messageOf(
  { stream, subject, body, deliveries, storedAtMs }: WireDelivery,
  hear: (word: Word) => void,
): Msg {
  const message = {
    subject: names.subject(stream, subject),
    // The fifth part tells how often it was delivered, the eighth when it was stored, in nanoseconds.
    reply: `$JS.ACK.${names.stream(stream)}.consumer.${deliveries}.1.1.${Math.round(storedAtMs)}000000.0`,
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

export type Member = {
  readonly process: SimulatedProcess;
  readonly terms: ConsumerTerms;
  readonly handlers: Handlers;
  /** The server does not know it: its consumer is gone, and not yet made again. */
  absent: boolean;
};

/** Until a consumer notices that it is cut off or gone, and until it is back after that, at most. */
export const noticeMsMax = 2_500;
export const againMsMax = 2_000;
/** How often one that is cut off says that messages may pass it by. */
const missedEveryMs = 1_000;

export class BusReach {
  readonly #kernel: Kernel;
  readonly #random: SeededRandom;
  readonly #cutUntilMs = new Map<SimulatedProcess, number>();
  #unreachableUntilMs = 0;

  constructor(kernel: Kernel, random: SeededRandom) {
    this.#kernel = kernel;
    this.#random = random;
  }

  cutOff(process: SimulatedProcess, ms: number, members: readonly Member[]): void {
    const untilMs = this.#kernel.nowMs() + ms;
    this.#cutUntilMs.set(process, Math.max(this.#cutUntilMs.get(process) ?? 0, untilMs));
    this.#tell(members.filter((member) => member.process === process));
  }

  cutOffAll(ms: number, members: readonly Member[]): void {
    this.#unreachableUntilMs = Math.max(this.#unreachableUntilMs, this.#kernel.nowMs() + ms);
    this.#tell(members);
  }

  heal(): void {
    this.#unreachableUntilMs = 0;
    this.#cutUntilMs.clear();
  }

  has(process: SimulatedProcess): boolean {
    const nowMs = this.#kernel.nowMs();
    return nowMs >= this.#unreachableUntilMs && nowMs >= (this.#cutUntilMs.get(process) ?? 0);
  }

  /** Each is told when it notices, and once more when it is back. */
  forget(members: readonly Member[]): void {
    for (const member of members) {
      const { process, handlers } = member;
      member.absent = true;
      const noticeMs = this.#random.fraction() * noticeMsMax;
      const backMs = noticeMs + this.#random.fraction() * againMsMax;
      process.deliver(noticeMs, () => handlers.missed?.());
      this.#kernel.after(backMs, () => {
        member.absent = false;
        process.deliver(0, () => handlers.missed?.());
      });
    }
  }

  /** About once a second while it lasts, and once when it is over. */
  #tell(members: readonly Member[]): void {
    for (const { process, handlers } of members) {
      const tell = () => {
        handlers.missed?.();
        if (this.has(process)) return;
        process.clock.timer(missedEveryMs * (0.75 + 0.5 * this.#random.fraction()), tell);
      };
      process.deliver(this.#random.pick([0, 1]) * noticeMsMax * this.#random.fraction(), tell);
    }
  }
}

export type Message = {
  readonly stream: BusStream;
  /** The consumers that share it; undefined where there is only one name. */
  readonly name: string | undefined;
  readonly sent: BusMessage;
  /** The server's clock. */
  readonly storedAtMs: number;
  deliveries: number;
  /** A consumer that is made again counts from the start, and does not know what was said to the one before. */
  life: number;
  /** Not stored any more. */
  gone: boolean;
  /** The next delivery that is planned. */
  cancel: CancelTimer;
};

/** Messages that were done lately and may come back. */
const doneMax = 20;

export class BusMessages {
  readonly #stored = new Set<Message>();
  readonly #latest = new Map<string, Message>();
  /** When an id was last stored, by stream. */
  readonly #seen = new Map<string, number>();
  #done: Array<{ readonly message: Message; readonly atMs: number }> = [];

  get size(): number {
    return this.#stored.size;
  }

  of(stream: BusStream): readonly Message[] {
    return [...this.#stored].filter((message) => message.stream === stream);
  }

  /** Where only the latest of a subject is kept, the one before is gone: whatever is said of it is not heard. */
  keep(message: Message): void {
    if (keepsLatest(message.stream)) {
      const older = this.#latest.get(placeOf(message));
      if (older !== undefined) this.remove(older);
      this.#latest.set(placeOf(message), message);
    }
    this.#stored.add(message);
  }

  remove(message: Message): void {
    message.gone = true;
    message.cancel();
    this.#stored.delete(message);
    if (this.#latest.get(placeOf(message)) === message) this.#latest.delete(placeOf(message));
  }

  /** Removes it, and remembers for a while that it was there. */
  finish(message: Message, atMs: number): void {
    this.remove(message);
    this.#done = [...this.#done.slice(1 - doneMax), { message, atMs }];
  }

  /** Those that were done since then; each is told once. */
  takeDoneSince(sinceMs: number): readonly Message[] {
    const done = this.#done.filter(({ atMs }) => atMs >= sinceMs).map(({ message }) => message);
    this.#done = [];
    return done;
  }

  /** Whether its id was stored within the window; remembers it from now on if it was not. */
  isDuplicate(stream: BusStream, { messageId }: BusMessage, nowMs: number, windowMs: number): boolean {
    if (messageId === undefined) return false;
    const atMs = this.#seen.get(`${stream} ${messageId}`);
    if (atMs !== undefined && nowMs - atMs < windowMs) return true;
    this.#seen.set(`${stream} ${messageId}`, nowMs);
    return false;
  }

  forgetIds(stream: BusStream): void {
    for (const id of [...this.#seen.keys()]) if (id.startsWith(`${stream} `)) this.#seen.delete(id);
  }
}

function placeOf({ stream, name, sent }: Message): string {
  return `${stream} ${name} ${sent.subject}`;
}
