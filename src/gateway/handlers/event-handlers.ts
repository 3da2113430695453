// Events over HTTP: a tenant's rows page by page, and streams of them and of a run's timeline.
import type { FeedStart } from "../../control/events/feed.ts";
import { type ApiKeyRecord, isPlatformKey } from "../../domain/api-key.ts";
import { parseRunId } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import { keyTextOf } from "../authenticate-request.ts";
import { type StreamContent, sendEvents } from "../event-stream.ts";
import { openingText } from "../event-text.ts";
import { eventRowText, eventView, timelineRowText } from "../event-views.ts";
import type { Failure, Handlers, RequestHeaders, Service, Streamed } from "../handler.ts";
import { cursorAfter, readPage } from "../page.ts";

type EventHandlers = Pick<Handlers, "readEvents" | "streamEvents" | "streamRunEvents">;

export const eventHandlers: EventHandlers = {
  async readEvents({ api }, { query, key }) {
    const tenant = watchedTenant(key, query.tenant);
    const list = { operation: "readEvents", tenant } as const;
    const page = readPage(list, query);
    if (page.kind === "bad_cursor") return page.failure;
    if (page.after !== undefined && query.from !== undefined)
      return { kind: "invalid_request", detail: "from: only without a cursor, which is a place already" };
    const isNow = query.from === "now";
    const asked = isNow ? Number.MAX_SAFE_INTEGER : Number(page.after ?? 0);
    const answer = await api.readEvents({ tenant, after: asked, limit: page.limit });
    if (answer.kind !== "events") return answer;
    const { first, last } = answer;
    // A place beyond the newest row is one of another store, or of this one before it was restored.
    const isAhead = page.after !== undefined && asked > last;
    const rest = isAhead ? await api.readEvents({ tenant, after: 0, limit: page.limit }) : answer;
    if (rest.kind !== "events") return rest;
    const reached = rest.events.at(-1)?.sequence ?? last;
    const reset = isAhead || (page.after !== undefined && asked + 1 < first);
    return {
      status: 200,
      body: {
        items: rest.events.map(eventView),
        next_cursor: cursorAfter(list, String(reached)),
        has_more: reached < rest.last,
        reset,
        first: rest.first,
        last: rest.last,
      },
    };
  },

  async streamEvents(service, { query, key, headers }) {
    const start = startOf(headers, query, query.from === "start" ? "oldest" : "now");
    if (start.kind === "invalid_request") return start;
    const opened = await service.api.followEvents({ tenant: watchedTenant(key, query.tenant), start });
    if (opened.kind !== "open") return opened;
    const { feed, last } = opened;
    const retryMs = service.config["events.retryMs"];
    const opening = openingText({ retryMs, ...(start.kind === "now" ? { id: last } : {}) });
    return streamed(service, headers, { feed, opening, textOf: eventRowText });
  },

  async streamRunEvents(service, { params, query, headers, key }) {
    const runId = parseRunId(params.id);
    if (runId === undefined) return { kind: "run_not_found" };
    const start = startOf(headers, query, "oldest");
    if (start.kind === "invalid_request") return start;
    const opened = await service.api.followRun({ tenant: key.tenant, runId, start });
    // Clients that connect again by themselves stop at this status.
    if (opened.kind === "ended") return { status: 204, body: undefined };
    if (opened.kind !== "open") return opened;
    const opening = openingText({ retryMs: service.config["events.retryMs"] });
    return streamed(service, headers, { feed: opened.feed, opening, textOf: timelineRowText });
  },
};

/** Only a platform key may choose; another key's tenant was already compared with what the request names. */
function watchedTenant(key: ApiKeyRecord, named: string | undefined): TenantId {
  return isPlatformKey(key) && named !== undefined ? (named as TenantId) : key.tenant;
}

/** The header wins: a client that connects again sends it with the address it was given at first. */
function startOf(
  headers: RequestHeaders,
  query: { readonly last_event_id?: string },
  otherwise: "now" | "oldest",
): FeedStart | Failure<"invalid_request"> {
  const given = headers["last-event-id"];
  const id = given === undefined || given === "" ? query.last_event_id : given;
  if (id === undefined || id === "") return { kind: otherwise };
  if (typeof id === "string" && /^\d{1,15}$/.test(id)) return { kind: "after", number: Number(id) };
  return {
    kind: "invalid_request",
    detail: "Last-Event-ID: not an id of this stream, which are whole numbers",
  };
}

function streamed<Row>(
  service: Service,
  headers: RequestHeaders,
  content: Omit<StreamContent<Row>, "check">,
): Streamed {
  const check = async () => {
    const answer = await service.api.authenticate({ text: keyTextOf(headers) ?? "" });
    if (answer.kind === "authenticated") return "allowed";
    return answer.kind === "unauthenticated" ? "refused" : "unclear";
  };
  return {
    status: 200,
    stream: (sink, stopping) => sendEvents(service, { ...content, check }, sink, stopping),
  };
}
