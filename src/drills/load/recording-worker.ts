// A worker of the SDK whose claims, work and reports are noted down as they happen.

import type { Caller } from "../../sdk/caller.ts";
import { createClient } from "../../sdk/client.ts";
import type { Body, CallOperation, Success } from "../../sdk/contract.ts";
import { runtime } from "../../sdk/runtime.ts";
import type { Job } from "../../sdk/worker/job.ts";
import { type Worker, worker } from "../../sdk/worker/worker.ts";
import type { WorkNote } from "./ledger.ts";

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

/** Without an answer for so long it is asked again: a server that was killed must not hold the worker for long. */
const timeoutMs = 3_000;

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
