// The operations that load, list and remove runs as script calls.
import type { RunId, RunStatus } from "../../domain/run.ts";
import { headerFields, parseHeader, parseRecords, recordField, recordPrefix } from "./run-format.ts";
import { credentialWord, type ScriptCall, unexpected } from "./script-call.ts";

/** As many as the specification returns without naming them. */
const recordsMax = "1000";

type Values = readonly (string | null)[];

export const loadRun: ScriptCall<"loadRun"> = {
  keys: (keys, { runId }) => [keys.run(runId)],
  args: ({ records }) => [
    records === undefined ? "all" : "named",
    recordsMax,
    ...headerFields,
    ...(records ?? []).map(recordField),
  ],
  parse(reply, request) {
    switch (reply[0]) {
      case "run": {
        const [, , asked, names, bodies] = reply as readonly [string, string, Values, string[], string[]];
        const header = parseHeader(request, asked);
        if (request.records !== undefined)
          return { kind: "run", header, records: parseRecords(request.records, asked) };
        const records = names.map((name, index) => ({
          key: name.slice(recordPrefix.length),
          body: bodies[index] ?? "",
        }));
        records.sort((left, right) => (left.key < right.key ? -1 : 1));
        return { kind: "run", header, records };
      }
      case "not_found":
        return { kind: "not_found" };
      default:
        return unexpected("loadRun", reply);
    }
  },
};

export const listRuns: ScriptCall<"listRuns"> = {
  keys: (keys) => [keys.runs, keys.runPrefix],
  args: ({ before, limit, status, workflow }) => [
    startBefore(before),
    String(limit),
    status ?? "",
    workflow ?? "",
    ...headerFields,
  ],
  parse(reply, { tenant }) {
    if (reply[0] !== "listed") return unexpected("listRuns", reply);
    const rows = reply[3] as ReadonlyArray<readonly [RunId, Values]>;
    const runs = rows.map(([runId, values]) => parseHeader({ tenant, runId }, values));
    return reply[2] === "" ? { kind: "listed", runs } : { kind: "listed", runs, next: reply[2] as RunId };
  },
};

/** Where a list that goes backwards begins: at its end, or before a member. */
export function startBefore(member: string | undefined): string {
  return member === undefined ? "+" : `(${member}`;
}

export const readTimeline: ScriptCall<"readTimeline"> = {
  keys: (keys, { runId }) => [keys.run(runId)],
  args: ({ after, limit }, { timelineRowsMax }) => [String(after), String(limit), String(timelineRowsMax)],
  parse(reply) {
    switch (reply[0]) {
      case "timeline": {
        const rows = reply[3] as ReadonlyArray<readonly [version: string, row: string]>;
        return {
          kind: "timeline",
          version: Number(reply[2]),
          status: reply[4] as RunStatus,
          rows: rows.map(([version, row]) => ({ version: Number(version), ...parseRow(row) })),
        };
      }
      case "not_found":
        return { kind: "not_found" };
      default:
        return unexpected("readTimeline", reply);
    }
  },
};

/** A row is `<commit> <atMs> <body>`. */
function parseRow(row: string) {
  const commitEnd = row.indexOf(" ");
  const timeEnd = row.indexOf(" ", commitEnd + 1);
  return { atMs: Number(row.slice(commitEnd + 1, timeEnd)), body: row.slice(timeEnd + 1) };
}

export const deleteRun: ScriptCall<"deleteRun"> = {
  keys: (keys, { runId }) => [keys.start, keys.run(runId), keys.events, keys.due, keys.tenant],
  args: ({ tenant, runId, actor, credential }, { eventsPerTenantMax }) => [
    tenant,
    runId,
    actor,
    String(eventsPerTenantMax),
    credentialWord(credential),
  ],
  parse(reply) {
    switch (reply[0]) {
      case "deleted":
      case "more":
      case "not_found":
      case "not_ended":
      case "unauthenticated":
        return { kind: reply[0] };
      default:
        return unexpected("deleteRun", reply);
    }
  },
};
