// The one reader that all who watch the same rows share: it reads what is new while somebody watches, and keeps the latest rows.

import type { EventRow } from "../../domain/audit.ts";
import { waitDelayMs } from "../../domain/lock.ts";
import { isTerminal, type RunId, type TerminalStatus } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import type { Ports } from "../../ports/ports.ts";
import { ask } from "../ask-until-known.ts";
import type { Trouble } from "../caller.ts";
import type { Engine } from "../engine/engine.ts";

type Rhythm = {
  /** Between two reads on average, however often it is woken: under load one read then brings many rows. */
  readonly gapMs: number;
  /** How long to wait when nothing was new, at first and at most; it doubles in between. */
  readonly pollMs: number;
  readonly pollMaxMs: number;
  /** `woken`: every change wakes it, so that only failed reads are retried. */
  readonly reads: "by_itself" | "woken";
};

export type TailOptions = {
  readonly rhythm: Rhythm;
  /** Rows that are kept in memory. */
  readonly rowsMax: number;
  /** Called once, when the last listener has gone. */
  onUnwatched(): void;
};

/** What a listener hears: the rows that were added, or that the numbers went back and anything may have changed. */
export type News<Row> =
  | { readonly kind: "rows"; readonly rows: readonly Row[] }
  | { readonly kind: "rewound" }
  | { readonly kind: "ended" }
  | { readonly kind: "closed" };

/** A run of three steps changes four times. */
const readsAtOnce = 8;

type Found = "more" | "rows" | "nothing" | "trouble";

export class Tail<Row> {
  readonly #ports: Pick<Ports, "clock" | "random" | "log">;
  readonly #source: Source<Row>;
  readonly #options: TailOptions;
  readonly #listeners = new Set<(news: News<Row>) => void>();
  /** Without gaps, and the last one is the one at the position. */
  readonly #rows: Row[] = [];
  #position: number | undefined;
  #rewinds = 0;
  #end: End | undefined;
  #woken = false;
  /** Not before, if reads keep their gap on average. */
  #nextReadMs = Number.NEGATIVE_INFINITY;
  #state: "open" | "closed" = "open";
  #resting: AbortController | undefined;
  #reading: Promise<void> = Promise.resolve();

  constructor(ports: Pick<Ports, "clock" | "random" | "log">, source: Source<Row>, options: TailOptions) {
    this.#ports = ports;
    this.#source = source;
    this.#options = options;
  }

  hasBegun(): boolean {
    return this.#position !== undefined;
  }

  /** The number of the newest row that it has seen. */
  position(): number {
    return this.#position ?? 0;
  }

  /** How often the numbers have gone back: the store was replaced by an older or an empty one. */
  rewinds(): number {
    return this.#rewinds;
  }

  /** Set when nothing comes after the position. */
  end(): End | undefined {
    return this.#end;
  }

  /** Rows after a number out of memory; undefined when they are no longer, or were never, kept here. */
  after(number: number, limit: number): readonly Row[] | undefined {
    const [oldest] = this.#rows;
    if (oldest === undefined) return undefined;
    const skipped = number + 1 - this.#source.numberOf(oldest);
    return skipped < 0 ? undefined : this.#rows.slice(skipped, skipped + limit);
  }

