// The bus as simulated processes reach it, with the semantics of JetStream: it delays, forgets, repeats, and can be removed or out of reach.
import {
  type Bus,
  type BusChannel,
  type BusMessage,
  type BusStream,
  busStreams,
  keepsLatest,
  type Publication,
} from "../../../src/ports/bus.ts";
import type { Kernel } from "../../../src/testing/kernel.ts";
import type { SeededRandom } from "../../../src/testing/seeded-random.ts";
import { type SimulatedProcess, wallEpochMs } from "../../../src/testing/simulated-process.ts";
import type { BusFaults } from "./bus-faults.ts";
import { type BusObserver, unobserved } from "./bus-observer.ts";
import {
  againMsMax,
  BusMessages,
  BusReach,
  deliverTo,
  type Member,
  type Message,
  noticeMsMax,
  type Word,
} from "./bus-wire.ts";

export { type BusFaults, noBusFaults } from "./bus-faults.ts";

export type SimulatedBus = {
  connect(process: SimulatedProcess): Bus;
  setFaults(faults: BusFaults): void;
  /** This process alone does not reach the bus for so long. */
  cutOff(process: SimulatedProcess, ms: number): void;
  /** Nobody reaches it for so long. */
  goUnreachable(ms: number): void;
  /** All that waits is gone, and nobody is told. */
  purge(stream: BusStream): void;
  /** The stream goes with its consumers, who notice after a while and set themselves up again. */
  removeStream(stream: BusStream): void;
  /** A consumer goes: what it had in hand is delivered anew, from the first delivery on. On `hints` it is lost. */
  forgetConsumer(stream: BusStream): void;
  /** Out of reach for so long; what was in memory is gone, and what was done lately on disk may be back. */
  restart(ms: number): void;
  /** Ends all outages. */
  heal(): void;
  /** Messages that are stored and not done. */
  waiting(): number;
  /** Publishes it once more, with its id, whatever the window says: as long after it as nobody remembers. */
  repeat(stream: BusStream, message: BusMessage): void;
};

type Listener = {
  readonly process: SimulatedProcess;
  readonly channel: BusChannel;
  readonly hear: (body: string) => void;
};

/** How long a message waits when nobody listens. */
const nobodyMs = 500;
/** As the publisher of the product: after this time without an acknowledgement it is answered. */
const acknowledgeWithinMs = 2_000;
/** What was done within this time before a restart may not have been on disk. */
const unsyncedMs = 2_000;

export function createSimulatedBus(
  kernel: Kernel,
  faults: BusFaults,
  observer: BusObserver = unobserved,
): SimulatedBus {
  return new BusServer(kernel, faults, observer);
}

class BusServer implements SimulatedBus {
  readonly #kernel: Kernel;
  readonly #random: SeededRandom;
  /** For the faults that came later, so that what was drawn before them stays as it is. */
  readonly #faultRandom: SeededRandom;
  readonly #observer: BusObserver;
  readonly #members: Member[] = [];
  readonly #listeners: Listener[] = [];
  readonly #messages = new BusMessages();
  readonly #reach: BusReach;
  #faults: BusFaults;

  constructor(kernel: Kernel, faults: BusFaults, observer: BusObserver) {
    this.#kernel = kernel;
    this.#random = kernel.random.stream("bus");
    this.#faultRandom = kernel.random.stream("bus faults");
    this.#reach = new BusReach(kernel, this.#faultRandom);
    this.#faults = faults;
    this.#observer = observer;
  }

  setFaults(faults: BusFaults): void {
    this.#faults = faults;
  }

  connect(process: SimulatedProcess): Bus {
    return {
      publish: (stream, message) => this.#publish(process, stream, message),
      consume: (terms, handlers) => {
        const member = { process, terms, handlers, absent: false };
        this.#members.push(member);
        return {
          stop: async () => {
            this.#members.splice(this.#members.indexOf(member), 1);
          },
        };
      },
      announce: (channel, body) => this.#announce(process, channel, body),
      listen: (channel, hear) => {
        const listener = { process, channel, hear };
        this.#listeners.push(listener);
        return {
          stop: async () => {
            this.#listeners.splice(this.#listeners.indexOf(listener), 1);
          },
        };
      },
      // Simulated workers ask by calls.
      serve: () => ({ stop: async () => {} }),
      close: async () => {},
    };
  }

  cutOff(process: SimulatedProcess, ms: number): void {
    this.#kernel.note(process.name, "is cut off from the bus for", ms);
    this.#observer.fault("bus link outage");
    this.#reach.cutOff(process, ms, this.#members);
  }

  goUnreachable(ms: number): void {
    this.#kernel.note("bus unreachable for", ms);
    this.#observer.fault("bus outage");
    this.#reach.cutOffAll(ms, this.#members);
  }

