// What the cluster benchmark measures, in slices that take turns: the floor, the peer, one and two processes of each kind, a lost worker.
import { join } from "node:path";
import { startChildProgram } from "../test/support/child-program.ts";
import { jetStreamFloor } from "./cluster-floor.ts";
import type { ClusterLoad, ClusterLoader } from "./cluster-load.ts";
import { type ClusterTarget, openClusterTarget } from "./cluster-target.ts";
import { expectSuccess, type HttpLoader } from "./http-load.ts";
import { bullmqMeasurement, type PeerScale, peerScales } from "./runs-peer.ts";
import { benchTopic, oneStep, threeSteps } from "./runs-target.ts";
import type { Measurement } from "./slices.ts";

export type ClusterRound = {
  /** One for each gateway. */
  readonly loaders: readonly HttpLoader[];
  readonly runsLoader: ClusterLoader;
};

export type ClusterScale = {
  readonly slices: number;
  readonly floorMs: number;
  readonly startMs: number;
  readonly saturationMs: number;
  readonly oneByOneRuns: number;
  readonly leaseMs: number;
  readonly peer: PeerScale;
};

export const clusterScales: Readonly<Record<"quick" | "full", ClusterScale>> = {
  quick: {
    slices: 1,
    floorMs: 1_000,
    startMs: 1_000,
    saturationMs: 2_000,
    oneByOneRuns: 100,
    leaseMs: 3_000,
    peer: { ...peerScales.quick, slices: 1 },
  },
  full: {
    slices: 3,
    floorMs: 2_000,
    startMs: 2_500,
    saturationMs: 4_000,
    oneByOneRuns: 300,
    leaseMs: 30_000,
    peer: { ...peerScales.full, saturationMs: 2_000 },
  },
};

/** Gateways and engines each; the plain names are those of two. */
export const variants = [
  { processes: 1, name: "runs.cluster.single" },
  { processes: 2, name: "runs.cluster" },
] as const;

export function clusterPlan(scale: ClusterScale): readonly Measurement<ClusterRound>[] {
  return [
    jetStreamFloor(scale),
    bullmqMeasurement(scale.peer),
    ...variants.map((variant) => clusterMeasurement(variant, scale)),
    workerLoss(scale),
  ];
}

const median = (unit: string) => ({ unit, over: "median" }) as const;

function clusterMeasurement(
  { processes, name }: (typeof variants)[number],
  scale: ClusterScale,
): Measurement<ClusterRound> {
  return {
    name,
    slices: scale.slices,
    fields: {
      "start.per_s": median("per second"),
      "start.p99_ms": median("ms"),
      "three_step.http.per_s": median("per second"),
      "three_step.http.p50_ms": median("ms"),
      "three_step.http.p99_ms": median("ms"),
      "three_step.http.saturated_p50_ms": median("ms"),
      "three_step.http.saturated_p99_ms": median("ms"),
      redis_commands_per_run: median("commands"),
      nats_messages_per_run: median("messages"),
    },
    async measure(round) {
      const target = await openClusterTarget(processes);
      try {
        return { ...(await threeStepRuns(target, round, scale)), ...(await starts(target, round, scale)) };
      } finally {
        await target.close();
      }
    },
  };
}

/** At saturation. */
const runsInFlight = 300;

async function threeStepRuns(
  target: ClusterTarget,
  { runsLoader }: ClusterRound,
  { saturationMs, oneByOneRuns }: ClusterScale,
) {
  const run = (how: ClusterLoad["how"]) =>
    runsLoader.run({
      ports: target.gateways.map(({ port }) => port),
      keys: target.keys,
      workflow: threeSteps.id,
      topic: benchTopic,
      lastStep: "third",
      how,
    });
  // The first runs are on code that is not compiled yet.
  await run({ kind: "saturated", inFlight: runsInFlight, warmUpMs: 0, durationMs: saturationMs / 2 });
  const before = await target.counts();
  const busy = await run({
    kind: "saturated",
    inFlight: runsInFlight,
    warmUpMs: 200,
    durationMs: saturationMs,
  });
  const after = await target.counts();
  const alone = await run({ kind: "one_by_one", runs: oneByOneRuns });
  return {
    "three_step.http.per_s": busy.perSecond,
    "three_step.http.p50_ms": alone.p50Ms,
    "three_step.http.p99_ms": alone.p99Ms,
    "three_step.http.saturated_p50_ms": busy.p50Ms,
    "three_step.http.saturated_p99_ms": busy.p99Ms,
    redis_commands_per_run: (after.redisCommands - before.redisCommands) / busy.runs,
    nats_messages_per_run: (after.natsMessages - before.natsMessages) / busy.runs,
  };
}

