// Jobs over HTTP: what workers poll, keep alive and report.
import type { z } from "zod";
import { pageLimitDefault } from "../../api/fields.ts";
import type { resultAnswer, resultItem } from "../../api/schemas.ts";
import type { Caller } from "../../control/caller.ts";
import { countRefused } from "../../control/jobs/hear-results.ts";
import { outcomeOf } from "../../control/jobs/read-result.ts";
import { type ReportAnswer, shownAnswer } from "../../control/jobs/report-result.ts";
import type { ResultReport } from "../../control/jobs/result-entry.ts";
import type { BeatResult } from "../../control/jobs/workers.ts";
import { readUsage } from "../../domain/amounts.ts";
import { formatTime } from "../../domain/engine/rfc3339.ts";
import { type ClaimToken, parseJobId } from "../../domain/job.ts";
import { readTraceparent } from "../../domain/network-address.ts";
import { callerOf, failureIn, type Handlers, type Service } from "../handler.ts";
import { pageReply } from "../http-reply.ts";
import { claimedJobView, jobView } from "../views.ts";

type JobHandlers = Pick<
  Handlers,
  "listReadyJobs" | "getJob" | "pollJobs" | "heartbeat" | "reportResults" | "listWorkers"
>;

export const jobHandlers: JobHandlers = {
  async listReadyJobs({ api }, { query, key: { tenant } }) {
    const answer = await api.listReadyJobs({
      tenant,
      topic: query.topic,
      limit: query.limit ?? pageLimitDefault,
    });
    if (answer.kind !== "listed") return answer;
    const items = answer.jobs.map(({ jobId, runId, topic, createdAtMs }) => ({
      job_id: jobId,
      run_id: runId,
      topic,
      created_at: formatTime(createdAtMs),
    }));
    return pageReply({ operation: "listReadyJobs", tenant }, items, undefined);
  },

  async getJob({ api }, { params, key }) {
    const parts = parseJobId(params.id);
    if (parts === undefined) return { kind: "job_not_found" };
    const answer = await api.getJob({ tenant: key.tenant, jobId: parts.jobId });
    return answer.kind === "job" ? { status: 200, body: jobView(answer.job) } : answer;
  },

  async pollJobs({ api, config }, { body, key, signal, span }) {
    const { lease_ms, labels, capabilities, pool } = body;
    const answer = await api.pollJobs(
      {
        caller: callerOf(key),
        worker: body.worker_id,
        topics: body.topics,
        pollId: body.poll_id,
        places: body.max_jobs,
        waitMs: Math.min(body.wait_ms, config["jobs.pollWaitMaxMs"]),
        ...(lease_ms === undefined ? {} : { leaseMs: lease_ms }),
        ...(labels === undefined ? {} : { labels }),
        ...(capabilities === undefined ? {} : { capabilities }),
        ...(pool === undefined ? {} : { pool }),
      },
      signal(),
    );
    if (answer.kind !== "jobs") return answer;
    // Most polls of an idle worker end without a job.
    if (answer.jobs.length === 0) span?.discard();
    else span?.note({ count: answer.jobs.length });
    const draining = answer.draining === undefined ? {} : { draining: true };
    return { status: 200, body: { jobs: answer.jobs.map(claimedJobView), ...draining } };
  },

  async heartbeat({ api, ports }, { body, key }) {
    const refusals = new Map<string, readonly string[]>();
    const beats = body.jobs.flatMap(({ job_id, claim_token, lease_ms, progress, usage: told }) => {
      const parts = parseJobId(job_id);
      if (parts === undefined) return [];
      const { usage, refused } = readUsage(told);
      countRefused(ports.metrics, refused);
      refusals.set(job_id, refused);
      const token = claim_token as ClaimToken;
      return [
        {
          jobId: parts.jobId,
          token,
          ...(lease_ms === undefined ? {} : { leaseMs: lease_ms }),
          ...(progress === undefined ? {} : { progress }),
          ...(usage === undefined ? {} : { usage }),
        },
      ];
    });
    const answer = await api.heartbeat({ caller: callerOf(key), worker: body.worker_id, beats });
    if (answer.kind !== "judged") return answer;
    const found = new Map(answer.answers.map((beat) => [beat.jobId as string, beat]));
    const jobs = body.jobs.map(({ job_id }) => beatView(job_id, found.get(job_id), refusals.get(job_id)));
    return { status: 200, body: { jobs } };
  },

  async reportResults(service, asked) {
    const { body, key } = asked;
    const reporter = { caller: callerOf(key), worker: body.worker_id, traceparent: asked.traceparent() };
    const results = await Promise.all(body.results.map((item) => report(service, reporter, item)));
    return { status: 200, body: { results } };
  },

  listWorkers({ api }, { key: { tenant } }) {
    const items = api.listWorkers({ tenant }).map((worker) => ({
      worker_id: worker.worker,
      topics: [...worker.topics],
      places: worker.places,
      labels: { ...worker.labels },
      capabilities: [...worker.capabilities],
      pool: worker.pool,
      running: worker.running,
      jobs: [...worker.jobs],
      last_seen_ms_ago: Math.round(worker.lastSeenMsAgo),
    }));
    return pageReply({ operation: "listWorkers", tenant }, items, undefined);
  },
};

