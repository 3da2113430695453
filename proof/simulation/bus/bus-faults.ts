// What can go wrong between processes and the bus; each fault has its own rate per message, drawn from the bus's streams.
export type BusFaults = {
  readonly travelMsMax: number;
  /** Acknowledged, and never delivered; its id is remembered all the same. */
  readonly forgottenRate: number;
  /** Delivered once more although it may be done by then, as after a change of leader that lost the acknowledgement. */
  readonly doubledRate: number;
  /** A delivery that takes up to `longDelayMsMax`: what was published later overtakes it. */
  readonly longDelayRate: number;
  readonly longDelayMsMax: number;
  /** Never arrives at the bus; its publisher is told that it is unavailable. */
  readonly publishLostRate: number;
  /** Stored, and its publisher is told that it is unavailable: the acknowledgement was lost. */
  readonly publishUnknownRate: number;
  /** What a handler said does not reach the bus: the message is delivered again. */
  readonly wordLostRate: number;
  /** What a handler says of an earlier delivery than the last does not count. */
  readonly lateWordRefusedRate: number;
  /** The longest that a verdict is waited for: the product's half minute is longer than most seeds. */
  readonly ackWaitMsMax: number;
  /** For how long an id is remembered. */
  readonly duplicateWindowMs: number;
  /** Its publisher sends it again, by the same id, up to `echoMsMax` later. */
  readonly echoRate: number;
  readonly echoMsMax: number;
  /** Mean time between two of a kind; absent means that this fault does not exist. */
  readonly linkOutageEveryMs?: number;
  readonly outageEveryMs?: number;
  readonly outageMsMax: number;
  readonly purgeEveryMs?: number;
  readonly streamRemovedEveryMs?: number;
  readonly consumerForgottenEveryMs?: number;
  readonly restartEveryMs?: number;
};

export const noBusFaults: BusFaults = {
  travelMsMax: 3,
  forgottenRate: 0,
  doubledRate: 0,
  longDelayRate: 0,
  longDelayMsMax: 0,
  publishLostRate: 0,
  publishUnknownRate: 0,
  wordLostRate: 0,
  lateWordRefusedRate: 0,
  ackWaitMsMax: Number.POSITIVE_INFINITY,
  duplicateWindowMs: 120_000,
  echoRate: 0,
  echoMsMax: 0,
  outageMsMax: 0,
};
