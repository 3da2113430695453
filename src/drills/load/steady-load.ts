// A steady load: clients that start runs under keys until each is answered, a reader, and workers whose work is noted.

import type { Caller } from "../../sdk/caller.ts";
import { type Client, createClient } from "../../sdk/client.ts";
import { InterlockApiError, InterlockConnectionError } from "../../sdk/client-errors.ts";
import type { Body, CallOperation, Success } from "../../sdk/contract.ts";
import { runtime } from "../../sdk/runtime.ts";
import type { Job } from "../../sdk/worker/job.ts";
import { type Worker, worker } from "../../sdk/worker/worker.ts";
import type { ReadRecord, StartRecord, WorkNote } from "./ledger.ts";

export type StartTry = { readonly sentMs: number; readonly tookMs: number } & (
  | { readonly kind: "started"; readonly runId: string; readonly replayed: boolean }
  | {
      readonly kind: "refused";
      readonly status: number;
      readonly code: string;
      readonly retryAfterMs: number | undefined;
    }
  /** Nobody knows what became of it; with the same key it may be sent again. */
  | { readonly kind: "no_answer"; readonly why: string }
);

type StartWanted = {
  readonly workflow: string;
  readonly key?: string;
  readonly input?: Readonly<Record<string, unknown>>;
  readonly signal?: AbortSignal;
};

export async function tryStart(
  client: Client,
  { workflow, key, input = {}, signal }: StartWanted,
): Promise<StartTry> {
  const sentMs = runtime.now().monotonicMs;
  const took = () => ({ sentMs, tookMs: runtime.now().monotonicMs - sentMs });
  try {
    const { run_id, replayed } = await client.runs.start(workflow, input, { idempotencyKey: key, signal });
    return { kind: "started", runId: run_id, replayed, ...took() };
  } catch (error) {
    if (error instanceof InterlockApiError) {
      const { status, code, retryAfterMs } = error;
      return { kind: "refused", status, code, retryAfterMs, ...took() };
    }
    if (error instanceof InterlockConnectionError) return { kind: "no_answer", why: error.reason, ...took() };
    throw error;
  }
}

/** As in: `200`, `429 max_concurrent_runs_reached`, `no answer (lost)`. */
export function shownTry(tried: StartTry): string {
  switch (tried.kind) {
    case "started":
      return tried.replayed ? "200, replayed" : "200";
    case "refused":
      return `${tried.status} ${tried.code}`;
    case "no_answer":
      return `no answer (${tried.why})`;
  }
}

type LoadOptions = {
  /** Clients spread over them, and each stays where it is. */
  readonly urls: readonly string[];
  readonly apiKey: string;
  readonly clients: number;
  /** Between two starts of one client. */
  readonly everyMs: number;
  /** Of the drill: since the load began. */
  nowMs(): number;
};

export type SteadyLoad = {
  readonly starts: readonly StartRecord[];
  readonly reads: readonly ReadRecord[];
  acknowledged(): readonly StartRecord[];
  /** Nothing new is started; resolves when every start is answered, or after the time given. */
  stop(patienceMs: number): Promise<void>;
};

/** Without an answer for so long it is asked again: a server that was killed must not hold clients and workers for long. */
const timeoutMs = 3_000;
/** As a client does after a 503. */
const againAfterMs = 100;
const readEveryMs = 150;

export function startSteadyLoad(options: LoadOptions): SteadyLoad {
  const stopping = new AbortController();
  const leaving = new AbortController();
  const starts: StartRecord[] = [];
  const reads: ReadRecord[] = [];
  const acknowledged = () => starts.filter((start) => start.acknowledged !== undefined);
  const clientFor = (index: number) => clientAt(options, index);

  async function startRuns(number: number): Promise<void> {
    const client = clientFor(number);
    // Clients take turns, so that a success is seen soon after it is possible again.
    await runtime.sleep((number * options.everyMs) / options.clients, stopping.signal);
    for (let order = 1; !stopping.signal.aborted; order += 1) {
      const record = { key: `${number}-${order}`, order, askedAtMs: options.nowMs(), tries: [] };
      starts.push(record);
      await startOnce(options, client, record, leaving.signal);
      // Spread again after an outage, which has made them ask all at once.
      const turnMs = options.everyMs * (0.5 + runtime.fraction());
      const restMs = record.askedAtMs + turnMs - options.nowMs();
      await runtime.sleep(Math.max(0, restMs), stopping.signal);
    }
  }

  async function readRuns(): Promise<void> {
    for (let turn = 0; !stopping.signal.aborted; turn += 1) {
      const known = acknowledged();
      const runId = known[Math.floor(runtime.fraction() * known.length)]?.acknowledged?.runId;
      if (runId !== undefined) reads.push(await readOnce(options, clientFor(turn), runId));
      await runtime.sleep(readEveryMs, stopping.signal);
    }
  }

  const lanes = Promise.all([
    ...Array.from({ length: options.clients }, (_, number) => startRuns(number)),
    readRuns(),
  ]);
  // Reported by `stop`, and not as a rejection that nobody handles meanwhile.
  lanes.catch(() => undefined);
  return {
    starts,
    reads,
    acknowledged,
    async stop(patienceMs) {
      stopping.abort();
      const cancel = runtime.timer(patienceMs, () => leaving.abort());
      await lanes;
      cancel();
    },
  };
}

