// One connection to one Redis server, with a life of its own: it sends at most once, gives up in time, and comes back.
import { ClientClosedError, ClientOfflineError, createClient, ErrorReply } from "@redis/client";
import type { Clock, Log, Random } from "../../ports/ports.ts";
import { describeFirstTrouble, describeTrouble } from "./connection-trouble.ts";
import { type Doubt, ReplicaWaits } from "./replica-waits.ts";
import type { ServerAddress } from "./server-address.ts";

/** What became of a command: an answer, an error that Redis answered, certainly not sent, or sent and then nothing. */
export type Delivery =
  | { readonly kind: "reply"; readonly reply: unknown }
  | { readonly kind: "error"; readonly message: string }
  | { readonly kind: "not_sent"; readonly cause: string }
  | { readonly kind: "lost"; readonly cause: string };

export type ConnectionPorts = { readonly clock: Clock; readonly log: Log; readonly random: Random };

type Client = ReturnType<typeof openClient>;

export type SendOptions = {
  /** Sent directly before the command, on the same connection. */
  readonly preamble?: readonly string[];
  /** The answer is given when a replica has acknowledged what the command did; without that in time it is lost. */
  readonly replicaWaitMs?: number;
};

type SentCall = SendOptions & {
  readonly command: readonly string[];
  readonly withinMs: number;
};

/**
 * A command while the connection is down waits this long, counted from the moment it was lost, and is then refused at
 * once. A reconnect after a cut takes a few milliseconds and is worth waiting for; an outage is not, since callers that
 * wait pile up while those that are refused can tell their own callers.
 */
const reconnectGraceMs = 500;
/** How long `close` waits for answers still under way. */
const closeMaxMs = 1_000;

export class Connection {
  readonly address: ServerAddress;
  readonly #ports: ConnectionPorts;
  readonly #wakeUps = new Set<() => void>();
  #client: Client | undefined;
  #waits: ReplicaWaits;
  #closed = false;
  #timesReady = 0;
  #underWay = 0;
  #lastAnswerMs = 0;
  #notReadySinceMs: number;
  #trouble: string | undefined;

  constructor(address: ServerAddress, ports: ConnectionPorts) {
    this.address = address;
    this.#ports = ports;
    this.#notReadySinceMs = ports.clock.monotonicMs();
    this.#client = this.#connect();
    this.#waits = new ReplicaWaits(this.#client, ports.clock);
  }

  get isReady(): boolean {
    return this.#client?.isReady === true;
  }

  /** How often it was made: a server that was lost and found again may be another one. */
  get timesReady(): number {
    return this.#timesReady;
  }

  /** Why the connection is not ready, as far as is known. */
  get trouble(): string {
    return this.#trouble ?? "not connected yet";
  }

  /**
   * Sends one command. Nothing below re-sends it: a reconnect rejects what is under way (the offline queue is off), and
   * this class never repeats a command.
   */
  send(command: readonly string[], withinMs: number, options: SendOptions = {}): Promise<Delivery> {
    const client = this.#client;
    const call = { ...options, command, withinMs };
    return client?.isReady ? this.#deliver(client, call) : this.#deliverWhenReady(call);
  }

  /** Waits for at most `ms` until the connection is ready, or the first attempt to make it has failed. */
  untilTried(ms: number): Promise<void> {
    return this.#until(() => this.isReady || this.#trouble !== undefined, ms);
  }

