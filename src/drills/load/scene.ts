// The stage of a drill about trouble: a tenant under a steady load with workers, the fault that strikes it, and the record.

import { spawn } from "node:child_process";
import { parseTime } from "../../domain/engine/rfc3339.ts";
import type { Client } from "../../sdk/client.ts";
import { InterlockApiError, InterlockConnectionError } from "../../sdk/client-errors.ts";
import { runtime } from "../../sdk/runtime.ts";
import { hasEnded, type Run } from "../../sdk/wait-for-run.ts";
import type { Worker } from "../../sdk/worker/worker.ts";
import { DrillImpossible, type DrillOptions, type Settings, type Size, type Stage } from "../drill.ts";
import type { DrillTenant } from "../target/target.ts";
import {
  doesCount,
  type EndedRun,
  type EndRecord,
  type Ledger,
  type StartRecord,
  type TimedNote,
  type WorkNote,
} from "./ledger.ts";
import {
  clientAt,
  lastStep,
  loadWorkflow,
  type RecordingWorkerOptions,
  type SteadyLoad,
  startRecordingWorker,
  startSteadyLoad,
  topic,
  tryStart,
  workflowId,
} from "./steady-load.ts";
import { cameTrue, quantile } from "./times.ts";

type SceneOptions = {
  /** Where runs are started; all gateways otherwise. */
  readonly startsAt?: readonly string[];
  /** Workers in this process; or the drill starts its own, before the load begins. */
  readonly workers: number | ((seat: Seat) => Promise<void>);
  readonly workersAt?: readonly string[];
  readonly leaseMs: number;
  readonly workMs: number;
  /** Jobs at once of each worker. */
  readonly places?: number;
};

/** A run whose owner has died is taken over after this long: shorter, so that a quick drill sees the end of it. */
export function quickTakeOver(size: Size): Settings {
  return size === "quick" ? { "locks.run.handoffTtlMs": 1_500 } : {};
}

export type Seat = { readonly tenant: DrillTenant; note(note: WorkNote): void };

export type Scene = Seat & {
  readonly load: SteadyLoad;
  readonly work: readonly TimedNote[];
  /** Since the load began. */
  nowMs(): number;
  /** One line for people, with how far the load is. */
  progress(what: string): void;
  /** Resolves when so many more runs than now have finished; throws when they do not: nothing can be shown then. */
  warmUp(more: number): Promise<void>;
  /** The same after a fault, when it is for the checks to say that they did not. */
  goOn(more: number): Promise<void>;
  /** Stops the starts and reads back how each has ended. */
  end(withinMs: number): Promise<Ledger>;
  /** Stops whatever still goes on. */
  close(): Promise<void>;
};

/** About ten starts a second: enough to see a gap of a fifth of a second, and little for the machine. */
const starting = { clients: 5, everyMs: 500 };
const placesDefault = 8;
const reportEveryMs = 1_000;
const patienceMs = 20_000;
const runsWithinMs = 60_000;

export async function openScene(stage: Stage, options: SceneOptions): Promise<Scene> {
  const { target, signal } = stage;
  const tenant = await target.createTenant({ max_concurrent_runs: 10_000 });
  await tenant.client.workflows.save(loadWorkflow);
  const work: TimedNote[] = [];
  let began = runtime.now();
  const nowMs = () => runtime.now().monotonicMs - began.monotonicMs;
  const note = (noted: WorkNote) => void work.push({ ...noted, atMs: nowMs() });
  const workers = await startWorkers(options, options.workersAt ?? target.urls, { tenant, note });
  began = runtime.now();
  const urls = options.startsAt ?? target.urls;
  const load = startSteadyLoad({ urls, apiKey: tenant.adminKey, ...starting, nowMs });
  const finished = () => finishedRuns(work).size;
  const progress = (what: string) =>
    stage.progress(`${load.acknowledged().length} runs started, ${finished()} finished${what}`);
  const finish = (more: number) => {
    const wanted = finished() + more;
    return cameTrue(() => finished() >= wanted, { withinMs: runsWithinMs, signal });
  };
  const reporting = new AbortController();
  void reportRegularly(() => progress(""), reporting.signal);
  const close = async () => {
    reporting.abort();
    await load.stop(0);
    await Promise.all(workers.map((worker) => worker.stop({ graceMs: 0 })));
  };
  return {
    tenant,
    load,
    work,
    nowMs,
    note,
    progress: (what) => progress(`; ${what}`),
    async warmUp(more) {
      if (!(await finish(more))) throw new Error(`not within ${runsWithinMs} ms: the first ${more} runs`);
    },
    goOn: async (more) => void (await finish(more)),
    async end(withinMs) {
      progress("; starting no more, waiting for the last to end");
      await load.stop(patienceMs);
      const client = clientAt({ urls, apiKey: tenant.adminKey }, 0);
      const reading = { client, withinMs, signal, beganWallMs: began.wallMs };
      const ends = withoutSkew(load.starts, await readEnds(reading, load.starts));
      await close();
      return { starts: load.starts, reads: load.reads, work, ends };
    },
    close,
  };
}

