// What a drill is: a runbook as a program, with a question, steps, an expectation and a verdict.
import type { LockNamespace } from "../domain/lock.ts";
import type { Target } from "./target/target.ts";

/** In the order in which help and documents list them. */
export const drillNames = [
  "admission-burst",
  "key-survives-429",
  "lock-busy-waves",
  "stale-owner",
  "renewal-outage",
  "staged-failure",
  "worker-loss",
  "bus-loss",
  "store-restart",
  "failover",
] as const;
export type DrillName = (typeof drillNames)[number];

export type Drill = {
  readonly name: DrillName;
  /** What an operator wants to know. */
  readonly question: string;
  /** What must hold for a good answer, in one sentence. */
  readonly expectation: string;
  /** What it does, in order, for people. */
  readonly steps: readonly string[];
  /** The kinds of locks that it takes or renews on an instance of its own; their pages name it. */
  readonly locks: readonly LockNamespace[];
  /** How an instance of its own must be made; a deployment that runs already is taken as it is. */
  readonly instance: InstanceKind | ((where: "embedded" | "cluster") => InstanceKind);
  run(stage: Stage): Promise<Outcome>;
};

export type InstanceKind =
  /** Inside this process, where the drill can watch and disturb what it says to store and bus. */
  | {
      readonly kind: "inside";
      readonly settings?: (size: Size) => Settings;
      /** How many there are on a cluster; embedded data has one. 1 unless it says so. */
      readonly onCluster?: 1 | 2;
      /** Jobs of high risk wait for a dispatch check, which allows all that the drill does not judge itself. */
      readonly dispatchCheck?: true;
    }
  /** Processes of their own, which can be killed and paused, and servers that can be restarted. */
  | {
      readonly kind: "processes";
      readonly redis: "single" | "sentinel";
      readonly settings?: (size: Size) => Settings;
    };

/** By the names of the configuration. */
export type Settings = Readonly<Record<string, string | number>>;

/** `quick` takes less than 20 s, with times to live scaled down. */
export type Size = "quick" | "full";

export type DrillOptions = {
  /** How many requests or results a burst has; each drill has its own default. */
  readonly requests?: number;
  /** How results are reported; by each way that the target has, unless it says so. */
  readonly path?: ResultPath;
  /** Tries a grid of settings as well. */
  readonly sweep: boolean;
  /** Of a deployment that runs already: shell commands that break something, and that mend it. */
  readonly fault?: string;
  readonly mend?: string;
};

export type ResultPath = "http" | "bus";

/** What a drill works with. */
export type Stage = {
  readonly target: Target;
  readonly size: Size;
  readonly options: DrillOptions;
  /** Aborted when the user wants to stop. */
  readonly signal: AbortSignal;
  /** One line for people, while it runs. */
  progress(line: string): void;
};

/** One thing that was looked at. The drill's verdict is good when all hold. */
export type Check = {
  readonly what: string;
  readonly expected: string;
  readonly seen: string;
  readonly holds: boolean;
};

export type Table = {
  readonly title: string;
  readonly columns: readonly string[];
  readonly rows: ReadonlyArray<ReadonlyArray<string | number>>;
};

export type Series = {
  readonly name: string;
  readonly points: ReadonlyArray<readonly [x: number, y: number]>;
};

export type Plot = {
  readonly title: string;
  /** `bars`: one bar a point, series below each other on the same scale. `lines` and `dots` share one picture. */
  readonly kind: "bars" | "lines" | "dots";
  readonly x: string;
  readonly y: string;
  readonly series: readonly Series[];
  /** One sentence: what to see in it. */
  readonly note?: string;
};

export type Outcome = {
  readonly checks: readonly Check[];
  readonly tables: readonly Table[];
  readonly plots: readonly Plot[];
  /** Everything that was measured, for later analysis. */
  readonly data: unknown;
};

/** The drill does not fit the target or its options: a mistake of the caller, not a verdict. */
export class DrillImpossible extends Error {}

export function check(what: string, expected: string, seen: string | number, holds: boolean): Check {
  return { what, expected, seen: String(seen), holds };
}
