// What can go wrong between a process and the store; each fault has its own rate per call, drawn from the caller's stream.

export type StoreFaults = {
  /** Usual travel time of a request or of a reply, one way: uniform up to this. */
  readonly travelMsMax: number;
  /** With it, usual travel times have a heavy tail instead: most are short, a few take very long. */
  readonly tail?: LatencyTail;
  /** A request or reply that takes up to `longDelayMsMax`: it may arrive after its caller gave up. */
  readonly longDelayRate: number;
  readonly longDelayMsMax: number;
  readonly requestLostRate: number;
  /** The operation had its effect, and the answer is lost. */
  readonly replyLostRate: number;
  /** The connection breaks: the caller knows at once that it will not know. The request may still have got through. */
  readonly connectionResetRate: number;
  /** The transport sends the request again: it is executed twice, at once or up to `longDelayMsMax` later. */
  readonly doubleExecutionRate: number;
  /** The caller's link, or the store for everybody, is unreachable for up to `outageMsMax`. */
  readonly outageRate: number;
  readonly outageMsMax: number;
  /** The store's own clock jumps forward by up to `clockJumpMsMax`. */
  readonly clockJumpRate: number;
  readonly clockJumpMsMax: number;
};

/** A Pareto tail: the probability to take `n` times as long falls with the power `alpha` of `n`. Nothing takes longer than `msMax`. */
export type LatencyTail = { readonly alpha: number; readonly msMax: number };

/** The travel time that belongs to a fraction from 0 to below 1. */
export function travelMsOf({ travelMsMax, tail }: StoreFaults, fraction: number): number {
  if (tail === undefined) return fraction * travelMsMax;
  return Math.min(tail.msMax, (travelMsMax / 4) * (1 - fraction) ** (-1 / tail.alpha));
}

export const noStoreFaults: StoreFaults = {
  travelMsMax: 3,
  longDelayRate: 0,
  longDelayMsMax: 0,
  requestLostRate: 0,
  replyLostRate: 0,
  connectionResetRate: 0,
  doubleExecutionRate: 0,
  outageRate: 0,
  outageMsMax: 0,
  clockJumpRate: 0,
  clockJumpMsMax: 0,
};

/** Names of what went wrong, such as `request lost`; a new fault is named where it is injected. */
export class FaultCounts {
  readonly #counts = new Map<string, number>();

  hit(kind: string, times = 1): void {
    this.#counts.set(kind, (this.#counts.get(kind) ?? 0) + times);
  }

  /** By kind, in alphabetical order. */
  byKind(): Readonly<Record<string, number>> {
    return Object.fromEntries([...this.#counts].sort(([left], [right]) => (left < right ? -1 : 1)));
  }
}
