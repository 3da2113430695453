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
  /**
   * Lets the next request that matches reach the server and be executed, drops its reply and resets that connection.
   * Other requests and later connections pass. Resolves when it has happened.
   */
  swallowNextReply(matches: (request: string) => boolean): Promise<void>;
  close(): Promise<void>;
};

type Mode =
  | { readonly kind: "pass" }
  | { readonly kind: "delay"; readonly ms: number }
  | { readonly kind: "cut" }
  | { readonly kind: "blackhole" };

/** How long a server may take from one reply to the next of the same packet. */
const executedWithinMs = 20;

type Swallow = { readonly matches: (request: string) => boolean; readonly done: () => void };

export async function startFaultProxy(targetPort: number): Promise<FaultProxy> {
  const proxy = new FaultyServer(targetPort);
  const port = await proxy.listen();
  return {
    port,
    url: `redis://127.0.0.1:${port}`,
    pass: () => proxy.become({ kind: "pass" }),
    delay: (ms) => proxy.become({ kind: "delay", ms }),
    cut: () => proxy.become({ kind: "cut" }),
    blackhole: () => proxy.become({ kind: "blackhole" }),
    swallowNextReply: (matches) => proxy.swallowNextReply(matches),
    close: () => proxy.close(),
  };
}

class FaultyServer {
  readonly #targetPort: number;
  readonly #server: Server;
  readonly #connections = new Set<Connection>();
  mode: Mode = { kind: "pass" };
  swallow: Swallow | undefined;

  constructor(targetPort: number) {
    this.#targetPort = targetPort;
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
      client.resetAndDestroy();
      return;
    }
    const connection = new Connection(this, client, this.#targetPort);
    this.#connections.add(connection);
    client.once("close", () => this.#connections.delete(connection));
  }

  #resetAll(): void {
    for (const connection of this.#connections) connection.reset();
  }
}

/** One client with its own connection to the server. */
class Connection {
  readonly #proxy: FaultyServer;
  readonly #client: Socket;
  readonly #server = new Socket();
  /** Set once the request has been forwarded whose reply must not get through. */
  #swallowing: Swallow | undefined;

  constructor(proxy: FaultyServer, client: Socket, targetPort: number) {
    this.#proxy = proxy;
    this.#client = client;
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

  #onRequest(chunk: Buffer): void {
    if (this.#proxy.mode.kind === "blackhole") return;
    const swallow = this.#proxy.swallow;
    if (swallow?.matches(chunk.toString("latin1"))) {
      this.#proxy.swallow = undefined;
      this.#swallowing = swallow;
    }
    this.#forward(this.#server, chunk);
  }

  #onReply(chunk: Buffer): void {
    if (this.#proxy.mode.kind === "blackhole") return;
    if (this.#swallowing !== undefined) {
      this.#endSwallowing(this.#swallowing);
      return;
    }
    this.#forward(this.#client, chunk);
  }

  /** The first reply may be that of a ping sent before: a moment later the request has been executed for certain. */
  #endSwallowing({ done }: Swallow): void {
    setTimeout(() => {
      this.reset();
      done();
    }, executedWithinMs);
  }

  #forward(socket: Socket, chunk: Buffer): void {
    const { mode } = this.#proxy;
    const write = () => {
      if (!socket.destroyed) socket.write(chunk);
    };
    if (mode.kind === "delay") setTimeout(write, mode.ms);
    else write();
  }
}
