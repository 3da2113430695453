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
  createTraffic,
  type Exchange,
  fail,
  failUnrouted,
  finish,
  type Head,
  signalOf,
  startRequestSpan,
  type Traffic,
  traceparentOf,
} from "./exchange.ts";
import type { Asked, Failure, Handlers, RequestHeaders, Service, Streamed } from "./handler.ts";
import { approvalHandlers } from "./handlers/approval-handlers.ts";
import { deadLetterHandlers } from "./handlers/dead-letter-handlers.ts";
import { auditHandlers, eventHandlers } from "./handlers/event-handlers.ts";
import { jobHandlers } from "./handlers/job-handlers.ts";
import { lockHandlers } from "./handlers/lock-handlers.ts";
import { canaryHandlers, policyHandlers } from "./handlers/policy-handlers.ts";
import { poolHandlers } from "./handlers/pool-handlers.ts";
import { runHandlers, startHandlers } from "./handlers/run-handlers.ts";
import { serverHandlers } from "./handlers/server-handlers.ts";
import { keyHandlers, tenantHandlers } from "./handlers/tenant-handlers.ts";
import { workflowHandlers } from "./handlers/workflow-handlers.ts";
import { type HttpReply, type Success, successReply } from "./http-reply.ts";
import {
  compressedBody,
  isCompressed,
  readBody,
  readQuery,
  type Schemas,
  schemasOf,
} from "./read-request.ts";

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
  const traffic = createTraffic(service);
  return {
    begin: (operation, head) => beginExchange(traffic, operation, head),
    isKnown: ({ head }) => traffic.failures.isKnown(keyTextOf(head.headers) ?? ""),
    check: (exchange) => guarded(traffic, exchange, check),
    answer: (exchange, bytes) => guarded(traffic, exchange, () => answer(traffic, exchange, bytes)),
    refuse: (exchange, failure, headers) =>
      exchange === undefined ? failUnrouted(traffic, headers, failure) : fail(traffic, exchange, failure),
    wakePolls() {
      for (const controller of traffic.waiting) controller.abort();
    },
    inFlight: () => traffic.inFlight.total(),
    idle: () => traffic.inFlight.idle(),
    close: async () => traffic.refusals?.close(),
  };
}

type AnyReply = Success | Streamed | Failure | Trouble;

type AnyHandler = (service: Service, asked: unknown) => AnyReply | Promise<AnyReply>;
type PreparedRoute = { readonly route: Route; readonly schemas: Schemas; readonly handle: AnyHandler };

/** One per operation: a missing one does not compile. */
const handlers: Handlers = {
  ...workflowHandlers,
  ...startHandlers,
  ...runHandlers,
  ...jobHandlers,
  ...poolHandlers,
  ...approvalHandlers,
  ...deadLetterHandlers,
  ...lockHandlers,
  ...tenantHandlers,
  ...policyHandlers,
  ...canaryHandlers,
  ...keyHandlers,
  ...eventHandlers,
  ...auditHandlers,
  ...serverHandlers,
};

const prepared = Object.fromEntries(
  operations.map((operation) => {
    const route: Route = routes[operation];
    // The table types each handler by its own row; here they are all called the same way.
    const handle = handlers[operation] as (service: Service, asked: Asked<never>) => unknown;
    return [operation, { route, schemas: schemasOf(route), handle: handle as AnyHandler }];
  }),
) as Readonly<Record<Operation, PreparedRoute>>;

