// Carries requests of the HTTP server to the responder and its replies back: routing, bodies within their limit, writing.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { parse as parseQuery } from "node:querystring";
import { isReadableType, type Route } from "../api/route.ts";
import { type Operation, routes } from "../api/routes.ts";
import type { AddressRanges } from "../domain/network-address.ts";
import type { Log } from "../ports/ports.ts";
import { type Client, clientOf } from "./authenticate-request.ts";
import { type Connections, noteRequest } from "./connections.ts";
import { sinkOf } from "./event-stream.ts";
import type { Exchange, Head } from "./exchange.ts";
import type { Failure, RequestHeaders, Service } from "./handler.ts";
import type { HttpReply } from "./http-reply.ts";
import { wrongMediaType } from "./read-request.ts";
import type { Responder } from "./responder.ts";
import type { Found, Router } from "./router.ts";

type Serving = {
  readonly service: Service;
  readonly responder: Responder;
  readonly connections: Connections;
  readonly trusted: AddressRanges;
  readonly router: Router;
  readonly replies: ReplyQueue;
};

type Message = { readonly request: IncomingMessage; readonly response: ServerResponse };

/** For every request whose head has come. */
export function takeRequest(serving: Serving, request: IncomingMessage, response: ServerResponse): void {
  const { responder, connections, router, trusted } = serving;
  const { socket, headers, method = "", url = "" } = request;
  const found = router.find(method, url);
  if (found.kind === "not_found") {
    send(serving, response, responder.refuse(undefined, found.failure, headers));
    return;
  }
  noteRequest(socket, response);
  connections.requestBegan(socket);
  const { operation } = found;
  const message = { request, response };
  const exchange = responder.begin(operation, new HttpHead(message, found, trusted));
  if (connections.isReserved(socket) && !responder.isKnown(exchange)) {
    response.shouldKeepAlive = false;
    if (!isHealthCheck(operation)) {
      connections.noteRefused(exchange.head.address);
      send(serving, response, responder.refuse(exchange, { kind: "overloaded" }, headers));
      return;
    }
  }
  const refusal = responder.check(exchange);
  if (refusal instanceof Promise) void refusal.then((late) => goOn(serving, message, exchange, late));
  else goOn(serving, message, exchange, refusal);
}

const isHealthCheck = (operation: Operation): boolean => operation === "live" || operation === "ready";

function goOn(serving: Serving, message: Message, exchange: Exchange, refusal: HttpReply | undefined): void {
  if (refusal === undefined) takeBody(serving, message, exchange);
  else send(serving, message.response, refusal);
}

function takeBody(serving: Serving, message: Message, exchange: Exchange): void {
  const { request } = message;
  const route: Route = routes[exchange.operation];
  if (route.method === "GET") {
    answer(serving, message, exchange, undefined);
    return;
  }
  const { headers } = request;
  const type = headers["content-type"];
  const length = headers["content-length"];
  if (type === undefined && headers["transfer-encoding"] === undefined && (length ?? "0") === "0") {
    answer(serving, message, exchange, undefined);
    return;
  }
  const bytesMax = serving.service.config["gateway.bodyBytesMax"];
  if (!isReadableType(type)) refuse(serving, message, exchange, wrongMediaType(route));
  else if (Number(length ?? 0) > bytesMax) refuse(serving, message, exchange, tooLarge);
  // Its client went away while the key was looked up: no event would come any more.
  else if (request.destroyed) refuse(serving, message, exchange, unreadable);
  else readBytes(serving, message, exchange, bytesMax);
}

const tooLarge: Failure = {
  kind: "payload_too_large",
  detail: "the body is larger than gateway.bodyBytesMax",
};
const unreadable: Failure = { kind: "invalid_request", detail: "the request could not be read" };