async function startWorkers(
  { workers, ...terms }: SceneOptions,
  urls: readonly string[],
  seat: Seat,
): Promise<readonly Worker[]> {
  if (typeof workers === "function") {
    await workers(seat);
    return [];
  }
  return Array.from({ length: workers }, (_, number) => {
    const url = urls[number % urls.length] as string;
    const options = workerOptions({ ...terms, number });
    const worker = startRecordingWorker({ ...options, url, apiKey: seat.tenant.workerKey }, seat.note);
    // A worker that the server will not have any more shows in what is not done.
    worker.finished.catch(() => undefined);
    return worker;
  });
}

type WorkerTerms = Pick<SceneOptions, "leaseMs" | "workMs" | "places"> & { readonly number: number };

export function workerOptions(terms: WorkerTerms): RecordingWorkerOptions {
  const { number, leaseMs, workMs, places = placesDefault } = terms;
  return { name: `drill-worker-${number + 1}`, topic, concurrency: places, leaseMs, workMs };
}

/** The jobs of last steps whose results count. */
function finishedRuns(work: readonly TimedNote[]): ReadonlySet<string> {
  const lastJobs = new Set(
    work.flatMap((note) => (note.kind === "claimed" && note.step === lastStep ? [note.jobId] : [])),
  );
  return new Set(
    work.flatMap((note) =>
      note.kind === "reported" && doesCount(note.verdict) && lastJobs.has(note.jobId) ? [note.jobId] : [],
    ),
  );
}

async function reportRegularly(report: () => void, signal: AbortSignal): Promise<void> {
  for (;;) {
    await runtime.sleep(reportEveryMs, signal);
    if (signal.aborted) return;
    report();
  }
}

type ReadingEnds = {
  readonly client: Client;
  readonly withinMs: number;
  readonly signal: AbortSignal;
  /** What the wall clock showed when the load began. */
  readonly beganWallMs: number;
};

const atOnce = 8;
const againAfterMs = 100;

/** Runs that have not ended in time are reported with their present status. */
async function readEnds(reading: ReadingEnds, starts: readonly StartRecord[]): Promise<readonly EndRecord[]> {
  const deadlineMs = runtime.now().monotonicMs + reading.withinMs;
  const isLate = () => runtime.now().monotonicMs > deadlineMs || reading.signal.aborted;
  const ends: EndRecord[] = [];
  const waiting = [...starts];
  const lane = async () => {
    for (let start = waiting.shift(); start !== undefined; start = waiting.shift()) {
      const run = await readRun(reading, start, isLate);
      ends.push({ key: start.key, repeated: await repeat(reading, start, isLate), run });
    }
  };
  await Promise.all(Array.from({ length: atOnce }, lane));
  reading.signal.throwIfAborted();
  return ends;
}

async function readRun(
  { client, beganWallMs }: ReadingEnds,
  { acknowledged }: StartRecord,
  isLate: () => boolean,
): Promise<EndedRun | undefined> {
  if (acknowledged === undefined) return undefined;
  for (;;) {
    const run = await client.runs.get(acknowledged.runId).catch(missing);
    if (run === "missing") return undefined;
    const isOver = isLate();
    if (run !== "no answer" && (isOver || hasEnded(run))) return endedRun(run, beganWallMs);
    if (isOver) throw new Error(`run ${acknowledged.runId} cannot be read: the server does not answer`);
    await runtime.sleep(againAfterMs);
  }
}

async function repeat(
  { client }: ReadingEnds,
  { key, order }: StartRecord,
  isLate: () => boolean,
): Promise<EndRecord["repeated"]> {
  for (;;) {
    const tried = await tryStart(client, { workflow: workflowId, key, input: { order } });
    if (tried.kind === "started") return { runId: tried.runId, replayed: tried.replayed };
    const isPassing = tried.kind === "no_answer" || tried.status === 503;
    if (!isPassing || isLate()) return undefined;
    await runtime.sleep(againAfterMs);
  }
}

/** Only the product's own word counts as an absence: of the run, or of everything, the tenant's keys among it. */
function missing(error: unknown): "missing" | "no answer" {
  if (error instanceof InterlockApiError) return error.retryable ? "no answer" : "missing";
  if (error instanceof InterlockConnectionError) return "no answer";
  throw error;
}

