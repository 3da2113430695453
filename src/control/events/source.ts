// Where the streams read: a tenant's event rows, or the timeline of one of its runs, both as rows with growing numbers.
import type { EventRow } from "../../domain/event.ts";
import { isTerminal, type RunId, type TerminalStatus } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { Ports } from "../../ports/ports.ts";
import { ask } from "../ask-until-known.ts";
import type { Trouble } from "../control-api.ts";
import type { Engine } from "../engine/engine.ts";

export type TimelineRow = { readonly version: number; readonly atMs: number; readonly body: string };

/** Why nothing follows. */
export type End =
  | { readonly reason: "run_ended"; readonly status: TerminalStatus }
  | { readonly reason: "run_deleted" };

export type Reading<Row> =
  | {
      readonly kind: "rows";
      /** In order and without gaps; the first is the oldest that is kept when those before it were dropped. */
      readonly rows: readonly Row[];
      /** The number of the newest row there is. */
      readonly last: number;
      /** Nothing comes after `last`. */
      readonly end?: End;
    }
  | { readonly kind: "gone" }
  | Trouble;

export type Source<Row> = {
  numberOf(row: Row): number;
  /** Rows after a number, oldest first, a bounded number of them. */
  read(after: number, reader: Reader): Promise<Reading<Row>>;
};

/** Who reads: the one that all clients share, or a client for itself because it is behind. */
type Reader = "tail" | "client";

export type Reads = Pick<Engine, "ports" | "config" | "terms">;

/** No row has this number: a read after it only tells where the rows end. */
export const readAfterAll = Number.MAX_SAFE_INTEGER;

/** Rows of a timeline are large: each holds all that one commit did. */
const timelineRowsPerRead = 50;

export function tenantSource(reads: Reads, tenant: TenantId): Source<EventRow> {
  const { ports, config } = reads;
  return {
    numberOf: (row) => row.sequence,
    async read(after, reader) {
      count(ports, "tenant", reader);
      const request = { tenant, after, limit: config["events.rowsPerRead"] };
      const answer = await ask(reads, "readEvents", request);
      if (answer.kind !== "events") return { kind: answer.kind, cause: answer.cause };
      const [oldest] = answer.events;
      if (reader === "tail" && oldest !== undefined) {
        const lateMs = Math.max(0, answer.storeTimeMs - oldest.atMs);
        ports.metrics.observe("event_lateness_seconds", {}, lateMs / 1_000);
      }
      return { kind: "rows", rows: answer.events, last: answer.last };
    },
  };
}

export function runSource(
  reads: Reads,
  { tenant, runId }: { readonly tenant: TenantId; readonly runId: RunId },
): Source<TimelineRow> {
  const { ports, config } = reads;
  return {
    numberOf: (row) => row.version,
    async read(after, reader) {
      count(ports, "run", reader);
      const limit = Math.min(config["events.rowsPerRead"], timelineRowsPerRead);
      const request = { tenant, runId, after, limit };
      const answer = await ask(reads, "readTimeline", request);
      if (answer.kind === "not_found") return { kind: "gone" };
      if (answer.kind !== "timeline") return { kind: answer.kind, cause: answer.cause };
      const { rows, version, status } = answer;
      const end = isTerminal(status) ? ({ reason: "run_ended", status } as const) : undefined;
      return { kind: "rows", rows, last: version, ...(end === undefined ? {} : { end }) };
    },
  };
}

function count({ metrics }: Ports, stream: "tenant" | "run", reader: Reader): void {
  if (reader === "tail") metrics.count("event_tail_reads_total", { stream });
  else metrics.count("event_catch_up_reads_total", { stream });
}
