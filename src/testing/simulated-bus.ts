// The bus as simulated processes reach it: it delays, forgets what it acknowledged, and delivers twice.
import type {
  Bus,
  BusChannel,
  BusMessage,
  BusStream,
  ConsumerTerms,
  Handlers,
  Verdict,
} from "../ports/bus.ts";
import type { Kernel } from "./kernel.ts";
import type { SeededRandom } from "./seeded-random.ts";
import type { SimulatedProcess } from "./simulated-process.ts";

export type BusFaults = {
  readonly travelMsMax: number;
  /** Acknowledged, and never delivered. */
  readonly forgottenRate: number;
  readonly doubledRate: number;
};

export const noBusFaults: BusFaults = { travelMsMax: 3, forgottenRate: 0, doubledRate: 0 };

export type SimulatedBus = {
  connect(process: SimulatedProcess): Bus;
  setFaults(faults: BusFaults): void;
};

type Member = {
  readonly process: SimulatedProcess;
  readonly terms: ConsumerTerms;
  readonly handlers: Handlers;
};

type Listener = {
  readonly process: SimulatedProcess;
  readonly channel: BusChannel;
  readonly hear: (body: string) => void;
};

type Message = {
  readonly stream: BusStream;
  /** The consumers that share it; undefined where there is only one name. */
  readonly name: string | undefined;
  readonly subject: string;
  readonly body: string;
  deliveries: number;
};

/** How long a message waits when nobody listens. */
const nobodyMs = 500;

export function createSimulatedBus(kernel: Kernel, faults: BusFaults): SimulatedBus {
  return new BusServer(kernel, faults);
}

class BusServer implements SimulatedBus {
  readonly #kernel: Kernel;
  readonly #random: SeededRandom;
  readonly #members: Member[] = [];
  readonly #listeners: Listener[] = [];
  #faults: BusFaults;

  constructor(kernel: Kernel, faults: BusFaults) {
    this.#kernel = kernel;
    this.#random = kernel.random.stream("bus");
    this.#faults = faults;
  }

  setFaults(faults: BusFaults): void {
    this.#faults = faults;
  }

  connect(process: SimulatedProcess): Bus {
    return {
      publish: async (stream, message) => {
        this.#publish(stream, message);
        return { kind: "published" };
      },
      consume: (terms, handlers) => {
        const member = { process, terms, handlers };
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
      close: async () => {},
    };
  }

  /** A hint goes to every name that consumes now; anything else to whoever is there in the end. */
  #publish(stream: BusStream, { subject, body }: BusMessage): void {
    const { forgottenRate, doubledRate } = this.#faults;
    if (this.#random.chance(forgottenRate)) return;
    const copies = this.#random.chance(doubledRate) ? 2 : 1;
    const names = stream === "hints" ? this.#living(stream).map(({ terms }) => terms.name) : [undefined];
    for (const name of new Set(names)) {
      for (let copy = 0; copy < copies; copy += 1) {
        this.#deliverAfter(this.#travelMs(), { stream, name, subject, body, deliveries: 0 });
      }
    }
  }

  /** To the other processes that listen, each on its own way and perhaps not at all. */
  #announce(from: SimulatedProcess, channel: BusChannel, body: string): void {
    for (const listener of this.#listeners) {
      if (listener.process === from || listener.channel !== channel) continue;
      if (this.#random.chance(this.#faults.forgottenRate)) continue;
      this.#kernel.after(this.#travelMs(), () => {
        if (!this.#listeners.includes(listener) || listener.process.state() === "crashed") return;
        listener.process.deliver(0, () => listener.hear(body));
      });
    }
  }

  #living(stream: BusStream): readonly Member[] {
    return this.#members.filter(
      ({ process, terms }) => terms.stream === stream && process.state() !== "crashed",
    );
  }

  #deliverAfter(delayMs: number, message: Message): void {
    this.#kernel.after(delayMs, () => this.#deliver(message));
  }

  /** To one of those who listen; a process that crashes meanwhile says nothing, and the message comes again. */
  #deliver(message: Message): void {
    const living = this.#living(message.stream).filter(
      ({ terms }) => message.name === undefined || terms.name === message.name,
    );
    if (living.length === 0) {
      // Nobody comes back under the name of a process that is gone.
      if (message.name === undefined) this.#deliverAfter(nobodyMs, message);
      return;
    }
    const { process, terms, handlers } = this.#random.pick(living);
    message.deliveries += 1;
    const { subject, body, deliveries } = message;
    if (deliveries > terms.deliveriesMax) {
      process.deliver(0, () => this.#giveUp(message, handlers));
      return;
    }
    let judged = false;
    const judge = (verdict: Verdict) => {
      if (judged) return;
      judged = true;
      if (verdict.kind === "retry") this.#deliverAfter(verdict.delayMs, message);
      else if (verdict.kind === "drop") this.#giveUp(message, handlers);
    };
    process.deliver(0, () => {
      handlers.handle({ subject, body, deliveries }).then(judge, (error) => this.#kernel.fail(error));
    });
    const late = { kind: "retry", delayMs: 0, because: "no verdict in time" } as const;
    this.#kernel.after(terms.ackWaitMs, () => judge(late));
  }

  /** Until the dead letter is written the message stays. */
  #giveUp(message: Message, handlers: Handlers): void {
    const { subject, body, deliveries } = message;
    handlers.giveUp({ subject, body, deliveries }, "deliveries_exhausted").catch(() => {
      message.deliveries -= 1;
      this.#deliverAfter(nobodyMs, message);
    });
  }

  #travelMs(): number {
    return this.#random.fraction() * this.#faults.travelMsMax;
  }
}
