// What every program here does around its work: tells failures in words, sets the exit code, stops in time.

import type { Server } from "../embedded/start-server.ts";
import { errors, InterlockError } from "../errors.ts";

export async function runProgram(usage: string, work: () => Promise<void>): Promise<void> {
  // A reader that has seen enough, such as `head`, is no failure.
  process.stdout.on("error", () => {});
  try {
    await work();
  } catch (error) {
    const isUsage = error instanceof UsageError || isParsing(error);
    console.error(isUsage ? `${(error as Error).message}\n${usage}` : explain(error));
    endProcess(isUsage ? 2 : 1);
  }
}

/**
 * Ends this process when what it has printed is out. To wait until nothing is open any more is not enough: the NATS client
 * keeps a connection to a server that has accepted it and says nothing, for ever.
 */
export function endProcess(exitCode: number): void {
  process.exitCode = exitCode;
  process.stdout.write("", () => process.stderr.write("", () => process.exit()));
}

/** Past its end of life, and a three-step run takes 1.3 times the CPU time that it takes on 22, 24 and 26 (751 us against 573 to 584). */
const oldNode = 20;

/** What a server says at its start when it runs on an old Node, which works all the same. */
export function nodeNotes(version = process.versions.node): readonly string[] {
  if (Number.parseInt(version, 10) > oldNode) return [];
  return [
    `Note: Node ${version} gets no more security fixes, and a run takes 1.3 times the CPU time of Node 26, which is recommended.`,
  ];
}

/** The program was called wrongly. */
export class UsageError extends Error {}

/** Of `parseArgs`. */
function isParsing(error: unknown): boolean {
  return error instanceof TypeError && "code" in error && String(error.code).startsWith("ERR_PARSE_ARGS");
}

function explain(error: unknown): string {
  if (error instanceof InterlockError)
    return `${error.message}\n${errors[error.code].remedy} (${error.code})`;
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

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
