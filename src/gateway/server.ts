// The HTTP server: the only file that knows the framework. It hands heads and bodies to the responder and sends its replies.
import type { IncomingMessage } from "node:http";
import type { Server as HttpsServer } from "node:https";
import type { Socket } from "node:net";
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from "fastify";
import type { Route } from "../api/route.ts";
import { jsonMediaType, yamlMediaTypes } from "../api/route.ts";
import { type Operation, operations, routes } from "../api/routes.ts";
import type { Config } from "../config.ts";
import { type Computing, createComputing } from "../control/computing.ts";
import type { ControlApi } from "../control/create-api.ts";
import { type AddressRanges, isLoopback, readAddressRanges } from "../domain/network-address.ts";
import { InterlockError } from "../errors.ts";
import type { BusRequest, Consumer } from "../ports/bus.ts";
import type { Ports } from "../ports/ports.ts";
import { clientOf } from "./authenticate-request.ts";
import { answerBusRequest } from "./bus-requests.ts";
import {
  answerBrokenRequest,
  type Connections,
  connectionLimits,
  endConnections,
  noteRequest,
  watchConnections,
} from "./connections.ts";
import { createEventLoop } from "./event-loop.ts";
import { sinkOf } from "./event-stream.ts";
import type { Exchange, Head } from "./exchange.ts";
import type { Failure, Service } from "./handler.ts";
import type { HttpReply } from "./http-reply.ts";
import { wrongMediaType } from "./read-request.ts";
import { createResponder, type Responder } from "./responder.ts";
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
  const app = createServer(service, responder, tls);
  const stopWatching = tls?.watch((options) => (app.server as HttpsServer).setSecureContext(options));
  const trusted = trustedProxies(config);
  const connections = watchConnections(ports, app.server, { limits: connectionLimits(config), trusted });
  const serves = dependencies.serves ?? "everything";
  addRoutes(app, responder, { service, serves, connections, trusted });
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
      close: () => app.close(),
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
      const url = await app.listen({ host, port });
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

/** Paths hold ids of up to 255 characters, each of which may be spelt as three. */
const pathPartMax = 1_024;

function createServer(service: Service, responder: Responder, tls: Tls | undefined): FastifyInstance {
  const { config } = service;
  const headersTimeout = config["gateway.headersTimeoutMs"];
  const http = { headersTimeout, connectionsCheckingInterval: Math.min(1_000, headersTimeout) };
  const https = { ...http, ...tls?.options, handshakeTimeout: headersTimeout };
  // The framework's types tell the two servers apart; what is used here both have.
  const transport = (tls === undefined ? { http } : { https }) as { readonly http: typeof http };
  const app = fastify({
    logger: false,
    bodyLimit: config["gateway.bodyBytesMax"],
    requestTimeout: config["gateway.requestTimeoutMs"],
    keepAliveTimeout: config["gateway.keepAliveMs"],
    ...transport,
    forceCloseConnections: "idle",
    return503OnClosing: false,
    routerOptions: { maxParamLength: pathPartMax },
    // Ids are the responder's: the framework's own would only cost.
    genReqId: () => "",
    clientErrorHandler: (error, socket) => answerBrokenRequest(error, socket as Socket),
    frameworkErrors: (error, request, reply) => {
      send(reply, withDraining(responder.refuse(undefined, failureOf(error), request.headers), service));
    },
  });
  // Heads are bounded by their bytes. By default all fields after 2,000 are dropped unseen, an Idempotency-Key too.
  app.server.maxHeadersCount = 0;
  app.removeAllContentTypeParsers();
  const types = [jsonMediaType, ...yamlMediaTypes];
  app.addContentTypeParser(types, { parseAs: "buffer" }, (_request, body, done) => {
    done(null, body);
  });
  app.setErrorHandler<Error>((error, request, reply) => {
    const exchange = exchangeOf(request);
    const refusal = responder.refuse(exchange, failureOf(error, exchange), request.headers);
    send(reply, withDraining(refusal, service));
  });
  app.setNotFoundHandler((request, reply) => {
    send(reply, withDraining(responder.refuse(undefined, unroutable(request), request.headers), service));
  });
  return app;
}

const exchangeName = "exchange";
type WithExchange = { [exchangeName]: Exchange | undefined };

const exchangeOf = (request: FastifyRequest): Exchange | undefined =>
  (request as unknown as WithExchange)[exchangeName];

const healthOperations: ReadonlySet<Operation> = new Set(["live", "ready", "metrics"]);

const isHealthCheck = (operation: Operation): boolean => operation === "live" || operation === "ready";

type Served = {
  readonly service: Service;
  readonly serves: "everything" | "health";
  readonly connections: Connections;
  readonly trusted: AddressRanges;
};

