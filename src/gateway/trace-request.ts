// The span of a request, for the operations that begin work, hand it out, take it back or decide about it.
import type { Route } from "../api/route.ts";
import { type Operation, routes } from "../api/routes.ts";
import type { TenantId } from "../domain/tenant.ts";
import { readTraceparent } from "../domain/traceparent.ts";
import type { Ports, Span } from "../ports/ports.ts";
import type { RequestHeaders } from "./handler.ts";

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

export function endRequestSpan(span: Span | undefined, status: number): void {
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
