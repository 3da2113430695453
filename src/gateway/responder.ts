// Takes a request from its head to its reply, without knowing the HTTP framework.
import type { Route } from "../api/route.ts";
import { type Operation, operations, routes } from "../api/routes.ts";
import type { Trouble } from "../control/caller.ts";
import { isPlatformKey } from "../domain/api-key.ts";
import { errors, InterlockError } from "../errors.ts";
import { authenticateAgain, authenticateRequest, keyTextOf } from "./authenticate-request.ts";
import {
  beginExchange,
  beginStream,
  type Desk,
  type Exchange,
  fail,
  failUnrouted,
  finish,
  type Head,
  openDesk,
  signalOf,
} from "./exchange.ts";
import type { Asked, Failure, RequestHeaders, Service, Streamed } from "./handler.ts";
import { handlers } from "./handlers.ts";
import { type HttpReply, type Success, successReply } from "./http-reply.ts";
import { isPacked, packedBody, readBody, readQuery, type Schemas, schemasOf } from "./read-request.ts";
import { startRequestSpan, traceparentOf } from "./trace-request.ts";

export type Responder = {
  begin(operation: Operation, head: Head): Exchange;
  /** Its key worked within the last minute. */
  isKnown(exchange: Exchange): boolean;
  /** Refuses before the body is read, or lets it pass. */
  check(exchange: Exchange): Promise<HttpReply | undefined>;
  answer(exchange: Exchange, bytes: Buffer | undefined): Promise<HttpReply>;
  /** For what the framework finds wrong; `exchange` is absent when no route was found. */
  refuse(exchange: Exchange | undefined, failure: Failure, headers: RequestHeaders): HttpReply;
  /** Answers waiting polls and ends streams. */
  wakePolls(): void;
  inFlight(): number;
  /** Resolves when nothing is under way. */
  idle(): Promise<void>;
  /** Writes down what was refused since the last minute. */
  close(): Promise<void>;
};

export function createResponder(service: Service): Responder {
  const desk = openDesk(service);
  return {
    begin: (operation, head) => beginExchange(desk, operation, head),
    isKnown: ({ head }) => desk.failures.isKnown(keyTextOf(head.headers) ?? ""),
    check: (exchange) => guarded(desk, exchange, check),
    answer: (exchange, bytes) => guarded(desk, exchange, () => answer(desk, exchange, bytes)),
    refuse: (exchange, failure, headers) =>
      exchange === undefined ? failUnrouted(desk, headers, failure) : fail(desk, exchange, failure),
    wakePolls() {
      for (const controller of desk.waiting) controller.abort();
    },
    inFlight: () => desk.inFlight.total(),
    idle: () => desk.inFlight.idle(),
    close: async () => desk.refusals?.close(),
  };
}

type AnyReply = Success | Streamed | Failure | Trouble;

type AnyHandler = (service: Service, asked: unknown) => AnyReply | Promise<AnyReply>;
type PreparedRoute = { readonly route: Route; readonly schemas: Schemas; readonly handle: AnyHandler };

const prepared = Object.fromEntries(
  operations.map((operation) => {
    const route: Route = routes[operation];
    // The table types each handler by its own row; here they are all called the same way.
    const handle = handlers[operation] as (service: Service, asked: Asked<never>) => unknown;
    return [operation, { route, schemas: schemasOf(route), handle: handle as AnyHandler }];
  }),
) as Readonly<Record<Operation, PreparedRoute>>;

