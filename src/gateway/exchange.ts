// One request on its way to its reply, and the desk that knows all that are under way.
import { eventStreamType, type Route } from "../api/route.ts";
import { type Operation, routes } from "../api/routes.ts";
import type { Trouble } from "../control/caller.ts";
import type { ApiKeyRecord } from "../domain/api-key.ts";
import { redacted } from "../domain/excerpt.ts";
import { errors } from "../errors.ts";
import type { Span } from "../ports/ports.ts";
import type { Client } from "./client-address.ts";
import { createFailedAuthentications, type FailedAuthentications } from "./failed-authentications.ts";
import type { Failure, RequestHeaders, Service, Streaming } from "./handler.ts";
import { failureReply, type HttpReply, streamReply } from "./http-reply.ts";
import { createInFlight, type InFlight, type Place } from "./in-flight.ts";
import { createRefusals, type Refusals } from "./refusals.ts";
import { endRequestSpan } from "./trace-request.ts";

/** A request's head as the framework hands it over. */
export type Head = Client & {
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, unknown>>;
  readonly headers: RequestHeaders;
  /** A field that may come once and came more often, of which the framework shows only the first. */
  readonly doubled: string | undefined;
  /** Aborts when the connection closes: one for all requests on it, since a signal costs 5 us to make. */
  connection(): AbortSignal;
  /** Calls back when the caller goes away before the reply. */
  onGone(callback: () => void): void;
};

export type Exchange = {
  readonly operation: Operation;
  readonly head: Head;
  readonly requestId: string;
  readonly startedMs: number;
  readonly place: Place;
  key: ApiKeyRecord | undefined;
  query: unknown;
  state: "new" | "entered" | "entered_tenant" | "finished";
  waiting: AbortController | undefined;
  span: Span | undefined;
};

export type Desk = {
  readonly service: Service;
  readonly failures: FailedAuthentications;
  readonly refusals: Refusals | undefined;
  readonly inFlight: InFlight;
  /** Polls and streams that a stop of the server ends. */
  readonly waiting: Set<AbortController>;
  /** Streams that are open. */
  streams: number;
  nextRequestId(): string;
};

export function openDesk(service: Service): Desk {
  const { clock, random } = service.ports;
  const perMinute = service.config["gateway.failedAuthenticationsPerMinute"];
  return {
    service,
    failures: createFailedAuthentications(clock, perMinute),
    refusals:
      service.config["audit.refusals"] === "yes" ? createRefusals(service.api, service.ports) : undefined,
    inFlight: createInFlight(service.config),
    waiting: new Set(),
    streams: 0,
    nextRequestId: requestIds(random.token()),
  };
}

/** Operations whose callers may wait for something to happen. */
const waiting: ReadonlySet<Operation> = new Set(["pollJobs", "acquireLock"]);

export function beginExchange(desk: Desk, operation: Operation, head: Head): Exchange {
  return {
    operation,
    head,
    requestId: requestIdOf(desk, head.headers),
    startedMs: desk.service.ports.clock.monotonicMs(),
    place: placeOf(operation),
    key: undefined,
    query: undefined,
    state: "new",
    waiting: undefined,
    span: undefined,
  };
}

function placeOf(operation: Operation): Place {
  const route: Route = routes[operation];
  if (route.mediaType === eventStreamType) return "stream";
  return waiting.has(operation) ? "poll" : "request";
}

/** Gives its places back and counts it; once, whoever comes first. */
export function finish(desk: Desk, exchange: Exchange, reply: HttpReply): HttpReply {
  if (exchange.state === "finished") return reply;
  leave(desk, exchange);
  measure(desk, exchange, reply.status);
  endRequestSpan(exchange.span, reply.status);
  return reply;
}

/** Counted when its head is sent; its places are given back when it has ended. */
export function beginStream(desk: Desk, exchange: Exchange, stream: Streaming): HttpReply {
  const { log, metrics } = desk.service.ports;
  const stopping = signalOf(desk, exchange);
  measure(desk, exchange, 200);
  const count = (difference: number) => {
    desk.streams += difference;
    metrics.set("event_streams", {}, desk.streams);
  };
  count(1);
  return {
    ...streamReply(exchange.requestId),
    async stream(sink) {
      try {
        await stream(sink, stopping);
      } catch (error) {
        log.error("a stream failed", { request: exchange.requestId, cause: redacted(String(error)) });
        sink.cut();
      } finally {
        count(-1);
        leave(desk, exchange);
      }
    },
  };
}

