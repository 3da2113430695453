// All that is watched in this process: one tail per watched tenant, under it one per watched run, and the feeds of clients.
import type { Config } from "../../config.ts";
import type { EventRow } from "../../domain/audit.ts";
import type { RunId } from "../../domain/run.ts";
import type { TenantId } from "../../domain/tenant.ts";
import { ask } from "../ask-until-known.ts";
import type { Trouble } from "../caller.ts";
import type { Engine } from "../engine/engine.ts";
import { type Feed, type FeedOptions, type FeedStart, type OpenedFeed, openFeed } from "./feed.ts";
import {
  type News,
  type Reads,
  readAfterAll,
  runSource,
  Tail,
  type TailOptions,
  type TimelineRow,
  tenantSource,
} from "./tail.ts";
import type { Wakes } from "./wakes.ts";

export type EventFeeds = {
  /** A tenant's event rows. */
  ofTenant(tenant: TenantId, start: FeedStart): Promise<OpenedFeed<EventRow>>;
  /** A run's timeline; `gone` when there is no such run. */
  ofRun(tenant: TenantId, runId: RunId, start: FeedStart): Promise<OpenedFeed<TimelineRow>>;
  /** Stops reading and closes the feeds that are still open. */
  close(): Promise<void>;
};

type Watched = {
  readonly tail: Tail<EventRow>;
  readonly runs: Map<RunId, Tail<TimelineRow>>;
  /** While runs are watched the tenant's tail is held for them. */
  unlisten: (() => void) | undefined;
};

export function createEventFeeds(reads: Reads, wakes: Wakes): EventFeeds {
  const { ports, config } = reads;
  const tenants = new Map<TenantId, Watched>();
  const feedOptions: FeedOptions = {
    clock: ports.clock,
    retryMs: config["events.pollMs"],
    portionRows: config["events.rowsPerRead"],
  };

  function watchTenant(tenant: TenantId): Watched {
    const known = tenants.get(tenant);
    if (known !== undefined) return known;
    const tail = new Tail(ports, tenantSource(reads, tenant), {
      ...tailOptions(config, "by_itself"),
      onUnwatched() {
        unwatch();
        tenants.delete(tenant);
      },
    });
    const unwatch = wakes.watch(tenant, () => tail.wake());
    const watched: Watched = { tail, runs: new Map(), unlisten: undefined };
    tenants.set(tenant, watched);
    return watched;
  }

  function watchRun(watched: Watched, tenant: TenantId, runId: RunId): Tail<TimelineRow> {
    const { runs } = watched;
    const known = runs.get(runId);
    if (known !== undefined) return known;
    const tail = new Tail(ports, runSource(reads, { tenant, runId }), {
      ...tailOptions(config, "woken"),
      onUnwatched() {
        runs.delete(runId);
        if (runs.size === 0) watched.unlisten?.();
      },
    });
    if (runs.size === 0) watched.unlisten = watched.tail.listen((news) => wakeRuns(runs, news));
    runs.set(runId, tail);
    return tail;
  }

  return {
    ofTenant: (tenant, start) =>
      openFeed(watchTenant(tenant).tail, tenantSource(reads, tenant), start, feedOptions),
    async ofRun(tenant, runId, start) {
      const watched = watchTenant(tenant);
      const tail = watchRun(watched, tenant, runId);
      const release = tail.listen(() => {});
      try {
        // The tenant's tail first: whatever the timeline does not show yet, it will.
        if (!watched.tail.hasBegun()) {
          const reading = await tenantSource(reads, tenant).read(readAfterAll, "client");
          if (reading.kind !== "rows") return reading;
          watched.tail.begin(reading);
        }
        return await openFeed(tail, runSource(reads, { tenant, runId }), start, feedOptions);
      } finally {
        release();
      }
    },
    async close() {
      const all = [...tenants.values()].flatMap(({ tail, runs }) => [tail, ...runs.values()]);
      await Promise.all(all.map((tail) => tail.close()));
    },
  };
}

/** A row of a run says that its timeline has grown. */
function wakeRuns(runs: ReadonlyMap<RunId, Tail<TimelineRow>>, news: News<EventRow>): void {
  if (news.kind === "rows") for (const { subject } of news.rows) runs.get(subject as RunId)?.wake();
  else for (const tail of runs.values()) tail.wake();
}

function tailOptions(config: Config, reads: "by_itself" | "woken"): Omit<TailOptions, "onUnwatched"> {
  const rhythm = {
    gapMs: config["events.readGapMs"],
    pollMs: config["events.pollMs"],
    pollMaxMs: config["events.pollMaxMs"],
    reads,
  };
  return { rhythm, rowsMax: config["events.rowsKeptMax"] };
}

/** A tenant's rows as they come; `last` is the number of the newest. The caller closes the feed. */
export async function followEvents(
  { feeds }: Pick<Engine, "feeds">,
  { tenant, start }: { readonly tenant: TenantId; readonly start: FeedStart },
): Promise<{ readonly kind: "open"; readonly feed: Feed<EventRow>; readonly last: number } | Trouble> {
  const opened = await feeds.ofTenant(tenant, start);
  if (opened.kind === "gone") throw new Error("a tenant's rows are never gone");
  return opened;
}

/** A run's timeline as it grows, to the run's end. `ended`: the caller has already got all there is. */
export async function followRun(
  { feeds }: Pick<Engine, "feeds">,
  { tenant, runId, start }: { readonly tenant: TenantId; readonly runId: RunId; readonly start: FeedStart },
): Promise<
  | { readonly kind: "open"; readonly feed: Feed<TimelineRow>; readonly last: number }
  | { readonly kind: "ended" }
  | { readonly kind: "run_not_found" }
  | Trouble
> {
  const opened = await feeds.ofRun(tenant, runId, start);
  if (opened.kind === "gone") return { kind: "run_not_found" };
  if (opened.kind !== "open") return opened;
  const { feed, last, end } = opened;
  if (end === undefined || start.kind !== "after" || start.number !== last)
    return { kind: "open", feed, last };
  feed.close();
  return { kind: "ended" };
}

export function readEvents(
  engine: Engine,
  request: { readonly tenant: TenantId; readonly after: number; readonly limit: number },
) {
  return ask(engine, "readEvents", request);
}
