// One request on its way to its reply, and the desk that knows all that are under way.
import type { Operation } from "../api/routes.ts";
import type { ApiKeyRecord } from "../domain/api-key.ts";
import { errors } from "../errors.ts";
import { createFailedAuthentications, type FailedAuthentications } from "./failed-authentications.ts";
import type { Failure, RequestHeaders, Service } from "./handler.ts";
import { failureReply, type HttpReply } from "./http-reply.ts";
import { createInFlight, type InFlight, type Place } from "./in-flight.ts";
import { redacted } from "./redacted.ts";

/** A request's head as the framework hands it over. */
export type Head = {
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, unknown>>;
  readonly headers: RequestHeaders;
  readonly address: string;
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
};

export type Desk = {
  readonly service: Service;
  readonly failures: FailedAuthentications;
  readonly inFlight: InFlight;
  /** Polls that a stop of the server wakes up. */
  readonly waiting: Set<AbortController>;
  nextRequestId(): string;
};

export function openDesk(service: Service): Desk {
  const { clock, random } = service.ports;
  const perMinute = service.config["gateway.failedAuthenticationsPerMinute"];
  return {
    service,
    failures: createFailedAuthentications(clock, perMinute),
    inFlight: createInFlight(service.config),
    waiting: new Set(),
    nextRequestId: requestIds(random.token()),
  };
}

export function beginExchange(desk: Desk, operation: Operation, head: Head): Exchange {
  return {
    operation,
    head,
    requestId: requestIdOf(desk, head.headers),
    startedMs: desk.service.ports.clock.monotonicMs(),
    place: operation === "pollJobs" ? "poll" : "request",
    key: undefined,
    query: undefined,
    state: "new",
    waiting: undefined,
  };
}

/** Gives its places back and counts it; once, whoever comes first. */
export function finish(desk: Desk, exchange: Exchange, reply: HttpReply): HttpReply {
  if (exchange.state === "finished") return reply;
  const { key, operation, place, state, startedMs } = exchange;
  const { clock, metrics } = desk.service.ports;
  if (state === "entered_tenant" && key !== undefined) desk.inFlight.leaveTenant(place, key.tenant);
  if (state !== "new") desk.inFlight.leave(place);
  if (exchange.waiting !== undefined) desk.waiting.delete(exchange.waiting);
  exchange.state = "finished";
  metrics.count("http_requests_total", { operation, status: String(reply.status) });
  metrics.observe("http_request_seconds", { operation }, (clock.monotonicMs() - startedMs) / 1_000);
  return reply;
}

export function fail(desk: Desk, exchange: Exchange, failure: Failure): HttpReply {
  report(desk, exchange, failure);
  return finish(desk, exchange, failureReply(desk.service, failure, exchange.requestId));
}

/** For a request that no operation fits. */
export function failUnrouted(desk: Desk, headers: RequestHeaders, failure: Failure): HttpReply {
  const status = String(errors[failure.code].status);
  desk.service.ports.metrics.count("http_requests_total", { operation: "none", status });
  return failureReply(desk.service, failure, requestIdOf(desk, headers));
}

/** Aborts when the caller goes away. A start goes on when the server stops; a poll has nothing to lose. */
export function signalOf(desk: Desk, exchange: Exchange): AbortSignal {
  if (exchange.place !== "poll") return exchange.head.connection();
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

function report(desk: Desk, exchange: Exchange, { code, cause }: Failure): void {
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
  else log.info("a request had no valid key", { ...fields, address: exchange.head.address });
}
