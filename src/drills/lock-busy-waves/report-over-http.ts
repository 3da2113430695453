// All results at once over HTTP, where the instance cannot be watched: each in a request of its own, repeated when the answer asks for it.

import type { Client } from "../../sdk/client.ts";
import { InterlockApiError } from "../../sdk/client-errors.ts";
import { runtime } from "../../sdk/runtime.ts";
import { type ClaimedResult, type ClaimedRun, workerName } from "../locks/claimed-run.ts";
import { emptyTries, type Reporting, type ResultTries, type Tries } from "./tries.ts";

/** Resolves when the run has ended, or the time is over. */
export async function reportOverHttp(
  { results, runId }: ClaimedRun,
  { tenant, withinMs, signal }: Reporting,
): Promise<Tries> {
  const worker = tenant.clientAt(tenant.client.url, "worker");
  const startedMs = runtime.now().monotonicMs;
  const nowMs = () => runtime.now().monotonicMs - startedMs;
  const tries = emptyTries(results.map(({ jobId }) => jobId));
  await Promise.all(
    results.map(async (result) => {
      const noted = tries.get(result.jobId) as ResultTries;
      while (noted.durableMs === undefined && nowMs() < withinMs) {
        signal.throwIfAborted();
        noted.sentMs.push(nowMs());
        const pauseMs = await reportOnce(worker, result);
        if (pauseMs === undefined) noted.durableMs = nowMs();
        else {
          noted.busyMs.push(nowMs());
          await runtime.sleep(pauseMs, signal);
        }
      }
    }),
  );
  const run = await tenant.client.runs.wait(runId, { timeoutMs: withinMs, signal });
  return { results: tries, endedMs: run.status === "succeeded" ? nowMs() : undefined, lockWaitsMs: [] };
}

const pauseMsDefault = 500;

/** How long to wait before the next report; undefined when the result is durable. */
async function reportOnce(
  worker: Client,
  { jobId, token, output }: ClaimedResult,
): Promise<number | undefined> {
  try {
    const answer = await worker.call("reportResults", {
      body: {
        worker_id: workerName,
        results: [{ job_id: jobId, claim_token: token, status: "succeeded", output }],
      },
      retry: { attemptsMax: 1 },
    });
    const [{ kind, because, retry_after_ms } = { kind: "retry" }] = answer.results;
    if (kind === "refused") throw new Error(`the result of ${jobId} was refused: ${because}`);
    return kind === "retry" ? (retry_after_ms ?? pauseMsDefault) : undefined;
  } catch (error) {
    if (error instanceof InterlockApiError && error.retryable) return error.retryAfterMs ?? pauseMsDefault;
    throw error;
  }
}