/** No more is kept than may be read: what follows is dropped as it comes. */
function readBytes(serving: Serving, message: Message, exchange: Exchange, bytesMax: number): void {
  const { request } = message;
  let first: Buffer | undefined;
  let others: Buffer[] | undefined;
  let received = 0;
  let isOver = false;
  request.on("data", (chunk: Buffer) => {
    received += chunk.length;
    if (isOver) return;
    if (received > bytesMax) {
      isOver = true;
      refuse(serving, message, exchange, tooLarge);
    } else if (first === undefined) first = chunk;
    else if (others === undefined) others = [first, chunk];
    else others.push(chunk);
  });
  request.on("end", () => {
    if (isOver) return;
    isOver = true;
    answer(serving, message, exchange, others === undefined ? first : Buffer.concat(others, received));
  });
  request.on("error", () => {
    if (isOver) return;
    isOver = true;
    refuse(serving, message, exchange, unreadable);
  });
}

function answer(serving: Serving, message: Message, exchange: Exchange, bytes: Buffer | undefined): void {
  const reply = serving.responder.answer(exchange, bytes);
  if (reply instanceof Promise) void reply.then((late) => send(serving, message.response, late));
  else send(serving, message.response, reply);
}

function refuse(serving: Serving, { request, response }: Message, exchange: Exchange, failure: Failure) {
  send(serving, response, serving.responder.refuse(exchange, failure, request.headers));
}

function send({ service, replies }: Serving, response: ServerResponse, reply: HttpReply): void {
  // A client that keeps the connection open must look for another process.
  if (service.isDraining()) response.shouldKeepAlive = false;
  replies.put(response, reply);
}

type ReplyQueue = { put(response: ServerResponse, reply: HttpReply): void };

/**
 * Replies that become ready together are written together, after the work that made them ready. A client on this machine is woken
 * once for all of them: woken for each, a write costs 5 us more.
 */
export function createReplyQueue(log: Log): ReplyQueue {
  let waiting: Array<{ readonly response: ServerResponse; readonly reply: HttpReply }> = [];
  const writeAll = () => {
    const due = waiting;
    waiting = [];
    for (const { response, reply } of due) {
      try {
        write(response, reply);
      } catch (error) {
        // The others are not to blame.
        log.error("a reply could not be written", { status: reply.status, cause: String(error) });
        response.destroy();
      }
    }
  };
  return {
    put(response, reply) {
      if (waiting.length === 0) process.nextTick(writeAll);
      waiting.push({ response, reply });
    },
  };
}

function write(response: ServerResponse, { status, headers, body, stream }: HttpReply): void {
  const isOpen = !response.headersSent && !response.destroyed;
  if (isOpen) response.writeHead(status, headers as Record<string, string>);
  if (isOpen && (stream === undefined || response.req.method === "HEAD")) response.end(body);
  if (stream !== undefined) void stream(sinkOf(response));
}

/** A class, since every request has one: its methods are shared. */
class HttpHead implements Head {
  readonly params: Found["params"];
  readonly query: Readonly<Record<string, unknown>>;
  readonly headers: RequestHeaders;
  readonly repeated: string | undefined;
  readonly address: string;
  readonly isHidden: boolean;
  readonly #socket: Socket;
  readonly #response: ServerResponse;

  constructor({ request, response }: Message, { params, query }: Found, trusted: AddressRanges) {
    const { socket, headers } = request;
    const client: Client = clientOf(trusted, socket.remoteAddress ?? "", headers);
    this.params = params;
    this.query = query === "" ? noQuery : parseQuery(query, "&", "=", { maxKeys: 0 });
    this.headers = headers;
    this.repeated = repeatedField(request);
    this.address = client.address;
    this.isHidden = client.isHidden;
    this.#socket = socket;
    this.#response = response;
  }

  connection(): AbortSignal {
    return connectionSignal(this.#socket);
  }

  onGone(callback: () => void): void {
    const response = this.#response;
    if (response.destroyed) callback();
    else response.once("close", () => response.writableFinished || callback());
  }
}

const noQuery: Readonly<Record<string, unknown>> = {};

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
