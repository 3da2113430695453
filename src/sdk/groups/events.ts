// Events: what was changed in a tenant, page by page or as it happens.
import type { Caller, Line } from "../caller.ts";
import type { Common, Query, Success } from "../contract.ts";
import {
  type Followed,
  type FollowOptions,
  followRun,
  followTenant,
  type TenantEvent,
  type TimelineEvent,
} from "../follow.ts";
import { apart } from "./care.ts";

export type Events = {
  /** One page; `next_cursor` is there also on the last one: ask with it again later. */
  page(options?: Common & Query<"readEvents">): Promise<Success<"readEvents">>;
  /**
   * As they happen, over as many connections as it takes: nothing twice, nothing left out, and an explicit `reset` where rows
   * are gone. With `run`, the timeline of that run, to its end.
   */
  follow(options: FollowOptions & { readonly run: string }): AsyncIterable<Followed<TimelineEvent>>;
  follow(options?: FollowOptions & { readonly run?: undefined }): AsyncIterable<Followed<TenantEvent>>;
};

export function eventsOf(line: Line, caller: Caller): Events {
  const follow = (options: FollowOptions & { readonly run?: string | undefined } = {}) =>
    options.run === undefined ? followTenant(line, options) : followRun(line, options.run, options);
  return {
    page(options) {
      const { query, ...rest } = apart(options);
      return caller.call("readEvents", { query, ...rest });
    },
    // Which of the two it is follows from the options.
    follow: follow as Events["follow"],
  };
}
