// The drill `worker-loss`: a worker dies, another is paused past its lease, and others finish what they had in hand.

import { extname, join } from "node:path";
import { runtime } from "../../sdk/runtime.ts";
import { type Check, check, type Drill, type Outcome, type Stage } from "../drill.ts";
import { doesCount, type Ledger, type TimedNote, type WorkNote } from "../load/ledger.ts";
import {
  answersTable,
  delaysTable,
  endOf,
  ledgerChecks,
  loadData,
  loadPlots,
  type NamedSpan,
  phasesTable,
} from "../load/load-outcome.ts";
import { openScene, type Scene, type Seat, workerOptions } from "../load/scene.ts";
import { lastStep, type RecordingWorkerOptions } from "../load/steady-load.ts";
import { cameTrue, seconds, waitUntil } from "../load/times.ts";
import { type ChildProgram, startChildProgram } from "../target/serve-process.ts";

export const workerLoss: Drill = {
  name: "worker-loss",
  question:
    "A worker dies with jobs in its hands, another is paused for too long: who does the work, and when?",
  expectation:
    "Within one claim lease and 2 s others have the jobs, every run succeeds, each result counts once, and what the lost worker still says is refused.",
  steps: [
    "start three workers as processes of their own, and runs, ten a second",
    "kill -9 a worker just after it took a job",
    "measure how long it takes until others have its jobs",
    "say what the dead worker could still have said: its result, with its old claim token",
    "kill -STOP another worker just after it took a job, until others have its jobs; then kill -CONT",
    "wait for all runs, and compare what workers did with what runs keep",
  ],
  locks: [],
  instance: { kind: "processes", redis: "single" },
  run,
};

/** The product's own lease in full; with `quick` workers ask for a shorter one. */
const leases = { quick: 2_000, full: 30_000 };
const workers = 3;
const workMs = 300;
/** What the sweep, the hint and a busy machine may take besides the lease. */
const graceMs = 2_000;
const warmRuns = 5;
const withinMs = 30_000;

async function run(stage: Stage): Promise<Outcome> {
  const leaseMs = leases[stage.size];
  const staff: WorkerProcess[] = [];
  const hire = async (seat: Seat) => void staff.push(...(await startStaff(stage, seat, leaseMs)));
  const scene = await openScene(stage, { workers: hire, leaseMs, workMs });
  try {
    const [first, second] = staff as [WorkerProcess, WorkerProcess];
    await scene.warmUp(warmRuns);
    const killed = await lose(stage, scene, { worker: first, leaseMs, how: "killed" });
    const paused = await lose(stage, scene, { worker: second, leaseMs, how: "paused" });
    await scene.goOn(warmRuns);
    const ledger = await scene.end(leaseMs + withinMs);
    return outcomeOf({ stage, ledger, leaseMs, losses: [killed, paused] });
  } finally {
    await scene.close();
    await Promise.all(staff.map((worker) => worker.end("SIGKILL")));
  }
}

async function startStaff(
  { target, progress }: Stage,
  { tenant, note }: Seat,
  leaseMs: number,
): Promise<readonly WorkerProcess[]> {
  progress(`starting ${workers} workers`);
  const starting = Array.from({ length: workers }, (_, number) =>
    startWorkerProcess({
      worker: workerOptions({ number, leaseMs, workMs }),
      url: target.urls[number % target.urls.length] as string,
      apiKey: tenant.workerKey,
      note,
    }),
  );
  const started = await Promise.allSettled(starting);
  const running = started.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
  const failed = started.find((each) => each.status === "rejected");
  if (failed === undefined) return running;
  await Promise.all(running.map((worker) => worker.end("SIGKILL")));
  throw failed.reason;
}

type Losing = { readonly worker: WorkerProcess; readonly leaseMs: number; readonly how: "killed" | "paused" };

type Loss = Losing & {
  readonly atMs: number;
  readonly overMs: number;
  readonly taken: readonly TakenOver[];
  /** What the server said to the lost worker's results. */
  readonly verdicts: readonly string[];
  /** Of the paused one, when it was awake again: jobs that it gave up by itself, or whose results were refused. */
  readonly noticed: number;
};

