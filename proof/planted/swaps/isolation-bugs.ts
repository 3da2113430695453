// Known mistakes that only show when a tenant's day is compared with itself: beside a flood, or with clocks that jump.

import type { Swap } from "../planted-bug.ts";
import { readingTheWallClock } from "./broken-clocks.ts";
import { oneLimitForAll, oneLockForAll, onePoolForAll, oneQuotaForAll } from "./broken-isolation.ts";

export const swappedIsolation: Readonly<Record<string, Swap>> = {
  one_lock_for_all: {
    what: "starts of all tenants wait for the same lock",
    caughtBy: ["INV-5"],
    compares: "flood",
    wrapStore: oneLockForAll,
  },
  one_limit_for_all: {
    what: "the limit of a tenant counts the runs of others",
    caughtBy: ["INV-5"],
    compares: "flood",
    wrapStore: oneLimitForAll,
  },
  one_quota_for_all: {
    what: "the quota of keys is one for all tenants",
    caughtBy: ["INV-5"],
    compares: "flood",
    wrapStore: oneQuotaForAll,
  },
  one_pool_for_all: {
    what: "a process has places for two starts, whose ever they are",
    caughtBy: ["INV-5"],
    compares: "flood",
    wrapStore: onePoolForAll,
  },
  deadlines_by_wall_clock: {
    what: "every deadline is measured by the wall clock, which may be set back",
    caughtBy: ["INV-16"],
    compares: "wall_clocks",
    wrapPorts: readingTheWallClock,
  },
};
