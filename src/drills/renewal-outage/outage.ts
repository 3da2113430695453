// What one outage of renewals came to, wherever the owners were.
import type { Interval } from "./intervals.ts";

export type Policy = "strict" | "continuity";

/** Times in milliseconds since the first owner asked for the lock: its ttl cannot have begun earlier. */
export type Outage = {
  readonly name: string;
  readonly policy: Policy;
  readonly ttlMs: number;
  /** From the grant until the owner was fenced, or its last write was answered. */
  readonly first: Interval;
  readonly second: Interval;
  /** When the first owner was fenced while the second had not come yet; undefined when it went on. */
  readonly fencedMs: number | undefined;
  /** Failed renewals that this owner may have before it is fenced; undefined when it never is. */
  readonly tolerated: number | undefined;
  /** Renewals of the first owner that got no answer. */
  readonly renewalsFailed: number;
  /** As the metrics counted them: failed renewals, abandoned leases and refused writes. Undefined where no instance can be watched. */
  readonly failedCounted: number | undefined;
  readonly abandonedCounted: number | undefined;
  readonly refusedCounted: number | undefined;
  /** What the guard said to the first owner's write after the second had come. */
  readonly staleWrite: "refused" | "accepted";
  /** The second owner's writes were accepted and nothing is missing. */
  readonly isWhole: boolean;
};
