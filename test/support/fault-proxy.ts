// A TCP proxy inside the test process that delays, cuts, swallows and blackholes what goes through it.
import { createServer, type Server, Socket } from "node:net";

export type FaultProxy = {
  readonly port: number;
  readonly url: string;
  /** Forwards everything, at once. */
  pass(): void;
  /** Forwards everything, each piece after `ms`, in order. */
  delay(ms: number): void;
  /** Resets every connection, and each new one as soon as it is made. */
  cut(): void;
  /** Accepts connections and bytes, and forwards nothing. */
  blackhole(): void;
  /** Forwards requests, which the server executes, and none of its replies. */
  mute(): void;
  /**
   * Lets the next request that matches reach the server and be executed, drops its reply and resets that connection.
   * Other requests and later connections pass. Resolves when it has happened.
   */
  swallowNextReply(matches: (request: string) => boolean): Promise<void>;
  /** Takes `swallowNextReply` back, if nothing has matched yet. */
  swallowNothing(): void;
  /** How many connections were reset and pieces lost or delayed so far. */
  touched(): number;
  close(): Promise<void>;
};

export type FaultProxyOptions = {
  /** Changes what the server says, each piece as it comes. */
  readonly rewriteReply?: (chunk: Buffer) => Buffer;
};

type Mode =
  | { readonly kind: "pass" }
  | { readonly kind: "delay"; readonly ms: number }
  | { readonly kind: "cut" }
  | { readonly kind: "blackhole" }
  | { readonly kind: "mute" };

/** How long a server may take from one reply to the next of the same packet. */
const executedWithinMs = 20;

type Swallow = { readonly matches: (request: string) => boolean; readonly done: () => void };

export async function startFaultProxy(
  targetPort: number,
  options: FaultProxyOptions = {},
): Promise<FaultProxy> {
  const proxy = new FaultyServer(targetPort, options.rewriteReply);
  const port = await proxy.listen();
  return {
    port,
    url: `redis://127.0.0.1:${port}`,
    pass: () => proxy.become({ kind: "pass" }),
    delay: (ms) => proxy.become({ kind: "delay", ms }),
    cut: () => proxy.become({ kind: "cut" }),
    blackhole: () => proxy.become({ kind: "blackhole" }),
    mute: () => proxy.become({ kind: "mute" }),
    swallowNextReply: (matches) => proxy.swallowNextReply(matches),
    swallowNothing: () => {
      proxy.swallow = undefined;
    },
    touched: () => proxy.touched,
    close: () => proxy.close(),
  };
}

class FaultyServer {
  readonly #targetPort: number;
  readonly #server: Server;
  readonly #connections = new Set<Connection>();
  mode: Mode = { kind: "pass" };
  swallow: Swallow | undefined;
  touched = 0;
  readonly rewriteReply: FaultProxyOptions["rewriteReply"];

  constructor(targetPort: number, rewriteReply: FaultProxyOptions["rewriteReply"]) {
    this.#targetPort = targetPort;
    this.rewriteReply = rewriteReply;
    this.#server = createServer((client) => this.#accept(client));
  }

  listen(): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen(0, "127.0.0.1", () => {
        const address = this.#server.address();
        resolve(typeof address === "object" && address !== null ? address.port : 0);
      });
    });
  }

  become(mode: Mode): void {
    this.mode = mode;
    if (mode.kind === "cut") this.#resetAll();
    else if (mode.kind === "pass" || mode.kind === "delay") {
      for (const connection of this.#connections) connection.endIfBroken();
    }
  }

  swallowNextReply(matches: (request: string) => boolean): Promise<void> {
    return new Promise((resolve) => {
      this.swallow = { matches, done: resolve };
    });
  }

  close(): Promise<void> {
    this.#resetAll();
    return new Promise((resolve) => {
      this.#server.close(() => resolve());
    });
  }

  #accept(client: Socket): void {
    if (this.mode.kind === "cut") {
      this.touched += 1;
      client.resetAndDestroy();
      return;
    }
    const connection = new Connection(this, client, this.#targetPort);
    this.#connections.add(connection);
    client.once("close", () => this.#connections.delete(connection));
  }

  #resetAll(): void {
    this.touched += this.#connections.size;
    for (const connection of this.#connections) connection.reset();
  }
}

/** One client with its own connection to the server. */
class Connection {
  readonly #proxy: FaultyServer;
  readonly #client: Socket;
  readonly #server = new Socket();
  readonly #toServer: Pipe;
  readonly #toClient: Pipe;
  /** Set once the request has been forwarded whose reply must not get through. */
  #swallowing: Swallow | undefined;
  /** What comes after a gap would be taken for something else: no real connection ever goes on after one. */
  #hasGap = false;

  constructor(proxy: FaultyServer, client: Socket, targetPort: number) {
    this.#proxy = proxy;
    this.#client = client;
    this.#toServer = new Pipe(this.#server);
    this.#toClient = new Pipe(client);
    for (const socket of [client, this.#server]) {
      socket.setNoDelay(true);
      socket.on("error", () => this.reset());
      socket.on("close", () => this.reset());
    }
    client.on("data", (chunk) => this.#onRequest(chunk));
    this.#server.on("data", (chunk) => this.#onReply(chunk));
    this.#server.connect(targetPort, "127.0.0.1");
  }

  reset(): void {
    if (!this.#client.destroyed) this.#client.resetAndDestroy();
    this.#server.destroy();
  }

  /** When it is healed. */
  endIfBroken(): void {
    if (this.#hasGap) this.reset();
  }

  #onRequest(chunk: Buffer): void {
    const { mode, swallow } = this.#proxy;
    if (mode.kind === "blackhole") {
      this.#lose();
      return;
    }
    if (swallow?.matches(chunk.toString("latin1"))) {
      this.#proxy.swallow = undefined;
      this.#swallowing = swallow;
    }
    this.#forward(this.#toServer, chunk);
  }

  #onReply(chunk: Buffer): void {
    const { mode, rewriteReply } = this.#proxy;
    if (mode.kind === "blackhole" || mode.kind === "mute") {
      this.#lose();
      return;
    }
    if (this.#swallowing !== undefined) {
      this.#endSwallowing(this.#swallowing);
      return;
    }
    this.#forward(this.#toClient, rewriteReply === undefined ? chunk : rewriteReply(chunk));
  }

  #lose(): void {
    this.#hasGap = true;
    this.#proxy.touched += 1;
  }

  /** The first reply may be that of a ping sent before: a moment later the request has been executed for certain. */
  #endSwallowing({ done }: Swallow): void {
    setTimeout(() => {
      this.reset();
      done();
    }, executedWithinMs);
  }

  #forward(pipe: Pipe, chunk: Buffer): void {
    const { mode } = this.#proxy;
    if (mode.kind === "delay") this.#proxy.touched += 1;
    pipe.send(chunk, mode.kind === "delay" ? mode.ms : 0);
  }
}

/** One direction: pieces leave in the order in which they came, also when the delay changes between them. */
class Pipe {
  readonly #socket: Socket;
  readonly #waiting: Buffer[] = [];

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  send(chunk: Buffer, delayMs: number): void {
    if (delayMs === 0 && this.#waiting.length === 0) {
      this.#write(chunk);
      return;
    }
    this.#waiting.push(chunk);
    // Each timer lets one piece go, the oldest: a short delay after a long one cannot overtake it.
    setTimeout(() => this.#write(this.#waiting.shift() as Buffer), delayMs);
  }

  #write(chunk: Buffer): void {
    if (!this.#socket.destroyed) this.#socket.write(chunk);
  }
}
