// What a check of a bus gets to work with: a bus of its own, listeners that remember, and the verdicts by name.
import assert from "node:assert/strict";
import type {
  Bus,
  BusDelivery,
  BusStream,
  Consumer,
  ConsumerTerms,
  Handlers,
  Verdict,
} from "../../ports/bus.ts";
import type { Clock } from "../../ports/ports.ts";

/** One check of a bus that nobody else uses: every adapter must pass it. */
export type BusCase = { readonly name: string; check(harness: BusHarness): Promise<void> };

type Heard = BusDelivery & { readonly atMs: number };

/** Consumes as the case says, and keeps what was heard and given up. */
export type Listener = Consumer & {
  readonly heard: readonly Heard[];
  readonly givenUp: ReadonlyArray<Heard & { readonly because: string }>;
};

export class BusHarness {
  readonly bus: Bus;
  readonly clock: Clock;
  /** The same bus as another process has it. */
  readonly other: Bus;

  constructor(bus: Bus, clock: Clock, other = bus) {
    this.bus = bus;
    this.clock = clock;
    this.other = other;
  }

  /** The same checks from the other process's side. */
  elsewhere(): BusHarness {
    return new BusHarness(this.other, this.clock, this.bus);
  }

  async publish(body: string, subject = body, messageId?: string): Promise<void> {
    const message = { subject, body, ...(messageId === undefined ? {} : { messageId }) };
    assert.deepEqual(await this.bus.publish("results", message), { kind: "published" });
  }

  async publishOn(stream: BusStream, body: string, subject = body): Promise<void> {
    assert.deepEqual(await this.bus.publish(stream, { subject, body }), { kind: "published" });
  }

  hint(body: string, subject = body): Promise<void> {
    return this.publishOn("hints", body, subject);
  }

  listen(
    handle: (delivery: BusDelivery) => Promise<Verdict> | Verdict,
    options: Partial<ConsumerTerms> & Partial<Pick<Handlers, "giveUp" | "senderOf">> = {},
  ): Listener {
    const { giveUp, senderOf, ...terms } = options;
    const heard: Heard[] = [];
    const givenUp: Array<Heard & { because: string }> = [];
    const at = () => ({ atMs: this.clock.monotonicMs() });
    const consumer = this.bus.consume(
      {
        stream: "results",
        name: "engine",
        ackWaitMs: 5_000,
        deliveriesMax: 10,
        pendingMax: 100,
        ...terms,
      },
      {
        handle: async (delivery) => {
          heard.push({ ...delivery, ...at() });
          return handle(delivery);
        },
        giveUp: async (delivery, because) => {
          givenUp.push({ ...delivery, because, ...at() });
          await giveUp?.(delivery, because);
        },
        ...(senderOf === undefined ? {} : { senderOf }),
      },
    );
    return { heard, givenUp, stop: () => consumer.stop() };
  }

  /** Asks again every few milliseconds until the condition holds, for at most twenty seconds. */
  async until(condition: () => boolean): Promise<void> {
    const startedMs = this.clock.monotonicMs();
    while (!condition()) {
      assert.ok(this.clock.monotonicMs() - startedMs < 20_000, `not within 20 s: ${condition}`);
      await this.clock.sleep(5);
    }
  }

  /** Long enough for anything that would come now to have come. */
  async quiet(): Promise<void> {
    await this.clock.sleep(300);
  }
}

export const done: Verdict = { kind: "done" };
export const later = (delayMs: number): Verdict => ({ kind: "retry", delayMs, because: "busy" });
export const bodies = (heard: readonly Heard[]) => heard.map(({ body }) => body);
export const counts = (heard: readonly Heard[]) => heard.map(({ deliveries }) => deliveries);
export const never = () => new Promise<Verdict>(() => {});
/** Timers count whole milliseconds and may be a fraction early. */
export const earlyMs = 2;

export function timeBetween(heard: readonly Heard[], first: number, second: number): number {
  const [from, to] = [heard[first], heard[second]];
  assert.ok(from !== undefined && to !== undefined, `only ${heard.length} deliveries`);
  return to.atMs - from.atMs;
}
