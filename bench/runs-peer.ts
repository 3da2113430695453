// The peer of the runs benchmark: BullMQ, with packages and a process of its own, on a Redis server like ours.
import { join, relative } from "node:path";
import { pathToFileURL } from "node:url";
import { startRedisServer } from "../src/drills/servers/start-servers.ts";
import { runForNumbers } from "./peer-process.ts";
import { createProgress } from "./progress.ts";
import { type Measurement, measureInSlices, sliceCount } from "./slices.ts";

const fields = {
  per_s: { unit: "per second", over: "median" },
  p50_ms: { unit: "ms", over: "median" },
  p99_ms: { unit: "ms", over: "median" },
  /** With which BullMQ was fastest: jobs at once per worker. */
  concurrency: { unit: "jobs", over: "median" },
} as const;

export type BullmqField = keyof typeof fields;

/** As the program's own options, except for the number of slices. */
export type PeerScale = {
  readonly slices: number;
  readonly concurrencies: readonly number[];
  readonly inFlight: number;
  readonly saturationMs: number;
  readonly oneByOneRuns: number;
};

export const peerScales: Readonly<Record<"quick" | "full", PeerScale>> = {
  quick: { slices: 3, concurrencies: [30], inFlight: 1_000, saturationMs: 500, oneByOneRuns: 100 },
  full: { slices: 3, concurrencies: [20, 50], inFlight: 2_000, saturationMs: 5_000, oneByOneRuns: 300 },
};

/** The peer on its own. */
export async function measureBullmq(options: {
  readonly scale: "quick" | "full";
}): Promise<Readonly<Record<`peer.bullmq.three_step.${BullmqField}`, number>>> {
  const measurements = [bullmqMeasurement(peerScales[options.scale])];
  const progress = createProgress(sliceCount(measurements));
  const rounds = { open: async () => {}, close: async () => {}, progress };
  try {
    await installPeers();
    const measured = await measureInSlices({ measurements, ...rounds });
    const values = measured.map(({ name, value }) => [name, value]);
    return Object.fromEntries(values) as Record<`peer.bullmq.three_step.${BullmqField}`, number>;
  } finally {
    progress.end();
  }
}

/** To be measured in turns with our own runs, after `installPeers`. Every slice has a new process and a new server. */
export function bullmqMeasurement({ slices, ...options }: PeerScale): Measurement<unknown> {
  return {
    name: "peer.bullmq.three_step",
    slices,
    fields,
    async measure() {
      const server = await startRedisServer();
      try {
        return await runPeer([server.url, JSON.stringify(options)]);
      } finally {
        await server.stop();
      }
    },
  };
}

/** With lock libraries and BullMQ. */
const ownFolder = join(import.meta.dirname, "peers");

/**
 * They are installed when the peer is measured, and not with the checkout: nobody else needs them. Done as for the
 * checkout: when they do not match their lock file, by one process at a time, and without running their scripts.
 */
export async function installPeers(folder = ownFolder): Promise<void> {
  const script = join(import.meta.dirname, "../scripts/setup/packages.mjs");
  const packages = (await import(pathToFileURL(script).href)) as {
    packagesAreCurrent(root: string): boolean;
    ensurePackages(root: string): Promise<void>;
  };
  if (packages.packagesAreCurrent(folder)) return;
  console.error(`The packages in ${relative(process.cwd(), folder)} are missing or out of date.`);
  await packages.ensurePackages(folder);
}

/** The program ends by itself in any case, after a minute at the latest; a slice takes 15 s. */
async function runPeer(words: readonly string[]): Promise<Readonly<Record<BullmqField, number>>> {
  return runForNumbers([join(ownFolder, "bullmq-three-step.mjs"), ...words]);
}
