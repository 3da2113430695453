// One request on its way to its reply, and what is known of all that are under way: their number, their signals, their spans.
import { eventStreamType, type Route } from "../api/route.ts";
import { type Operation, routes } from "../api/routes.ts";
import type { Config } from "../config.ts";
import type { Trouble } from "../control/caller.ts";
import type { ApiKeyRecord } from "../domain/api-key.ts";
import { redacted } from "../domain/excerpt.ts";
import { readTraceparent } from "../domain/network-address.ts";
import type { TenantId } from "../domain/tenant.ts";
import { errors } from "../errors.ts";
import type { Ports, Span } from "../ports/ports.ts";
import {
  type Client,
  createFailedAuthentications,
  type FailedAuthentications,
} from "./authenticate-request.ts";
import { type Failure, failureIn, type RequestHeaders, type Service, type Streaming } from "./handler.ts";
import { failureReply, type HttpReply, streamReply } from "./http-reply.ts";
import { createRefusals, type Refusals } from "./refusals.ts";

/** A request's head as the framework hands it over. */
export type Head = Client & {
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, unknown>>;
  readonly headers: RequestHeaders;
  /** The key whose signature a bus has checked; HTTP requests carry theirs in `headers`. */
  readonly sender?: string;
  /** A field that may come once and came more often, of which the framework shows only the first. */
  readonly repeated: string | undefined;
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
  readonly load: Load;
  key: ApiKeyRecord | undefined;
  query: unknown;
  state: "new" | "entered" | "entered_tenant" | "finished";
  waiting: AbortController | undefined;
  span: Span | undefined;
};

export type Traffic = {
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

export function createTraffic(service: Service): Traffic {
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

export function beginExchange(traffic: Traffic, operation: Operation, head: Head): Exchange {
  return {
    operation,
    head,
    requestId: requestIdOf(traffic, head.headers),
    startedMs: traffic.service.ports.clock.monotonicMs(),
    load: loadOf(operation),
    key: undefined,
    query: undefined,
    state: "new",
    waiting: undefined,
    span: undefined,
  };
}

function loadOf(operation: Operation): Load {
  const route: Route = routes[operation];
  if (route.mediaType === eventStreamType) return "stream";
  return waiting.has(operation) ? "poll" : "request";
}

/** Gives its places back and counts it; once, whichever comes first. */
export function finish(traffic: Traffic, exchange: Exchange, reply: HttpReply): HttpReply {
  if (exchange.state === "finished") return reply;
  leave(traffic, exchange);
  measure(traffic, exchange, reply.status);
  endRequestSpan(exchange.span, reply.status);
  return reply;
}

/** Counted when its head is sent; its places are given back when it has ended. */
export function beginStream(traffic: Traffic, exchange: Exchange, stream: Streaming): HttpReply {
  const { log, metrics } = traffic.service.ports;
  const stopping = signalOf(traffic, exchange);
  measure(traffic, exchange, 200);
  const count = (difference: number) => {
    traffic.streams += difference;
    metrics.set("event_streams", {}, traffic.streams);
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
        leave(traffic, exchange);
      }
    },
  };
}

function leave(traffic: Traffic, exchange: Exchange): void {
  const { key, load, state } = exchange;
  if (state === "entered_tenant" && key !== undefined) traffic.inFlight.leaveTenant(load, key.tenant);
  if (state !== "new") traffic.inFlight.leave(load);
  if (exchange.waiting !== undefined) traffic.waiting.delete(exchange.waiting);
  exchange.state = "finished";
}

function measure(traffic: Traffic, { operation, startedMs, head }: Exchange, status: number): void {
  const { clock, metrics } = traffic.service.ports;
  if (head.sender !== undefined) {
    metrics.count("bus_requests_total", { operation, status: String(status) });
    return;
  }
  metrics.count("http_requests_total", { operation, status: String(status) });
  metrics.observe("http_request_seconds", { operation }, (clock.monotonicMs() - startedMs) / 1_000);
}

export function fail(traffic: Traffic, exchange: Exchange, answer: Failure | Trouble): HttpReply {
  const isRead = routes[exchange.operation].method === "GET";
  const failure = failureIn(answer, isRead ? "read" : "write");
  report(traffic, exchange, failure);
  const { quota } = failure;
  if (typeof quota === "string") traffic.service.ports.metrics.count("quota_refusals_total", { quota });
  // What only reads would have changed nothing.
  if (!isRead) traffic.refusals?.count(exchange.key?.tenant, failure.kind);
  return finish(traffic, exchange, failureReply(traffic.service, failure, exchange.requestId));
}

/** For a request that no operation fits. */
export function failUnrouted(traffic: Traffic, headers: RequestHeaders, failure: Failure): HttpReply {
  const status = String(errors[failure.kind].status);
  traffic.service.ports.metrics.count("http_requests_total", { operation: "none", status });
  return failureReply(traffic.service, failure, requestIdOf(traffic, headers));
}

