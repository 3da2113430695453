// How rows look in streams and pages: the particulars by name, one line of JSON each, and ids only where it is safe to resume.
import { describe, expect, test } from "vitest";
import { event } from "../../src/api/event-routes.ts";
import type { EventRow, EventType } from "../../src/domain/audit.ts";
import { commentText, eventText, openingText } from "../../src/gateway/event-stream.ts";
import { eventRowText, eventView, timelineRowText } from "../../src/gateway/views.ts";

const run = "run_07_0123456789abcdef";

function row(type: EventType, subject: string, detail: string): EventRow {
  return { sequence: 7, atMs: 1_000, type, subject, actor: "ann", detail };
}

describe("an event row", () => {
  test.each<readonly [EventType, string, string, object]>([
    ["run_admitted", run, "deploy", { run_id: run, workflow_id: "deploy", version: 1 }],
    ["run_changed", run, "3 waiting", { run_id: run, version: 3, status: "waiting" }],
    [
      "run_changed",
      run,
      "4 running step a: completed, step b[2].c: dispatched and 3 more",
      { run_id: run, version: 4, status: "running", step_ids: ["a", "b[2].c"] },
    ],
    ["run_ended", run, "failed step a: failed", { run_id: run, status: "failed", step_ids: ["a"] }],
    [
      "approval_requested",
      `${run}:ok@1`,
      "step ok",
      { run_id: run, approval_id: `${run}:ok@1`, step_id: "ok" },
    ],
    ["letter_retried", run, `${run}:ok@1`, { run_id: run }],
    ["records_dropped", "acme", "1 to 250", {}],
    ["run_ended", run, "failed", { run_id: run, status: "failed" }],
    ["run_ended", run, "9 timed_out", { run_id: run, version: 9, status: "timed_out" }],
    ["run_reopened", run, "some words", { run_id: run }],
    ["run_deleted", run, "succeeded", { run_id: run, status: "succeeded" }],
    ["cancel_requested", run, "no longer needed", { run_id: run }],
    ["approval_decided", `${run}:ok@1`, "approved 5f0c", { run_id: run, decision: "approved", hash: "5f0c" }],
    ["approval_decided", `${run}:ok@1`, "approved", { run_id: run, decision: "approved" }],
    ["document_saved", "workflow/a/b", "c", { collection: "workflow", document_id: "a/b" }],
    ["document_removed", "apiKey/acme.1", "", { collection: "apiKey", document_id: "acme.1" }],
    ["tenant_changed", "acme", "c", {}],
    ["lock_broken", "printer", "stuck", {}],
  ])("of type %s names its particulars", (type, subject, detail, particulars) => {
    const view = eventView(row(type, subject, detail));
    const common = { sequence: 7, at: "1970-01-01T00:00:01.000Z", type, subject, actor: "ann", detail };
    expect(view).toEqual({ ...common, ...particulars });
    expect(event.parse(view)).toEqual(view);
  });

  test("is one event with its number as id", () => {
    const text = eventRowText(row("run_ended", run, "failed"));
    expect(text).toMatch(/^id: 7\nevent: run_ended\ndata: \{.*"status":"failed"\}\n\n$/);
  });

  test("cannot break out of its line, whatever a caller has written into it", () => {
    const text = eventRowText(row("cancel_requested", run, "a\n\nid: 99\nevent: end\r\rdata: {}\u2028"));
    expect(text.trimEnd().split(/\r\n|\r|\n/)).toHaveLength(3);
  });
});

describe("a row of a timeline", () => {
  test("is as many events as its commit had, and only the last has the id", () => {
    const body = JSON.stringify([{ type: "step_completed", step_id: "a" }, { type: "run_completed" }]);
    const [first = "", second = "", ...rest] = timelineRowText({ version: 4, atMs: 0, body })
      .split("\n\n")
      .filter((text) => text !== "");
    expect(rest).toEqual([]);
    expect(first).toMatch(/^event: step_completed\ndata: \{.*"step_id":"a".*"version":4/);
    expect(second).toMatch(/^id: 4\nevent: run_completed\ndata: \{.*"version":4/);
  });

  test.each(["", "not JSON", "[]", "null", "7", '{"status":"x"}', '[{"type":"a\\nid: 9"}]', '[{"type":5}]'])(
    "that holds %j is shown as something unknown, with its id",
    (body) => {
      const text = timelineRowText({ version: 4, atMs: 0, body });
      expect(text).toMatch(/^id: 4\nevent: unknown\ndata: .*\n\n$/);
    },
  );
});

test("an opening has the pause, and an id without an event when the stream begins now", () => {
  expect(openingText({ retryMs: 2_000 })).toBe("retry: 2000\n\n");
  expect(openingText({ retryMs: 2_000, id: 0 })).toBe("retry: 2000\nid: 0\n\n");
  expect(commentText("heartbeat")).toBe(": heartbeat\n\n");
  expect(eventText({ type: "end", data: { reason: "run_ended" } })).toBe(
    'event: end\ndata: {"reason":"run_ended"}\n\n',
  );
});