  listen(listener: (news: News<Row>) => void): () => void {
    this.#listeners.add(listener);
    return () => {
      if (!this.#listeners.delete(listener) || this.#listeners.size > 0) return;
      this.#stop();
      this.#options.onUnwatched();
    };
  }

  /** The first who watches says where the rows end now; later ones change nothing. */
  begin({ last, end }: { readonly last: number; readonly end?: End }): void {
    if (this.#position !== undefined || this.#state === "closed") return;
    this.#position = last;
    this.#end = end;
    this.#reading = this.#readAgainAndAgain();
  }

  wake(): void {
    this.#woken = true;
    this.#resting?.abort();
  }

  isClosed(): boolean {
    return this.#state === "closed";
  }

  /** Resolves when no read is under way any more. */
  async close(): Promise<void> {
    this.#stop();
    this.#tell({ kind: "closed" });
    await this.#reading;
  }

  #stop(): void {
    this.#state = "closed";
    this.#resting?.abort();
  }

  async #readAgainAndAgain(): Promise<void> {
    const { pollMs, pollMaxMs } = this.#options.rhythm;
    const { clock } = this.#ports;
    // The first reader has just read: there is nothing to do until something changes.
    let found: Found = "nothing";
    for (let waitMs = pollMs; this.#state === "open"; ) {
      if (found !== "more") await this.#rest(found, waitMs);
      if (this.#state !== "open") return;
      const startedMs = clock.monotonicMs();
      const isWoken = this.#woken;
      this.#woken = false;
      found = await this.#read();
      const isQuiet = (found === "nothing" && !isWoken) || found === "trouble";
      waitMs = isQuiet ? Math.min(pollMaxMs, waitMs * 2) : pollMs;
      if (found !== "more") await this.#keepGap(startedMs);
    }
  }

  async #rest(found: Found, waitMs: number): Promise<void> {
    const { clock, random } = this.#ports;
    if (this.#woken && found !== "trouble") return;
    const resting = new AbortController();
    this.#resting = resting;
    if (this.#options.rhythm.reads === "woken" && found !== "trouble") await aborted(resting.signal);
    else await clock.sleep(waitDelayMs("jitter", around(waitMs), 0, random.fraction()), resting.signal);
    this.#resting = undefined;
  }

  /** A few reads after a silence keep none: the end of a run alone was told 8 ms late. */
  async #keepGap(startedMs: number): Promise<void> {
    const { clock } = this.#ports;
    const { gapMs } = this.#options.rhythm;
    this.#nextReadMs = Math.max(this.#nextReadMs, startedMs - readsAtOnce * gapMs) + gapMs;
    const leftMs = this.#nextReadMs - clock.monotonicMs();
    if (leftMs > 0 && this.#state === "open") await clock.sleep(leftMs);
  }

  async #read(): Promise<Found> {
    const position = this.position();
    const reading = await this.#source.read(position, "tail");
    if (this.#state !== "open") return "nothing";
    if (reading.kind === "unknown" || reading.kind === "unavailable") return "trouble";
    if (reading.kind === "gone") return this.#finish({ reason: "run_deleted" });
    const { rows, last, end } = reading;
    if (last < position) return this.#rewind(last, end);
    const [oldest] = rows;
    if (oldest === undefined) return end === undefined ? "nothing" : this.#finish(end);
    if (this.#source.numberOf(oldest) !== position + 1) this.#rows.length = 0;
    this.#rows.push(...rows);
    this.#rows.splice(0, this.#rows.length - this.#options.rowsMax);
    this.#position = this.#source.numberOf(rows.at(-1) as Row);
    this.#end = this.#position < last ? undefined : end;
    this.#tell({ kind: "rows", rows });
    return this.#position < last ? "more" : "rows";
  }

  #rewind(last: number, end: End | undefined): Found {
    this.#ports.log.warn("the store's numbers went back: those who watch start again", {
      from: this.position(),
      to: last,
    });
    this.#rows.length = 0;
    this.#position = last;
    this.#end = end;
    this.#rewinds += 1;
    this.#tell({ kind: "rewound" });
    return "rows";
  }

  #finish(end: End): Found {
    this.#end = end;
    this.#tell({ kind: "ended" });
    return "nothing";
  }

  #tell(news: News<Row>): void {
    for (const listener of [...this.#listeners]) listener(news);
  }
}

/** Tails of many processes that began together do not read together. */
const around = (baseMs: number) => ({ kind: "around", baseMs, jitterFraction: 0.2 }) as const;

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

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

export type Reads = Pick<Engine<"tenants" | "runs">, "ports" | "config" | "terms">;

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

function count({ metrics }: Pick<Ports, "metrics">, stream: "tenant" | "run", reader: Reader): void {
  if (reader === "tail") metrics.count("event_tail_reads_total", { stream });
  else metrics.count("event_catch_up_reads_total", { stream });
}