  purge(stream: BusStream): void {
    this.#kernel.note("bus purged", stream);
    this.#observer.fault("bus stream purged");
    for (const message of this.#messages.of(stream)) this.#lose(message);
  }

  removeStream(stream: BusStream): void {
    this.#kernel.note("bus stream removed", stream);
    this.#observer.fault("bus stream removed");
    this.#observer.streamRemoved();
    for (const message of this.#messages.of(stream)) this.#lose(message);
    this.#messages.forgetIds(stream);
    this.#reach.forget(this.#members.filter(({ terms }) => terms.stream === stream));
  }

  forgetConsumer(stream: BusStream): void {
    const living = this.#members.filter(({ process, terms }) => terms.stream === stream && isThere(process));
    if (living.length === 0) return;
    const { name } = this.#faultRandom.pick(living).terms;
    this.#kernel.note("bus consumer forgotten", stream, name);
    this.#observer.fault("bus consumer forgotten");
    for (const message of this.#messages.of(stream)) {
      if (message.name === name) this.#lose(message);
      else if (message.name === undefined) this.#beginAnew(message);
    }
    this.#reach.forget(living.filter(({ terms }) => terms.name === name));
  }

  restart(ms: number): void {
    this.#observer.fault("bus restart");
    this.goUnreachable(ms);
    for (const stream of busStreams) {
      for (const message of this.#messages.of(stream)) {
        if (keepsLatest(stream)) this.#lose(message);
        else this.#beginAnew(message);
      }
    }
    for (const message of this.#messages.takeDoneSince(this.#kernel.nowMs() - unsyncedMs)) {
      if (keepsLatest(message.stream) || !this.#faultRandom.chance(0.5)) continue;
      this.#keep({ ...message, deliveries: 0, life: message.life + 1, gone: false }, ms);
    }
  }

  heal(): void {
    this.#reach.heal();
  }

  waiting(): number {
    return this.#messages.size;
  }

  repeat(stream: BusStream, message: BusMessage): void {
    this.#messages.forgetIds(stream);
    this.#store(stream, message, "again");
  }

  async #publish(process: SimulatedProcess, stream: BusStream, sent: BusMessage): Promise<Publication> {
    const { publishLostRate, publishUnknownRate, echoRate, echoMsMax } = this.#faults;
    const random = this.#faultRandom;
    if (!this.#reach.has(process)) return unavailable("there is no connection");
    if (random.chance(publishLostRate)) {
      this.#observer.fault("publish lost");
      return this.#unanswered(process);
    }
    this.#store(stream, sent, "first");
    if (random.chance(echoRate)) {
      this.#kernel.after(random.fraction() * echoMsMax, () => this.#store(stream, sent, "again"));
    }
    if (!random.chance(publishUnknownRate)) return { kind: "published" };
    this.#observer.fault("publish unknown");
    this.#observer.publishedUnknown();
    return this.#unanswered(process);
  }

  async #unanswered({ clock }: SimulatedProcess): Promise<Publication> {
    await clock.sleep(this.#faultRandom.pick([0.1, 1]) * acknowledgeWithinMs);
    return unavailable("no acknowledgement in time");
  }

  /** A hint goes to every name that consumes now; anything else to the consumers that are there in the end. */
  #store(stream: BusStream, sent: BusMessage, time: "first" | "again"): void {
    const { forgottenRate, doubledRate, duplicateWindowMs } = this.#faults;
    if (this.#messages.isDuplicate(stream, sent, this.#kernel.nowMs(), duplicateWindowMs)) return;
    if (time === "again") this.#observer.repeated(stream, sent);
    else this.#observer.published(stream, sent);
    if (this.#random.chance(forgottenRate)) {
      this.#observer.fault("message forgotten");
      this.#observer.forgotten(stream, sent);
      return;
    }
    const isDoubled = this.#random.chance(doubledRate);
    const consuming = this.#living(stream).map(({ terms }) => terms.name);
    const names = stream === "hints" ? consuming : [undefined];
    for (const name of new Set(names)) {
      const storedAtMs = wallEpochMs + this.#kernel.nowMs();
      const fresh = { stream, name, sent, storedAtMs, deliveries: 0, life: 1, gone: false, cancel: () => {} };
      this.#keep(fresh, this.#travelMs());
      if (isDoubled) this.#kernel.after(this.#travelMs(), () => this.#deliverOnceMore(fresh));
    }
  }

  #keep(message: Message, delayMs: number): void {
    this.#messages.keep(message);
    this.#deliverAfter(delayMs, message);
  }

  /** To the other processes that listen, each on its own way and perhaps not at all. */
  #announce(from: SimulatedProcess, channel: BusChannel, body: string): void {
    if (!this.#reach.has(from)) return;
    for (const listener of this.#listeners) {
      if (listener.process === from || listener.channel !== channel) continue;
      if (this.#random.chance(this.#faults.forgottenRate)) continue;
      this.#kernel.after(this.#travelMs(), () => {
        if (!this.#listeners.includes(listener) || !isThere(listener.process)) return;
        if (this.#reach.has(listener.process)) listener.process.deliver(0, () => listener.hear(body));
      });
    }
  }

  /** Known to the server, whether it can be reached or not. */
  #living(stream: BusStream): readonly Member[] {
    return this.#members.filter(
      ({ process, terms, absent }) => terms.stream === stream && !absent && isThere(process),
    );
  }

  #deliverAfter(delayMs: number, message: Message): void {
    message.cancel();
    message.cancel = this.#kernel.after(delayMs, () => this.#deliver(message));
  }