function leave(desk: Desk, exchange: Exchange): void {
  const { key, place, state } = exchange;
  if (state === "entered_tenant" && key !== undefined) desk.inFlight.leaveTenant(place, key.tenant);
  if (state !== "new") desk.inFlight.leave(place);
  if (exchange.waiting !== undefined) desk.waiting.delete(exchange.waiting);
  exchange.state = "finished";
}

function measure(desk: Desk, { operation, startedMs }: Exchange, status: number): void {
  const { clock, metrics } = desk.service.ports;
  metrics.count("http_requests_total", { operation, status: String(status) });
  metrics.observe("http_request_seconds", { operation }, (clock.monotonicMs() - startedMs) / 1_000);
}

export function fail(desk: Desk, exchange: Exchange, answer: Failure | Trouble): HttpReply {
  const isRead = routes[exchange.operation].method === "GET";
  const failure = failureIn(answer, isRead);
  report(desk, exchange, failure);
  const { quota } = failure;
  if (typeof quota === "string") desk.service.ports.metrics.count("quota_refusals_total", { quota });
  // What only reads would have changed nothing.
  if (!isRead) desk.refusals?.count(exchange.key?.tenant, failure.kind);
  return finish(desk, exchange, failureReply(desk.service, failure, exchange.requestId));
}

/** A store that did not answer has no code of its own: a read has no effect, so that it does not matter whether it happened. */
function failureIn(answer: Failure | Trouble, isRead: boolean): Failure {
  if (answer.kind === "unavailable") return { kind: "store_unavailable", cause: answer.cause };
  if (answer.kind !== "unknown") return answer;
  return { kind: isRead ? "store_unavailable" : "effect_unknown", cause: answer.cause };
}

/** For a request that no operation fits. */
export function failUnrouted(desk: Desk, headers: RequestHeaders, failure: Failure): HttpReply {
  const status = String(errors[failure.kind].status);
  desk.service.ports.metrics.count("http_requests_total", { operation: "none", status });
  return failureReply(desk.service, failure, requestIdOf(desk, headers));
}

/** Aborts when the caller goes away. A start goes on when the server stops; whoever waits has nothing to lose. */
export function signalOf(desk: Desk, exchange: Exchange): AbortSignal {
  if (exchange.place === "request") return exchange.head.connection();
  if (exchange.waiting !== undefined) return exchange.waiting.signal;
  const controller = new AbortController();
  exchange.waiting = controller;
  exchange.head.onGone(() => controller.abort());
  desk.waiting.add(controller);
  if (desk.service.isDraining()) controller.abort();
  return controller.signal;
}

/** A counter behind a random word: unique, and cheaper than chance for every request. */
function requestIds(word: string): () => string {
  const prefix = `req_${word.slice(0, 10)}_`;
  let count = 0;
  return () => {
    count += 1;
    return prefix + count.toString(36);
  };
}

/** The caller's is logged and echoed, so it may not hold what could end a line or a field. */
function requestIdOf(desk: Desk, headers: RequestHeaders): string {
  const value = headers["x-request-id"];
  const isGiven = typeof value === "string" && /^[A-Za-z0-9._:-]{1,128}$/.test(value);
  return isGiven ? value : desk.nextRequestId();
}

/** Refusals that a flood would repeat are counted, not logged. */
const unlogged = new Set(["overloaded", "draining", "too_many_requests", "too_many_failed_authentications"]);

function report(desk: Desk, exchange: Exchange, { kind: code, cause }: Failure): void {
  const { status } = errors[code];
  if (unlogged.has(code) || (status < 500 && status !== 401)) return;
  const { log } = desk.service.ports;
  const fields = {
    code,
    operation: exchange.operation,
    request: exchange.requestId,
    tenant: exchange.key?.tenant,
    cause: cause === undefined ? undefined : redacted(cause),
  };
  if (code === "internal") log.error("a request failed", fields);
  else if (status >= 500) log.warn("a request could not be answered", fields);
  else if (desk.failures.isLogged(exchange.head.address))
    log.info("a request had no valid key", { ...fields, address: exchange.head.address });
}