async function check(traffic: Traffic, exchange: Exchange): Promise<HttpReply | undefined> {
  const { service, inFlight, failures } = traffic;
  const { route, schemas } = prepared[exchange.operation];
  // Health checks must still learn that it lives.
  if (route.access !== "open" && service.isDraining()) return fail(traffic, exchange, { kind: "draining" });
  if (inFlight.enter(exchange.load) === "overloaded") return fail(traffic, exchange, { kind: "overloaded" });
  exchange.state = "entered";
  if (exchange.head.repeated !== undefined) {
    const detail = `${exchange.head.repeated}: sent more than once`;
    return fail(traffic, exchange, { kind: "invalid_request", detail });
  }
  const authentication = await authenticateRequest(service, failures, route, exchange.head);
  if (authentication.kind === "refused") {
    exchange.key = authentication.key;
    return fail(traffic, exchange, authentication.failure);
  }
  if (schemas.body !== undefined && isCompressed(exchange.head.headers))
    return fail(traffic, exchange, compressedBody);
  const { key } = authentication;
  exchange.key = key;
  if (key !== undefined) {
    if (!isPlatformKey(key) && service.sheds(key.tenant)) return fail(traffic, exchange, aboveShare);
    const { operation, head } = exchange;
    exchange.span = startRequestSpan(service.ports, operation, head.headers, key.tenant);
    const streamsMax =
      exchange.load === "stream" ? await service.api.streamsMax({ tenant: key.tenant }) : undefined;
    if (inFlight.enterTenant(exchange.load, key.tenant, streamsMax) === "too_many_requests") {
      const named = streamsMax === undefined ? {} : { quota: "streams", limit: streamsMax };
      return fail(traffic, exchange, { kind: "too_many_requests", ...named });
    }
    exchange.state = "entered_tenant";
  }
  const query = readQuery(schemas, exchange.head.query, key);
  if (query.kind === "refused") return fail(traffic, exchange, query.failure);
  exchange.query = query.value;
  return undefined;
}

/** Others go on, operators with a platform key among them. */
const aboveShare: Failure = {
  kind: "overloaded",
  detail: "the server is late, and this tenant has used more than its share of it: retry after Retry-After",
};

/** Reading that many takes about a millisecond. */
const largeBytes = 65_536;

async function answer(traffic: Traffic, exchange: Exchange, bytes: Buffer | undefined): Promise<HttpReply> {
  const { route, schemas, handle } = prepared[exchange.operation];
  const { headers } = exchange.head;
  const ended = await authenticateAgain(traffic.service, route, exchange.key, headers);
  if (ended !== undefined) return fail(traffic, exchange, ended);
  const contentType = typeof headers["content-type"] === "string" ? headers["content-type"] : undefined;
  const { computing } = traffic.service;
  const { operation, key, requestId } = exchange;
  const pace = computing.paced(operation, key?.tenant);
  const body = await readBody(pace, schemas, { bytes, contentType }, exchange.key);
  if (body.kind === "refused") {
    pace.end();
    return fail(traffic, exchange, body.failure);
  }
  // What follows from a large body is work again: it begins when everybody else has had a turn.
  if (bytes !== undefined && bytes.length > largeBytes) await pace.yield();
  const answering = handle(traffic.service, {
    params: exchange.head.params,
    query: exchange.query,
    body: body.value,
    headers: exchange.head.headers,
    key: exchange.key,
    span: exchange.span,
    traceparent: () => traceparentOf(exchange.span, exchange.head.headers),
    signal: () => signalOf(traffic, exchange),
  });
  pace.end();
  const reply = await answering;
  if ("kind" in reply) return fail(traffic, exchange, reply);
  if ("stream" in reply) return beginStream(traffic, exchange, reply.stream);
  const rendered = computing.time(operation, key?.tenant, () => successReply(reply, requestId));
  return finish(traffic, exchange, rendered);
}

/** Nothing that is thrown may leave a request without its answer, or its place taken. */
async function guarded<Value>(
  traffic: Traffic,
  exchange: Exchange,
  work: (traffic: Traffic, exchange: Exchange) => Promise<Value>,
): Promise<Value | HttpReply> {
  try {
    return await work(traffic, exchange);
  } catch (error) {
    return fail(traffic, exchange, thrownFailure(error));
  }
}

function thrownFailure(error: unknown): Failure {
  const cause = error instanceof Error ? (error.stack ?? error.message) : String(error);
  if (!(error instanceof InterlockError)) return { kind: "internal", cause };
  const isCallers = errors[error.code].status < 500;
  return { kind: error.code, cause, ...(isCallers ? { detail: error.detail } : {}) };
}
