// HTTP load from a process of its own, so that the server under load does not share its core with the client.
import { join } from "node:path";
import { startChildProgram } from "../test/support/child-program.ts";

/**
 * POST requests in a closed loop: every connection is kept alive and has one request under way. `{n}` in the path, in a
 * header's value and in the body becomes a number of 12 digits that no other request of the same loader has.
 */
export type HttpLoad = {
  /** Of a server on this machine: nothing here may load any other. */
  readonly port: number;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly connections: number;
  /** Under load like the rest, but not counted. */
  readonly warmUpMs: number;
  readonly durationMs: number;
  /** So many a second in all, however fast they are answered; absent means as fast as they are. A late answer counts from its turn. */
  readonly perSecond?: number;
  /** The statuses that count as success. */
  readonly succeeds: readonly number[];
};

export type HttpLoadResult = {
  /** Successes alone; what is answered after the time is up does not count. */
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** How often each status was answered in the time that counts. */
  readonly statuses: Readonly<Record<string, number>>;
  /** All that were answered, in the warm-up and after the time too. */
  readonly requests: number;
  /** The first answer, in the warm-up too, that was no success. */
  readonly firstFailure?: string;
  /** The part of the time during which the loader was computing: near 1 it was the bottleneck, not the server. */
  readonly loaderBusyShare: number;
};

export type HttpLoader = {
  /** One at a time. */
  run(load: HttpLoad): Promise<HttpLoadResult>;
  stop(): Promise<void>;
};

/** Beyond the time of the load itself: the process starts, and the last answers come in. */
const graceMs = 20_000;

/** Kept for many loads, so that all but the first find its code compiled. */
export function startHttpLoader(): HttpLoader {
  const child = startChildProgram(join(import.meta.dirname, "http-load-program.ts"), {});
  return {
    async run(load) {
      child.say(JSON.stringify(load));
      const answer = await child.next<HttpLoadAnswer>(load.warmUpMs + load.durationMs + graceMs);
      if (answer.kind === "measured") return answer.result;
      throw new Error(`the load on ${load.path} broke off: ${answer.cause}`);
    },
    stop: () => child.stop(),
  };
}

/** What the program says to a load. */
export type HttpLoadAnswer =
  | { readonly kind: "measured"; readonly result: HttpLoadResult }
  | { readonly kind: "broken"; readonly cause: string };

/** For loads in which every single request has to succeed. */
export function expectSuccess(path: string, { statuses, firstFailure }: HttpLoadResult): void {
  if (firstFailure === undefined) return;
  throw new Error(`${path} answered ${JSON.stringify(statuses)}; the first failure was:\n${firstFailure}`);
}

export const warmUpSliceMs = 500;

export async function repeatUntil(operations: number, work: () => Promise<number>): Promise<void> {
  for (let done = 0; done < operations; ) done += await work();
}

/**
 * By number, since a time would warm up less on a busy machine. What fails is not looked at: there, a server that has just started
 * may miss the deadline of its first calls.
 */
export function warmUpWith(
  loader: HttpLoader,
  load: Omit<HttpLoad, "warmUpMs" | "durationMs">,
  operations: number,
): Promise<void> {
  const slice = { ...load, warmUpMs: 0, durationMs: warmUpSliceMs };
  return repeatUntil(operations, async () => (await loader.run(slice)).requests);
}
