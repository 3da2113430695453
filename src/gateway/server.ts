// The HTTP server: opens it with its limits, listens, and stops from the outside in.
import { once } from "node:events";
import { createServer as createHttpServer, type Server as HttpServer, type ServerOptions } from "node:http";
import { createServer as createHttpsServer, type Server as HttpsServer } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { type Operation, operations } from "../api/routes.ts";
import type { Config } from "../config.ts";
import { type Computing, createComputing } from "../control/computing.ts";
import type { ControlApi } from "../control/create-api.ts";
import { type AddressRanges, isLoopback, readAddressRanges } from "../domain/network-address.ts";
import { InterlockError } from "../errors.ts";
import type { BusRequest, Consumer } from "../ports/bus.ts";
import type { Ports } from "../ports/ports.ts";
import { answerBusRequest } from "./bus-requests.ts";
import { answerBrokenRequest, connectionLimits, endConnections, watchConnections } from "./connections.ts";
import { createEventLoop } from "./event-loop.ts";
import type { Service } from "./handler.ts";
import { createReplyQueue, takeRequest } from "./http-requests.ts";
import { createResponder } from "./responder.ts";
import { createRouter } from "./router.ts";
import { openTls, type Tls } from "./tls.ts";

export type GatewayDependencies = {
  readonly api: ControlApi;
  readonly ports: Pick<Ports, "clock" | "random" | "log" | "metrics" | "tracer" | "instance">;
  readonly config: Config;
  /** Of the control plane, so that what it computes counts, too. */
  readonly computing?: Computing;
  /** `health` alone is what a process without the role `gateway` answers. */
  readonly serves?: "everything" | "health";
  /** The product's version, told to authenticated callers only. */
  readonly version?: string;
  metricsText(): Promise<string> | string;
  /** Workers that speak over it are served as those over HTTP; absent where there are none. */
  serveBus?(answer: (request: BusRequest) => Promise<readonly string[]>): Consumer;
};

export type Gateway = {
  /** By default where the configuration says. Refuses an address that other machines reach unless it is allowed. */
  listen(where?: { readonly host?: string; readonly port?: number }): Promise<{ readonly url: string }>;
  /**
   * Refuses new requests, ends polls and streams, lets the others finish, and cuts what is left after gateway.drainMs. Connections
   * stay open for gateway.lingerMs, so that the next answer on each tells its client to close it.
   */
  close(): Promise<void>;
  /** Requests, polls and streams under way. */
  inFlight(): number;
};

export function createGateway(dependencies: GatewayDependencies): Gateway {
  const { config, ports } = dependencies;
  let isDraining = false;
  const { computing = createComputing(ports.clock) } = dependencies;
  const eventLoop = createEventLoop({ ports, config, computing });
  const service: Service = {
    version: "unknown",
    ...dependencies,
    computing,
    metricsText: () => dependencies.metricsText(),
    isDraining: () => isDraining,
    sheds: (tenant) => eventLoop.sheds(tenant),
  };
  const responder = createResponder(service);
  const tls = openTls(ports, config);
  const server = createServer(config, tls);
  const stopWatching = tls?.watch((options) => (server as HttpsServer).setSecureContext(options));
  const trusted = trustedProxies(config);
  const connections = watchConnections(ports, server, { limits: connectionLimits(config), trusted });
  const serves = dependencies.serves ?? "everything";
  const isServed = (name: Operation) => serves === "everything" || healthOperations.has(name);
  const router = createRouter(operations.filter(isServed));
  const serving = { service, responder, connections, trusted, router, replies: createReplyQueue(ports.log) };
  server.on("request", (request, response) => takeRequest(serving, request, response));
  const cut = new AbortController();
  const served = { api: service.api, responder };
  let overBus: Consumer | undefined;
  let closing: Promise<void> | undefined;

  const close = async () => {
    isDraining = true;
    stopWatching?.();
    await overBus?.stop();
    ports.log.info("the gateway stops taking requests", { inFlight: responder.inFlight() });
    responder.wakePolls();
    await endConnections(ports.clock, {
      connections: connections.sockets,
      lingerMs: config["gateway.lingerMs"],
      drainMs: config["gateway.drainMs"],
      idle: () => responder.idle(),
      close: () => closeServer(server),
      cut: () => connections.cut(),
    });
    cut.abort();
    await responder.close();
    eventLoop.stop();
  };

  return {
    async listen({ host = config["gateway.host"], port = config["gateway.port"] } = {}) {
      if (!isLoopback(host) && tls === undefined && config["gateway.allowRemote"] === "no") {
        const detail =
          `gateway.host ${host} is reached by other machines: set gateway.tls.certificateFile and gateway.tls.keyFile, ` +
          "or gateway.allowRemote to yes behind something that speaks TLS";
        throw new InterlockError("config_invalid", detail);
      }
      const at = await listenOn(server, { host, port });
      const url = `${tls === undefined ? "http" : "https"}://${at.host}:${at.port}`;
      eventLoop.watch();
      if (serves === "everything")
        overBus = dependencies.serveBus?.((request) => answerBusRequest(served, request, cut.signal));
      return { url };
    },
    close: () => {
      closing ??= close();
      return closing;
    },
    inFlight: () => responder.inFlight(),
  };
}

function createServer(config: Config, tls: Tls | undefined): HttpServer {
  const headersTimeout = config["gateway.headersTimeoutMs"];
  const options: ServerOptions = {
    headersTimeout,
    connectionsCheckingInterval: Math.min(1_000, headersTimeout),
    requestTimeout: config["gateway.requestTimeoutMs"],
    keepAliveTimeout: config["gateway.keepAliveMs"],
  };
  const server =
    tls === undefined
      ? createHttpServer(options)
      : createHttpsServer({ ...options, ...tls.options, handshakeTimeout: headersTimeout });
  // Heads are bounded by their bytes. By default all fields after 2,000 are dropped unseen, an Idempotency-Key too.
  server.maxHeadersCount = 0;
  server.on("clientError", (error, socket) => answerBrokenRequest(error, socket as Socket));
  return server;
}

async function listenOn(server: HttpServer, where: { readonly host: string; readonly port: number }) {
  const listening = once(server, "listening");
  server.listen(where);
  await listening;
  const { address, port } = server.address() as AddressInfo;
  // Nobody can ask for the address that stands for all of them.
  const named = address === "0.0.0.0" ? "127.0.0.1" : address;
  return { host: named.includes(":") ? `[${named}]` : named, port };
}

/** Takes no more connections and closes the idle ones; resolves when all are closed, also where it never listened. */
function closeServer(server: HttpServer): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeIdleConnections();
  });
}

const healthOperations: ReadonlySet<Operation> = new Set(["live", "ready", "metrics"]);

function trustedProxies(config: Config): AddressRanges {
  const ranges = readAddressRanges(config["gateway.trustedProxies"]);
  if (ranges.kind === "ranges") return ranges;
  throw new InterlockError(
    "config_invalid",
    `gateway.trustedProxies: ${ranges.entry} is no address or range`,
  );
}
