// Holds answers back until a replica has the change: one WAIT behind all commands of a moment, on their connection.
import { ErrorReply } from "@redis/client";
import type { Clock } from "../../ports/ports.ts";
import { describeTrouble } from "./connection-trouble.ts";

/** `undefined`: a replica has everything that was executed before; otherwise why that is not certain. */
export type Doubt = string | undefined;

/** The client as far as it is needed here; `socketEpoch` counts the connections that it has made. */
type WaitingClient = {
  readonly socketEpoch: number;
  sendCommand(command: readonly string[]): Promise<unknown>;
};

type Batch = {
  readonly socketEpoch: number;
  waitMs: number;
  readonly settle: (doubt: Doubt) => void;
  readonly settled: Promise<Doubt>;
};

/**
 * Redis sends nothing more on a connection until its WAIT is answered, so a second one at the same time gains nothing: what
 * is sent meanwhile shares the next. After any command, also one that only read, WAIT covers all that the server executed
 * before it, from any client; an answer that repeats what another process did is therefore held back just as well.
 */
export class ReplicaWaits {
  readonly #client: WaitingClient;
  readonly #clock: Clock;
  #collecting: Batch | undefined;
  #isWaiting = false;
  #silentUntilMs = 0;

  constructor(client: WaitingClient, clock: Clock) {
    this.#client = client;
    this.#clock = clock;
  }

  /** Until then the server may be silent because it waits. */
  get silentUntilMs(): number {
    return this.#isWaiting ? this.#silentUntilMs : 0;
  }

  /** To be called in the same moment in which the command is sent. */
  cover(waitMs: number): Promise<Doubt> {
    const batch = this.#collecting ?? this.#collect();
    batch.waitMs = Math.max(batch.waitMs, waitMs);
    return batch.settled;
  }

  #collect(): Batch {
    let settle: (doubt: Doubt) => void = () => {};
    const settled = new Promise<Doubt>((resolve) => {
      settle = resolve;
    });
    const batch = { socketEpoch: this.#client.socketEpoch, waitMs: 1, settle, settled };
    this.#collecting = batch;
    if (!this.#isWaiting) queueMicrotask(() => this.#wait(batch));
    return batch;
  }

  #wait(batch: Batch): void {
    this.#collecting = undefined;
    // On another connection, perhaps to another server, WAIT would cover other changes.
    if (batch.socketEpoch !== this.#client.socketEpoch) {
      batch.settle("the connection was lost before a replica acknowledged it");
      return;
    }
    this.#isWaiting = true;
    this.#silentUntilMs = this.#clock.monotonicMs() + batch.waitMs;
    const end = (doubt: Doubt) => {
      this.#isWaiting = false;
      if (this.#collecting !== undefined) this.#wait(this.#collecting);
      batch.settle(doubt);
    };
    this.#client.sendCommand(["WAIT", "1", String(batch.waitMs)]).then(
      (reply) => end(doubtOf(reply, batch.waitMs)),
      (error: unknown) => end(failureOf(error)),
    );
  }
}

function doubtOf(replicas: unknown, waitMs: number): Doubt {
  if (Number(replicas) >= 1) return undefined;
  return `executed, but no replica acknowledged it within ${waitMs} ms`;
}

function failureOf(error: unknown): string {
  const failure = describeTrouble(error);
  const what = error instanceof ErrorReply ? "WAIT was refused" : "connection lost";
  return `executed, but no replica is known to have it: ${what}: ${failure}`;
}