  /** To one of those who listen; a process that crashes meanwhile says nothing, and the message comes again. */
  #deliver(message: Message): void {
    const { stream, name } = message;
    if (message.gone) return;
    const living = this.#living(stream).filter(({ terms }) => name === undefined || terms.name === name);
    const reachable = living.filter(({ process }) => this.#reach.has(process));
    if (reachable.length === 0) {
      // Nobody comes back under the name of a process that is gone.
      if (name === undefined || living.length > 0) this.#deliverAfter(nobodyMs, message);
      else this.#messages.remove(message);
      return;
    }
    const member = this.#random.pick(reachable);
    this.#hand(message, member);
    const ackWaitMs = Math.min(member.terms.ackWaitMs, this.#faults.ackWaitMsMax);
    this.#deliverAfter(ackWaitMs, message);
  }

  #deliverOnceMore(message: Message): void {
    const { stream, name } = message;
    const reachable = this.#living(stream).filter(
      ({ process, terms }) => this.#reach.has(process) && (name === undefined || terms.name === name),
    );
    if (reachable.length > 0) this.#hand(message, this.#random.pick(reachable));
  }

  #hand(message: Message, { process, terms, handlers }: Member): void {
    message.deliveries += 1;
    const { stream, deliveries, life, sent, storedAtMs } = message;
    const shortened = { ...terms, ackWaitMs: Math.min(terms.ackWaitMs, this.#faults.ackWaitMsMax) };
    const sender = sent.sender?.keyId;
    const work = {
      terms: shortened,
      handlers: this.#observer.watched(handlers, { identity: message, stream, sent, life }),
      ...(sender === undefined ? {} : { readWorker: async () => ({ kind: "believed", sender }) as const }),
    };
    process.deliver(0, () => {
      deliverTo(this.#kernel, process, work, { stream, ...sent, deliveries, storedAtMs }, (word) =>
        this.#send(process, () => this.#hear(message, { deliveries, life }, word)),
      );
    });
  }

  #send(process: SimulatedProcess, arrive: () => void): void {
    const { wordLostRate, travelMsMax } = this.#faults;
    if (!this.#reach.has(process) || this.#faultRandom.chance(wordLostRate)) {
      this.#observer.fault("verdict lost");
      return;
    }
    this.#kernel.after(this.#faultRandom.fraction() * travelMsMax, arrive);
  }

  #hear(message: Message, said: { readonly deliveries: number; readonly life: number }, word: Word): void {
    if (message.gone || message.life !== said.life) return;
    if (
      message.deliveries !== said.deliveries &&
      this.#faultRandom.chance(this.#faults.lateWordRefusedRate)
    ) {
      this.#observer.lateWordRefused();
      return;
    }
    if (word.kind === "later") {
      this.#deliverAfter(word.delayMs, message);
      return;
    }
    if (word.kind === "never") this.#observer.dropped(message.stream, message.sent);
    this.#messages.finish(message, this.#kernel.nowMs());
  }

  #lose(message: Message): void {
    this.#observer.forgotten(message.stream, message.sent);
    this.#messages.remove(message);
  }

  #beginAnew(message: Message): void {
    message.life += 1;
    message.deliveries = 0;
    this.#deliverAfter(this.#faultRandom.fraction() * (noticeMsMax + againMsMax), message);
  }

  #travelMs(): number {
    const { longDelayRate, longDelayMsMax, travelMsMax } = this.#faults;
    const usualMs = this.#random.fraction() * travelMsMax;
    return this.#faultRandom.chance(longDelayRate) ? this.#faultRandom.fraction() * longDelayMsMax : usualMs;
  }
}

function isThere(process: SimulatedProcess): boolean {
  return process.state() !== "crashed";
}

function unavailable(cause: string): Publication {
  return { kind: "unavailable", cause };
}
