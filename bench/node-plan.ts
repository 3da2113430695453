// What the Node benchmark measures on every version, and for how long.
import type { FloorScale } from "./runs-floors.ts";
import type { PeerScale } from "./runs-peer.ts";
import { type RunsScale, startsUntilCompiled } from "./runs-plan.ts";
import type { Field } from "./slices.ts";

const perSecond = { unit: "per second", over: "median" } as const;
const milliseconds = { unit: "ms", over: "median" } as const;

/** By the names that the runs benchmark has for them. */
export const nodeFields = {
  "floor.http_echo.per_s": perSecond,
  "floor.http_evalsha.per_s": perSecond,
  "floor.http_commit.per_s": perSecond,
  "runs.embedded.start.per_s": perSecond,
  "runs.redis.start.per_s": perSecond,
  "runs.embedded.three_step.inprocess.per_s": perSecond,
  "runs.embedded.three_step.inprocess.p50_ms": milliseconds,
  "runs.embedded.three_step.http.per_s": perSecond,
  "runs.embedded.three_step.http.p50_ms": milliseconds,
  "peer.bullmq.three_step.per_s": perSecond,
} as const satisfies Readonly<Record<string, Field>>;

export type NodeScale = {
  /** Of each version, in turns. */
  readonly slices: number;
  readonly floors: FloorScale;
  readonly runs: Pick<RunsScale, "slices" | "startMs" | "startsBefore" | "saturationMs" | "oneByOneRuns">;
  readonly peer: PeerScale;
};

const once = { slices: 1 } as const;

export const nodeScales: Readonly<Record<"quick" | "full", NodeScale>> = {
  quick: {
    slices: 1,
    floors: { ...once, warmUpMs: 500, durationMs: 500 },
    runs: { ...once, startMs: 600, startsBefore: 1_000, saturationMs: 900, oneByOneRuns: 30 },
    peer: { ...once, concurrencies: [30], inFlight: 1_000, saturationMs: 500, oneByOneRuns: 30 },
  },
  full: {
    slices: 3,
    floors: { ...once, warmUpMs: 1_000, durationMs: 1_500 },
    runs: {
      ...once,
      startMs: 2_500,
      startsBefore: startsUntilCompiled,
      saturationMs: 3_000,
      oneByOneRuns: 200,
    },
    peer: { ...once, concurrencies: [20], inFlight: 2_000, saturationMs: 2_000, oneByOneRuns: 50 },
  },
};
