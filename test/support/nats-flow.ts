// Jobs that flow between three control planes over a real NATS, with every claim and its delay on record.
import { createMemoryStore } from "../../src/adapters/memory-store.ts";
import { openNatsBus } from "../../src/adapters/nats/nats-bus.ts";
import { systemClock, systemRandom } from "../../src/adapters/system/system.ts";
import { publishResult } from "../../src/control/jobs/hear-results.ts";
import type { ClaimedJob } from "../../src/control/jobs/offers.ts";
import { type ControlPlane, createControlPlane, storeSettings } from "../../src/control-plane.ts";
import { readKeyText, signingPartOf } from "../../src/domain/api-key.ts";
import type { JobId } from "../../src/domain/job.ts";
import type { RunId } from "../../src/domain/run.ts";
import { loadConfig } from "../../src/load-config.ts";
import type { Bus, Sender } from "../../src/ports/bus.ts";
import { acme, ann, only, work, workerCaller } from "./flow-world.ts";
import { silentLog } from "./silent-log.ts";

export type NatsFlow = {
  /** Resolves when as many jobs more have been claimed. */
  flowed(jobs: number): Promise<void>;
  /** Starts no more runs, waits until each has ended, and says how. */
  settle(withinMs: number): Promise<FlowEnd>;
  close(): Promise<void>;
};

export type FlowEnd = {
  readonly runs: number;
  readonly succeeded: number;
  readonly jobs: number;
  /** Jobs that were given to a worker more than once. */
  readonly claimedTwice: readonly JobId[];
  /** From a job being enqueued to a worker having it. */
  readonly longestDelayMs: number;
};

export type FlowOptions = { readonly url: string; readonly prefix: string; readonly pollWaitMs: number };

const runEveryMs = 40;
const deadline = { deadlineMs: 2_000 };

/**
 * The first process starts runs and takes results, so that every job has to be told over NATS; workers wait at the two
 * others. Every other result goes over the bus too, as of a worker that got no answer and reports again.
 */
export async function startNatsFlow(options: FlowOptions): Promise<NatsFlow> {
  const store = createMemoryStore({ clock: systemClock, settings: storeSettings(loadConfig().config) });
  const open = async (name: string) => {
    const instance = `${options.prefix}-${name}`;
    const { url, prefix } = options;
    const bus = await openNatsBus({
      ...{ urls: [url], prefix, instance },
      ...{ clock: systemClock, random: systemRandom, log: silentLog },
    });
    return { bus, plane: await createControlPlane({ bus, ports: { store, log: silentLog, instance } }) };
  };
  const first = await open("first");
  const others = [await open("second"), await open("third")];
  const [noMoreRuns, noMoreWork] = [new AbortController(), new AbortController()];
  const delays = new Map<JobId, number[]>();
  const runs: RunId[] = [];

  const steps = { a: work(), b: work({ depends_on: ["a"] }), c: work({ depends_on: ["b"] }) };
  only(await first.plane.api.saveWorkflow({ caller: ann, definition: { id: "chain", steps } }), "saved");
  const starting = startRuns(first.plane, runs, noMoreRuns.signal);
  const sender = await createSender(first.plane);
  const finish = (job: ClaimedJob) => finishJob({ ...first, sender, delays }, job);
  const working = others.flatMap(({ plane }, process) =>
    ["a", "b"].map((name) =>
      keepWorking(plane, { ...options, name: `${name}${process}`, finish }, noMoreWork.signal),
    ),
  );
  const isEnded = async (runId: RunId) => {
    const answer = await store.loadRun({ tenant: acme, runId, records: [] }, deadline);
    return answer.kind === "run" && answer.header.endedAtMs !== undefined ? answer.header.status : undefined;
  };

  return {
    async flowed(jobs) {
      const wanted = delays.size + jobs;
      await until(async () => delays.size >= wanted, 30_000);
    },
    async settle(withinMs) {
      noMoreRuns.abort();
      await starting;
      const statuses: string[] = [];
      for (const runId of runs) {
        await until(async () => (await isEnded(runId)) !== undefined, withinMs);
        statuses.push((await isEnded(runId)) ?? "");
      }
      return {
        runs: runs.length,
        succeeded: statuses.filter((status) => status === "succeeded").length,
        jobs: delays.size,
        claimedTwice: [...delays].filter(([, claims]) => claims.length > 1).map(([jobId]) => jobId),
        longestDelayMs: Math.round(Math.max(...[...delays.values()].flat())),
      };
    },
    async close() {
      noMoreRuns.abort();
      noMoreWork.abort();
      await Promise.all([starting, ...working]);
      await Promise.all([first, ...others].map(({ plane }) => plane.close()));
    },
  };
}

async function startRuns({ api }: ControlPlane, runs: RunId[], signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const answer = await api.startWorkflow({ caller: ann, workflow: "chain", input: {} });
    runs.push(only(answer, "admitted").runId);
    await systemClock.sleep(runEveryMs, signal);
  }
}

type Worker = { readonly name: string; readonly pollWaitMs: number; finish(job: ClaimedJob): Promise<void> };

async function keepWorking({ api }: ControlPlane, worker: Worker, signal: AbortSignal): Promise<void> {
  const { name, pollWaitMs } = worker;
  for (let poll = 1; !signal.aborted; poll += 1) {
    const request = { caller: workerCaller, worker: name, topics: ["work"], places: 4, waitMs: pollWaitMs };
    const answer = only(await api.pollJobs({ ...request, pollId: `${name} ${poll}` }, signal), "jobs");
    await Promise.all(answer.jobs.map(worker.finish));
  }
}

type Reporting = {
  readonly plane: ControlPlane;
  readonly bus: Bus;
  readonly sender: Sender;
  readonly delays: Map<JobId, number[]>;
};

async function finishJob(
  { plane, bus, sender, delays }: Reporting,
  { job, token }: ClaimedJob,
): Promise<void> {
  const delayMs = systemClock.wallMs() - job.createdAtMs;
  delays.set(job.jobId, [...(delays.get(job.jobId) ?? []), delayMs]);
  const report = { jobId: job.jobId, token, outcome: "succeeded", output: {} } as const;
  if (delays.size % 2 === 0) await publishResult(bus, { tenant: acme, sender, report });
  const answer = await plane.api.reportResult({ caller: workerCaller, ...report });
  if (answer.kind !== "accepted" && answer.kind !== "duplicate") throw new Error(JSON.stringify(answer));
}

/** A worker's key, which signs the results that it reports over the bus. */
export async function createSender({ api }: Pick<ControlPlane, "api">, tenant = acme): Promise<Sender> {
  const created = only(await api.createKey({ by: "test", tenant, role: "worker", name: "w" }), "created");
  const read = readKeyText(created.text);
  if (read === undefined) throw new Error("a key that was made can be read");
  return signingPartOf(read);
}

async function until(condition: () => Promise<boolean>, withinMs: number): Promise<void> {
  const deadlineMs = systemClock.monotonicMs() + withinMs;
  while (!(await condition())) {
    if (systemClock.monotonicMs() > deadlineMs) throw new Error(`not within ${withinMs} ms: ${condition}`);
    await systemClock.sleep(10);
  }
}
