// Ends the HTTP server: asks every connection to close, answers requests that have begun to arrive, and waits no longer than the limits.
import type { Socket } from "node:net";
import type { Clock } from "../ports/ports.ts";

type Ending = {
  readonly connections: ReadonlySet<Socket>;
  readonly lingerMs: number;
  readonly drainMs: number;
  /** Resolves when no request is under way. */
  idle(): Promise<void>;
  /** Takes no more connections and closes the idle ones; resolves when all are closed. */
  close(): Promise<unknown>;
  /** Closes all that are left. */
  cut(): void;
};

/** How long the last replies may take to reach their sockets, and the first request of a new connection to reach us. */
const flushMs = 250;

export async function endConnections(clock: Clock, ending: Ending): Promise<void> {
  const { connections, lingerMs, drainMs } = ending;
  const endMs = clock.monotonicMs() + drainMs;
  const leftMs = () => Math.max(0, endMs - clock.monotonicMs());
  // A client learns from its next answer that the connection will be closed. Closed at once, it would break requests that are on
  // their way: five when two gateways were restarted under load, none since.
  await until(clock, Math.min(lingerMs, drainMs), () => connections.size === 0);
  const closed = ending.close();
  await within(clock, leftMs(), ending.idle());
  await until(clock, leftMs(), () => ![...connections].some(isBeingRead));
  // Those that never sent anything do not count as idle: nobody else would end them, and a request may be on its way.
  await within(clock, flushMs, closed);
  ending.cut();
  await closed;
}

/** With nothing under way and nothing to send, an open connection is one whose client has sent a part of a head. */
function isBeingRead({ bytesRead, writableLength }: Socket): boolean {
  return bytesRead > 0 && writableLength === 0;
}

/** Waits for the work, but no longer than this. */
async function within(clock: Clock, limitMs: number, work: Promise<unknown>): Promise<void> {
  const done = new AbortController();
  await Promise.race([work, clock.sleep(limitMs, done.signal)]);
  done.abort();
}

const lookEveryMs = 10;

async function until(clock: Clock, limitMs: number, holds: () => boolean): Promise<void> {
  const endMs = clock.monotonicMs() + limitMs;
  while (!holds() && clock.monotonicMs() < endMs) await clock.sleep(lookEveryMs);
}
