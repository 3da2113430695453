// Takes a request from its head to its reply, without knowing how it came: over HTTP or over the bus.
import type { Route } from "../api/route.ts";
import { type Operation, operations, routes } from "../api/routes.ts";
import type { Trouble } from "../control/caller.ts";
import { isPlatformKey } from "../domain/api-key.ts";
import type { TenantId } from "../domain/tenant.ts";
import { errors, InterlockError } from "../errors.ts";
import {
  type Authentication,
  authenticateAgain,
  authenticateRequest,
  keyTextOf,
} from "./authenticate-request.ts";
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
import { queueHandlers } from "./handlers/queue-handlers.ts";
import { runHandlers, startHandlers } from "./handlers/run-handlers.ts";
import { serverHandlers } from "./handlers/server-handlers.ts";
import { keyHandlers, tenantHandlers } from "./handlers/tenant-handlers.ts";
import { workflowHandlers } from "./handlers/workflow-handlers.ts";
import { type HttpReply, type Success, successReply } from "./http-reply.ts";
import {
  compressedBody,
  isCompressed,
  readBody,
  readLargeBody,
  readQuery,
  type Schemas,
  schemasOf,
} from "./read-request.ts";

export type Responder = {
  begin(operation: Operation, head: Head): Exchange;
  /** Its key worked within the last minute. */
  isKnown(exchange: Exchange): boolean;
  /** Refuses before the body is read, or lets it pass; at once where the key is remembered. Never rejects. */
  check(exchange: Exchange): HttpReply | undefined | Promise<HttpReply | undefined>;
  /** Never rejects. */
  answer(exchange: Exchange, bytes: Buffer | undefined): HttpReply | Promise<HttpReply>;
  /** For what is wrong with the way it came; `exchange` is absent when no route was found. */
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
    check: (exchange) => guarded<undefined, HttpReply | undefined>(traffic, exchange, check, undefined),
    answer: (exchange, bytes) => guarded<Buffer | undefined, HttpReply>(traffic, exchange, answer, bytes),
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
  ...queueHandlers,
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

function check(traffic: Traffic, exchange: Exchange): HttpReply | undefined | Promise<HttpReply | undefined> {
  const { service, inFlight, failures } = traffic;
  const { route } = prepared[exchange.operation];
  // Health checks must still learn that it lives.
  if (route.access !== "open" && service.isDraining()) return fail(traffic, exchange, { kind: "draining" });
  if (inFlight.enter(exchange.load) === "overloaded") return fail(traffic, exchange, { kind: "overloaded" });
  exchange.state = "entered";
  if (exchange.head.repeated !== undefined) {
    const detail = `${exchange.head.repeated}: sent more than once`;
    return fail(traffic, exchange, { kind: "invalid_request", detail });
  }
  const authentication = authenticateRequest(service, failures, route, exchange.head);
  return authentication instanceof Promise
    ? authentication.then((found) => checkCaller(traffic, exchange, found))
    : checkCaller(traffic, exchange, authentication);
}

function checkCaller(
  traffic: Traffic,
  exchange: Exchange,
  authentication: Authentication,
): HttpReply | undefined | Promise<HttpReply | undefined> {
  const { service } = traffic;
  if (authentication.kind === "refused") {
    exchange.key = authentication.key;
    return fail(traffic, exchange, authentication.failure);
  }
  const { schemas } = prepared[exchange.operation];
  if (schemas.body !== undefined && isCompressed(exchange.head.headers))
    return fail(traffic, exchange, compressedBody);
  const { key } = authentication;
  exchange.key = key;
  if (key === undefined) return checkQuery(traffic, exchange);
  if (!isPlatformKey(key) && service.sheds(key.tenant)) return fail(traffic, exchange, aboveShare);
  const { operation, head } = exchange;
  exchange.span = startRequestSpan(service.ports, operation, head.headers, key.tenant);
  if (exchange.load !== "stream") return enterTenant(traffic, exchange, key.tenant, undefined);
  const { tenant } = key;
  return service.api.streamsMax({ tenant }).then((max) => enterTenant(traffic, exchange, tenant, max));
}

function enterTenant(
  traffic: Traffic,
  exchange: Exchange,
  tenant: TenantId,
  streamsMax: number | undefined,
): HttpReply | undefined {
  if (traffic.inFlight.enterTenant(exchange.load, tenant, streamsMax) === "too_many_requests") {
    const named = streamsMax === undefined ? {} : { quota: "streams", limit: streamsMax };
    return fail(traffic, exchange, { kind: "too_many_requests", ...named });
  }
  exchange.state = "entered_tenant";
  return checkQuery(traffic, exchange);
}

function checkQuery(traffic: Traffic, exchange: Exchange): HttpReply | undefined {
  const query = readQuery(prepared[exchange.operation].schemas, exchange.head.query, exchange.key);
  if (query.kind === "refused") return fail(traffic, exchange, query.failure);
  exchange.query = query.value;
  return undefined;
}

/** Others go on, operators with a platform key among them. */
const aboveShare: Failure = {
  kind: "overloaded",
  detail: "the server is late, and this tenant has used more than its share of it: retry after Retry-After",
};

/** What is longer is read in slices; reading that many takes half a millisecond, or 5 ms of the costliest JSON. */
const largeBytes = 32_768;

function answer(
  traffic: Traffic,
  exchange: Exchange,
  bytes: Buffer | undefined,
): HttpReply | Promise<HttpReply> {
  const { route } = prepared[exchange.operation];
  const ended = authenticateAgain(traffic.service, route, exchange.key, exchange.head.headers);
  return ended instanceof Promise
    ? ended.then((late) => readAndHandle(traffic, exchange, bytes, late))
    : readAndHandle(traffic, exchange, bytes, ended);
}

function readAndHandle(
  traffic: Traffic,
  exchange: Exchange,
  bytes: Buffer | undefined,
  ended: Failure | undefined,
): HttpReply | Promise<HttpReply> {
  if (ended !== undefined) return fail(traffic, exchange, ended);
  const { schemas } = prepared[exchange.operation];
  const { computing } = traffic.service;
  const { operation, key } = exchange;
  if (bytes !== undefined && bytes.length > largeBytes) return handleLarge(traffic, exchange, bytes);
  const startedMs = computing.begin();
  const body = readBody(schemas, { bytes, contentType: contentTypeOf(exchange) }, key);
  const reply = body.kind === "refused" ? body.failure : handle(traffic, exchange, body.value);
  computing.end(operation, key?.tenant, startedMs);
  return reply instanceof Promise
    ? reply.then((late) => render(traffic, exchange, late))
    : render(traffic, exchange, reply);
}

/** Read in slices; what follows from a large body is work again: it begins when everybody else has had a turn. */
async function handleLarge(traffic: Traffic, exchange: Exchange, bytes: Buffer): Promise<HttpReply> {
  const { schemas } = prepared[exchange.operation];
  const pace = traffic.service.computing.paced(exchange.operation, exchange.key?.tenant);
  const sent = { bytes, contentType: contentTypeOf(exchange) };
  const body = await readLargeBody(pace, schemas, sent, exchange.key);
  if (body.kind === "refused") {
    pace.end();
    return fail(traffic, exchange, body.failure);
  }
  await pace.yield();
  const answering = handle(traffic, exchange, body.value);
  pace.end();
  return render(traffic, exchange, await answering);
}

function contentTypeOf({ head }: Exchange): string | undefined {
  const type = head.headers["content-type"];
  return typeof type === "string" ? type : undefined;
}

function handle(traffic: Traffic, exchange: Exchange, body: unknown): AnyReply | Promise<AnyReply> {
  const { head, query, key, span } = exchange;
  return prepared[exchange.operation].handle(traffic.service, {
    params: head.params,
    query,
    body,
    headers: head.headers,
    key,
    span,
    traceparent: () => traceparentOf(exchange.span, head.headers),
    signal: () => signalOf(traffic, exchange),
  });
}

function render(traffic: Traffic, exchange: Exchange, reply: AnyReply): HttpReply {
  if ("kind" in reply) return fail(traffic, exchange, reply);
  if ("stream" in reply) return beginStream(traffic, exchange, reply.stream);
  const { computing } = traffic.service;
  const startedMs = computing.begin();
  const rendered = successReply(reply, exchange.requestId);
  computing.end(exchange.operation, exchange.key?.tenant, startedMs);
  return finish(traffic, exchange, rendered);
}

type Work<Given, Reply> = (traffic: Traffic, exchange: Exchange, given: Given) => Reply | Promise<Reply>;

/** Nothing that is thrown may leave a request without its answer, or its place taken. */
function guarded<Given, Reply extends HttpReply | undefined>(
  traffic: Traffic,
  exchange: Exchange,
  work: Work<Given, Reply>,
  given: Given,
): Reply | HttpReply | Promise<Reply | HttpReply> {
  const thrown = (error: unknown) => fail(traffic, exchange, thrownFailure(error));
  try {
    const answer = work(traffic, exchange, given);
    return answer instanceof Promise ? answer.catch(thrown) : answer;
  } catch (error) {
    return thrown(error);
  }
}

function thrownFailure(error: unknown): Failure {
  const cause = error instanceof Error ? (error.stack ?? error.message) : String(error);
  if (!(error instanceof InterlockError)) return { kind: "internal", cause };
  const isCallers = errors[error.code].status < 500;
  return { kind: error.code, cause, ...(isCallers ? { detail: error.detail } : {}) };
}