async function lose(stage: Stage, scene: Scene, losing: Losing): Promise<Loss> {
  const { worker, leaseMs, how } = losing;
  const { signal } = stage;
  const { work, nowMs } = scene;
  const before = work.length;
  const hasNewJob = () =>
    work.slice(before).some((note) => note.kind === "claimed" && note.worker === worker.name);
  await waitUntil(`${worker.name} takes a job`, hasNewJob, { withinMs, signal });
  const atMs = nowMs();
  if (how === "killed") await worker.end("SIGKILL");
  else worker.pause();
  // Its earlier output is read by then.
  await cameTrue(() => nowMs() > atMs + 100, { withinMs, signal });
  const held = heldBy(work, worker.name);
  scene.progress(`${worker.name} is ${how} with ${held.length} jobs in hand`);
  const verdicts = await Promise.all(held.map((claim) => sayLate(stage, scene, { claim, leaseMs })));
  const taken = takenOver(work, held);
  const overMs = nowMs();
  scene.progress(`others have its jobs after ${seconds(takenOverAfterMs(taken, atMs))}`);
  worker.resume();
  const noticed = how === "paused" ? await untilNoticed(stage, scene, held) : 0;
  // Otherwise the next loss might hit the same runs again.
  await cameTrue(() => haveFinished(work, held), { withinMs, signal });
  return { ...losing, atMs, overMs, taken, verdicts, noticed };
}

type Late = { readonly claim: Claim; readonly leaseMs: number };

/** As soon as another has the job: what the silent worker would still report, in its name and with its claim. */
async function sayLate(
  { target, signal }: Stage,
  { tenant, work }: Scene,
  { claim, leaseMs }: Late,
): Promise<string> {
  const isTaken = () => takenOver(work, [claim]).every(({ by }) => by !== undefined);
  // Longer than expected, so that a recovery that is too slow is measured as well.
  if (!(await cameTrue(isTaken, { withinMs: leaseMs + withinMs, signal }))) return "not said: nobody has it";
  const { jobId, claimToken, worker } = claim;
  const output = { job: jobId, by: `${worker}, too late` };
  const result = { job_id: jobId, claim_token: claimToken, status: "succeeded" as const, output };
  const client = tenant.clientAt(target.urls[0] as string, "worker");
  const answer = await client.call("reportResults", { body: { worker_id: worker, results: [result] } });
  const { kind, because } = answer.results[0] ?? { kind: "retry" };
  return because === undefined ? kind : `${kind} ${because}`;
}

/** A worker that wakes up finds out by its own clock, or by the answer to its report. */
async function untilNoticed({ signal }: Stage, { work }: Scene, held: readonly Claim[]): Promise<number> {
  const isNoticed = ({ jobId, worker }: Claim) =>
    work.some(
      (note) =>
        note.jobId === jobId &&
        note.worker === worker &&
        (note.kind === "claim_lost" || (note.kind === "reported" && note.verdict.startsWith("refused"))),
    );
  await cameTrue(() => held.every(isNoticed), { withinMs, signal });
  return held.filter(isNoticed).length;
}

function haveFinished(work: readonly TimedNote[], held: readonly Claim[]): boolean {
  const last = work.filter((note): note is Claim => note.kind === "claimed" && note.step === lastStep);
  return held.every(({ runId }) =>
    last.some(
      (claim) =>
        claim.runId === runId &&
        work.some(
          (note) => note.kind === "reported" && note.jobId === claim.jobId && doesCount(note.verdict),
        ),
    ),
  );
}

type Seen = {
  readonly stage: Stage;
  readonly ledger: Ledger;
  readonly leaseMs: number;
  readonly losses: readonly Loss[];
};

function outcomeOf({ ledger, leaseMs, losses }: Seen): Outcome {
  const spans = losses.map(
    ({ how, atMs, overMs }): NamedSpan => ({ name: `a worker is ${how}`, fromMs: atMs, toMs: overMs }),
  );
  const firstMs = losses[0]?.atMs ?? 0;
  const before = { name: "before", fromMs: 0, toMs: firstMs };
  const after = { name: "after", fromMs: losses.at(-1)?.overMs ?? 0, toMs: endOf(ledger) };
  return {
    checks: [...losses.flatMap((loss) => lossChecks(loss, leaseMs)), ...ledgerChecks(ledger)],
    tables: [
      phasesTable([
        ["claim lease", leaseMs],
        ...losses.flatMap(({ how, taken, atMs }) => [
          [`${how}: until others had all its jobs`, takenOverAfterMs(taken, atMs)] as const,
          [`${how}: until the runs of its jobs had succeeded`, runsAfterMs(ledger, taken, atMs)] as const,
        ]),
      ]),
      delaysTable(ledger, [before, ...spans, after]),
      answersTable(ledger),
    ],
    plots: loadPlots(ledger, spans),
    data: loadData(ledger, {
      lease_ms: leaseMs,
      losses: losses.map(({ worker, how, atMs, overMs, taken, verdicts }) => ({
        ...{ worker: worker.name, how, at_ms: atMs, over_ms: overMs, late_reports: verdicts },
        jobs: taken.map(({ held, by }) => ({ job: held.jobId, by: by?.worker, taken_ms: by?.atMs })),
      })),
    }),
  };
}

