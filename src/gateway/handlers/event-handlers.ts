// Events and the audit trail over HTTP: rows page by page, streams of them and of a run's timeline, and verification.
import type { TrailVerdict } from "../../control/audit/verify-trail.ts";
import type { FeedStart } from "../../control/events/feed.ts";
import { type ApiKeyRecord, isPlatformKey, personOf, tenantOfKey } from "../../domain/api-key.ts";
import type { Head } from "../../domain/audit.ts";
import { formatTime } from "../../domain/engine/rfc3339.ts";
import { parseRunId } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import { keyTextOf } from "../authenticate-request.ts";
import { openingText, type StreamContent, sendEvents } from "../event-stream.ts";
import {
  type Failure,
  type Handlers,
  type RequestHeaders,
  type Service,
  type Streamed,
  tenantAskedAbout,
} from "../handler.ts";
import { cursorAfter, pageReply, readPage } from "../http-reply.ts";
import { eventRowText, eventView, timelineRowText } from "../views.ts";

type EventHandlers = Pick<Handlers, "readEvents" | "streamEvents" | "streamRunEvents">;

export const eventHandlers: EventHandlers = {
  async readEvents({ api }, { query, key }) {
    const tenant = tenantAskedAbout(key, query.tenant);
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
    const opened = await service.api.followEvents({ tenant: tenantAskedAbout(key, query.tenant), start });
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

type AuditHandlers = Pick<Handlers, "readAudit" | "verifyAudit">;

export const auditHandlers: AuditHandlers = {
  async readAudit({ api }, { query, key }) {
    const tenant = tenantAskedAbout(key, query.tenant);
    const list = { operation: "readAudit", tenant } as const;
    const page = readPage(list, query);
    if (page.kind === "bad_cursor") return page.failure;
    if (page.after !== undefined && query.after !== undefined)
      return { kind: "invalid_request", detail: "after: only without a cursor, which is a place already" };
    const answer = await api.readTrail({
      tenant,
      after: Number(page.after ?? query.after ?? 0),
      limit: page.limit,
      ...(query.type === undefined ? {} : { type: query.type }),
      ...(query.actor === undefined ? {} : { actor: query.actor }),
    });
    if (answer.kind !== "records") return answer;
    const actors = answer.records.map(({ row }) => row.actor);
    // The keys of the platform are nobody else's business.
    const shown = isPlatformKey(key) ? actors : actors.filter((actor) => tenantOfKey(actor) === tenant);
    const keys = await api.describeKeys({ keyIds: shown });
    const items = answer.records.map(({ row, hash }) => {
      const { sequence, atMs, type, subject, actor, detail } = row;
      const record = {
        sequence,
        at: formatTime(atMs),
        type,
        subject,
        actor,
        ...nameOf(keys.get(actor)),
        detail,
      };
      return hash === undefined ? record : { ...record, hash };
    });
    const next = answer.next === undefined ? undefined : String(answer.next);
    const { status, body } = pageReply(list, items, next);
    return { status, body: { ...body, first: answer.first, last: answer.last } };
  },

  async verifyAudit({ api }, { query, key }) {
    const tenant = tenantAskedAbout(key, query.tenant);
    const answer = await api.verifyTrail({ tenant, expect: headIn(query.expect) });
    // Sealing first changes nothing that could be asked about twice: an outcome that is unknown is no answer, and no more.
    if (answer.kind !== "verified") return answer;
    return { status: 200, body: verdictView(tenant, answer) };
  },
};

function nameOf(key: ApiKeyRecord | undefined) {
  return key === undefined ? {} : { actor_name: personOf(key).owner, actor_role: key.role as string };
}

function headIn(text: string | undefined): Head | undefined {
  const [sequence, hash] = text?.split(":") ?? [];
  return hash === undefined ? undefined : { sequence: Number(sequence), hash };
}

function verdictView(tenant: TenantId, verdict: TrailVerdict) {
  const { status, compared, gaps, firstBroken, sealedTo, head, keptFrom, expected, anchored } = verdict;
  return {
    status,
    tenant: tenant as string,
    total_events: compared,
    gaps: gaps.map(({ from, to, why }) => ({ from, to, why })),
    ...(firstBroken === undefined ? {} : { first_broken: firstBroken }),
    sealed_to: sealedTo,
    head: head === undefined ? null : `${head.sequence}:${head.hash}`,
    kept_from: keptFrom,
    ...(expected === undefined ? {} : { expected }),
    ...(anchored === undefined ? {} : { anchored }),
    not_ruled_out: [...verdict.notRuledOut],
  };
}
