// How a server's program ends: by a signal, after what is under way is finished, and never later than it promised.
import type { Server } from "../embedded/start-server.ts";

/**
 * To be called before the program says that it can be stopped: without a handler the signal ends it on the spot. Handlers stay: a
 * terminal's Ctrl-C reaches this process and its parents, which pass it on, so that one press may come as several signals.
 * None of them may cut the stop short.
 */
export function stopSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, resolve);
  });
}

/** What a stop may take beyond the gateway's own limit: the jobs in this process, and closing the file. */
const graceMs = 5_000;

export async function stopInTime(server: Server, say: (line: string) => void): Promise<void> {
  const limitMs = server.config["gateway.drainMs"] + graceMs;
  const cancel = server.plane.ports.clock.timer(limitMs, () => {
    // As safe as a crash: whatever was answered is stored, and the next start goes on with the rest.
    say("Some work did not finish in time; it goes on at the next start.");
    process.exit();
  });
  await server.close();
  cancel();
}