function lossChecks({ how, taken, atMs, verdicts, noticed }: Loss, leaseMs: number): readonly Check[] {
  const afterMs = takenOverAfterMs(taken, atMs);
  const limitMs = leaseMs + graceMs;
  const isRefused = verdicts.every((verdict) => verdict.startsWith("refused"));
  return [
    check(`${how}: jobs it had in hand`, "at least 1", taken.length, taken.length > 0),
    check(
      `${how}: others had them after`,
      `at most ${seconds(limitMs)}: the lease and ${seconds(graceMs)}`,
      seconds(afterMs),
      afterMs !== undefined && afterMs <= limitMs,
    ),
    check(`${how}: its late results`, "refused stale_claim", shownVerdicts(verdicts), isRefused),
    ...(how === "paused"
      ? [
          check(
            "paused: jobs that it gave up when it woke",
            "all",
            `${noticed} of ${taken.length}`,
            noticed === taken.length,
          ),
        ]
      : []),
  ];
}

function shownVerdicts(verdicts: readonly string[]): string {
  return [...new Set(verdicts)]
    .map((verdict) => `${verdicts.filter((each) => each === verdict).length} ${verdict}`)
    .join(", ");
}

function runsAfterMs({ ends }: Ledger, taken: readonly TakenOver[], atMs: number): number | undefined {
  const endedAtMs = new Map(ends.map(({ run }) => [run?.runId, run?.endedAtMs]));
  const times = taken.map(({ held }) => endedAtMs.get(held.runId));
  if (times.includes(undefined)) return undefined;
  return Math.max(0, ...times.map((endMs) => (endMs ?? atMs) - atMs));
}

type Claim = Extract<TimedNote, { kind: "claimed" }>;

/** Claimed by it and not done: from its own notes. */
export function heldBy(work: readonly TimedNote[], worker: string): readonly Claim[] {
  const over = new Set(
    work.flatMap((note) => (note.worker === worker && note.kind !== "claimed" ? [note.jobId] : [])),
  );
  return work.filter(
    (note): note is Claim => note.kind === "claimed" && note.worker === worker && !over.has(note.jobId),
  );
}

type TakenOver = { readonly held: Claim; readonly by: Claim | undefined };

/** For each job, the first claim of a later attempt of the same step by another worker. */
export function takenOver(work: readonly TimedNote[], held: readonly Claim[]): readonly TakenOver[] {
  return held.map((claim) => ({
    held: claim,
    by: work.find(
      (note): note is Claim =>
        note.kind === "claimed" &&
        note.worker !== claim.worker &&
        note.runId === claim.runId &&
        note.step === claim.step &&
        note.attempt > claim.attempt,
    ),
  }));
}

/** How long after the loss the last of them was in other hands; undefined while one is not. */
export function takenOverAfterMs(taken: readonly TakenOver[], lostAtMs: number): number | undefined {
  if (taken.some(({ by }) => by === undefined)) return undefined;
  return Math.max(0, ...taken.map(({ by }) => (by?.atMs ?? lostAtMs) - lostAtMs));
}

type WorkerProcess = ChildProgram & { readonly name: string };

type WorkerProcessOptions = {
  readonly worker: RecordingWorkerOptions;
  readonly url: string;
  readonly apiKey: string;
  note(note: WorkNote): void;
};

const program = join(import.meta.dirname, `worker-program${extname(import.meta.filename)}`);
const readyWithinMs = 30_000;

async function startWorkerProcess({
  worker,
  url,
  apiKey,
  note,
}: WorkerProcessOptions): Promise<WorkerProcess> {
  let isReady = () => {};
  const child = startChildProgram({
    args: [program, JSON.stringify(worker)],
    environment: { INTERLOCK_URL: url, INTERLOCK_API_KEY: apiKey },
    hear(line) {
      const message = read(line);
      if (message?.note !== undefined) note(message.note);
      if (message?.ready === true) isReady();
    },
  });
  await new Promise<void>((resolve, reject) => {
    const cancel = runtime.timer(readyWithinMs, () => {
      void child.end("SIGKILL");
      reject(new Error(`the worker did not start:\n${child.output()}`));
    });
    isReady = () => {
      cancel();
      resolve();
    };
    void child.ended.then(() => {
      cancel();
      reject(new Error(`the worker ended:\n${child.output()}`));
    });
  });
  return { ...child, name: worker.name };
}

/** What is no JSON is a warning of the runtime's. */
function read(line: string): { readonly ready?: true; readonly note?: WorkNote } | undefined {
  return line.startsWith("{") ? (JSON.parse(line) as { readonly note?: WorkNote }) : undefined;
}
