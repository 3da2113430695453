// A measurement as raw data for a file: every try and every arrival, but a crowd on a line and not a try.

import { binned } from "../load/times.ts";
import type { StartTry } from "../try-start.ts";
import type { Measured } from "./measure.ts";

export function rawOf<Seen extends Measured>({ tries, ends, gate, ...rest }: Seen) {
  const { arrivalsMs, dueMs, ...gateRest } = gate;
  return {
    ...rest,
    ...gateRest,
    /** Sent at, answered after, with what: `12+340:429`, in whole milliseconds. */
    tries: tries.map(shortTry).join(" "),
    gotRunAtMs: ends
      .filter(({ isStarted }) => isStarted)
      .map(({ atMs }) => Math.round(atMs))
      .join(" "),
    ...(dueMs === undefined ? {} : { retriesDuePerMs: countsPerMs(dueMs) }),
    ...(arrivalsMs === undefined ? {} : { arrivalsPerMs: countsPerMs(arrivalsMs) }),
  };
}

function shortTry(tried: StartTry): string {
  return `${Math.round(tried.sentMs)}+${Math.round(tried.tookMs)}:${answerOf(tried)}`;
}

function answerOf(tried: StartTry): string | number {
  switch (tried.kind) {
    case "started":
      return 200;
    case "refused":
      return tried.status;
    case "no_answer":
      return tried.why;
  }
}

function countsPerMs(timesMs: readonly number[]): string {
  const untilMs = Math.floor(timesMs.at(-1) ?? -1) + 1;
  return binned(timesMs, { binMs: 1, untilMs })
    .map(([, count]) => count)
    .join(" ");
}