export function clientAt({ urls, apiKey }: Pick<LoadOptions, "urls" | "apiKey">, index: number): Client {
  const url = urls[index % urls.length];
  return createClient({ url, apiKey, timeoutMs, retry: { attemptsMax: 1 } });
}

/** The same key until it is answered: what is not known is asked again. */
async function startOnce(
  { nowMs }: LoadOptions,
  client: Client,
  record: StartRecord,
  signal: AbortSignal,
): Promise<void> {
  const { key, order } = record;
  while (record.acknowledged === undefined && !signal.aborted) {
    const sentAtMs = nowMs();
    const tried = await tryStart(client, { workflow: workflowId, key, input: { order } });
    record.tries.push({ ...tried, sentMs: sentAtMs });
    if (tried.kind === "started") record.acknowledged = { runId: tried.runId, atMs: nowMs() };
    else await runtime.sleep(againAfterMs, signal);
  }
}

async function readOnce({ nowMs }: LoadOptions, client: Client, runId: string): Promise<ReadRecord> {
  const atMs = nowMs();
  const outcome = await client.runs.get(runId).then(() => "read", failureName);
  return { atMs, tookMs: nowMs() - atMs, outcome };
}

function failureName(error: unknown): string {
  if (error instanceof InterlockApiError) return `${error.status} ${error.code}`;
  if (error instanceof InterlockConnectionError) return `no answer (${error.reason})`;
  throw error;
}

/** Trouble is 503 or no answer at all, never an answer to the question. */
export function isTrouble(tried: StartTry): boolean {
  return tried.kind === "no_answer" || (tried.kind === "refused" && tried.status === 503);
}

export const workflowId = "drill-load";
export const topic = "drill-work";
export const lastStep = "finish";

export const loadWorkflow = {
  id: workflowId,
  name: "Steady load of a drill",
  steps: {
    prepare: { type: "worker", topic },
    [lastStep]: { type: "worker", topic, depends_on: ["prepare"] },
  },
} as const;

export type RecordingWorkerOptions = {
  /** Without them the environment names the server and the key, as for every program that uses the SDK. */
  readonly url?: string;
  readonly apiKey?: string;
  readonly name: string;
  readonly topic: string;
  readonly concurrency: number;
  /** How long one job takes. */
  readonly workMs: number;
  readonly leaseMs: number;
};

export function startRecordingWorker(
  { url, apiKey, name, topic, concurrency, workMs, leaseMs }: RecordingWorkerOptions,
  note: (note: WorkNote) => void,
): Worker {
  const client = createClient({ url, apiKey, timeoutMs });
  const perform = async (job: Job) => {
    await runtime.sleep(workMs, job.signal);
    job.check();
    note({ kind: "done", worker: name, jobId: job.id, runId: job.runId, step: job.step });
    return { job: job.id, by: name };
  };
  return worker({
    client: recording(client, name, note),
    name,
    topics: { [topic]: perform },
    concurrency,
    leaseMs,
    onTrouble(trouble) {
      // An absent server is what these drills are about: it shows in the answers.
      if (trouble.kind === "claim_lost") note({ kind: "claim_lost", worker: name, jobId: trouble.jobId });
    },
  });
}

function recording(client: Caller, name: string, note: (note: WorkNote) => void): Caller {
  const call = async (operation: CallOperation, given: unknown) => {
    const answer: unknown = await client.call(operation as never, given as never);
    if (operation === "pollJobs") noteClaims(answer as Success<"pollJobs">, name, note);
    if (operation === "reportResults") {
      const { body } = given as { readonly body: Body<"reportResults"> };
      noteVerdicts(body, answer as Success<"reportResults">, note);
    }
    return answer;
  };
  return { ...client, call: call as Caller["call"] };
}

function noteClaims({ jobs }: Success<"pollJobs">, name: string, note: (note: WorkNote) => void): void {
  for (const { job_id, run_id, step_id, attempt, claim_token } of jobs) {
    const claim = { jobId: job_id, runId: run_id, step: step_id, attempt, claimToken: claim_token };
    note({ kind: "claimed", worker: name, ...claim });
  }
}

function noteVerdicts(
  { worker_id: name = "", results }: Body<"reportResults">,
  answer: Success<"reportResults">,
  note: (note: WorkNote) => void,
): void {
  for (const [index, { job_id: jobId }] of results.entries()) {
    const { kind, because } = answer.results[index] ?? { kind: "retry" };
    const verdict = because === undefined ? kind : `${kind} ${because}`;
    note({ kind: "reported", worker: name, jobId, verdict });
  }
}