async function check(desk: Desk, exchange: Exchange): Promise<HttpReply | undefined> {
  const { service, inFlight, failures } = desk;
  const { route, schemas } = prepared[exchange.operation];
  // Whoever watches the process must still learn that it lives.
  if (route.access !== "open" && service.isDraining()) return fail(desk, exchange, { kind: "draining" });
  if (inFlight.enter(exchange.place) === "overloaded") return fail(desk, exchange, { kind: "overloaded" });
  exchange.state = "entered";
  if (exchange.head.doubled !== undefined) {
    const detail = `${exchange.head.doubled}: sent more than once`;
    return fail(desk, exchange, { kind: "invalid_request", detail });
  }
  const authentication = await authenticateRequest(service, failures, route, exchange.head);
  if (authentication.kind === "refused") {
    exchange.key = authentication.key;
    return fail(desk, exchange, authentication.failure);
  }
  if (schemas.body !== undefined && isPacked(exchange.head.headers)) return fail(desk, exchange, packedBody);
  const { key } = authentication;
  exchange.key = key;
  if (key !== undefined) {
    if (!isPlatformKey(key) && service.sheds(key.tenant)) return fail(desk, exchange, aboveShare);
    const { operation, head } = exchange;
    exchange.span = startRequestSpan(service.ports, operation, head.headers, key.tenant);
    const streamsMax =
      exchange.place === "stream" ? await service.api.streamsMax({ tenant: key.tenant }) : undefined;
    if (inFlight.enterTenant(exchange.place, key.tenant, streamsMax) === "too_many_requests") {
      const named = streamsMax === undefined ? {} : { quota: "streams", limit: streamsMax };
      return fail(desk, exchange, { kind: "too_many_requests", ...named });
    }
    exchange.state = "entered_tenant";
  }
  const query = readQuery(schemas, exchange.head.query, key);
  if (query.kind === "refused") return fail(desk, exchange, query.failure);
  exchange.query = query.value;
  return undefined;
}

/** Others go on: whoever looks after the process, with a platform key, too. */
const aboveShare: Failure = {
  kind: "overloaded",
  detail: "the server is late, and this tenant has used more than its share of it: retry after Retry-After",
};

/** Reading that many takes about a millisecond. */
const largeBytes = 65_536;

async function answer(desk: Desk, exchange: Exchange, bytes: Buffer | undefined): Promise<HttpReply> {
  const { route, schemas, handle } = prepared[exchange.operation];
  const { headers } = exchange.head;
  const ended = await authenticateAgain(desk.service, route, exchange.key, headers);
  if (ended !== undefined) return fail(desk, exchange, ended);
  const contentType = typeof headers["content-type"] === "string" ? headers["content-type"] : undefined;
  const { computing } = desk.service;
  const { operation, key, requestId } = exchange;
  const pace = computing.paced(operation, key?.tenant);
  const body = await readBody(pace, schemas, { bytes, contentType }, exchange.key);
  if (body.kind === "refused") {
    pace.end();
    return fail(desk, exchange, body.failure);
  }
  // What follows from a large body is work again: it begins when everybody else has had a turn.
  if (bytes !== undefined && bytes.length > largeBytes) await pace.yield();
  const answering = handle(desk.service, {
    params: exchange.head.params,
    query: exchange.query,
    body: body.value,
    headers: exchange.head.headers,
    key: exchange.key,
    span: exchange.span,
    traceparent: () => traceparentOf(exchange.span, exchange.head.headers),
    signal: () => signalOf(desk, exchange),
  });
  pace.end();
  const reply = await answering;
  if ("kind" in reply) return fail(desk, exchange, reply);
  if ("stream" in reply) return beginStream(desk, exchange, reply.stream);
  const rendered = computing.time(operation, key?.tenant, () => successReply(reply, requestId));
  return finish(desk, exchange, rendered);
}

/** Nothing that is thrown may leave a request without its answer, or its place taken. */
async function guarded<Value>(
  desk: Desk,
  exchange: Exchange,
  work: (desk: Desk, exchange: Exchange) => Promise<Value>,
): Promise<Value | HttpReply> {
  try {
    return await work(desk, exchange);
  } catch (error) {
    return fail(desk, exchange, thrownFailure(error));
  }
}

function thrownFailure(error: unknown): Failure {
  const cause = error instanceof Error ? (error.stack ?? error.message) : String(error);
  if (!(error instanceof InterlockError)) return { kind: "internal", cause };
  const isCallers = errors[error.code].status < 500;
  return { kind: error.code, cause, ...(isCallers ? { detail: error.detail } : {}) };
}