function beatView(jobId: string, beat: BeatResult | undefined, refused: readonly string[] = []) {
  if (beat === undefined || beat.kind === "lost") return { job_id: jobId, kind: "lost" as const };
  const { expiresInMs, stop } = beat;
  return { job_id: jobId, kind: "extended" as const, lease_ms: expiresInMs, stop, ...refusedView(refused) };
}

function refusedView(refused: readonly string[]) {
  return refused.length === 0 ? {} : { refused_usage: [...refused] };
}

type ResultItem = z.output<typeof resultItem>;
type ResultView = z.output<typeof resultAnswer>;
type Reporter = {
  readonly caller: Caller;
  readonly worker: string;
  readonly traceparent: string | undefined;
};

/** One bad item must not cost the others their answer: whatever is wrong with it stands in its own outcome. */
async function report(
  { api, config, ports }: Service,
  { caller, worker, ...request }: Reporter,
  item: ResultItem,
): Promise<ResultView> {
  const job_id = item.job_id;
  const parts = parseJobId(job_id);
  if (parts === undefined) return { job_id, kind: "refused", because: "run_not_found" };
  const bytes = Buffer.byteLength(JSON.stringify(item.output ?? null));
  if (bytes > config["jobs.resultBytesMax"]) return { job_id, kind: "refused", because: "payload_too_large" };
  const { output, error, delivery, waited_ms } = item;
  const { usage, refused } = readUsage(item.usage);
  if ((delivery ?? 1) === 1) countRefused(ports.metrics, refused);
  // Jobs that are reported together may belong to different traces.
  const traceparent = readTraceparent(item.traceparent) ?? request.traceparent;
  const result: ResultReport = {
    jobId: parts.jobId,
    token: item.claim_token as ClaimToken,
    outcome: outcomeOf(item.status, item.retryable),
    worker,
    ...(output === undefined ? {} : { output }),
    ...(error === undefined ? {} : { error }),
    ...(usage === undefined ? {} : { usage }),
    ...(traceparent === undefined ? {} : { traceparent }),
  };
  const history = {
    ...(delivery === undefined ? {} : { delivery }),
    ...(waited_ms === undefined ? {} : { waitedMs: waited_ms }),
  };
  try {
    const answer = resultView(await api.reportResult({ caller, ...result, ...history }));
    return { job_id, ...answer, ...refusedView(refused) };
  } catch (cause) {
    ports.log.error("a result could not be taken", { job: job_id, cause: String(cause) });
    return { job_id, kind: "retry", because: "internal", retry_after_ms: retryAfterMs };
  }
}

/** How long a worker should wait when the store did not say. */
const retryAfterMs = 1_000;

function resultView(answer: ReportAnswer): Omit<ResultView, "job_id"> {
  const { kind } = answer;
  if (kind === "run_busy")
    return { kind: "retry", because: kind, retry_after_ms: Math.ceil(answer.retryAfterMs) };
  if (kind === "unavailable" || kind === "unknown")
    return { kind: "retry", because: failureIn(answer, "write").kind, retry_after_ms: retryAfterMs };
  return shownAnswer(answer);
}