/** Over all gateways together. */
const startConnections = 100;

async function starts(target: ClusterTarget, { loaders }: ClusterRound, { startMs }: ClusterScale) {
  const results = await Promise.all(
    target.gateways.map(({ port }, index) =>
      (loaders[index] as HttpLoader).run({
        port,
        path: `/api/v1/workflows/${oneStep.id}/runs`,
        headers: { "x-api-key": target.keys.client, "idempotency-key": `order-${index}-{n}` },
        body: JSON.stringify({ order: "order-{n}", customer: "customer-004711", week: "2026-W46" }),
        connections: startConnections / target.gateways.length,
        warmUpMs: startMs / 2,
        durationMs: startMs,
        succeeds: [200],
      }),
    ),
  );
  for (const result of results) expectSuccess("a start", result);
  return {
    "start.per_s": results.reduce((sum, { perSecond }) => sum + perSecond, 0),
    "start.p99_ms": Math.max(...results.map(({ p99Ms }) => p99Ms)),
  };
}

const lostJobs = 10;

/** The time from the end of a killed worker's lease to the moment at which another has its job; the last job counts. */
function workerLoss({ leaseMs }: ClusterScale): Measurement<ClusterRound> {
  return {
    name: "runs",
    slices: 1,
    fields: { "cluster.worker_loss_over_lease_ms": median("ms") },
    async measure() {
      const target = await openClusterTarget(2);
      const [first, second] = target.gateways.map(({ url }) => url) as [string, string];
      const topic = "nobody.works.here";
      const options = { url: first, key: target.keys.worker, topic, jobs: lostJobs, leaseMs };
      const holder = startChildProgram(join(import.meta.dirname, "cluster-holder-program.ts"), options);
      try {
        for (let order = 0; order < lostJobs; order += 1) {
          const path = `/workflows/${oneStep.id}/runs`;
          await post(first, path, target.keys.client, { order: `lost-${order}` });
        }
        const { takenAtMs } = await holder.next<{ takenAtMs: number }>();
        await holder.stop();
        const lastAtMs = await takeAll(second, target.keys.worker, topic, leaseMs);
        return { "cluster.worker_loss_over_lease_ms": lastAtMs - takenAtMs - leaseMs };
      } finally {
        await holder.stop();
        await target.close();
      }
    },
  };
}

/** When the last of the lost jobs was in another worker's hands. */
async function takeAll(url: string, key: string, topic: string, leaseMs: number): Promise<number> {
  const deadlineMs = Date.now() + leaseMs + 30_000;
  for (let taken = 0, polls = 0; ; polls += 1) {
    const poll = {
      worker_id: "heir",
      topics: [topic],
      poll_id: `heir-${polls}`,
      max_jobs: lostJobs,
      wait_ms: 5_000,
    };
    const { jobs } = await post<{ jobs: readonly unknown[] }>(url, "/jobs/poll", key, poll);
    taken += jobs.length;
    if (taken >= lostJobs) return Date.now();
    if (Date.now() > deadlineMs) throw new Error(`only ${taken} of ${lostJobs} lost jobs came back`);
  }
}

async function post<Body>(url: string, path: string, key: string, body: object): Promise<Body> {
  const response = await fetch(`${url}/api/v1${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-api-key": key },
    body: JSON.stringify(body),
  });
  if (response.status !== 200) throw new Error(`${path} answered ${response.status}`);
  return (await response.json()) as Body;
}
