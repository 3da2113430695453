// How event rows and rows of a timeline look in replies and in streams.
import type { z } from "zod";
import type { event } from "../api/event-schemas.ts";
import type { TimelineRow } from "../control/events/tail.ts";
import type { EventRow } from "../domain/audit.ts";
import { formatTime } from "../domain/engine/rfc3339.ts";
import { parseJobId } from "../domain/job.ts";
import { type RunStatus, runStatuses } from "../domain/run.ts";
import { eventText } from "./event-text.ts";
import { timelineViews } from "./views.ts";

type EventView = z.output<typeof event>;

/** The store keeps a row's particulars as one text; here they get names. */
export function eventView(row: EventRow): EventView {
  const { sequence, atMs, type, subject, actor, detail } = row;
  return { sequence, at: formatTime(atMs), type, subject, actor, detail, ...particulars(row) };
}

function particulars({ type, subject, detail }: EventRow): Partial<EventView> {
  switch (type) {
    case "run_admitted":
      return { run_id: subject, workflow_id: detail, version: 1 };
    case "run_changed":
    case "run_ended":
    case "run_reopened":
    case "run_deleted":
      return { run_id: subject, ...versionAndStatus(detail) };
    case "cancel_requested":
      return { run_id: subject };
    case "approval_decided": {
      const runId = parseJobId(subject)?.runId;
      const [decision = "", hash] = detail.split(" ");
      return {
        ...(runId === undefined ? {} : { run_id: runId }),
        decision,
        ...(hash === undefined ? {} : { hash }),
      };
    }
    case "document_saved":
    case "document_removed": {
      const slash = subject.indexOf("/");
      return { collection: subject.slice(0, slash), document_id: subject.slice(slash + 1) };
    }
    case "tenant_changed":
    case "lock_broken":
      return {};
  }
}

/** `<version> <status>`, or the status alone. */
function versionAndStatus(detail: string): Pick<Partial<EventView>, "version" | "status"> {
  const [, version, status = ""] = /^(?:(\d+) )?(\w+)$/.exec(detail) ?? [];
  return {
    ...(version === undefined ? {} : { version: Number(version) }),
    ...(isRunStatus(status) ? { status } : {}),
  };
}

const isRunStatus = (text: string): text is RunStatus => (runStatuses as readonly string[]).includes(text);

/** Rows are shown to all who watch: each is written out once. */
const texts = new WeakMap<object, string>();

export function eventRowText(row: EventRow): string {
  return remembered(row, () => {
    const view = eventView(row);
    return eventText({ id: row.sequence, type: view.type, data: view });
  });
}

/**
 * A row holds all that one commit did, as several events. Only the last has the id: a client that loses the connection before it gets the
 * whole row again instead of a part of it never.
 */
export function timelineRowText(row: TimelineRow): string {
  return remembered(row, () => {
    const views = timelineRowViews(row);
    const text = views.map((view, index) =>
      eventText({
        ...(index === views.length - 1 ? { id: row.version } : {}),
        type: view.type,
        data: view,
      }),
    );
    return text.join("");
  });
}

function timelineRowViews(row: TimelineRow): ReadonlyArray<{ readonly type: string }> {
  try {
    const views = timelineViews(row);
    if (views.length > 0) return views;
  } catch {
    // The timeline is opaque to the store, and programs that embed it may write their own: that is no reason to end a stream.
  }
  return [{ type: "unknown", version: row.version, at: formatTime(row.atMs) } as { readonly type: string }];
}

function remembered(row: object, make: () => string): string {
  const known = texts.get(row);
  if (known !== undefined) return known;
  const text = make();
  texts.set(row, text);
  return text;
}