  /** Lets the answers under way arrive, but waits for nothing longer than a second. */
  async close(): Promise<void> {
    const { clock } = this.#ports;
    const endMs = clock.monotonicMs() + closeMaxMs;
    while (this.#underWay > 0 && this.isReady && clock.monotonicMs() < endMs) await clock.sleep(5);
    this.#closed = true;
    this.#trouble = "the store is closed";
    const client = this.#client;
    this.#client = undefined;
    if (client !== undefined) discard(client);
    this.#wake();
  }

  #connect(): Client {
    const client = openClient(this.address, this.#ports.random);
    client.on("error", (error: Error) => this.#onError(client, error));
    client.on("ready", () => this.#onReady(client));
    client.on("ping-interval", () => {
      this.#lastAnswerMs = this.#ports.clock.monotonicMs();
    });
    // Failed attempts come as "error" events and are repeated for ever; only a discarded client rejects here.
    client.connect().catch(() => {});
    return client;
  }

  #onReady(client: Client): void {
    if (client !== this.#client) return;
    if (this.#trouble !== undefined) this.#ports.log.info("store connection ready", this.#fields());
    this.#trouble = undefined;
    this.#timesReady += 1;
    this.#wake();
  }

  #onError(client: Client, error: Error): void {
    if (client !== this.#client) return;
    // The connection is up, yet something is wrong with what came over it: later answers could be taken for others'.
    if (client.isReady && !(error instanceof ErrorReply)) this.#reset(client, describeTrouble(error));
    else if (!client.isReady) this.#onLost(this.#describe(error));
  }

  #describe(error: Error): string {
    const isEncrypted = this.address.access.tls !== undefined;
    return this.#timesReady > 0 ? describeTrouble(error) : describeFirstTrouble(error, { isEncrypted });
  }

  #onLost(trouble: string): void {
    if (this.#trouble === undefined) this.#notReadySinceMs = this.#ports.clock.monotonicMs();
    if (this.#trouble !== trouble)
      this.#ports.log.warn("store connection lost", { ...this.#fields(), trouble });
    this.#trouble = trouble;
    this.#wake();
  }

  #fields() {
    return { server: this.address.name };
  }

  async #until(condition: () => boolean, ms: number): Promise<void> {
    const { clock } = this.#ports;
    const endMs = clock.monotonicMs() + ms;
    while (!condition() && !this.#closed) {
      const leftMs = endMs - clock.monotonicMs();
      if (leftMs <= 0) return;
      await this.#nextChange(leftMs);
    }
  }

  /** Resolves when the connection has become ready, lost or closed, or after `ms`. */
  #nextChange(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const finish = () => {
        cancel();
        this.#wakeUps.delete(finish);
        resolve();
      };
      const cancel = this.#ports.clock.timer(ms, finish);
      this.#wakeUps.add(finish);
    });
  }

  #wake(): void {
    for (const wakeUp of [...this.#wakeUps]) wakeUp();
  }

  async #deliverWhenReady(call: SentCall): Promise<Delivery> {
    const startMs = this.#ports.clock.monotonicMs();
    const graceLeftMs = this.#notReadySinceMs + reconnectGraceMs - startMs;
    await this.#until(() => this.isReady, Math.min(call.withinMs, graceLeftMs));
    const client = this.#client;
    if (!client?.isReady) return { kind: "not_sent", cause: this.trouble };
    const waitedMs = this.#ports.clock.monotonicMs() - startMs;
    return this.#deliver(client, { ...call, withinMs: call.withinMs - waitedMs });
  }

  #deliver(client: Client, call: SentCall): Promise<Delivery> {
    const { clock } = this.#ports;
    const sentMs = clock.monotonicMs();
    this.#underWay += 1;
    return new Promise((resolve) => {
      let cancel = clock.timer(call.withinMs, () => {
        // Timers come before sockets: after a pause of this process the answer may be there, waiting to be read.
        cancel = clock.timer(0, () => this.#giveUp(client, sentMs, settle));
      });
      let settled = false;
      const settle = (delivery: Delivery) => {
        if (settled) return;
        settled = true;
        cancel();
        this.#underWay -= 1;
        resolve(delivery);
      };
      if (call.preamble !== undefined) client.sendCommand(call.preamble).catch(() => {});
      const replicated = this.#replicated(call);
      client.sendCommand(call.command).then(
        async (reply) => {
          this.#lastAnswerMs = clock.monotonicMs();
          const doubt = await replicated;
          settle(doubt === undefined ? { kind: "reply", reply } : { kind: "lost", cause: doubt });
        },
        (error: unknown) => settle(this.#failure(error)),
      );
    });
  }

  /** A WAIT that outlasts its caller helps nobody, and the calls behind it wait as well. */
  #replicated({ replicaWaitMs, withinMs }: SentCall): Promise<Doubt> | undefined {
    if (replicaWaitMs === undefined) return undefined;
    return this.#waits.cover(Math.max(1, Math.floor(Math.min(replicaWaitMs, withinMs * 0.75))));
  }

  /**
   * Past the deadline. A connection that has been silent is reset, so that what still lies in its buffers is not
   * executed later and the next call finds a new one. One on which other answers came lately is slow, not hung.
   */
  #giveUp(client: Client, sentMs: number, settle: (delivery: Delivery) => void): void {
    settle({ kind: "lost", cause: "no answer within the deadline" });
    const nowMs = this.#ports.clock.monotonicMs();
    const silentMs = nowMs - Math.max(sentMs, this.#lastAnswerMs, this.#waits.silentUntilMs);
    if (client === this.#client && silentMs >= (nowMs - sentMs) / 2) {
      this.#reset(client, "no answer within the deadline");
    }
  }

  #reset(client: Client, trouble: string): void {
    this.#client = this.#connect();
    this.#waits = new ReplicaWaits(this.#client, this.#ports.clock);
    this.#onLost(trouble);
    discard(client);
  }

  #failure(error: unknown): Delivery {
    if (error instanceof ErrorReply) {
      this.#lastAnswerMs = this.#ports.clock.monotonicMs();
      return { kind: "error", message: error.message };
    }
    if (error instanceof ClientOfflineError || error instanceof ClientClosedError) {
      return { kind: "not_sent", cause: describeTrouble(error) };
    }
    return { kind: "lost", cause: `connection lost: ${describeTrouble(error)}` };
  }
}

function openClient({ host, port, database, access }: ServerAddress, random: Random) {
  const { username, password, tls } = access;
  return createClient({
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    ...(database === undefined ? {} : { database }),
    name: "interlock",
    // A command while disconnected is refused by the client at once, so that nothing is ever sent late.
    disableOfflineQueue: true,
    disableClientInfo: true,
    maintNotifications: "disabled",
    // Without pings an idle connection would run into the socket's timeout.
    pingInterval: 1_000,
    // The client's own timeout does not fire for a command already written, and costs an AbortSignal per command.
    commandOptions: { timeout: 0 },
    socket: {
      host,
      port,
      ...(tls === undefined ? {} : { tls: true, ...tls }),
      connectTimeout: 2_000,
      socketTimeout: 5_000,
      reconnectStrategy: (retries) => reconnectDelayMs(retries, random.fraction()),
    },
  });
}

/** Doubles from 25 ms to a second and is spread over half of that, so that clients do not return together. */
function reconnectDelayMs(retries: number, fraction: number): number {
  const ceilingMs = Math.min(1_000, 25 * 2 ** Math.min(retries, 10));
  return Math.ceil(ceilingMs * (0.5 + fraction / 2));
}

/**
 * Destroying a client while it connects leaves its new socket open, with a ping timer that never ends: the socket is not
 * known to the client before it is connected. So it is destroyed again when that happens.
 */
function discard(client: Client): void {
  client.on("connect", () => client.destroy());
  client.destroy();
}