function addRoutes(app: FastifyInstance, responder: Responder, served: Served): void {
  const { service, connections, trusted } = served;
  app.decorateRequest(exchangeName, undefined);
  const isServed = (name: Operation) => served.serves === "everything" || healthOperations.has(name);
  for (const operation of operations.filter(isServed)) {
    const route: Route = routes[operation];
    app.route({
      method: route.method,
      url: route.path.replaceAll(/\{([a-z_]+)\}/g, ":$1"),
      config: { operation },
      onRequest(request, reply, done) {
        noteRequest(request.socket, reply.raw);
        connections.requestBegan(request.socket);
        const exchange = responder.begin(operation, headOf(request, reply, trusted));
        (request as unknown as WithExchange)[exchangeName] = exchange;
        if (connections.isReserved(request.socket) && !responder.isKnown(exchange)) {
          reply.raw.shouldKeepAlive = false;
          if (!isHealthCheck(operation)) {
            connections.noteRefused(exchange.head.address);
            send(reply, responder.refuse(exchange, { kind: "overloaded" }, request.headers));
            return;
          }
        }
        const pass = (refusal: HttpReply | undefined) => {
          if (refusal === undefined) done();
          else send(reply, withDraining(refusal, service));
        };
        responder.check(exchange).then(pass, done);
      },
      handler(request, reply) {
        const exchange = exchangeOf(request);
        if (exchange === undefined) throw new Error("every request is begun before it is handled");
        const body = request.body as Buffer | undefined;
        responder
          .answer(exchange, body)
          .then((answer) => send(reply, withDraining(answer, service)))
          .catch((error: unknown) => reply.send(error));
      },
    });
  }
}

function trustedProxies(config: Config): AddressRanges {
  const ranges = readAddressRanges(config["gateway.trustedProxies"]);
  if (ranges.kind === "ranges") return ranges;
  throw new InterlockError(
    "config_invalid",
    `gateway.trustedProxies: ${ranges.entry} is no address or range`,
  );
}

function headOf(request: FastifyRequest, reply: FastifyReply, trusted: AddressRanges): Head {
  const { raw } = reply;
  return {
    params: request.params as Record<string, string>,
    query: request.query as Record<string, unknown>,
    headers: request.headers,
    repeated: repeatedField(request.raw),
    ...clientOf(trusted, request.socket.remoteAddress ?? "", request.headers),
    connection: () => connectionSignal(request.socket),
    onGone(callback) {
      if (raw.destroyed) callback();
      else raw.once("close", () => raw.writableFinished || callback());
    },
  };
}

/** Two readers of a request might each believe another one of two values: whose host, whose key, what kind of body. */
const singleFields: ReadonlySet<string> = new Set(["host", "authorization", "content-type"]);

function repeatedField({ rawHeaders, headers }: IncomingMessage): string | undefined {
  // Nothing came twice: all but a few requests end here.
  if (rawHeaders.length === Object.keys(headers).length * 2) return undefined;
  const seen = new Set<string>();
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = (rawHeaders[index] ?? "").toLowerCase();
    if (seen.has(name) && singleFields.has(name)) return name;
    seen.add(name);
  }
  return undefined;
}

const connectionSignals = new WeakMap<Socket, AbortSignal>();

function connectionSignal(socket: Socket): AbortSignal {
  const known = connectionSignals.get(socket);
  if (known !== undefined) return known;
  const controller = new AbortController();
  if (socket.destroyed) controller.abort();
  else socket.once("close", () => controller.abort());
  connectionSignals.set(socket, controller.signal);
  return controller.signal;
}

/** Written by hand: the framework's way of sending would look at every field again. */
function send(reply: FastifyReply, { status, headers, body, stream }: HttpReply): void {
  const { raw } = reply.hijack();
  const isOpen = !raw.headersSent && !raw.destroyed;
  if (isOpen) raw.writeHead(status, headers as Record<string, string>);
  if (isOpen && (stream === undefined || raw.req.method === "HEAD")) raw.end(body);
  if (stream !== undefined) void stream(sinkOf(raw));
}

/** A client that keeps the connection open must look for another process. */
function withDraining(reply: HttpReply, service: Service): HttpReply {
  return service.isDraining() ? { ...reply, headers: { ...reply.headers, connection: "close" } } : reply;
}

/** The framework's own refusals by their codes. */
const frameworkFailures: Readonly<Record<string, Failure>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: {
    kind: "payload_too_large",
    detail: "the body is larger than gateway.bodyBytesMax",
  },
  FST_ERR_MAX_PARAM_LENGTH: { kind: "route_not_found" },
  FST_ERR_BAD_URL: { kind: "invalid_request", detail: "the path is not spelt correctly" },
};

function failureOf(
  error: Error & { readonly code?: string; readonly statusCode?: number },
  exchange?: Exchange,
): Failure {
  if (error.code === "FST_ERR_CTP_INVALID_MEDIA_TYPE") {
    return wrongMediaType(exchange === undefined ? {} : (routes[exchange.operation] as Route));
  }
  const known = frameworkFailures[error.code ?? ""];
  if (known !== undefined) return known;
  if (error.statusCode !== undefined && error.statusCode < 500) {
    return { kind: "invalid_request", detail: "the request could not be read" };
  }
  return { kind: "internal", cause: error.stack ?? error.message };
}

const pathPatterns = operations.map((operation) => ({
  method: routes[operation].method,
  pattern: new RegExp(
    `^${routes[operation].path.replaceAll(".", "\\.").replaceAll(/\{[a-z_]+\}/g, "[^/]+")}$`,
  ),
}));

function unroutable({ url }: FastifyRequest): Failure {
  const path = url.split("?", 1)[0] ?? "";
  const methods = pathPatterns.filter(({ pattern }) => pattern.test(path)).map(({ method }) => method);
  if (methods.length === 0) return { kind: "route_not_found" };
  const allow = [...new Set(methods.flatMap((method) => (method === "GET" ? ["GET", "HEAD"] : [method])))];
  return { kind: "method_not_allowed", headers: { allow: allow.join(", ") } };
}
