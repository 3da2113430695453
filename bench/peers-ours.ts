// Our own entries of the peers benchmark: the server as users run it with clients and workers over HTTP, and the engine in a process.
import { mkdtempSync } from "node:fs";
import { join } from "node:path";
import { type ClusterLoad, startClusterLoader } from "./cluster-load.ts";
import { compileForMeasuring, type Measuring } from "./cpu-process.ts";
import { type CpuStore, openCpuTarget } from "./cpu-target.ts";
import { type PeersRound, type PeerVariant, peersScales, threeStepFields } from "./peers-plan.ts";
import { bullmqMeasurement, peerScales } from "./runs-peer.ts";
import { threeStepMeasurement } from "./runs-plan.ts";
import { benchTopic, openFreshTarget, threeSteps } from "./runs-target.ts";

const timeline = "timeline, audit";

export function ourVariants(scale: "quick" | "full"): readonly PeerVariant[] {
  const inProcess = threeStepMeasurement("embedded", peersScales[scale], "inprocess");
  return [
    {
      ...{ peer: "interlock", title: "Interlock embedded, in process", onDisk: "yes", timeline },
      name: inProcess.name,
      fields: inProcess.fields,
      measure: ({ folder }) => inProcess.measure({ open: (store) => openFreshTarget(store, folder) }),
    },
    served("embedded", "Interlock embedded, over HTTP", "yes"),
    served("redis", "Interlock on Redis, over HTTP", "as Redis is set"),
    served("cluster", "Interlock: gateway, engine, Redis, NATS", "as Redis is set"),
  ];
}

/** The bare queue, with the program that the runs benchmark has. */
export function bullmqVariant(scale: "quick" | "full"): PeerVariant {
  const { name, fields, measure } = bullmqMeasurement({ ...peerScales[scale], slices: 1 });
  const kept = { onDisk: "as Redis is set", timeline: "none" };
  return { peer: "bullmq", title: "BullMQ, a bare chain", ...kept, name, fields, measure };
}

let measuring: Measuring | undefined;

function served(store: CpuStore, title: string, onDisk: string): PeerVariant {
  return {
    ...{ peer: "interlock", title, onDisk, timeline },
    name: `runs.served.${store}.three_step`,
    fields: threeStepFields,
    async measure({ folder, scale }) {
      measuring ??= { node: process.execPath, compiled: compileForMeasuring() };
      const target = await openCpuTarget(store, { measuring, folder: mkdtempSync(join(folder, "served-")) });
      try {
        return await runAll(target, scale);
      } finally {
        await target.close();
      }
    },
  };
}

async function runAll(
  { port, keys }: Pick<ClusterLoad, "keys"> & { readonly port: number },
  { inFlight, warmUpMs, saturationMs, oneByOneRuns }: PeersRound["scale"],
) {
  const loader = startClusterLoader();
  const common = { ports: [port], keys, workflow: threeSteps.id, topic: benchTopic, lastStep: "third" };
  try {
    const busy = { kind: "saturated", inFlight, warmUpMs, durationMs: saturationMs } as const;
    const { perSecond } = await loader.run({ ...common, how: busy });
    const alone = await loader.run({ ...common, how: { kind: "one_by_one", runs: oneByOneRuns } });
    return { per_s: perSecond, p50_ms: alone.p50Ms, p99_ms: alone.p99Ms };
  } finally {
    await loader.stop();
  }
}