function endedRun({ run_id, status, created_at, completed_at, steps }: Run, beganWallMs: number): EndedRun {
  const sinceBegin = (time: string | undefined) => {
    const wallMs = time === undefined ? undefined : parseTime(time);
    return wallMs === undefined ? undefined : wallMs - beganWallMs;
  };
  return {
    runId: run_id,
    status,
    createdAtMs: sinceBegin(created_at) ?? 0,
    endedAtMs: sinceBegin(completed_at),
    counted: Object.fromEntries(Object.entries(steps).map(([name, { output }]) => [name, jobIn(output)])),
  };
}

function jobIn(output: unknown): string | undefined {
  const { job } = (output ?? {}) as { readonly job?: unknown };
  return typeof job === "string" ? job : undefined;
}

/** A run is created between the sending of its start and the answer: what lies outside on the whole is the clocks' difference. */
export function withoutSkew(
  starts: readonly StartRecord[],
  ends: readonly EndRecord[],
): readonly EndRecord[] {
  const skewMs = skewOf(starts, ends);
  return ends.map((end) => {
    if (end.run === undefined) return end;
    const { createdAtMs, endedAtMs } = end.run;
    const moved = endedAtMs === undefined ? undefined : endedAtMs - skewMs;
    return { ...end, run: { ...end.run, createdAtMs: createdAtMs - skewMs, endedAtMs: moved } };
  });
}

function skewOf(starts: readonly StartRecord[], ends: readonly EndRecord[]): number {
  const createdAtMs = new Map(ends.map(({ key, run }) => [key, run?.createdAtMs]));
  // One try alone: of several it is not known which one made the run.
  const differences = starts.flatMap(({ key, tries }) => {
    const [only, ...others] = tries;
    const created = createdAtMs.get(key);
    if (only === undefined || others.length > 0 || created === undefined) return [];
    return [created - (only.sentMs + only.tookMs / 2)];
  });
  return quantile(differences, 0.5) ?? 0;
}

export type Fault = {
  /** As in `killing redis-server`, and `starting it again`. */
  readonly striking: string;
  readonly mending: string;
  strike(): Promise<void>;
  /** Resolves when what was broken is there again. */
  mend(): Promise<void>;
};

/** Since the load began. */
export type Outage = {
  /** When the fault was begun, when it was there, when it began to be mended, and when what was broken was back. */
  readonly struckAtMs: number;
  readonly awayAtMs: number;
  readonly mendingAtMs: number;
  readonly backAtMs: number;
};

export async function strikeUnderLoad(
  { signal }: Stage,
  scene: Scene,
  { fault, outageMs }: { readonly fault: Fault; readonly outageMs: number },
): Promise<Outage> {
  scene.progress(fault.striking);
  const struckAtMs = scene.nowMs();
  let awayAtMs = struckAtMs;
  try {
    await fault.strike();
    awayAtMs = scene.nowMs();
    await cameTrue(() => scene.nowMs() >= struckAtMs + outageMs, { withinMs: outageMs, signal });
  } catch (error) {
    // The fault is repaired however the drill ends.
    await fault.mend().catch(() => undefined);
    throw error;
  }
  scene.progress(fault.mending);
  const mendingAtMs = scene.nowMs();
  await fault.mend();
  const backAtMs = scene.nowMs();
  scene.progress(`back after ${((backAtMs - struckAtMs) / 1_000).toFixed(1)} s`);
  return { struckAtMs, awayAtMs, mendingAtMs, backAtMs };
}

type CommandsWanted = {
  /** What has to be broken, as in `the store`; and how that may be done. */
  readonly what: string;
  readonly example: { readonly fault: string; readonly mend?: string };
};

/** For a deployment: only its operators can break it. */
export function faultByCommand({ fault, mend }: DrillOptions, { what, example }: CommandsWanted): Fault {
  if (fault === undefined)
    throw new DrillImpossible(
      `This drill makes load and watches; on a deployment it cannot break ${what} itself. Pass the command that does: ` +
        `--fault '${example.fault}'${example.mend === undefined ? "" : `, and the one that mends it: --mend '${example.mend}'`}.`,
    );
  return {
    striking: `running the fault: ${fault}`,
    mending: mend === undefined ? "waiting for it to mend itself" : `running the mend: ${mend}`,
    strike: () => runCommand("--fault", fault),
    mend: async () => {
      if (mend !== undefined) await runCommand("--mend", mend);
    },
  };
}

const outputMax = 4_000;
const withinMs = 120_000;

/** By the shell, as it would be typed. */
export function runCommand(option: string, command: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn("sh", ["-c", command], { stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    const cancel = runtime.timer(withinMs, () => child.kill("SIGKILL"));
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (chunk: Buffer) => {
        output = `${output}${chunk.toString()}`.slice(-outputMax);
      });
    }
    child.once("error", reject);
    child.once("close", (code, signal) => {
      cancel();
      if (code === 0) resolve();
      else reject(new Error(`the command of ${option} ended with ${code ?? signal}: ${command}\n${output}`));
    });
  });
}
