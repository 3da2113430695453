// Calls the handler of a delivery with a time limit; a handler that throws gets the message again.
import type { BusDelivery, ConsumerTerms, Handlers, Verdict } from "../ports/bus.ts";
import type { Clock, Log } from "../ports/ports.ts";

/** `late`: whatever the handler says after that is not heard, as if its process had crashed. */
export async function judgeDelivery(
  { clock, log }: { readonly clock: Clock; readonly log: Log },
  { terms, handlers }: { readonly terms: ConsumerTerms; readonly handlers: Handlers },
  delivery: BusDelivery,
): Promise<Verdict | "late"> {
  let cancelLate = () => {};
  const late = new Promise<"late">((resolve) => {
    cancelLate = clock.timer(terms.ackWaitMs, () => resolve("late"));
  });
  try {
    return await Promise.race([handlers.handle(delivery), late]);
  } catch (error) {
    log.error("a bus handler failed", {
      cause: error instanceof Error ? (error.stack ?? error.message) : String(error),
    });
    return { kind: "retry", delayMs: Math.min(terms.ackWaitMs, 1_000), because: "the handler failed" };
  } finally {
    cancelLate();
  }
}
