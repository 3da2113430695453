// Messages that wait for their delay on this process's clock, and are then given back to the server for anybody.
import type { Msg } from "@nats-io/transport-node";
import type { CancelTimer, Clock } from "../../ports/ports.ts";
import { deliverLater } from "./deliver.ts";

type Parking = {
  /** Delivered again after exactly the delay, to any consumer. */
  later(message: Msg, delayMs: number): void;
  /** All that wait go back to the server at once, with what is left of their delay, and so does what comes after that. */
  end(): void;
};

/** Bounds memory and timers: what comes beyond that waits on the server, which is less exact. */
const parkedMax = 10_000;

/** Until the server delivers a parked message by itself, after its delay: when this process has crashed, or hangs. */
const backupMs = 2_000;

/**
 * A server of version 2.9 looks for due messages 10 ms after the last one was given back, and each one given back puts that off. With a
 * new busy result every 5 ms, a tenth of all delays of 500 ms became 3 s and more. A message given back without a delay goes out at once.
 */
export function createParking(clock: Clock): Parking {
  const parked = new Map<Msg, { readonly dueMs: number; readonly cancel: CancelTimer }>();
  let isOver = false;
  return {
    later(message, delayMs) {
      if (isOver || delayMs <= 0 || parked.size >= parkedMax) return deliverLater(message, delayMs);
      deliverLater(message, delayMs + backupMs);
      const cancel = clock.timer(Math.ceil(delayMs), () => {
        parked.delete(message);
        deliverLater(message, 0);
      });
      parked.set(message, { dueMs: clock.monotonicMs() + delayMs, cancel });
    },
    end() {
      isOver = true;
      for (const [message, { dueMs, cancel }] of parked) {
        cancel();
        deliverLater(message, dueMs - clock.monotonicMs());
      }
      parked.clear();
    },
  };
}
