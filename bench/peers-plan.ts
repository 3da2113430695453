// What every entry of the peers benchmark is: something that runs three durable steps, and what it keeps of them.
import { join } from "node:path";
import type { HttpLoader } from "./http-load.ts";
import type { Field } from "./slices.ts";

export const enginesFolder = join(import.meta.dirname, "peers/engines");

export const threeStepFields = {
  per_s: { unit: "per second", over: "median" },
  p50_ms: { unit: "ms", over: "median" },
  p99_ms: { unit: "ms", over: "median" },
} as const satisfies Readonly<Record<string, Field>>;

export type PeersScale = {
  readonly slices: number;
  /** Runs under way at once, where the entry does not find its own best. */
  readonly inFlight: number;
  readonly warmUpMs: number;
  readonly saturationMs: number;
  readonly aloneMs: number;
  readonly oneByOneRuns: number;
};

export const peersScales: Readonly<Record<"quick" | "full", PeersScale>> = {
  quick: { slices: 1, inFlight: 300, warmUpMs: 500, saturationMs: 1_500, aloneMs: 500, oneByOneRuns: 50 },
  full: {
    slices: 3,
    inFlight: 300,
    warmUpMs: 2_000,
    saturationMs: 4_000,
    aloneMs: 2_000,
    oneByOneRuns: 300,
  },
};

export type PeersRound = {
  readonly loader: HttpLoader;
  /** For files of its own, on a real disk. */
  readonly folder: string;
  readonly scale: PeersScale;
};

export type PeerVariant = {
  /** What `--only` takes. */
  readonly peer: string;
  readonly name: string;
  /** In the table. */
  readonly title: string;
  /** Whether an answer waits for the disk. */
  readonly onDisk: string;
  /** What can be read of a run's steps afterwards. */
  readonly timeline: string;
  readonly fields: Readonly<Record<string, Field>>;
  measure(round: PeersRound): Promise<Readonly<Record<string, number>>>;
};
