// What the simulated bus has stored: one message per subject where only the latest is kept, and the ids that it remembers.
import { type BusMessage, type BusStream, keepsLatest } from "../../../src/ports/bus.ts";
import type { CancelTimer } from "../../../src/ports/clock.ts";

export type Message = {
  readonly stream: BusStream;
  /** The consumers that share it; undefined where there is only one name. */
  readonly name: string | undefined;
  readonly sent: BusMessage;
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
