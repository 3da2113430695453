// What is measured of one side of a canary: how results met their runs, and how starts met the gate.
import { type Histogram, mergedHistogram } from "./histogram.ts";

export type ArmSamples = {
  /** Results that arrived, each once, however often it was tried. */
  readonly results: number;
  /** Tries that found the run busy. */
  readonly busyRetries: number;
  /** Results that got their run at the first try, after one busy try, after more. */
  readonly acquired: readonly [first: number, second: number, later: number];
  readonly lockWait: Histogram;
  /** From the first arrival to being durable. */
  readonly latency: Histogram;
  readonly starts: number;
  /** Tries that found the admission lock busy. */
  readonly startBusyRetries: number;
  /** Starts answered 503. */
  readonly startsUnavailable: number;
  readonly startWait: Histogram;
};

export const noSamples: ArmSamples = {
  results: 0,
  busyRetries: 0,
  acquired: [0, 0, 0],
  lockWait: {},
  latency: {},
  starts: 0,
  startBusyRetries: 0,
  startsUnavailable: 0,
  startWait: {},
};

export type BothArms = { readonly canary: ArmSamples; readonly control: ArmSamples };

export const noSamplesAtAll: BothArms = { canary: noSamples, control: noSamples };

export function mergedArms(one: BothArms, other: BothArms): BothArms {
  return { canary: merged(one.canary, other.canary), control: merged(one.control, other.control) };
}

function merged(one: ArmSamples, other: ArmSamples): ArmSamples {
  const [first, second, later] = other.acquired;
  return {
    results: one.results + other.results,
    busyRetries: one.busyRetries + other.busyRetries,
    acquired: [one.acquired[0] + first, one.acquired[1] + second, one.acquired[2] + later],
    lockWait: mergedHistogram(one.lockWait, other.lockWait),
    latency: mergedHistogram(one.latency, other.latency),
    starts: one.starts + other.starts,
    startBusyRetries: one.startBusyRetries + other.startBusyRetries,
    startsUnavailable: one.startsUnavailable + other.startsUnavailable,
    startWait: mergedHistogram(one.startWait, other.startWait),
  };
}