/** Aborts when the caller goes away. A start goes on when the server stops; a caller that waits has nothing to lose. */
export function signalOf(traffic: Traffic, exchange: Exchange): AbortSignal {
  if (exchange.load === "request") return exchange.head.connection();
  if (exchange.waiting !== undefined) return exchange.waiting.signal;
  const controller = new AbortController();
  exchange.waiting = controller;
  exchange.head.onGone(() => controller.abort());
  traffic.waiting.add(controller);
  if (traffic.service.isDraining()) controller.abort();
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
function requestIdOf(traffic: Traffic, headers: RequestHeaders): string {
  const value = headers["x-request-id"];
  const isGiven = typeof value === "string" && /^[A-Za-z0-9._:-]{1,128}$/.test(value);
  return isGiven ? value : traffic.nextRequestId();
}

/** Refusals that a flood would repeat are counted, not logged. */
const unlogged = new Set(["overloaded", "draining", "too_many_requests", "too_many_failed_authentications"]);

function report(traffic: Traffic, exchange: Exchange, { kind: code, cause }: Failure): void {
  const { status } = errors[code];
  if (unlogged.has(code) || (status < 500 && status !== 401)) return;
  const { log } = traffic.service.ports;
  const fields = {
    code,
    operation: exchange.operation,
    request: exchange.requestId,
    tenant: exchange.key?.tenant,
    cause: cause === undefined ? undefined : redacted(cause),
  };
  if (code === "internal") log.error("a request failed", fields);
  else if (status >= 500) log.warn("a request could not be answered", fields);
  else if (traffic.failures.isLogged(exchange.head.address))
    log.info("a request had no valid key", { ...fields, address: exchange.head.address });
}

/** What kind of load a request is. Waiting polls and open streams are many and cost little: they have limits of their own. */
type Load = "request" | "poll" | "stream";

type InFlight = {
  /** Before anything is known of the caller. */
  enter(load: Load): "entered" | "overloaded";
  leave(load: Load): void;
  /** `max` is the tenant's own number, where it has one. */
  enterTenant(load: Load, tenant: TenantId, max?: number): "entered" | "too_many_requests";
  leaveTenant(load: Load, tenant: TenantId): void;
  /** Requests, polls and streams under way. */
  total(): number;
  /** Resolves when nothing is under way. */
  idle(): Promise<void>;
};

export function createInFlight(config: Config): InFlight {
  const totals = { request: 0, poll: 0, stream: 0 };
  const totalMax = {
    request: config["gateway.requestsInFlightMax"],
    poll: Number.POSITIVE_INFINITY,
    stream: config["events.streamsMax"],
  };
  const byTenant = {
    request: new Map<TenantId, number>(),
    poll: new Map<TenantId, number>(),
    stream: new Map<TenantId, number>(),
  };
  const tenantMax = {
    request: config["gateway.tenantRequestsInFlightMax"],
    poll: config["gateway.tenantPollsMax"],
    stream: config["events.tenantStreamsMax"],
  };
  const waiters: Array<() => void> = [];
  const total = () => totals.request + totals.poll + totals.stream;
  return {
    enter(load) {
      if (totals[load] >= totalMax[load]) return "overloaded";
      totals[load] += 1;
      return "entered";
    },
    leave(load) {
      totals[load] -= 1;
      if (waiters.length > 0 && total() === 0) for (const resolve of waiters.splice(0)) resolve();
    },
    enterTenant(load, tenant, max = tenantMax[load]) {
      const count = byTenant[load].get(tenant) ?? 0;
      if (count >= max) return "too_many_requests";
      byTenant[load].set(tenant, count + 1);
      return "entered";
    },
    leaveTenant(load, tenant) {
      const count = (byTenant[load].get(tenant) ?? 1) - 1;
      if (count === 0) byTenant[load].delete(tenant);
      else byTenant[load].set(tenant, count);
    },
    total,
    idle: () => (total() === 0 ? Promise.resolve() : new Promise<void>((resolve) => waiters.push(resolve))),
  };
}

/** Reads and heartbeats would be most of all spans, and tell nothing that the metrics do not. */
const traced: ReadonlySet<Operation> = new Set([
  "startRun",
  "rerunRun",
  "pollJobs",
  "reportResults",
  "approve",
  "reject",
  "acquireLock",
]);

/** Only for callers with a valid key: others could have spans made at will. */
export function startRequestSpan(
  { tracer }: Pick<Ports, "tracer">,
  operation: Operation,
  headers: RequestHeaders,
  tenant: TenantId,
): Span | undefined {
  if (!traced.has(operation)) return undefined;
  const span = tracer.startSpan(operation, "server", headerOf(headers));
  const route: Route = routes[operation];
  span?.note({ method: route.method, route: route.path, tenant });
  return span;
}

function endRequestSpan(span: Span | undefined, status: number): void {
  span?.note({ status });
  span?.end(status >= 500 ? "failed" : undefined);
}

/** What the work of this request belongs to: its span, or what the caller sent while nobody records spans. */
export function traceparentOf(span: Span | undefined, headers: RequestHeaders): string | undefined {
  return span === undefined ? readTraceparent(headers.traceparent) : span.traceparent;
}

/** The tracer looks at it closely. */
function headerOf({ traceparent }: RequestHeaders): string | undefined {
  return typeof traceparent === "string" ? traceparent : undefined;
}
