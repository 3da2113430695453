// What one client sees of the rows: each number once and in order, wherever it begins, however slowly it takes them.

import type { Clock } from "../../ports/ports.ts";
import type { Trouble } from "../caller.ts";
import { type End, type Reading, readAfterAll, type Source, type Tail } from "./tail.ts";

export type FeedStart =
  | { readonly kind: "now" }
  | { readonly kind: "oldest" }
  /** The number of the last row that the client has. */
  | { readonly kind: "after"; readonly number: number };

export type Portion<Row> =
  | { readonly kind: "rows"; readonly rows: readonly Row[] }
  /** The client's place is not there any more, or not yet: the next row is the oldest that is kept. */
  | {
      readonly kind: "reset";
      readonly first: number;
      readonly last: number;
      readonly reason: "trimmed" | "ahead";
    }
  | { readonly kind: "end"; readonly end: End }
  | { readonly kind: "closed" };

export type Feed<Row> = {
  /** Waits until there is something; one call at a time. */
  next(): Promise<Portion<Row>>;
  /** Rows that the others have been shown and that wait here; 0 for a client that has not caught up yet. */
  lag(): number;
  /** A waiting `next` is answered `closed`. */
  close(): void;
};

export type FeedOptions = {
  readonly clock: Clock;
  /** Before a failed read is tried again. */
  readonly retryMs: number;
  readonly portionRows: number;
};

export type OpenedFeed<Row> =
  | { readonly kind: "open"; readonly feed: Feed<Row>; readonly last: number; readonly end?: End }
  | { readonly kind: "gone" }
  | Trouble;

export async function openFeed<Row>(
  tail: Tail<Row>,
  source: Source<Row>,
  start: FeedStart,
  options: FeedOptions,
): Promise<OpenedFeed<Row>> {
  const feed = new TailFeed(tail, source, options);
  const reading = await source.read(readAfter(start), "client");
  if (reading.kind !== "rows") {
    feed.close();
    return reading;
  }
  feed.begin(start, reading);
  const { last, end } = reading;
  return { kind: "open", feed, last, ...(end === undefined ? {} : { end }) };
}

function readAfter(start: FeedStart): number {
  if (start.kind === "after") return start.number;
  return start.kind === "now" ? readAfterAll : 0;
}

type Rows<Row> = Extract<Reading<Row>, { kind: "rows" }>;

/** It holds a place and no rows: those it has not handed out yet are the tail's, or still in the store. */
class TailFeed<Row> implements Feed<Row> {
  readonly #tail: Tail<Row>;
  readonly #source: Source<Row>;
  readonly #options: FeedOptions;
  readonly #closed = new AbortController();
  readonly #unlisten: () => void;
  #position = 0;
  /** As many as when it last knew its place; undefined when its place is beyond all rows. */
  #rewinds: number | undefined;
  #hasCaughtUp = false;
  #ready: Portion<Row>[] = [];
  #resume: (() => void) | undefined;

  /** It listens from the start, before it reads: nothing can happen in between. */
  constructor(tail: Tail<Row>, source: Source<Row>, options: FeedOptions) {
    this.#tail = tail;
    this.#source = source;
    this.#options = options;
    this.#rewinds = tail.rewinds();
    this.#unlisten = tail.listen(() => this.#resume?.());
  }

  begin(start: FeedStart, reading: Rows<Row>): void {
    this.#tail.begin(reading);
    this.#position = start.kind === "after" ? start.number : reading.last;
    if (start.kind === "oldest") this.#position = this.#firstOf(reading) - 1;
    if (start.kind !== "now") this.#ready = this.#judge(reading);
    this.#advanceBy(this.#ready);
  }

  async next(): Promise<Portion<Row>> {
    for (;;) {
      if (this.#closed.signal.aborted || this.#tail.isClosed()) return { kind: "closed" };
      const ready = this.#ready.shift();
      if (ready !== undefined) return ready;
      if (this.#rewinds !== this.#tail.rewinds()) await this.#startAgain();
      else if (this.#position < this.#tail.position()) await this.#goOn();
      else {
        this.#hasCaughtUp = true;
        const end = this.#tail.end();
        if (end !== undefined) return { kind: "end", end };
        await this.#news();
      }
    }
  }

  lag(): number {
    return this.#hasCaughtUp ? Math.max(0, this.#tail.position() - this.#position) : 0;
  }

  close(): void {
    this.#unlisten();
    this.#closed.abort();
    this.#resume?.();
  }

  /** Out of the tail's memory if its place is there, else by a read of its own. */
  async #goOn(): Promise<void> {
    const rows = this.#tail.after(this.#position, this.#options.portionRows);
    if (rows !== undefined) {
      this.#hasCaughtUp = true;
      this.#hand([{ kind: "rows", rows }]);
      return;
    }
    const reading = await this.#source.read(this.#position, "client");
    if (reading.kind === "gone") this.#ready = [{ kind: "end", end: { reason: "run_deleted" } }];
    else if (reading.kind !== "rows") await this.#pause();
    else if (reading.rows.length > 0 || reading.last < this.#position) this.#hand(this.#judge(reading));
    // Its rows are being removed: nothing is left to show of a run that has ended.
    else if (reading.end !== undefined) this.#ready = [{ kind: "end", end: reading.end }];
    else await this.#pause();
  }

  async #startAgain(): Promise<void> {
    const rewinds = this.#tail.rewinds();
    const reading = await this.#source.read(0, "client");
    if (reading.kind === "gone") this.#ready = [{ kind: "end", end: { reason: "run_deleted" } }];
    else if (reading.kind !== "rows") await this.#pause();
    else {
      this.#rewinds = rewinds;
      this.#hand(this.#resetTo(reading, "ahead"));
    }
  }

  /** What a read after this feed's place means for its client. */
  #judge(reading: Rows<Row>): Portion<Row>[] {
    if (reading.last < this.#position) {
      // Where the rows begin is not known from a read after their end.
      this.#rewinds = undefined;
      return [];
    }
    if (this.#firstOf(reading) > this.#position + 1 && reading.rows.length > 0)
      return this.#resetTo(reading, "trimmed");
    return reading.rows.length === 0 ? [] : [{ kind: "rows", rows: reading.rows }];
  }

  #resetTo(reading: Rows<Row>, reason: "trimmed" | "ahead"): Portion<Row>[] {
    const { rows, last } = reading;
    const reset = { kind: "reset", first: this.#firstOf(reading), last, reason } as const;
    this.#position = reset.first - 1;
    this.#hasCaughtUp = false;
    return rows.length === 0 ? [reset] : [reset, { kind: "rows", rows }];
  }

  #hand(portions: Portion<Row>[]): void {
    this.#ready = portions;
    this.#advanceBy(portions);
  }

  #advanceBy(portions: readonly Portion<Row>[]): void {
    for (const portion of portions) {
      if (portion.kind === "rows") this.#position = this.#source.numberOf(portion.rows.at(-1) as Row);
    }
  }

  #firstOf({ rows, last }: Rows<Row>): number {
    const [oldest] = rows;
    return oldest === undefined ? last + 1 : this.#source.numberOf(oldest);
  }

  #news(): Promise<void> {
    return new Promise((resolve) => {
      this.#resume = () => {
        this.#resume = undefined;
        resolve();
      };
    });
  }

  #pause(): Promise<void> {
    return this.#options.clock.sleep(this.#options.retryMs, this.#closed.signal);
  }
}
